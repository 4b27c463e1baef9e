//! The page table: for every data page its CRC-32 and its number of ones (F-60 to F-63).

use byteorder::{ByteOrder, LittleEndian as Le};

use crate::error::{Result, memory};
use crate::geometry::{CellKind, Geometry, MAX_ROWS, PAGE_BYTES};
use crate::hash::{Crc, crc_of};
pub(crate) use crate::sealed::EMPTY_PAGE_CRC;
use crate::sealed::{Header, PageBytes};

/// Bytes of one entry.
pub(crate) const ENTRY_BYTES: usize = 8;

/// Length of a table that shares a page with the other one of its segment (F-5).
pub(crate) const SHARED_TABLE_BYTES: u64 = PAGE_BYTES / 2;

/// Length of a table over `pages` pages: half a page or whole ones, the rest zero (F-5).
pub(crate) const fn table_bytes(pages: u64) -> u64 {
    let entries = pages * ENTRY_BYTES as u64;
    if entries <= SHARED_TABLE_BYTES {
        SHARED_TABLE_BYTES
    } else {
        entries.next_multiple_of(PAGE_BYTES)
    }
}

/// How many of a word's 4-bit counters are not zero.
pub(crate) fn counters_in_use(word: u64) -> u32 {
    let halves = word | (word >> 1);
    ((halves | (halves >> 2)) & 0x1111_1111_1111_1111).count_ones()
}

/// What a table says of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry {
    /// CRC-32 of the page's bytes.
    pub(crate) crc: u32,
    /// Cells of the page that are not zero; in a sealed filter, its distinct keys.
    pub(crate) ones: u32,
}

impl PageEntry {
    /// The entry of a page of cells of a kind.
    pub(crate) fn of(page: &[u8], cells: CellKind) -> Self {
        PageEntry { crc: crc_of(page), ones: Self::ones_of(page, cells) }
    }

    /// The ones of a page of cells of a kind.
    pub(crate) fn ones_of(page: &[u8], cells: CellKind) -> u32 {
        debug_assert_eq!(page.len(), PAGE_BYTES as usize);
        let words = page.chunks_exact(8).map(Le::read_u64);
        match cells {
            CellKind::Plain => words.map(u64::count_ones).sum(),
            CellKind::Counting => words.map(counters_in_use).sum(),
            CellKind::Sealed => unreachable!("a sealed page does not tell its number of keys"),
        }
    }

    /// Whether this is the entry of a page of cells of a kind.
    pub(crate) fn is_of(&self, page: &[u8], cells: CellKind) -> bool {
        match cells {
            CellKind::Plain | CellKind::Counting => *self == Self::of(page, cells),
            CellKind::Sealed => {
                let sound = |page: &PageBytes| Header::decode_with_keys(page, self.ones).is_ok();
                self.crc == crc_of(page) && page.try_into().is_ok_and(sound)
            }
        }
    }

    /// The entry of a page that holds nothing.
    pub(crate) const fn empty() -> Self {
        PageEntry { crc: EMPTY_PAGE_CRC, ones: 0 }
    }

    /// Whether a page of this segment can have such an entry: no more ones than cells, and the
    /// CRC of an empty page if there are none (F-64).
    pub(crate) fn is_possible(&self, geometry: &Geometry, page: u64) -> bool {
        if geometry.cell_kind() == CellKind::Sealed {
            return Header::is_possible_entry(self.crc, self.ones);
        }
        if self.ones == 0 {
            return self.crc == EMPTY_PAGE_CRC;
        }
        // How many cells a page has takes several divisions. But for the last of a row, it lacks
        // fewer cells than there can be rows.
        let most = geometry.cells_per_page();
        let last = (page + 1).is_multiple_of(geometry.row_pages());
        let few = u64::from(self.ones) + u64::from(MAX_ROWS) <= most;
        (few && !last) || u64::from(self.ones) <= geometry.page_cells(page)
    }

    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        Le::write_u32(&mut bytes, self.crc);
        Le::write_u32(&mut bytes[4..], self.ones);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        PageEntry { crc: Le::read_u32(bytes), ones: Le::read_u32(&bytes[4..]) }
    }
}

/// A page table as bytes, its CRC and the sum of its ones.
pub(crate) fn encode_table(table: &[PageEntry]) -> Result<(Vec<u8>, u32, u64)> {
    let mut bytes = memory::buffer(table_bytes(table.len() as u64), "write the page table")?;
    let mut ones = 0;
    for (entry, bytes) in table.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
        bytes.copy_from_slice(&entry.encode());
        ones += u64::from(entry.ones);
    }
    let crc = crc_of(&bytes);
    Ok((bytes, crc, ones))
}

/// The CRC of a page table of empty pages (F-61), which `write` is shown in parts, in order.
pub(crate) fn empty_table<E>(
    pages: u64,
    mut write: impl FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<u32, E> {
    const PART: u64 = 8 * PAGE_BYTES;
    let (entries, length) = (pages * ENTRY_BYTES as u64, table_bytes(pages));
    let mut part = [PageEntry::empty().encode(); PART as usize / ENTRY_BYTES];
    let mut crc = Crc::new();
    for start in (0..length).step_by(PART as usize) {
        let end = (entries - start).min(PART) as usize / ENTRY_BYTES;
        part[end..].fill([0; ENTRY_BYTES]);
        let bytes = &part.as_flattened()[..(length - start).min(PART) as usize];
        crc.update(bytes);
        write(bytes)?;
    }
    Ok(crc.finalize())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn f5_two_small_tables_share_a_page() {
        for (pages, bytes) in [(1, 2048), (256, 2048), (257, 4096), (512, 4096), (513, 8192)] {
            assert_eq!(table_bytes(pages), bytes, "{pages}");
        }
    }

    #[test]
    fn f61_the_entry_of_an_empty_page() {
        assert_eq!(PageEntry::of(&[0; PAGE_BYTES as usize], CellKind::Plain), PageEntry::empty());
    }

    #[test]
    fn f61_a_table_of_empty_pages_is_made_in_parts() {
        for pages in [1, 256, 257, 511, 512, 513, 4096, 4097, 20_000] {
            let mut bytes = Vec::new();
            let write = |part: &[u8]| -> Result<()> {
                bytes.extend_from_slice(part);
                Ok(())
            };
            let crc = empty_table(pages, write).unwrap();
            let table = vec![PageEntry::empty(); pages as usize];
            assert_eq!((bytes, crc, 0), encode_table(&table).unwrap(), "{pages}");
        }
    }
}

//! The page table: for every data page its CRC-32 and its number of ones (F-60 to F-63).

use byteorder::{ByteOrder, LittleEndian as Le};

use crate::geometry::PAGE_BYTES;

/// Bytes of one entry.
pub(crate) const ENTRY_BYTES: usize = 8;

/// Length of a table over `pages` pages: whole pages, the rest zero (F-60).
pub(crate) const fn table_bytes(pages: u64) -> u64 {
    (pages * ENTRY_BYTES as u64).next_multiple_of(PAGE_BYTES)
}

/// How many of a word's 4-bit counters are not zero.
fn counters_in_use(word: u64) -> u32 {
    let halves = word | (word >> 1);
    ((halves | (halves >> 2)) & 0x1111_1111_1111_1111).count_ones()
}

/// What a table says of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry {
    /// CRC-32 of the page's bytes.
    pub(crate) crc: u32,
    /// Cells of the page that are not zero.
    pub(crate) ones: u32,
}

impl PageEntry {
    /// The entry of a page of cells with so many bits.
    pub(crate) fn of(page: &[u8], cell_bits: u32) -> Self {
        debug_assert_eq!(page.len(), PAGE_BYTES as usize);
        let words = page.chunks_exact(8).map(Le::read_u64);
        let ones = match cell_bits {
            1 => words.map(u64::count_ones).sum(),
            _ => words.map(counters_in_use).sum(),
        };
        PageEntry { crc: crc32fast::hash(page), ones }
    }

    /// The entry of a page that holds nothing.
    pub(crate) fn empty() -> Self {
        Self::of(&[0; PAGE_BYTES as usize], 1)
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

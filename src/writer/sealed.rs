//! Repairing a sealed file: the only thing that ever writes one again (F-99).

use super::repair::Repaired;
use super::{load_durable, restore_slots};
use crate::error::{Error, Result};
use crate::file::{FilePages, PageJudge, check_pages, read_table_as_it_is};
use crate::format::{PageEntry, SLOT_OFFSETS, SLOTS_TO_CLOSE, Slot, encode_table};
use crate::geometry::PAGE_BYTES;
use crate::sealed::{Header, MAYBE_PAGE_CRC, PageBytes};
use crate::storage::Medium;

/// Puts a "maybe" page in the place of each damaged one.
///
/// A page that is written over was damaged before, and is damaged until the new slot is durable: a
/// crash in between leaves a file that can be repaired again.
pub(super) fn repair<M: Medium>(medium: &M) -> Result<Repaired> {
    let loaded = load_durable(medium)?;
    loaded.superblock.check_known()?;
    loaded.slot.expect_numbers(SLOTS_TO_CLOSE)?;
    let slot = &loaded.slot;
    let segment = slot.newest();
    let extent = segment.extent();
    let (mut table, sound) = read_table_as_it_is(medium, segment)?;
    let judge = PageJudge::of(&loaded.superblock, slot, 0, None, medium.boot_id());
    let entries =
        |pages: std::ops::Range<u64>| Ok(table[pages.start as usize..pages.end as usize].to_vec());
    let pages = FilePages::new(medium, 0, extent);
    let damaged = check_pages(&pages, extent.pages, entries, judge)?.doubtful();
    let repaired = Repaired {
        pages: damaged,
        slot: loaded.other_slot_damaged,
        table: sound.is_err(),
        ..Repaired::default()
    };
    if repaired.pages.is_empty() && !repaired.slot && !repaired.table {
        return Ok(repaired);
    }

    medium.fill_holes().map_err(Error::io("allocate space for the file"))?;
    restore_slots(medium)?;
    let mut maybe: PageBytes = [0; PAGE_BYTES as usize];
    Header::Maybe.encode(&mut maybe);
    // What a damaged table says of a page is worth nothing.
    let mean = u32::try_from(segment.adds / extent.pages).unwrap_or(u32::MAX);
    for &page in &repaired.pages {
        let keys = if repaired.table { mean } else { table[page as usize].ones };
        table[page as usize] = PageEntry { crc: MAYBE_PAGE_CRC, ones: keys.max(1) };
        medium
            .write_at(&maybe, extent.data() + page * PAGE_BYTES)
            .map_err(Error::io("write a data page"))?;
    }
    let mut slot = slot.clone();
    let segment = slot.newest_mut();
    segment.table = 1 - segment.table;
    let (bytes, crc, ones) = encode_table(&table)?;
    (segment.table_crc, segment.ones) = (crc, ones);
    medium
        .write_at(&bytes, extent.table(segment.table))
        .map_err(Error::io("write the page table"))?;
    medium.sync().map_err(Error::io("sync the file"))?;
    slot.repaired_pages = slot.repaired_pages.saturating_add(repaired.pages.len() as u64);
    // Of two slots that say the same, either can be lost.
    for _ in 0..SLOTS_TO_CLOSE {
        write_slot(medium, &mut slot)?;
    }
    Ok(repaired)
}

fn write_slot<M: Medium>(medium: &M, slot: &mut Slot) -> Result<()> {
    slot.advance(false, medium.salt());
    let write = Error::io("write the state slot");
    medium.write_at(&slot.encode()?, SLOT_OFFSETS[slot.place()]).map_err(write)?;
    medium.sync().map_err(Error::io("sync the state slot"))
}

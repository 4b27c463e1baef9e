//! The end of making a file: page tables, and what stands in front of the segments (F-80, F-81).

use std::hash::Hasher as _;
use std::ops::ControlFlow;

use super::load::visit_table_bytes;
use crate::error::{Error, Result};
use crate::format::{
    BootId, ENTRY_BYTES, Extent, JOURNAL_OFFSET, Metadata, PageEntry, SLOT_OFFSETS, SegmentRecord,
    Slot, State, Superblock,
};
use crate::geometry::PAGE_BYTES;
use crate::hash::{Crc, Hasher};
use crate::random;
use crate::storage::WriteMedium;

/// Writes pages of a new file from `first` on, and their entries in its page table.
pub(crate) fn write_pages<M: WriteMedium>(
    medium: &M,
    extent: &Extent,
    first: u64,
    bytes: &[u8],
    entries: &[PageEntry],
) -> Result<()> {
    medium
        .write_at(bytes, extent.data() + first * PAGE_BYTES)
        .map_err(Error::io("write the new file"))?;
    write_table_part(medium, extent, first, entries)
}

/// Writes the entries of the pages from `first_page` on to page table 0 of a new file.
pub(crate) fn write_table_part<M: WriteMedium>(
    medium: &M,
    extent: &Extent,
    first_page: u64,
    entries: &[PageEntry],
) -> Result<()> {
    let bytes: Vec<u8> = entries.iter().flat_map(PageEntry::encode).collect();
    medium
        .write_at(&bytes, extent.table(0) + first_page * ENTRY_BYTES as u64)
        .map_err(Error::io("write the new file"))
}

/// As `finish_file`, for a slot that lists its segments but does not know their tables yet.
pub(crate) fn finish_slot<M: WriteMedium>(
    medium: &M,
    mut superblock: Superblock,
    mut slot: Slot,
    identity_from_contents: bool,
) -> Result<(Superblock, Slot)> {
    if identity_from_contents {
        superblock.uuid = [0; 16];
    }
    let headers = [superblock.encode(), slot.encode()?];
    let mut halves = [1, 2, 3, 4, 5, 6].map(|seed| Hasher::new(seed).stream());
    let mut hash = |bytes: &[u8]| halves.iter_mut().for_each(|half| half.write(bytes));
    headers.iter().for_each(|bytes| hash(bytes));
    for segment in &mut slot.segments {
        let extent = segment.extent();
        let mut crc = Crc::new();
        let mut ones = 0;
        visit_table_bytes(medium, extent.table_range(0), |bytes| {
            hash(bytes);
            crc.update(bytes);
            // The bytes behind the last entry are zeros.
            let entries = bytes.chunks_exact(ENTRY_BYTES).map(PageEntry::decode);
            ones += entries.map(|entry| u64::from(entry.ones)).sum::<u64>();
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)?;
        (segment.table_crc, segment.ones) = (crc.finalize(), ones);
        // What the inputs claim may be more than the cells of the result allow.
        segment.bound_adds();
    }
    let salts = if identity_from_contents {
        let [first, second, salts @ ..] = halves.map(|half| half.finish());
        superblock.uuid = random::uuid_from([first, second], 8);
        salts
    } else {
        [3, 4, 5, 6].map(|seed| Hasher::new(seed).hash(superblock.uuid))
    };
    write_headers(medium, &superblock, slot.clone(), salts)?;
    Ok((superblock, slot))
}

/// The first slot of a new file with these segments.
pub(crate) fn new_slot(segments: Vec<SegmentRecord>, file_bytes: u64, metadata: Metadata) -> Slot {
    Slot {
        sequence: 1,
        epoch: 1,
        salt: 0,
        next_salt: 0,
        salt_after_next: 0,
        state: State::Clean,
        boot_id: BootId::default(),
        mark: 0,
        file_bytes,
        unverifiable_pages: 0,
        repaired_pages: 0,
        recoveries: 0,
        segments,
        metadata,
    }
}

/// Salts that a new file starts with: those of its first slot, and one more for its second.
pub(super) const SALTS: usize = 4;

/// Writes what stands in front of the segments. Of two slots that say the same, either can be lost.
pub(super) fn write_headers<M: WriteMedium>(
    medium: &M,
    superblock: &Superblock,
    mut slot: Slot,
    salts: [u64; SALTS],
) -> Result<()> {
    let write = |bytes: &[u8], offset| {
        medium.write_at(bytes, offset).map_err(Error::io("write the new file"))
    };
    // Written rather than left to the allocation: a sync of an extent that was never written has
    // to commit metadata as well. Page by page, because what is written at once may stay together in
    // the system's cache: then a sync of one record would write all of it.
    for page in (0..superblock.journal_bytes).step_by(PAGE_BYTES as usize) {
        write(&[0; PAGE_BYTES as usize], JOURNAL_OFFSET + page)?;
    }
    let [first, second, third, fourth] = salts;
    (slot.salt, slot.next_salt, slot.salt_after_next) = (first, second, third);
    write(&slot.encode()?, SLOT_OFFSETS[slot.place()])?;
    slot.advance(false, fourth);
    write(&slot.encode()?, SLOT_OFFSETS[slot.place()])?;
    write(&superblock.encode(), 0)
}

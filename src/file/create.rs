//! The first bytes of a new file, written before anyone can see it (F-80, F-81).

use std::hash::Hasher as _;
use std::io;
use std::ops::ControlFlow;

use super::load::visit_table_bytes;
use super::{PAGE_WORDS, scan};
use crate::error::{Error, Result};
use crate::format::{
    BootId, ENTRY_BYTES, Extent, JOURNAL_OFFSET, Metadata, PageEntry, SLOT_OFFSETS, SegmentRecord,
    Shape, Slot, State, Superblock, empty_table, first_extent,
};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::hash::Crc;
use crate::hash::Hasher;
use crate::plan::Plan;
use crate::random;
use crate::storage::{Medium, Words};

/// Fills a new medium, all of it zero, with an empty filter.
pub(crate) fn create_file<M: Medium>(
    medium: &M,
    superblock: &Superblock,
    plan: &Plan,
    metadata: Metadata,
) -> Result<()> {
    let mut slot = first_slot(superblock, plan, metadata);
    let salts = [(); SALTS].map(|()| medium.salt());
    let segment = &mut slot.segments[0];
    segment.table_crc =
        write_empty_table(medium, &segment.extent()).map_err(Error::io("write the new file"))?;
    write_headers(medium, superblock, slot, salts)
}

/// Writes page table 0 of a segment whose pages are empty, and tells its CRC.
pub(crate) fn write_empty_table<M: Medium>(medium: &M, extent: &Extent) -> io::Result<u32> {
    let mut at = extent.table(0);
    empty_table(extent.pages, |bytes| {
        medium.write_at(bytes, at)?;
        at += bytes.len() as u64;
        Ok(())
    })
}

/// Describes the pages of a file whose data is complete in its page table, on all cores.
pub(crate) fn describe_pages<M: Medium>(
    medium: &M,
    extent: &Extent,
    words: &Words,
    cells: CellKind,
) -> Result<()> {
    const PART: u64 = 4096;
    scan::on_all_cores(extent.pages, |pages| {
        let mut bytes = [0; PAGE_BYTES as usize];
        let mut start = pages.start;
        while start < pages.end {
            let part = start..(start + PART).min(pages.end);
            let entries: Vec<PageEntry> = part
                .clone()
                .map(|page| {
                    words.copy(page as usize * PAGE_WORDS, &mut bytes);
                    PageEntry::of(&bytes, cells)
                })
                .collect();
            write_table_part(medium, extent, start, &entries)?;
            start = part.end;
        }
        Ok(())
    })
    .into_iter()
    .collect()
}

/// Writes the entries of the pages from `first_page` on to page table 0 of a new file.
pub(crate) fn write_table_part<M: Medium>(
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

/// Fills in the headers of a file whose data and page table 0 are complete, in bounded memory, and
/// tells what it wrote; the journal is all there is to come.
///
/// With `identity_from_contents` the same keys and options give the same bytes.
pub(crate) fn finish_file<M: Medium>(
    medium: &M,
    superblock: Superblock,
    plan: &Plan,
    metadata: Metadata,
    adds: u64,
    identity_from_contents: bool,
) -> Result<(Superblock, Slot)> {
    let mut slot = first_slot(&superblock, plan, metadata);
    slot.segments[0].adds = adds;
    finish_slot(medium, superblock, slot, identity_from_contents)
}

/// As [`finish_file`], for a slot that lists its segments but does not know their tables yet.
pub(crate) fn finish_slot<M: Medium>(
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
        visit_table_bytes(medium, extent.table(0), extent.pages, |bytes| {
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

/// The slot of a file that holds nothing yet.
pub(crate) fn first_slot(superblock: &Superblock, plan: &Plan, metadata: Metadata) -> Slot {
    let segment = SegmentRecord {
        geometry: plan.geometry().with_cells(superblock.cells),
        capacity: plan.capacity().unwrap_or(0),
        adds: 0,
        offset: superblock.base(),
        region: 0,
        table: 0,
        table_crc: 0,
        ones: 0,
    };
    new_slot(vec![segment], file_bytes(superblock, plan), metadata)
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
const SALTS: usize = 4;

/// Writes what stands in front of the segments. Of two slots that say the same, either can be lost.
fn write_headers<M: Medium>(
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

/// Length of a new file of a plan: one segment, or all regions of a rotating file.
pub(crate) fn file_bytes(superblock: &Superblock, plan: &Plan) -> u64 {
    let extent = first_extent(superblock, plan.geometry());
    match superblock.shape() {
        Shape::Fixed | Shape::Growing => extent.end(),
        Shape::Rotating(generations) => {
            extent.offset + (generations + 1) * (extent.end() - extent.offset)
        }
    }
}

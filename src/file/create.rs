//! The first bytes of a new file, written before anyone can see it (F-80, F-81).

use std::io;

use super::finish::{SALTS, finish_slot, new_slot, write_headers, write_table_part};
use super::{PAGE_WORDS, scan};
use crate::error::{Error, Result};
use crate::format::{
    Extent, Metadata, PageEntry, SegmentRecord, Shape, Slot, Superblock, empty_table, first_extent,
};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::plan::Plan;
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

//! The bytes of a file: codecs with checks, and no I/O.
//!
//! The layout stands in `format-spec.md`; the rules it numbers (F-1, F-2 …) are cited here. Each
//! structure is decoded in two steps: from raw bytes to a value whose fields obey the rules that
//! need nothing else, then [`check_file`] holds the whole against the real length of the file.

mod fields;
mod journal;
mod slot;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod spec_test;
mod superblock;
mod table;

pub(crate) use fields::{
    ENTRY_FIELDS, Field, Form, RECORD_FIELDS, SEGMENT_FIELDS, SLOT_FIELDS, SUPERBLOCK_FIELDS,
    with_ends,
};
pub(crate) use journal::{
    COUNTER_MASK_BITS, CounterChange, Epoch, FULL_RECORD, GROUP_NUMBERS, GroupRecord, RECORD_BYTES,
    RECORD_WORDS, Record,
};
pub use slot::State;
pub(crate) use slot::{
    BootId, MAX_COUNT, MAX_SEGMENTS, Metadata, SEQUENCE as SLOT_SEQUENCE_OFFSET, SLOT_BYTES,
    SLOTS_TO_CLOSE, SegmentRecord, Slot, encode_metadata, most_adds,
};
#[cfg(test)]
pub(crate) use superblock::COUNTING;
pub use superblock::{CellKind, FORMAT_VERSION, WhenFull};
pub(crate) use superblock::{
    GROWING, MAX_GENERATIONS, MAX_JOURNAL_BYTES, SUPERBLOCK_BYTES, Shape, Superblock, recognise,
};
pub(crate) use table::{ENTRY_BYTES, PageEntry, table_bytes};

/// Where fields stand that are read without the rest, for files that cannot be decoded.
pub(crate) mod offsets {
    pub(crate) use super::slot::{
        MAX_SEGMENTS, METADATA, METADATA_BYTES, METADATA_LENGTH, SEGMENT_BYTES, SEGMENT_COUNT,
        SEGMENTS, SLOT_MAGIC,
    };
    pub(crate) use super::superblock::{CELL_BITS, INCOMPATIBLE, JOURNAL_BYTES};
}

use crate::error::{Error, Result};
use crate::geometry::{Geometry, PAGE_BYTES};

/// Offset of slot 0 and of slot 1 (F-3).
pub(crate) const SLOT_OFFSETS: [u64; 2] =
    [SUPERBLOCK_BYTES as u64, SUPERBLOCK_BYTES as u64 + SLOT_BYTES as u64];

/// Offset of the journal (F-3).
pub(crate) const JOURNAL_OFFSET: u64 = SLOT_OFFSETS[1] + SLOT_BYTES as u64;

/// Where the CRC stands in superblock and slots: their last four bytes (F-4).
pub(crate) const CRC_OFFSET: usize = PAGE_BYTES as usize - 4;

/// The parts of a segment, as offsets in the file (F-5). A file may claim any offset, and no
/// number of pages beyond 2^40: a sum that would overflow stays behind every real end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where the segment starts, which is where its page table 0 starts.
    pub(crate) offset: u64,
    /// Pages of data.
    pub(crate) pages: u64,
}

impl Extent {
    /// Offset of page table 0 or 1.
    pub(crate) fn table(&self, which: u32) -> u64 {
        self.offset.saturating_add(u64::from(which) * table_bytes(self.pages))
    }

    /// Offset of the data.
    pub(crate) fn data(&self) -> u64 {
        self.table(2)
    }

    /// Length of the data in bytes.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES
    }

    /// Length of tables and data in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        2 * table_bytes(self.pages) + self.data_bytes()
    }

    /// Offset of the first byte after the segment.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes())
    }
}

/// Where the first segment of a file lies (F-3).
pub(crate) fn first_extent(superblock: &Superblock, geometry: &Geometry) -> Extent {
    Extent {
        offset: JOURNAL_OFFSET + superblock.journal_bytes,
        pages: geometry.pages(superblock.cells.bits()),
    }
}

/// CRC-32 of a superblock's or slot's bytes without the CRC itself (F-4).
fn header_crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(&bytes[..CRC_OFFSET])
}

/// The first byte from `start` that should be zero and is not.
fn first_nonzero(bytes: &[u8], start: usize) -> Option<usize> {
    bytes[start..].iter().position(|&byte| byte != 0).map(|at| start + at)
}

/// Holds superblock, slot and the real length of the file against each other (F-28, F-29, F-33).
///
/// After this every offset that can be derived from the two is inside the file.
pub(crate) fn check_file(superblock: &Superblock, slot: &Slot, length: u64) -> Result<()> {
    let bad =
        |field, value: u64, reason: String| Err(Error::field("the slot", field, value, reason));
    let cell_bits = superblock.cells.bits();
    let base = JOURNAL_OFFSET + superblock.journal_bytes;
    let most = match superblock.shape() {
        Shape::Fixed => 1,
        Shape::Growing => MAX_SEGMENTS as u64,
        Shape::Rotating(generations) => generations,
    };
    let count = slot.segments.len() as u64;
    if count > most {
        return bad("segment count", count, format!("this file may have {most}"));
    }
    let mut expected = base;
    for (index, segment) in slot.segments.iter().enumerate() {
        if let Shape::Rotating(generations) = superblock.shape() {
            expected = check_region(superblock, slot, index, generations)?;
        }
        if segment.offset != expected {
            return bad("segment offset", segment.offset, format!("it must be {expected}"));
        }
        // A geometry's cells are below 2^52, so no sum of 33 segments can overflow.
        expected = segment.extent(cell_bits).end();
        let (cells, ones) = (segment.geometry.cells(), segment.ones);
        if ones > cells {
            return bad("segment ones", ones, format!("there are only {cells} cells"));
        }
    }
    if let Shape::Rotating(generations) = superblock.shape() {
        expected = base + (generations + 1) * region_bytes(superblock, slot);
    }
    if slot.file_bytes != expected {
        return bad("file length", slot.file_bytes, format!("its segments end at {expected}"));
    }
    // What lies behind the last segment of a growing file is a growth that did not finish, and behind
    // that of an open counting one more records than its journal holds (F-79).
    let growing = superblock.shape() == Shape::Growing;
    let logging = superblock.cells == CellKind::Counting && slot.state == State::Open;
    if length < slot.file_bytes || (length > slot.file_bytes && !growing && !logging) {
        return Err(Error::Length { expected: slot.file_bytes, found: length });
    }
    Ok(())
}

/// Length of one region of a rotating file.
fn region_bytes(superblock: &Superblock, slot: &Slot) -> u64 {
    slot.segments[0].extent(superblock.cells.bits()).bytes()
}

/// Where a segment of a rotating file must be: in the region after that of the one before it, and
/// the first one in any.
fn check_region(
    superblock: &Superblock,
    slot: &Slot,
    index: usize,
    generations: u64,
) -> Result<u64> {
    let bad =
        |field, value: u64, reason: String| Err(Error::field("the slot", field, value, reason));
    let segment = &slot.segments[index];
    if segment.geometry != slot.segments[0].geometry {
        let reason = "all generations have the same geometry".into();
        return bad("segment", index as u64, reason);
    }
    let region = match index {
        0 => region_of(superblock, slot, 0),
        _ => Some((region_of(superblock, slot, index - 1).unwrap_or(0) + 1) % (generations + 1)),
    };
    match region.filter(|&region| region <= generations) {
        Some(region) => {
            Ok(JOURNAL_OFFSET + superblock.journal_bytes + region * region_bytes(superblock, slot))
        }
        None => bad("segment offset", segment.offset, "it is not that of a region".into()),
    }
}

/// The number of the region that a segment is in: what stays the same while it lives.
pub(crate) fn region_of(superblock: &Superblock, slot: &Slot, index: usize) -> Option<u64> {
    match superblock.shape() {
        Shape::Fixed | Shape::Growing => Some(index as u64),
        Shape::Rotating(_) => {
            let base = JOURNAL_OFFSET + superblock.journal_bytes;
            let offset = slot.segments[index].offset.checked_sub(base)?;
            let length = region_bytes(superblock, slot);
            offset.is_multiple_of(length).then_some(offset / length)
        }
    }
}

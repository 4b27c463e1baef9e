//! The bytes of a file: codecs with checks, and no I/O.
//!
//! The layout stands in `format-spec.md`; the rules it numbers (F-1, F-2 …) are cited here. Each
//! structure is decoded in two steps: from raw bytes to a value whose fields obey the rules that
//! need nothing else, then [`validate_extents`] holds the whole against the real length of the file.

#[cfg(feature = "digest")]
#[cfg_attr(not(feature = "files"), allow(dead_code, reason = "what makes deltas"))]
mod delta;
#[cfg(feature = "files")]
mod doubts;
mod fields;
mod journal;
mod metadata;
#[cfg(feature = "files")]
mod part;
mod slot;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod spec_test;
mod superblock;
mod table;

#[cfg(all(feature = "digest", feature = "files"))]
pub(crate) use delta::code_chunk;
#[cfg(feature = "digest")]
pub(crate) use delta::{
    CHUNK_HEAD_BYTES, CHUNK_PAGES, ChunkHead, DeltaForm, DeltaHeader, FIRST_BYTES, NewSegment,
    apply_chunk,
};
#[cfg(feature = "files")]
pub(crate) use doubts::Doubts;
pub(crate) use fields::{
    COUNTING_RECORD_FIELDS, ENTRY_FIELDS, Field, Form, RECORD_FIELDS, SEGMENT_FIELDS, SLOT_FIELDS,
    SUPERBLOCK_FIELDS, with_ends,
};
pub(crate) use journal::{
    COUNTING_MASK_BITS, Change, Epoch, FULL_RECORD, JournalLayout, MOST_RECORD_WORDS, Record, STUCK,
};
pub(crate) use metadata::{Metadata, encode_metadata};
#[cfg(feature = "files")]
pub(crate) use part::{
    MAX_PARTS, PART_TABLE_OFFSET, PartContents, PlanHeader, check_layout, page_of_hash,
    part_table_bytes,
};
#[cfg(feature = "digest")]
pub(crate) use slot::layout_id;
pub(crate) use slot::{
    BootId, MAX_COUNT, MAX_SEGMENTS, SEQUENCE as SLOT_SEQUENCE_OFFSET, SLOT_BYTES, SLOTS_TO_CLOSE,
    SegmentRecord, Slot, State, most_adds,
};
#[cfg(test)]
pub(crate) use superblock::COUNTING;
pub use superblock::{FORMAT_VERSION, WhenFull};
pub(crate) use superblock::{
    GROWING, JOURNAL_STEP, MAX_GENERATIONS, MAX_JOURNAL_BYTES, SEALED, SUPERBLOCK_BYTES, Shape,
    Superblock, journal_length, recognise,
};
pub(crate) use table::{
    ENTRY_BYTES, PageEntry, counters_in_use, empty_table, encode_table, table_bytes,
};

/// Where fields stand that are read without the rest, for files that cannot be decoded.
pub(crate) mod offsets {
    pub(crate) use super::slot::{
        MAX_SEGMENTS, METADATA, METADATA_BYTES, METADATA_LENGTH, SEGMENT_BYTES, SEGMENT_COUNT,
        SEGMENTS, SLOT_MAGIC,
    };
    pub(crate) use super::superblock::{CELL_BITS, INCOMPATIBLE, JOURNAL_BYTES};
}

use crate::error::{Error, Result};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};
use crate::hash::crc_of;

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
    /// A segment of a geometry that starts at `offset`.
    pub(crate) fn of(geometry: &Geometry, offset: u64) -> Self {
        Extent { offset, pages: geometry.pages() }
    }

    /// Offset of page table 0 or 1.
    pub(crate) fn table(&self, which: u32) -> u64 {
        self.offset.saturating_add(u64::from(which) * table_bytes(self.pages))
    }

    /// The bytes of page table 0 or 1, padding included.
    pub(crate) fn table_range(&self, which: u32) -> std::ops::Range<u64> {
        let start = self.table(which);
        start..start.saturating_add(table_bytes(self.pages))
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
    Extent::of(&geometry.with_cells(superblock.cells), superblock.base())
}

/// CRC-32 of a superblock's or slot's bytes without the CRC itself (F-4).
fn header_crc(bytes: &[u8]) -> u32 {
    crc_of(&bytes[..CRC_OFFSET])
}

/// The first byte from `start` that should be zero and is not.
fn first_nonzero(bytes: &[u8], start: usize) -> Option<usize> {
    bytes[start..].iter().position(|&byte| byte != 0).map(|at| start + at)
}

/// Holds superblock, slot and the real length of the file against each other (F-28, F-29, F-33), and
/// tells each segment its region.
///
/// After this every offset that can be derived from the two is inside the file.
pub(crate) fn validate_extents(
    superblock: &Superblock,
    slot: &mut Slot,
    length: u64,
) -> Result<()> {
    let bad =
        |field, value: u64, reason: String| Err(Error::field("the slot", field, value, reason));
    let shape = superblock.shape();
    let most = match shape {
        Shape::Fixed => 1,
        Shape::Growing => MAX_SEGMENTS as u64,
        Shape::Rotating(generations) => generations,
    };
    let count = slot.segments.len() as u64;
    if count > most {
        return bad("segment count", count, format!("this file may have {most}"));
    }
    let mut expected = superblock.base();
    for index in 0..slot.segments.len() {
        let region = match shape {
            Shape::Fixed | Shape::Growing => index,
            Shape::Rotating(generations) => {
                let region = rotating_region(superblock, slot, index, generations)?;
                expected = region_extent(superblock, slot, region).offset;
                region
            }
        };
        let segment = &mut slot.segments[index];
        if segment.offset != expected {
            return bad("segment offset", segment.offset, format!("it must be {expected}"));
        }
        segment.region = region;
        // A geometry's cells are below 2^52, so no sum of 33 segments can overflow.
        expected = segment.extent().end();
        let (cells, ones) = (segment.geometry.cells(), segment.ones);
        // A sealed page may stand for any number of keys that an entry has room for.
        if ones > cells && superblock.cells != CellKind::Sealed {
            return bad("segment ones", ones, format!("there are only {cells} cells"));
        }
    }
    if let Shape::Rotating(generations) = shape {
        expected = region_extent(superblock, slot, generations as usize).end();
    }
    if slot.file_bytes != expected {
        return bad("file length", slot.file_bytes, format!("its segments end at {expected}"));
    }
    // What lies behind the last segment of a growing file is a growth that did not finish, and behind
    // that of a counting one what had more records than its journal holds (F-79).
    let may_be_longer = shape == Shape::Growing || superblock.cells == CellKind::Counting;
    if length < slot.file_bytes || (length > slot.file_bytes && !may_be_longer) {
        return Err(Error::Length { expected: slot.file_bytes, found: length });
    }
    Ok(())
}

/// The region that a segment of a rotating file must be in: the one after that of the segment before
/// it, and any for the first.
fn rotating_region(
    superblock: &Superblock,
    slot: &Slot,
    index: usize,
    generations: u64,
) -> Result<usize> {
    let bad = |field, value: u64, reason: &str| Err(Error::field("the slot", field, value, reason));
    let segment = &slot.segments[index];
    if segment.geometry != slot.segments[0].geometry {
        return bad("segment", index as u64, "all generations have the same geometry");
    }
    if index > 0 {
        return Ok((slot.segments[index - 1].region + 1) % (generations as usize + 1));
    }
    let offset = segment.offset.checked_sub(superblock.base());
    let length = segment.extent().bytes();
    let region = offset.filter(|offset| offset.is_multiple_of(length)).map(|at| at / length);
    match region.filter(|&region| region <= generations) {
        Some(region) => Ok(region as usize),
        None => bad("segment offset", segment.offset, "it is not that of a region"),
    }
}

/// Where a region of a rotating file lies.
pub(crate) fn region_extent(superblock: &Superblock, slot: &Slot, region: usize) -> Extent {
    let first = slot.segments[0].extent();
    Extent { offset: superblock.base() + region as u64 * first.bytes(), ..first }
}

/// Geometry and offset of every region that is there (F-28).
pub(crate) fn region_places(superblock: &Superblock, slot: &Slot) -> Vec<(Geometry, u64)> {
    match superblock.shape() {
        Shape::Fixed | Shape::Growing => {
            slot.segments.iter().map(|segment| (segment.geometry, segment.offset)).collect()
        }
        Shape::Rotating(generations) => (0..=generations as usize)
            .map(|region| {
                (slot.segments[0].geometry, region_extent(superblock, slot, region).offset)
            })
            .collect(),
    }
}

/// Regions that a file may ever have.
pub(crate) fn region_count(superblock: &Superblock) -> usize {
    match superblock.shape() {
        Shape::Fixed => 1,
        Shape::Growing => MAX_SEGMENTS,
        Shape::Rotating(generations) => generations as usize + 1,
    }
}

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
pub(crate) use journal::{Epoch, RECORD_BYTES, RECORD_WORDS, Record};
pub use slot::State;
pub(crate) use slot::{
    Metadata, SEQUENCE as SLOT_SEQUENCE_OFFSET, SLOT_BYTES, SegmentRecord, Slot, encode_metadata,
};
pub use superblock::{CellKind, FORMAT_VERSION, WhenFull};
pub(crate) use superblock::{GROWING, MAX_JOURNAL_BYTES, SUPERBLOCK_BYTES, Superblock, recognise};
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

/// The parts of a segment, as offsets in the file (F-5).
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
        self.offset + u64::from(which) * table_bytes(self.pages)
    }

    /// Offset of the data.
    pub(crate) fn data(&self) -> u64 {
        self.offset + 2 * table_bytes(self.pages)
    }

    /// Length of the data in bytes.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES
    }

    /// Offset of the first byte after the segment.
    pub(crate) fn end(&self) -> u64 {
        self.data() + self.data_bytes()
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

/// Holds superblock, slot and the real length of the file against each other (F-30 to F-36).
///
/// After this every offset that can be derived from the two is inside the file.
pub(crate) fn check_file(superblock: &Superblock, slot: &Slot, length: u64) -> Result<()> {
    let cell_bits = superblock.cells.bits();
    let mut expected = JOURNAL_OFFSET + superblock.journal_bytes;
    for segment in &slot.segments {
        if segment.offset != expected {
            return Err(Error::field(
                "the slot",
                "segment offset",
                segment.offset,
                format!("it must be {expected}"),
            ));
        }
        // A geometry's cells are below 2^52, so no sum of 32 segments can overflow.
        expected = segment.extent(cell_bits).end();
        let (cells, ones) = (segment.geometry.cells(), segment.ones);
        if ones > cells {
            return Err(Error::field(
                "the slot",
                "segment ones",
                ones,
                format!("there are only {cells} cells"),
            ));
        }
    }
    if slot.file_bytes != expected {
        return Err(Error::field(
            "the slot",
            "file length",
            slot.file_bytes,
            format!("its segments end at {expected}"),
        ));
    }
    if slot.file_bytes != length {
        return Err(Error::Length { expected: slot.file_bytes, found: length });
    }
    Ok(())
}

//! What is said of a new file and of what it was made of.

use super::source::Source;
use crate::error::Result;
use crate::file::Health;
use crate::format::{Slot, Superblock};
use crate::geometry::Geometry;
use crate::plan::{self, Estimate};
use crate::random::uuid_text;

/// What was made, and of what.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Derivation {
    /// What was done: `union of 3 files`.
    pub operation: String,
    /// The identity of the new file, as text.
    pub uuid: String,
    /// Its geometry; that of the largest segment, where there are several.
    pub geometry: Geometry,
    /// Its segments.
    pub segments: usize,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// The number of keys it is for, where that is known.
    pub capacity: Option<u64>,
    /// Cells that are set.
    pub ones: u64,
    /// Estimated number of keys in it.
    pub keys: Estimate,
    /// Its false positive rate.
    pub rate: f64,
    /// The inputs, in the order given.
    pub inputs: Vec<InputSummary>,
}

/// One input of an operation.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InputSummary {
    /// The file's identity, as text.
    pub uuid: String,
    /// Clean, being written or crashed.
    pub health: Health,
    /// Its geometry.
    pub geometry: Geometry,
    /// Estimated number of keys in it, as of its last checkpoint.
    pub keys: Estimate,
    /// Its false positive rate, as of its last checkpoint.
    pub rate: f64,
    /// How many of its blocks, or of the cells of a row, became one; 1 when it was not folded.
    pub folded_by: u64,
    /// The rate its keys alone have at the size it was folded to.
    pub rate_folded: f64,
    /// Pages of a live or crashed file that hold more bits than its checksums and journal explain:
    /// those of keys that were never synced, or that its writer had no room to log.
    pub pages_unverified: u64,
}

/// What was done, and what it came to.
pub(super) struct Made {
    pub(super) operation: String,
    pub(super) keys: Estimate,
    pub(super) rate: f64,
}

impl Made {
    /// What is said of it, with the headers of the new file.
    pub(super) fn derivation(
        self,
        superblock: &Superblock,
        slot: &Slot,
        inputs: Vec<InputSummary>,
    ) -> Derivation {
        let Made { operation, keys, rate } = self;
        Derivation {
            operation,
            uuid: uuid_text(&superblock.uuid),
            geometry: slot.segments[slot.segments.len() - 1].geometry,
            segments: slot.segments.len(),
            file_bytes: slot.file_bytes,
            capacity: Some(superblock.capacity).filter(|&capacity| capacity != 0),
            ones: slot.segments.iter().map(|segment| segment.ones).sum(),
            keys,
            rate,
            inputs,
        }
    }
}

/// What is said of an input that is folded by `factor`.
pub(super) fn summary(source: &Source<'_>, factor: u64) -> Result<InputSummary> {
    let geometry = *source.geometry();
    let keys = source.tabled().keys(&geometry);
    let rate = source.tabled().rate_now(&geometry);
    let rate_folded = match factor {
        1 => rate,
        _ => plan::false_positive_rate(&geometry.folded(factor)?, keys.value.round() as u64),
    };
    Ok(InputSummary {
        uuid: source.uuid(),
        health: source.health(),
        geometry,
        keys,
        rate,
        folded_by: factor,
        rate_folded,
        pages_unverified: source.unverified(),
    })
}

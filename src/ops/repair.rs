//! Making a damaged file usable again.

use std::path::Path;

use crate::error::{Error, Result};
use crate::file::Snapshot;
use crate::geometry::CellKind;
use crate::plan;
use crate::storage::{open_for_writing, open_to_read};
use crate::writer::Engine;

/// What a repair found and did; made by [`repair`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Repair {
    /// Pages that failed their checksums and are all ones now.
    pub pages_repaired: Vec<u64>,
    /// Pages in the file.
    pub pages: u64,
    /// Bits or counters.
    pub kind: CellKind,
    /// The file had been left open by a crash; it is closed now.
    pub crashed: bool,
    /// One of the two state slots was damaged, not the one that counts, and was written again.
    pub slot_rewritten: bool,
    /// The page table was damaged and was made again: pages it did not fit were repaired.
    pub table_rebuilt: bool,
    /// Records replayed from the journal of a crashed file: an add each, in a counting file an
    /// add or a removal.
    pub records_replayed: u64,
    /// Damaged journal records in which one flipped bit was found and put right.
    pub records_corrected: u64,
    /// A synced journal record could not be read. Which cells it set is not known, so that every
    /// page had to be set to all ones: the filter answers "maybe" to everything.
    pub records_lost: bool,
    /// The false positive rate now.
    pub rate_now: f64,
}

impl Repair {
    /// Whether nothing was wrong with the file, which was then left as it is.
    pub fn found_nothing(&self) -> bool {
        !self.crashed && !self.found_damage()
    }

    /// Whether anything was damaged: a crash alone is no damage.
    pub fn found_damage(&self) -> bool {
        !self.pages_repaired.is_empty()
            || self.slot_rewritten
            || self.table_rebuilt
            || self.records_lost
            || self.records_corrected != 0
    }
}

/// Repairs a damaged file in place: pages that fail their checksums become all ones, so that the
/// filter answers "maybe" too often and never "no" wrongly.
///
/// A file left by a crash is recovered on the way, more strictly than [`Filter::open`](crate::Filter::open) does it:
/// pages with bits that nothing explains count as damaged. The file ends up closed in good order. A
/// copy of the file, or building it again, is better where that is possible. A damaged superblock, or two
/// damaged slots, cannot be repaired.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let filter = bloomfile::Options::new().capacity(10_000).false_positive_rate(0.01).create(&path)?;
/// filter.add(b"key")?;
/// filter.close()?;
///
/// // The last page is overwritten:
/// let mut bytes = std::fs::read(&path).unwrap();
/// let length = bytes.len();
/// bytes[length - 4096..].fill(0x55);
/// std::fs::write(&path, bytes).unwrap();
/// assert!(bloomfile::Filter::open(&path).is_err());
///
/// let repair = bloomfile::ops::repair(&path)?;
/// assert_eq!(repair.pages_repaired.len(), 1);
/// assert!(bloomfile::report::verify(&path)?.is_sound());
/// assert!(bloomfile::Filter::open(&path)?.contains(b"key"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn repair(path: impl AsRef<Path>) -> Result<Repair> {
    let path = path.as_ref();
    let repair = || {
        let repaired = Engine::repair(open_for_writing(path)?)?;
        let Snapshot { loaded, occupancy, .. } = Snapshot::read(&open_to_read(path)?)?;
        let segments = &loaded.slot.segments;
        let rates: Vec<f64> = segments
            .iter()
            .zip(&occupancy)
            .map(|(segment, occupancy)| occupancy.rate_now(&segment.geometry))
            .collect();
        Ok(Repair {
            pages_repaired: repaired.pages,
            pages: segments.iter().map(|segment| segment.geometry.pages()).sum(),
            kind: loaded.superblock.cells,
            crashed: repaired.crashed,
            slot_rewritten: repaired.slot,
            table_rebuilt: repaired.table,
            records_replayed: repaired.records_replayed,
            records_corrected: repaired.records_corrected,
            records_lost: repaired.records_lost,
            rate_now: plan::rate_together(&rates),
        })
    };
    repair().map_err(|error: Error| error.at(path))
}

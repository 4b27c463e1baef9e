//! Whether every byte of a file is what was written.

#[cfg(feature = "files")]
use std::path::Path;

use crate::error::Result;
use crate::file::{Health, PageCheck, Snapshot};
use crate::format::SegmentRecord;
use crate::geometry::CellKind;
#[cfg(feature = "files")]
use crate::storage::open_to_read;
use crate::storage::{Bytes, ReadMedium};

/// What checking every page of a file gave; made by [`verify`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use = "damage is told here, not as an error"]
pub struct Verification {
    /// Clean, being written or crashed.
    pub health: Health,
    /// Bits or counters.
    pub kind: CellKind,
    /// Data pages in the segments in use; pages are numbered through all of them, oldest first.
    pub pages: u64,
    /// Pages that are exactly what checksums and journal say.
    pub pages_exact: u64,
    /// Pages that hold more than checksums and journal explain, so that they cannot be verified:
    /// after a power cut, or because the journal was full. Recovery keeps them; most likely what they
    /// hold are keys that were added and not synced, but damage cannot be told from that.
    pub pages_unverifiable: Vec<u64>,
    /// Pages that a writer changed whenever they were looked at, so that they cannot be judged.
    pub pages_busy: Vec<u64>,
    /// Pages that hold something else than what was written.
    pub pages_damaged: Vec<u64>,
    /// Pages that recoveries kept, and that operations took from files that were not closed, although
    /// they could not be verified; of this file and of those that it was made of, as its headers count
    /// them. Which ones they are is not known any more: their checksums were computed of what they held
    /// then. No repair makes the number fall; a file that is built again from the keys does not have it.
    pub pages_kept_unverified: u64,
    /// Records in the journal that recovery will replay: an add each, or in a counting file the
    /// change of one counter.
    pub journal_records: u64,
    /// Records missing from the journal of a crashed file, none of which is known to have been
    /// synced.
    pub journal_missing: u64,
}

impl Verification {
    /// Adds what checking one segment gave.
    fn add(&mut self, check: &PageCheck, record: &SegmentRecord) {
        let first = self.pages;
        self.pages += record.geometry.pages();
        self.pages_exact += check.exact;
        let numbered = |pages: &[u64]| pages.iter().map(|page| first + page).collect::<Vec<_>>();
        self.pages_damaged.extend(numbered(&check.damaged));
        self.pages_unverifiable.extend(numbered(&check.unverifiable));
        self.pages_busy.extend(numbered(&check.busy));
    }

    /// Whether the file is sound: every page is exactly what was written, and none was kept although it
    /// [could not be verified](Self::pages_kept_unverified).
    pub fn is_sound(&self) -> bool {
        self.is_as_written() && self.pages_kept_unverified == 0
    }

    /// Whether every page is exactly what was written, by an add or by a recovery.
    pub fn is_as_written(&self) -> bool {
        self.pages_damaged.is_empty()
            && self.pages_unverifiable.is_empty()
            && self.pages_busy.is_empty()
    }
}

/// Checks a whole file: headers, page table, journal and every data page.
///
/// An error that [is damage](crate::Error::is_damage) means that the file's headers are not sound;
/// otherwise the result says which pages are not.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// filter.add(b"key")?;
/// filter.close()?;
/// assert!(bloomfile::report::verify(&path)?.is_sound());
///
/// // One flipped bit, in the last page:
/// let mut bytes = std::fs::read(&path).unwrap();
/// *bytes.last_mut().unwrap() ^= 1;
/// std::fs::write(&path, bytes).unwrap();
/// let verification = bloomfile::report::verify(&path)?;
/// assert!(!verification.is_sound());
/// assert_eq!(verification.pages_damaged, [verification.pages - 1]);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn verify(path: impl AsRef<Path>) -> Result<Verification> {
    let path = path.as_ref();
    let verify = || verify_medium(&open_to_read(path)?);
    verify().map_err(|error| error.at(path))
}

/// As [`verify`], for a file whose bytes are in memory.
pub fn verify_bytes(bytes: impl AsRef<[u8]>) -> Result<Verification> {
    verify_medium(&Bytes(bytes.as_ref()))
}

fn verify_medium(medium: &dyn ReadMedium) -> Result<Verification> {
    let snapshot = Snapshot::read(medium)?;
    let checks = snapshot.check_pages(medium)?;
    Ok(verification_of(&snapshot, &checks))
}

/// What the checks of all segments of a file say together.
pub(crate) fn verification_of(snapshot: &Snapshot, checks: &[PageCheck]) -> Verification {
    let Snapshot { loaded, health, journal, .. } = snapshot;
    // A live writer's records are not going to be replayed.
    let replayed = journal.as_ref().filter(|_| *health == Health::Crashed);
    let mut verification = Verification {
        health: *health,
        kind: loaded.superblock.cells,
        pages: 0,
        pages_exact: 0,
        pages_unverifiable: Vec::new(),
        pages_busy: Vec::new(),
        pages_damaged: Vec::new(),
        pages_kept_unverified: loaded.slot.unverifiable_pages,
        journal_records: replayed.map_or(0, |journal| journal.keys),
        journal_missing: replayed.map_or(0, |journal| journal.missing),
    };
    for (check, record) in checks.iter().zip(&loaded.slot.segments) {
        verification.add(check, record);
    }
    verification
}

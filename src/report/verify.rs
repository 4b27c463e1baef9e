//! Whether every byte of a file is what was written.

use std::fs::File;
use std::path::Path;

use super::Health;
use crate::engine::{PageCheck, check_pages, read_table, recheck_pages};
use crate::error::{Error, Result};
use crate::reader::{Examined, examine};
use crate::storage::{FileMedium, Map, Mapping, Medium};

/// What checking every page of a file gave; made by [`verify`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Verification {
    /// Clean, being written or crashed.
    pub health: Health,
    /// Data pages in the file.
    pub pages: u64,
    /// Pages that are exactly what checksums and journal say.
    pub pages_exact: u64,
    /// Pages of a crashed file with bits of keys that had not been synced; recovery keeps them.
    pub pages_unsynced: Vec<u64>,
    /// Pages that a writer is changing, so that they cannot be judged.
    pub pages_busy: Vec<u64>,
    /// Pages that hold something else than what was written.
    pub pages_damaged: Vec<u64>,
    /// Adds in the journal that recovery will replay.
    pub journal_records: u64,
    /// Records missing from the journal of a crashed file, none of which is known to have been
    /// synced.
    pub journal_missing: u64,
}

impl Verification {
    /// Whether the file is sound: every page is accounted for.
    pub fn is_sound(&self) -> bool {
        self.pages_damaged.is_empty() && self.pages_busy.is_empty()
    }
}

/// Checks a whole file: headers, page table, journal and every data page.
///
/// An error that [is damage](Error::is_damage) means that the file's headers are not sound;
/// otherwise the result says which pages are not.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// filter.add(b"key")?;
/// filter.close()?;
/// assert!(bloomfile::verify(&path)?.is_sound());
///
/// // One flipped bit, in the last page:
/// let mut bytes = std::fs::read(&path).unwrap();
/// *bytes.last_mut().unwrap() ^= 1;
/// std::fs::write(&path, bytes).unwrap();
/// let verification = bloomfile::verify(&path)?;
/// assert!(!verification.is_sound());
/// assert_eq!(verification.pages_damaged, [verification.pages - 1]);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn verify(path: impl AsRef<Path>) -> Result<Verification> {
    let file = File::open(path.as_ref()).map_err(Error::io("open the file"))?;
    let medium = FileMedium::new(file);
    let examined = examine(&medium)?;
    let Examined { loaded, health, journalled, .. } = &examined;
    let cell_bits = loaded.superblock.cells.bits();
    let record = &loaded.slot.segments[0];
    let extent = record.extent(cell_bits);
    let data = medium
        .map(extent.data()..extent.end(), Mapping::ReadOnly)
        .map_err(Error::io("map the data"))?;
    let mut verification = Verification {
        health: *health,
        pages: extent.pages,
        pages_exact: 0,
        pages_unsynced: Vec::new(),
        pages_busy: Vec::new(),
        pages_damaged: Vec::new(),
        journal_records: journalled.as_ref().map_or(0, |journalled| journalled.keys),
        journal_missing: journalled.as_ref().map_or(0, |journalled| journalled.missing),
    };
    let mut check = match health {
        Health::Live => recheck_pages(&medium, data.words())?,
        _ => {
            let table = read_table(&medium, record, cell_bits)?;
            let news = journalled.as_ref().map_or(&[][..], |journalled| &journalled.news);
            check_pages(&record.geometry, data.words(), &table, news)
        }
    };
    verification.pages_exact = check.exact;
    let PageCheck { unexplained, damaged, .. } = &mut check;
    match health {
        // Nothing may be added to a file that was closed.
        Health::Clean => damaged.append(unexplained),
        Health::Live => verification.pages_busy.append(unexplained),
        Health::Crashed => verification.pages_unsynced.append(unexplained),
    }
    damaged.sort_unstable();
    verification.pages_damaged = std::mem::take(damaged);
    Ok(verification)
}

//! A file that is opened to be asked and nothing else: without reading its page tables as a whole.

use std::collections::BTreeMap;

use super::asking::Asking;
use super::file::RangeFile;
use super::opening::Opening;
use super::{Step, Task};
use crate::error::Result;
use crate::hash::{Hasher, Key};
use crate::report::Health;

/// Opens a file to ask it: reads its first 16 KiB, and the journal if it was not closed.
///
/// A look-up takes the page of the page table that has the entry of its page, 4 KiB, and the page
/// itself, which has to be what the entry says. What is left out is the check of the page tables as a
/// whole (F-36), which [`Opening`] makes: damage to entries that no look-up comes upon is not noticed,
/// and that the file was replaced since, only where the [`Source`](super::Source) can tell. Where it
/// cannot, take [`Opening`].
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// # filter.add("sheep")?;
/// # filter.close()?;
/// use bloomfile::ranges::{Answer, AskOpening, Source, run};
///
/// let source = std::fs::File::open(&path).unwrap();
/// let file = run(AskOpening::new(source.length().unwrap()), &source)?;
/// let answers = run(file.ask(["sheep", "wolf"])?, &source)?;
/// assert_eq!(answers, [Answer::Maybe, Answer::Absent]);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub struct AskOpening(Opening);

impl AskOpening {
    /// Of a file of this length.
    pub fn new(length: u64) -> Self {
        AskOpening(Opening::to_ask(length))
    }

    /// The secret of a keyed file; a wrong one, or one for a file that is not keyed, is an error.
    pub fn key(self, key: &Key) -> Self {
        AskOpening(self.0.key(key))
    }
}

impl Task for AskOpening {
    type Output = AskFile;

    fn step(&mut self) -> Result<Step<AskFile>> {
        Ok(match self.0.step()? {
            Step::Need(ranges) => Step::Need(ranges),
            Step::Done(file) => Step::Done(AskFile(file)),
        })
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        self.0.give(start, bytes)
    }
}

/// A file whose headers were read; made by [`AskOpening`].
///
/// It holds the pages that were last asked for, 16 MiB at most. Copies of it share them.
#[derive(Clone)]
pub struct AskFile(RangeFile);

impl From<RangeFile> for AskFile {
    fn from(file: RangeFile) -> Self {
        AskFile(file)
    }
}

impl AskFile {
    /// A task that looks up many keys; an error in a keyed file that was opened without its secret.
    pub fn ask(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Asking> {
        self.0.ask(keys)
    }

    /// As [`ask`](Self::ask), for hashes.
    pub fn ask_hashes(&self, hashes: Vec<u64>) -> Asking {
        self.0.ask_hashes(hashes)
    }

    /// The hash of this file's keys; an error in a keyed file that was opened without its secret.
    pub fn hasher(&self) -> Result<Hasher> {
        self.0.hasher()
    }

    /// Whether the file was closed. A writer elsewhere cannot be told from one that crashed.
    pub fn health(&self) -> Health {
        self.0.health()
    }

    /// Pages that could not be verified when a recovery took what they held, or that came from such a
    /// file: as in [`Verification::pages_kept_unverified`](crate::report::Verification).
    pub fn pages_kept_unverified(&self) -> u64 {
        self.0.shared().snapshot.loaded.slot.unverifiable_pages
    }

    /// Length of the file in bytes, as it was opened.
    pub fn length(&self) -> u64 {
        self.0.length()
    }

    /// The metadata pairs.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.0.metadata()
    }
}

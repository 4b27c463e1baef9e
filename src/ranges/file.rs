//! A file that was opened, and what its tasks share.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::asking::Asking;
use super::cache::Cache;
use super::listing::Listing;
use super::loading::{Held, Loaded, Loading};
use super::measuring::Measuring;
use super::verifying::Verifying;
use crate::error::Result;
use crate::file::{JournalContents, Snapshot};
use crate::format::SegmentRecord;
use crate::hash::{Hasher, Key};
use crate::report::{Health, Inspection, inspect_snapshot};
use crate::storage::unpoisoned;

/// A file whose headers and page tables were read; made by [`Opening`](super::Opening).
///
/// It holds no data but for the pages that were last asked for, 16 MiB at most, unless all were
/// [loaded](Self::load). Copies of it share them.
#[derive(Clone)]
pub struct RangeFile {
    shared: Arc<Shared>,
}

/// What the tasks of a file share.
pub(super) struct Shared {
    pub(super) length: u64,
    /// Superblock and slots as they were at opening.
    pub(super) headers: Vec<u8>,
    pub(super) snapshot: Snapshot,
    /// Of each segment, the CRC of each page of its page table; empty where no table was read.
    pub(super) tables: Vec<Vec<u32>>,
    /// The secret of a keyed file.
    pub(super) key: Option<Key>,
    cache: Mutex<Cache>,
    /// All pages, once they were loaded.
    held: OnceLock<Held>,
}

impl Shared {
    pub(super) fn cache(&self) -> MutexGuard<'_, Cache> {
        unpoisoned(&self.cache)
    }

    /// All pages, if they were loaded.
    pub(super) fn held(&self) -> Option<&Held> {
        self.held.get()
    }

    pub(super) fn hold(&self, held: Held) {
        // Loaded twice, they are the same.
        let _ = self.held.set(held);
    }

    /// The segments, oldest first.
    pub(super) fn segments(&self) -> &[SegmentRecord] {
        &self.snapshot.loaded.slot.segments
    }

    /// The journal of a file that was not closed, as of opening.
    pub(super) fn journal(&self) -> Option<&JournalContents> {
        self.snapshot.journal.as_ref()
    }
}

impl RangeFile {
    pub(super) fn new(
        length: u64,
        headers: Vec<u8>,
        snapshot: Snapshot,
        tables: Vec<Vec<u32>>,
        key: Option<Key>,
    ) -> Self {
        let (cache, held) = (Mutex::default(), OnceLock::new());
        let shared = Shared { length, headers, snapshot, tables, key, cache, held };
        RangeFile { shared: Arc::new(shared) }
    }

    /// The metadata pairs.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.shared.snapshot.loaded.slot.metadata
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// What the file says of itself, as [`report::inspect`](crate::report::inspect).
    pub fn inspect(&self) -> Inspection {
        inspect_snapshot(self.shared.snapshot.clone())
    }

    /// Whether the file was closed. A writer elsewhere cannot be told from one that crashed.
    pub fn health(&self) -> Health {
        self.shared.snapshot.health
    }

    /// Length of the file in bytes, as it was opened.
    pub fn length(&self) -> u64 {
        self.shared.length
    }

    /// The hash of this file's keys; an error in a keyed file that was opened without its secret.
    pub fn hasher(&self) -> Result<Hasher> {
        self.shared.snapshot.loaded.superblock.hasher(self.shared.key.as_ref())
    }

    /// A task that looks up many keys.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// # filter.add("sheep")?;
    /// # filter.close()?;
    /// use bloomfile::ranges::{Answer, Opening, Step, Task};
    ///
    /// let bytes = std::fs::read(&path).unwrap();
    /// let mut opening = Opening::new(bytes.len() as u64);
    /// let file = loop {
    ///     match opening.step()? {
    ///         Step::Done(file) => break file,
    ///         Step::Need(ranges) => {
    ///             for range in ranges {
    ///                 let found = &bytes[range.start as usize..range.end as usize];
    ///                 opening.give(range.start, found.to_vec())?;
    ///             }
    ///         }
    ///     }
    /// };
    /// # let mut asking = file.ask(["sheep", "wolf"])?;
    /// # let answers = loop {
    /// #     match asking.step()? {
    /// #         Step::Done(answers) => break answers,
    /// #         Step::Need(ranges) => for range in ranges {
    /// #             let found = &bytes[range.start as usize..range.end as usize];
    /// #             asking.give(range.start, found.to_vec())?;
    /// #         }
    /// #     }
    /// # };
    /// // In the same way, with `file.ask(["sheep", "wolf"])?`:
    /// assert_eq!(answers, [Answer::Maybe, Answer::Absent]);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn ask(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Asking> {
        let hasher = self.hasher()?;
        Ok(self.ask_hashes(keys.into_iter().map(|key| hasher.hash(key)).collect()))
    }

    /// As [`ask`](Self::ask), for hashes.
    pub fn ask_hashes(&self, hashes: Vec<u64>) -> Asking {
        Asking::new(self.shared(), hashes)
    }

    /// A task that tells what the page table says of some pages of a segment, which are numbered from
    /// its first; the segments from the oldest. An error unless all of them are there.
    pub fn list_pages(&self, segment: usize, pages: Range<u64>) -> Result<Listing> {
        Listing::new(self.shared(), segment, pages)
    }

    /// A task that brings all pages into memory, each checked: look-ups read nothing from then on, and
    /// take no longer than in a [`Reader`](crate::Reader).
    pub fn load(&self) -> Loading {
        Loading::new(self.shared())
    }

    /// The file with all of its pages, if they were [loaded](Self::load); an error in a keyed file that
    /// was opened without its secret.
    pub fn loaded(&self) -> Result<Option<Loaded<'_>>> {
        let Some(held) = self.shared.held() else { return Ok(None) };
        Ok(Some(Loaded { hasher: self.hasher()?, held }))
    }

    /// A task that reads the whole file and checks every page, as
    /// [`report::verify`](crate::report::verify).
    pub fn verify(&self) -> Verifying {
        Verifying::new(self.shared())
    }

    /// A task that reads the data of the whole file and tells how the keys are spread over the blocks,
    /// as [`report::block_loads`](crate::report::block_loads). Pages count as they are, damaged or not.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?.close()?;
    /// use bloomfile::ranges::{Opening, Source, run};
    ///
    /// let source = std::fs::File::open(&path).unwrap();
    /// let file = run(Opening::new(source.length().unwrap()), &source)?;
    /// assert_eq!(run(file.block_loads(), &source)?, bloomfile::report::block_loads(&path)?);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn block_loads(&self) -> Measuring {
        Measuring::new(self.shared())
    }
}

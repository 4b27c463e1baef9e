//! How two files relate, a part of them at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::cache::Judged;
use super::fetch::{Fetch, Fetched};
use super::file::{RangeFile, Shared};
use super::{PAGES_AT_ONCE, Source, Step, Task, read_ranges};
use crate::error::{Error, Result};
use crate::file::Verdict;
use crate::geometry::PAGE_BYTES;
use crate::ops::{Comparer, Comparison, Folding};

const PAGE: usize = PAGE_BYTES as usize;

/// Compares two files, as [`ops::compare`](crate::ops::compare), in memory that does not depend on their
/// size. Every page of both is checked on the way: one that is damaged is an error.
///
/// The bytes that it needs are those of [one of the two](Self::of).
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// # for name in ["a", "b"] {
/// #     bloomfile::Options::new().capacity(99).false_positive_rate(0.1).create(at(name))?.close()?;
/// # }
/// use bloomfile::ranges::{Comparing, Opening, Source, run};
///
/// let sources = ["a", "b"].map(|name| std::fs::File::open(at(name)).unwrap());
/// let [a, b] = sources.each_ref().map(|it| run(Opening::new(it.length().unwrap()), it));
/// let comparison = Comparing::new(&a?, &b?)?.run([&sources[0], &sources[1]])?;
/// assert!(comparison.is_same());
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub struct Comparing {
    files: [Arc<Shared>; 2],
    comparer: Option<Comparer>,
    /// The pages of the result that come next, and their bytes in both files.
    pages: Range<u64>,
    bytes: [Vec<u8>; 2],
    /// Which file is being read, and what of it comes next for these pages.
    of: usize,
    left: VecDeque<Range<u64>>,
    fetch: Option<Fetch>,
    done: u64,
}

impl Comparing {
    /// Of two files that were opened. An error for those that are never compared: sealed ones, and those
    /// of several segments.
    pub fn new(a: &RangeFile, b: &RangeFile) -> Result<Self> {
        let files = [a.shared(), b.shared()];
        let comparer = Comparer::new(files.each_ref().map(|file| file.snapshot.clone()))?;
        let bytes = [Vec::new(), Vec::new()];
        let (of, left, fetch, done) = (0, VecDeque::new(), None, 0);
        let mut task = Comparing {
            files,
            comparer: Some(comparer),
            pages: 0..0,
            bytes,
            of,
            left,
            fetch,
            done,
        };
        task.begin(0);
        Ok(task)
    }

    /// Which of the two the bytes are of that are needed: 0 or 1.
    pub fn of(&self) -> usize {
        self.of
    }

    /// How many pages of both were read so far.
    pub fn checked(&self) -> u64 {
        self.done
    }

    /// How many pages both have.
    pub fn pages(&self) -> u64 {
        let pages = |file: &Arc<Shared>| file.segments()[0].geometry.pages();
        self.files.iter().map(pages).sum()
    }

    /// Brings it to its end with what the sources of the two files give.
    pub fn run(mut self, sources: [&dyn Source; 2]) -> Result<Comparison> {
        loop {
            let ranges = match self.step()? {
                Step::Done(comparison) => return Ok(comparison),
                Step::Need(ranges) => ranges,
            };
            for (range, bytes) in read_ranges(sources[self.of], ranges)? {
                self.give(range.start, bytes)?;
            }
        }
    }

    /// Begins with pages of the result that follow others; false if there are none.
    fn begin(&mut self, first: u64) -> bool {
        let geometry = self.comparer.as_ref().and_then(|comparer| comparer.geometry());
        // Files that cannot be compared are checked, the first and then the other.
        let pages = geometry.map_or(1, |geometry| geometry.pages());
        self.pages = first..pages.min(first + PAGES_AT_ONCE);
        self.of = 0;
        self.plan();
        !self.pages.is_empty()
    }

    /// What has to be read of a file.
    fn plan(&mut self) {
        let count = (self.pages.end - self.pages.start) as usize;
        self.left.clear();
        match self.folding() {
            Some(folding) => {
                self.bytes[self.of].clear();
                self.bytes[self.of].resize(count * PAGE, 0);
                self.left.extend(folding.sources(self.pages.clone()));
            }
            None => self.left.push_back(0..self.files[self.of].segments()[0].geometry.pages()),
        }
    }

    fn folding(&self) -> Option<Folding> {
        self.comparer.as_ref().and_then(|comparer| comparer.folding(self.of))
    }

    fn apply(&mut self, found: Vec<Fetched>) -> Result<()> {
        let folding = self.folding();
        let mut bytes = [0; PAGE];
        for Fetched { number: (segment, page), verdict, page: judged } in found {
            self.done += 1;
            let words = match &*judged {
                Judged::Sound(words) => words,
                Judged::Damaged { lost } => {
                    let segment = segment as u32;
                    return Err(Error::Damaged { count: 1, segment, page, lost: *lost });
                }
            };
            if let Some(comparer) = self.comparer.as_ref().filter(|_| verdict != Verdict::Exact) {
                comparer.note_unverified(self.of);
            }
            if let Some(folding) = &folding {
                for (at, bytes) in bytes.chunks_exact_mut(8).enumerate() {
                    bytes.copy_from_slice(&words.word(at).to_le_bytes());
                }
                folding.fold(page, &bytes, self.pages.start, &mut self.bytes[self.of]);
            }
        }
        Ok(())
    }
}

impl Task for Comparing {
    type Output = Comparison;

    fn step(&mut self) -> Result<Step<Comparison>> {
        loop {
            if let Some(fetch) = &mut self.fetch {
                match fetch.step()? {
                    Step::Need(ranges) => return Ok(Step::Need(ranges)),
                    Step::Done(found) => self.apply(found)?,
                }
                self.fetch = None;
            }
            if let Some(range) = self.left.front_mut() {
                let few = range.start..range.end.min(range.start + PAGES_AT_ONCE);
                range.start = few.end;
                if range.is_empty() {
                    self.left.pop_front();
                }
                let wanted = few.map(|page| (0, page));
                self.fetch = Some(Fetch::new(Arc::clone(&self.files[self.of]), wanted));
            } else if self.of == 0 {
                self.of = 1;
                self.plan();
            } else {
                let first = self.pages.start;
                if let Some(comparer) = &mut self.comparer {
                    comparer.compare_next(first, &self.bytes);
                }
                if !self.begin(self.pages.end) {
                    let Some(comparer) = self.comparer.take() else {
                        return Err(Error::parameter("comparison", "done", "it was given before"));
                    };
                    return Ok(Step::Done(comparer.finish()?));
                }
            }
        }
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        match &mut self.fetch {
            Some(fetch) => fetch.give(start, bytes),
            None => Fetch::new(Arc::clone(&self.files[self.of]), []).give(start, bytes),
        }
    }
}

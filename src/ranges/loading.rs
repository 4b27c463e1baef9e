//! All pages of a file, brought into memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::asking::Answer;
use super::cache::{Judged, PageNumber};
use super::fetch::{Fetch, Fetched};
use super::file::Shared;
use super::{PAGES_AT_ONCE, Step, Task};
use crate::error::{Error, Result};
use crate::file::PAGE_WORDS;
use crate::geometry::PAGE_BYTES;
use crate::hash::Hasher;
use crate::kernel::Cells;
use crate::kernel::loose::pages_of;
use crate::storage::{FileMap, Map};

/// All pages of a file.
pub(super) struct Held {
    /// Oldest first.
    segments: Vec<Cells<FileMap>>,
    /// Pages that are not what was written, and whether they have fewer ones.
    damaged: BTreeMap<PageNumber, bool>,
}

impl Held {
    #[inline]
    pub(super) fn ask(&self, hash: u64) -> Answer {
        if !self.damaged.is_empty() {
            return self.ask_damaged(hash);
        }
        let found = match &self.segments[..] {
            // Without a branch on the answer, which no processor can foresee.
            [cells] => cells.contains(hash),
            segments => segments.iter().rev().any(|cells| cells.contains(hash)),
        };
        if found { Answer::Maybe } else { Answer::Absent }
    }

    #[cold]
    fn ask_damaged(&self, hash: u64) -> Answer {
        let mut answer = Answer::Absent;
        for (segment, cells) in self.segments.iter().enumerate().rev() {
            let mut damaged = None;
            pages_of(cells.geometry(), hash, |page| {
                let lost = self.damaged.get(&(segment, page));
                damaged = damaged.or(lost.map(|&lost| (page, lost)));
            });
            match damaged {
                None if cells.contains(hash) => return Answer::Maybe,
                None => {}
                Some((page, lost)) => {
                    let sound = |page| !self.damaged.contains_key(&(segment, page));
                    // Where all cells are on one page, that one is damaged.
                    if !cells.any_off(hash, sound) {
                        answer = Answer::Damaged { segment: segment as u32, page, lost };
                    }
                }
            }
        }
        answer
    }
}

/// A file of which all pages are in memory; made by [`RangeFile::loaded`](super::RangeFile::loaded).
pub struct Loaded<'a> {
    pub(super) hasher: Hasher,
    pub(super) held: &'a Held,
}

impl Loaded<'_> {
    /// What the file says of a key.
    #[inline]
    pub fn ask(&self, key: impl AsRef<[u8]>) -> Answer {
        self.held.ask(self.hash(key))
    }

    /// The hash of a key: for many keys, all hashes first and then all look-ups are faster.
    #[inline]
    pub fn hash(&self, key: impl AsRef<[u8]>) -> u64 {
        self.hasher.hash(key)
    }

    /// As [`ask`](Self::ask), for many hashes: `take` is given what is said of each, in order.
    #[inline]
    pub fn ask_hashes(&self, hashes: &[u64], mut take: impl FnMut(Answer)) {
        // As many as stay in the processor's nearest cache.
        for few in hashes.chunks(256) {
            self.held.segments.iter().for_each(|cells| cells.touch(few));
            few.iter().for_each(|&hash| take(self.held.ask(hash)));
        }
    }
}

/// Brings all pages of a file into memory, each checked; made by
/// [`RangeFile::load`](super::RangeFile::load).
pub struct Loading {
    shared: Arc<Shared>,
    held: Option<Held>,
    /// Segment and page that come next.
    next: PageNumber,
    fetch: Option<Fetch>,
}

impl Loading {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Loading { shared, held: None, next: (0, 0), fetch: None }
    }

    fn held(&mut self) -> Result<&mut Held> {
        let segments = self.shared.segments();
        if self.held.is_none() {
            let make = |segment: &crate::format::SegmentRecord| {
                let length = usize::try_from(segment.extent().data_bytes());
                let length = length.map_err(|_| std::io::ErrorKind::OutOfMemory.into());
                let map = length.and_then(FileMap::anonymous);
                let map = map.map_err(Error::io("read the file into memory"))?;
                let mut cells = Cells::new(segment.geometry, map)?;
                cells.expect_keys(segment.ones);
                Ok(cells)
            };
            let segments = segments.iter().map(make).collect::<Result<_>>()?;
            self.held = Some(Held { segments, damaged: BTreeMap::new() });
        }
        match &mut self.held {
            Some(held) => Ok(held),
            None => unreachable!("it was made a moment ago"),
        }
    }
}

impl Task for Loading {
    type Output = ();

    fn step(&mut self) -> Result<Step<()>> {
        loop {
            if let Some(fetch) = &mut self.fetch {
                let found = match fetch.step()? {
                    Step::Need(ranges) => return Ok(Step::Need(ranges)),
                    Step::Done(found) => found,
                };
                self.fetch = None;
                let held = self.held()?;
                for Fetched { number: (segment, number), page, .. } in found {
                    match &*page {
                        Judged::Sound(page) => {
                            let first = number as usize * PAGE_WORDS;
                            let cells = &held.segments[segment];
                            (0..PAGE_WORDS).for_each(|at| cells.store(first + at, page.word(at)));
                        }
                        Judged::Damaged { lost } => {
                            held.damaged.insert((segment, number), *lost);
                        }
                    }
                }
            }
            let (segment, page) = self.next;
            let Some(record) = self.shared.segments().get(segment) else {
                self.held()?;
                if let Some(held) = self.held.take() {
                    self.shared.hold(held);
                }
                return Ok(Step::Done(()));
            };
            let pages = record.extent().data_bytes() / PAGE_BYTES;
            let end = pages.min(page + PAGES_AT_ONCE);
            self.next = if end == pages { (segment + 1, 0) } else { (segment, end) };
            let wanted = (page..end).map(|page| (segment, page));
            self.fetch = Some(Fetch::new(Arc::clone(&self.shared), wanted));
        }
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        match &mut self.fetch {
            Some(fetch) => fetch.give(start, bytes),
            None => Fetch::new(Arc::clone(&self.shared), []).give(start, bytes),
        }
    }
}

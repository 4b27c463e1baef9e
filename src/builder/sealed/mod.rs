//! The keys of a sealed filter, in any order and with repetitions → its pages.
//!
//! Only the hashes are kept: in memory as far as they may be, beyond that in a temporary file. Once
//! all are there, they are brought into the order of pages, and each page is solved in the cache.

mod delivery;
pub(crate) mod pages;
mod spill;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::file::write_table_part;
use crate::format::{Extent, PageEntry};
use crate::geometry::PAGE_BYTES;
use crate::hash::crc_of;
use crate::kernel::sealed::PageOutcome;
use crate::storage::Medium;
use crate::sync::Task;
use pages::{Build, PageCounts, PageRun, next_item, on_threads, shares, sort_shares};
use spill::{Parts, Spill};

/// Hashes of a piece: memory grows by this much at a time.
const PIECE: usize = 1 << 18;

/// Hashes below which a second thread costs more than it saves.
const FEWEST: usize = 1 << 16;

/// Memory that hashes take at most by default.
pub(crate) const DEFAULT_MEMORY: u64 = 1 << 30;

/// Least memory: what threads need to sort and solve is not counted one by one.
pub(crate) const LEAST_MEMORY: u64 = 32 << 20;

/// Memory that is taken however few the hashes are.
const IN_ANY_CASE: u64 = 11 << 20;

/// Memory for each thread that solves pages: where there is little, there are few.
const OF_A_THREAD: u64 = 8 << 20;

/// The hashes of the keys so far.
pub(crate) struct Collector {
    pieces: Vec<Vec<u64>>,
    in_memory: u64,
    /// Hashes so far, each as often as it came.
    pub(super) taken: u64,
    /// Bytes of memory that all of this may take.
    memory: u64,
    /// How hashes that are put aside are sorted.
    parts: Parts,
    spill: Option<Spill>,
    /// What kept hashes from being taken.
    failed: Option<Error>,
}

impl Collector {
    pub(crate) fn new(memory: u64) -> Self {
        let (pieces, parts) = (Vec::new(), Parts::of_all());
        Collector { pieces, in_memory: 0, taken: 0, memory, parts, spill: None, failed: None }
    }

    /// Of hashes that are all of some pages, of `pages` in all.
    pub(crate) fn of_pages(memory: u64, range: &Range<u64>, pages: u64) -> Self {
        Collector { parts: Parts::of_pages(range, pages), ..Collector::new(memory) }
    }

    /// Takes a hash.
    pub(crate) fn add(&mut self, hash: u64, threads: usize) {
        match self.pieces.last_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.push(hash),
            None => {
                self.make_room(PIECE, threads);
                self.pieces.push(vec![hash]);
            }
        }
        self.in_memory += 1;
        self.taken += 1;
    }

    /// Takes `count` hashes, given by `hash`, on several threads.
    pub(super) fn add_all(
        &mut self,
        threads: usize,
        count: usize,
        hash: impl Fn(usize) -> u64 + Sync,
    ) {
        if count < FEWEST {
            return (0..count).for_each(|at| self.add(hash(at), threads));
        }
        let hash = &hash;
        let step = (PIECE * threads).min(self.room() as usize / 4);
        for start in (0..count).step_by(step) {
            self.make_room(step, threads);
            let end = count.min(start + step);
            let share = (end - start).div_ceil(threads);
            let pieces = std::thread::scope(|scope| {
                let ranges = (start..end).step_by(share).map(|at| at..end.min(at + share));
                let tasks: Vec<_> = ranges
                    .map(|range| Task::start(scope, move || range.map(hash).collect()))
                    .collect();
                tasks.into_iter().map(Task::finish).collect::<Vec<Vec<u64>>>()
            });
            self.pieces.extend(pieces);
            self.in_memory += (end - start) as u64;
        }
        self.taken += count as u64;
    }

    /// Hashes that memory has room for: an eighth of it, and what a process needs in any case, is for
    /// what is done with them.
    fn room(&self) -> u64 {
        (self.memory - IN_ANY_CASE) / 8 * 7 / size_of::<u64>() as u64
    }

    /// Puts all hashes aside if there is no room for this number more.
    fn make_room(&mut self, next: usize, threads: usize) {
        if self.in_memory + next as u64 <= self.room() {
            return;
        }
        if self.failed.is_none()
            && let Err(error) = self.put_aside(threads)
        {
            self.failed = Some(error);
        }
        // Without them there will be no file: what comes after them need not be kept either.
        self.pieces.clear();
        self.in_memory = 0;
    }

    fn put_aside(&mut self, threads: usize) -> Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::new(self.parts)?),
        };
        spill.write(&mut self.pieces, threads)?;
        self.pieces.clear();
        self.in_memory = 0;
        Ok(())
    }

    /// No more hashes come: the number of distinct ones, if that is `asked` for.
    pub(crate) fn finish(mut self, asked: bool, threads: usize) -> Result<(Hashes, u64)> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.spill.is_some() {
            self.put_aside(threads)?;
            self.pieces = Vec::new();
        }
        let most = self.room() as usize / 2;
        let threads = threads.min((self.memory / OF_A_THREAD) as usize);
        let (pieces, parts, spill) = (self.pieces, self.parts, self.spill);
        let mut hashes = Hashes { pieces, parts, spill, most, threads };
        let distinct = if asked { hashes.distinct()? } else { 0 };
        Ok((hashes, distinct))
    }
}

/// All hashes.
pub(crate) struct Hashes {
    pieces: Vec<Vec<u64>>,
    parts: Parts,
    spill: Option<Spill>,
    /// How many of those put aside are read back at once.
    most: usize,
    threads: usize,
}

impl Hashes {
    /// How many different ones there are.
    fn distinct(&mut self) -> Result<u64> {
        let Some(spill) = &self.spill else {
            let pieces = self.pieces.iter_mut().map(Vec::as_mut_slice);
            return Ok(count_distinct(pieces, self.threads));
        };
        let (mut read, mut distinct) = (Vec::new(), 0);
        for parts in spill.ranges(self.most as u64) {
            spill.read(parts, self.most, |_| true, &mut read)?;
            distinct += count_distinct([&mut read[..]], self.threads);
        }
        Ok(distinct)
    }

    /// Shows all pages of a filter, in order.
    pub(super) fn build(
        &mut self,
        pages: u64,
        write: impl FnMut(PageRun<'_>) -> Result<()> + Send,
    ) -> Result<PageCounts> {
        self.build_range(pages, 0..pages, write)
    }

    /// As [`build`](Self::build), for some of the pages: all hashes are of these.
    pub(crate) fn build_range(
        &mut self,
        pages: u64,
        wanted: Range<u64>,
        mut write: impl FnMut(PageRun<'_>) -> Result<()> + Send,
    ) -> Result<PageCounts> {
        let build = Build::new(pages).range(wanted.clone()).threads(self.threads);
        let Some(spill) = &self.spill else {
            return build.run(self.pieces.iter_mut().map(Vec::as_mut_slice), write);
        };
        let (mut read, mut built) = (Vec::new(), PageCounts::default());
        for parts in spill.ranges(self.most as u64) {
            let range = self.parts.pages_in(&parts, pages);
            let range = range.start.max(wanted.start)..range.end.min(wanted.end);
            if range.is_empty() {
                continue;
            }
            let parts = self.parts.holding(&range, pages);
            spill.read(parts, self.most, |hash| spill::is_of(hash, &range, pages), &mut read)?;
            built.add_all(&build.clone().range(range).run([&mut read[..]], &mut write)?);
        }
        Ok(built)
    }
}

/// How many different hashes there are; they are left in any order.
fn count_distinct<'a>(pieces: impl IntoIterator<Item = &'a mut [u64]>, threads: usize) -> u64 {
    let regions = Parts::of_all().regions();
    let mut shares = shares(pieces, threads);
    sort_shares(&mut shares, &regions, threads);
    let next = Mutex::new(0..regions.count);
    let distinct = AtomicU64::new(0);
    on_threads(threads, || {
        let mut hashes = Vec::new();
        while let Some(part) = next_item(&next) {
            hashes.clear();
            shares.iter().for_each(|share| hashes.extend_from_slice(share.region(part)));
            hashes.sort_unstable();
            hashes.dedup();
            distinct.fetch_add(hashes.len() as u64, Ordering::Relaxed);
        }
    });
    distinct.into_inner()
}

/// Writes pages and their entries in page table 0 of a new file.
pub(super) fn write_pages<M: Medium>(medium: &M, extent: &Extent, run: &PageRun<'_>) -> Result<()> {
    let start = extent.data() + run.first * PAGE_BYTES;
    medium.write_at(run.pages.as_flattened(), start).map_err(Error::io("write the new file"))?;
    let entry =
        |(page, outcome): (&_, &PageOutcome)| PageEntry { crc: crc_of(page), ones: outcome.keys };
    let entries: Vec<PageEntry> =
        run.pages.iter().map(|page| &page[..]).zip(run.outcomes).map(entry).collect();
    write_table_part(medium, extent, run.first, &entries)
}

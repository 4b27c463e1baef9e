//! Hashes → the pages of a filter, on several threads, in little more memory than the hashes take.
//!
//! Pages are in the order of hashes. The hashes come in shares; each share is sorted where it is by
//! *region*, a run of pages. Then region after region is taken from all shares, sorted by page and
//! solved, in the cache. Nothing depends on the order of hashes within a page, so that the bytes are
//! the same whatever the order, the repetitions, the shares and the number of threads.

use std::ops::Range;
use std::sync::Mutex;
use std::thread;

use super::delivery::Delivery;
use crate::error::Result;
use crate::geometry::PAGE_BYTES;
use crate::kernel::sealed::{PageOutcome, Scratch, build_page};
use crate::sealed::{PageBytes, page_of, value_of};
use crate::storage::unpoisoned;

/// Most regions, which is most places that sorting writes to at the same time.
const MOST_REGIONS: u64 = 1 << 9;

/// Hashes of a share, at least and at most. All threads together sort a 16th of the hashes at a time,
/// in a copy.
const LEAST_SHARE: usize = 1 << 14;
const MOST_SHARE: usize = 1 << 20;
const SHARES_OF_A_THREAD: usize = 16;

/// Some pages in a row, as they were built.
pub(crate) struct PageRun<'a> {
    /// The number of the first one in the filter.
    pub(crate) first: u64,
    /// Their bytes.
    pub(crate) pages: &'a [PageBytes],
    /// What became of each.
    pub(crate) outcomes: &'a [PageOutcome],
}

/// What became of all pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageCounts {
    /// Distinct keys.
    pub(crate) keys: u64,
    /// Pages without keys.
    pub(crate) empty_pages: u64,
    /// Pages that answer "maybe" for every key.
    pub(crate) maybe_pages: u64,
    /// How often pages were banded.
    pub(crate) bandings: u64,
}

impl PageCounts {
    pub(super) fn add(&mut self, page: &PageOutcome) {
        self.keys += u64::from(page.keys);
        self.empty_pages += u64::from(page.keys == 0);
        self.maybe_pages += u64::from(page.is_maybe());
        self.bandings += u64::from(page.bandings);
    }

    /// Adds those of other pages.
    pub(super) fn add_all(&mut self, other: &PageCounts) {
        self.keys += other.keys;
        self.empty_pages += other.empty_pages;
        self.maybe_pages += other.maybe_pages;
        self.bandings += other.bandings;
    }
}

/// How the pages of a filter are built.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pages: u64,
    range: Range<u64>,
    threads: usize,
}

impl Build {
    /// All `pages` pages of a filter, on one thread.
    pub(crate) fn new(pages: u64) -> Self {
        Build { pages, range: 0..pages, threads: 1 }
    }

    /// Only these pages.
    pub(crate) fn range(self, range: Range<u64>) -> Self {
        assert!(range.start <= range.end && range.end <= self.pages);
        Build { range, ..self }
    }

    /// On this number of threads, or on as many as the system has to give.
    pub(crate) fn threads(self, threads: usize) -> Self {
        Build { threads: threads.max(1), ..self }
    }

    /// Builds the pages from the hashes of their keys, in any order and with repetitions, and shows
    /// them to `write` in order, each once. The hashes are left in any order. The first error ends it.
    ///
    /// The hashes may come in pieces of any length: a program that does not know how many there will
    /// be need not move them.
    ///
    /// # Panics
    /// If a hash is of a page that is not to be built.
    pub(crate) fn run<'a>(
        &self,
        hashes: impl IntoIterator<Item = &'a mut [u64]>,
        write: impl FnMut(PageRun<'_>) -> Result<()> + Send,
    ) -> Result<PageCounts> {
        let mut shares = shares(hashes, self.threads);
        let regions = Regions::new(self);
        sort_shares(&mut shares, &regions, self.threads);

        let delivery = Delivery::new(regions.count, write);
        let next = Mutex::new(0..regions.count);
        on_threads(self.threads, || {
            let mut worker = Worker::new(&regions);
            while let Some(region) = next_item(&next) {
                let turn = delivery.turn(region);
                worker.build(region, &shares);
                if !turn.deliver(&worker.run(region)) {
                    break;
                }
            }
        });
        delivery.finish()
    }
}

/// The next item, for one of several threads.
pub(super) fn next_item<T>(items: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    unpoisoned(items).next()
}

/// Does work on this thread and on as many others as the system has to give.
pub(super) fn on_threads(threads: usize, work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

/// How pages are grouped.
pub(super) struct Regions {
    /// All pages of the filter, and the first and number of those that are built.
    pages: u64,
    first: u64,
    length: u64,
    /// A region is 2^this pages; the last one may have fewer.
    shift: u32,
    pub(super) count: usize,
}

impl Regions {
    /// One for each of some pages, of `pages` in all.
    pub(super) fn single_pages(pages: u64, range: Range<u64>) -> Self {
        let length = range.end - range.start;
        Regions { pages, first: range.start, length, shift: 0, count: length as usize }
    }

    fn new(build: &Build) -> Self {
        let length = build.range.end - build.range.start;
        let shift = length.div_ceil(MOST_REGIONS).max(1).next_power_of_two().trailing_zeros();
        let count = length.div_ceil(1 << shift) as usize;
        Regions { pages: build.pages, first: build.range.start, length, shift, count }
    }

    /// The number of a hash's page among those that are built.
    #[inline(always)]
    fn page(&self, hash: u64) -> u64 {
        let page = page_of(hash, self.pages).wrapping_sub(self.first);
        assert!(page < self.length, "the page of a hash is not to be built");
        page
    }

    /// The pages of a region among those that are built.
    fn pages_of(&self, region: usize) -> Range<u64> {
        let start = (region as u64) << self.shift;
        start..(start + (1 << self.shift)).min(self.length)
    }
}

/// Some of the hashes.
pub(super) struct Share<'a> {
    hashes: &'a mut [u64],
    /// Once they are sorted, the hashes of region r are those from `starts[r]` to `starts[r + 1]`.
    starts: Vec<u32>,
}

/// Cuts pieces of hashes into shares that threads sort one at a time.
pub(super) fn shares<'a>(
    hashes: impl IntoIterator<Item = &'a mut [u64]>,
    threads: usize,
) -> Vec<Share<'a>> {
    let pieces: Vec<_> = hashes.into_iter().collect();
    let count: usize = pieces.iter().map(|piece| piece.len()).sum();
    let share = count.div_ceil(SHARES_OF_A_THREAD * threads).clamp(LEAST_SHARE, MOST_SHARE);
    let shares = pieces.into_iter().flat_map(|piece| piece.chunks_mut(share));
    shares.map(|hashes| Share { hashes, starts: Vec::new() }).collect()
}

/// Sorts shares by region, on several threads.
pub(super) fn sort_shares(shares: &mut [Share<'_>], regions: &Regions, threads: usize) {
    let unsorted = Mutex::new(shares.iter_mut());
    on_threads(threads, || {
        let mut sorted = Vec::new();
        while let Some(share) = next_item(&unsorted) {
            share.sort(regions, &mut sorted);
        }
    });
}

impl Share<'_> {
    fn sort(&mut self, regions: &Regions, sorted: &mut Vec<u64>) {
        let region = |hash| (regions.page(hash) >> regions.shift) as usize;
        // Counted two places on: the sums then are the starts of the next region, which become those
        // of the region itself while its hashes are put in place.
        self.starts = vec![0; regions.count + 2];
        for &hash in &*self.hashes {
            self.starts[region(hash) + 2] += 1;
        }
        for at in 2..self.starts.len() {
            self.starts[at] += self.starts[at - 1];
        }
        sorted.resize(self.hashes.len(), 0);
        for &hash in &*self.hashes {
            let start = &mut self.starts[region(hash) + 1];
            sorted[*start as usize] = hash;
            *start += 1;
        }
        self.hashes.copy_from_slice(sorted);
    }

    /// The hashes of a region, once they are sorted.
    pub(super) fn region(&self, region: usize) -> &[u64] {
        &self.hashes[self.starts[region] as usize..self.starts[region + 1] as usize]
    }
}

/// What one thread needs to build regions.
struct Worker<'a> {
    regions: &'a Regions,
    scratch: Scratch,
    /// The values of a region, sorted by page.
    values: Vec<u64>,
    /// Where those of each page start; one more than there are pages, and one more again.
    starts: Vec<usize>,
    pages: Vec<PageBytes>,
    outcomes: Vec<PageOutcome>,
}

impl<'a> Worker<'a> {
    fn new(regions: &'a Regions) -> Self {
        Worker {
            regions,
            scratch: Scratch::new(),
            values: Vec::new(),
            starts: Vec::new(),
            pages: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    fn build(&mut self, region: usize, shares: &[Share<'_>]) {
        let range = self.regions.pages_of(region);
        let count = (range.end - range.start) as usize;
        let page = |hash| (self.regions.page(hash) - range.start) as usize;
        let hashes = || shares.iter().flat_map(|share| share.region(region));
        // As in `Share::sort`.
        self.starts.clear();
        self.starts.resize(count + 2, 0);
        for &hash in hashes() {
            self.starts[page(hash) + 2] += 1;
        }
        for at in 2..self.starts.len() {
            self.starts[at] += self.starts[at - 1];
        }
        self.values.resize(self.starts[count + 1], 0);
        for &hash in hashes() {
            let start = &mut self.starts[page(hash) + 1];
            self.values[*start] = value_of(hash);
            *start += 1;
        }
        self.pages.resize(count, [0; PAGE_BYTES as usize]);
        self.outcomes.clear();
        for (at, page) in self.pages.iter_mut().enumerate() {
            let values = &mut self.values[self.starts[at]..self.starts[at + 1]];
            self.outcomes.push(build_page(values, &mut self.scratch, page));
        }
    }

    fn run(&self, region: usize) -> PageRun<'_> {
        let first = self.regions.first + self.regions.pages_of(region).start;
        PageRun { first, pages: &self.pages, outcomes: &self.outcomes }
    }
}

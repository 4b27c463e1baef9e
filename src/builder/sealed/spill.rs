//! Hashes that memory has no room for, in a nameless file of the temporary folder.
//!
//! Each time memory is full, all hashes go to the file as one run, sorted by *part*: the hashes that
//! may come, cut into parts of equal length. Pages are in the order of hashes, so that those of some
//! pages are read back from a few parts of every run.

use std::ops::Range;

use super::pages::{Regions, shares, sort_shares};
use crate::error::{Error, Result};
use crate::sealed::page_of;
use crate::storage::{FileMedium, ReadMedium, WriteMedium};

/// Most parts of a run; there are at least half as many.
const MOST_PARTS: u64 = 1 << 10;

/// Bytes that are written or read at once.
const CHUNK: usize = 1 << 20;

/// Bytes of a hash.
const HASH: usize = size_of::<u64>();

/// The parts: of all hashes, cut into `slices` parts of equal length, those that may have some. Hashes
/// of a few pages alone are cut as finely as those of a whole filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    slices: u64,
    /// The slice that is part 0.
    first: u64,
    pub(super) count: u64,
}

/// Runs of hashes in a file.
pub(super) struct Spill {
    parts: Parts,
    file: FileMedium,
    /// Hashes in the file.
    length: u64,
    runs: Vec<Run>,
}

/// Hashes that were in memory at the same time.
struct Run {
    /// The hashes of part p are those from `starts[p]` to `starts[p + 1]` of the file.
    starts: Vec<u64>,
}

impl Spill {
    /// For hashes that are all in these parts.
    pub(super) fn new(parts: Parts) -> Result<Self> {
        let file = tempfile::tempfile().map_err(Error::io(KEEP))?;
        Ok(Spill { parts, file: FileMedium::of_temporary(file), length: 0, runs: Vec::new() })
    }

    /// Takes hashes, which are left in any order.
    pub(super) fn write(&mut self, hashes: &mut [Vec<u64>], threads: usize) -> Result<()> {
        let regions = self.parts.regions();
        let mut shares = shares(hashes.iter_mut().map(Vec::as_mut_slice), threads);
        sort_shares(&mut shares, &regions, threads);
        let mut starts = Vec::with_capacity(regions.count + 1);
        let mut bytes = Vec::with_capacity(CHUNK);
        let mut written = self.length * HASH as u64;
        for part in 0..regions.count {
            starts.push(self.length);
            for hashes in shares.iter().map(|share| share.region(part)) {
                self.length += hashes.len() as u64;
                for hash in hashes {
                    bytes.extend_from_slice(&hash.to_le_bytes());
                    if bytes.len() == CHUNK {
                        self.file.write_at(&bytes, written).map_err(Error::io(KEEP))?;
                        written += CHUNK as u64;
                        bytes.clear();
                    }
                }
            }
        }
        starts.push(self.length);
        self.file.write_at(&bytes, written).map_err(Error::io(KEEP))?;
        self.runs.push(Run { starts });
        Ok(())
    }

    /// Ranges of parts, each with no more hashes than `most` unless one part has more.
    pub(super) fn ranges(&self, most: u64) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        let (mut first, mut count) = (0, 0);
        for part in 0..self.parts.count {
            let here: u64 = self.runs.iter().map(|run| run.length(part)).sum();
            if count + here > most && first < part {
                ranges.push(first..part);
                (first, count) = (part, 0);
            }
            count += here;
        }
        ranges.push(first..self.parts.count);
        ranges
    }

    /// Reads the hashes of some parts of which `wanted` takes, in place of what `hashes` held. Repetitions
    /// of more than `most` are left out: one key may come any number of times.
    pub(super) fn read(
        &self,
        parts: Range<u64>,
        most: usize,
        wanted: impl Fn(u64) -> bool,
        hashes: &mut Vec<u64>,
    ) -> Result<()> {
        hashes.clear();
        let mut bytes = vec![0; CHUNK];
        let mut full = most;
        for run in &self.runs {
            let range = run.starts[parts.start as usize]..run.starts[parts.end as usize];
            let (mut at, end) = (range.start * HASH as u64, range.end * HASH as u64);
            while at < end {
                let bytes = &mut bytes[..CHUNK.min((end - at) as usize)];
                self.file.read_at(bytes, at).map_err(Error::io("read back the keys' hashes"))?;
                let found = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
                hashes.extend(found.filter(|&hash| wanted(hash)));
                at += bytes.len() as u64;
                if hashes.len() > full {
                    hashes.sort_unstable();
                    hashes.dedup();
                    full = most.max(2 * hashes.len());
                }
            }
        }
        Ok(())
    }
}

impl Run {
    fn length(&self, part: u64) -> u64 {
        self.starts[part as usize + 1] - self.starts[part as usize]
    }
}

/// What is being done when the temporary folder has no room.
const KEEP: &str = if cfg!(windows) {
    "keep the keys' hashes in the temporary folder (TMP)"
} else {
    "keep the keys' hashes in the temporary folder (TMPDIR)"
};

impl Parts {
    /// For any hashes.
    pub(super) fn of_all() -> Self {
        Parts { slices: MOST_PARTS, first: 0, count: MOST_PARTS }
    }

    /// For the hashes of some pages, of `pages` in all.
    pub(super) fn of_pages(range: &Range<u64>, pages: u64) -> Self {
        if range.is_empty() {
            return Parts::of_all();
        }
        // Where a page begins, which may be between two hashes.
        let start = |page: u64| u128::from(page) << 64;
        let first = start(range.start) / u128::from(pages);
        let last = start(range.end).div_ceil(pages.into()) - 1;
        let count = |bits: u32| ((last >> bits) - (first >> bits) + 1) as u64;
        // A slice has 2^`bits` hashes: one bit at least, so that the number of slices fits into 64.
        let bits = (1..64).find(|&bits| count(bits) <= MOST_PARTS).unwrap_or(63);
        Parts { slices: 1 << (64 - bits), first: (first >> bits) as u64, count: count(bits) }
    }

    /// As regions that hashes are sorted by.
    pub(super) fn regions(&self) -> Regions {
        Regions::single_pages(self.slices, self.first..self.first + self.count)
    }

    /// The pages, of `pages` in all, that begin in some parts.
    pub(super) fn pages_in(&self, parts: &Range<u64>, pages: u64) -> Range<u64> {
        let first = |part: u64| {
            let start = u128::from(self.first + part) * u128::from(pages);
            start.div_ceil(self.slices.into()) as u64
        };
        first(parts.start)..first(parts.end)
    }

    /// The parts that the hashes of some pages are in.
    pub(super) fn holding(&self, range: &Range<u64>, pages: u64) -> Range<u64> {
        let scaled = |page: u64| u128::from(page) * u128::from(self.slices);
        let (first, end) = (scaled(range.start), scaled(range.end));
        let (first, end) = (first / u128::from(pages), end.div_ceil(pages.into()));
        first as u64 - self.first..end as u64 - self.first
    }
}

/// Whether a hash falls into some of a filter's pages.
pub(super) fn is_of(hash: u64, range: &Range<u64>, pages: u64) -> bool {
    range.contains(&page_of(hash, pages))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::hash::split_mix;

    fn part_of(parts: &Parts, hash: u64) -> u64 {
        page_of(hash, parts.slices) - parts.first
    }

    /// Every page that is wanted is in one range, and all of its hashes are in the parts that are read
    /// for it.
    #[test]
    fn pages_and_parts_belong_together() {
        for pages in [1, 2, 3, 700, 1023, 1024, 1025, 5000, (1 << 37) - 1] {
            for wanted in [0..pages, 0..1, pages / 3..pages / 2, pages / 2..pages, pages - 1..pages]
            {
                let parts = if wanted == (0..pages) {
                    Parts::of_all()
                } else {
                    Parts::of_pages(&wanted, pages)
                };
                let most = parts.count;
                assert!((MOST_PARTS / 2..=MOST_PARTS).contains(&most), "{parts:?}");
                let mut end = wanted.start;
                for cuts in [&[0, most][..], &[0, 1, 300, 301, most]] {
                    let all = cuts.windows(2).map(|cut| parts.pages_in(&(cut[0]..cut[1]), pages));
                    let all =
                        all.map(|range| range.start.max(wanted.start)..range.end.min(wanted.end));
                    for range in all.filter(|range| !range.is_empty()) {
                        assert_eq!(range.start, end);
                        end = range.end;
                        let holding = parts.holding(&range, pages);
                        assert!(holding.end <= most);
                        // Hashes of these pages, the first and the last among them.
                        let start = |page: u64| (u128::from(page) << 64).div_ceil(pages.into());
                        let (first, behind) = (start(range.start), start(range.end));
                        let random = (0..2000).map(|number| {
                            let random = u128::from(split_mix(pages, number));
                            first + ((random * (behind - first)) >> 64)
                        });
                        for hash in random.chain([first, behind - 1]) {
                            assert!(is_of(hash as u64, &range, pages));
                            assert!(holding.contains(&part_of(&parts, hash as u64)));
                        }
                    }
                    assert_eq!(end, wanted.end);
                    end = wanted.start;
                }
            }
        }
    }

    #[test]
    fn runs_give_back_what_they_took() {
        // Of a whole filter, and of one of 2,000 parts of one.
        let pages = 1 << 22;
        let one = 700 * (pages / 2000)..701 * (pages / 2000);
        let start = |page: u64| (u128::from(page) << 64).div_ceil(pages.into());
        let (first, behind) = (start(one.start), start(one.end));
        for parts in [Parts::of_all(), Parts::of_pages(&one, pages)] {
            let mut spill = Spill::new(parts).unwrap();
            let hash = |number| match parts.slices {
                MOST_PARTS => split_mix(1, number),
                _ => (first + ((u128::from(split_mix(1, number)) * (behind - first)) >> 64)) as u64,
            };
            let mut hashes: Vec<u64> = (0..300_000).map(hash).collect();
            for run in hashes.chunks(100_000) {
                let mut pieces: Vec<Vec<u64>> = run.chunks(30_001).map(<[u64]>::to_vec).collect();
                spill.write(&mut pieces, 2).unwrap();
            }
            let ranges = spill.ranges(50_000);
            assert!(ranges.len() > 5);
            let (mut found, mut read) = (Vec::new(), Vec::new());
            for range in ranges {
                spill.read(range.clone(), 1 << 20, |_| true, &mut read).unwrap();
                assert!(read.len() <= 50_000, "{parts:?}: {}", read.len());
                assert!(read.iter().all(|&hash| range.contains(&part_of(&parts, hash))));
                found.extend_from_slice(&read);
            }
            found.sort_unstable();
            hashes.sort_unstable();
            assert_eq!(found, hashes);
        }
    }

    #[test]
    fn repetitions_take_no_memory() {
        let mut spill = Spill::new(Parts::of_all()).unwrap();
        for _ in 0..4 {
            spill.write(&mut [vec![7; 400_000]], 1).unwrap();
        }
        let mut read = Vec::new();
        spill.read(0..MOST_PARTS, 1000, |_| true, &mut read).unwrap();
        read.dedup();
        assert_eq!(read, [7]);
        assert!(read.capacity() < 400_000);
    }
}

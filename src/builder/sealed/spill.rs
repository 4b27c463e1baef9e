//! Hashes that memory has no room for, in a nameless file of the temporary folder.
//!
//! Each time memory is full, all hashes go to the file as one run, sorted by *part*: all hashes cut
//! into parts of equal length. Pages are in the order of hashes, so that those of some pages are read
//! back from a few parts of every run.

use std::ops::Range;

use super::pages::{Regions, shares, sort_shares};
use crate::error::{Error, Result};
use crate::sealed::page_of;
use crate::storage::{FileMedium, ReadMedium, WriteMedium};

/// Parts of a run.
pub(super) const PARTS: u64 = 1 << 10;

/// Bytes that are written or read at once.
const CHUNK: usize = 1 << 20;

/// Bytes of a hash.
const HASH: usize = size_of::<u64>();

/// Runs of hashes in a file.
pub(super) struct Spill {
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
    pub(super) fn new() -> Result<Self> {
        let file = tempfile::tempfile().map_err(Error::io(KEEP))?;
        Ok(Spill { file: FileMedium::of_temporary(file), length: 0, runs: Vec::new() })
    }

    /// Takes hashes, which are left in any order.
    pub(super) fn write(&mut self, hashes: &mut [Vec<u64>], threads: usize) -> Result<()> {
        let regions = Regions::parts(PARTS);
        let mut shares = shares(hashes.iter_mut().map(Vec::as_mut_slice), threads);
        sort_shares(&mut shares, &regions, threads);
        let mut starts = Vec::with_capacity(PARTS as usize + 1);
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
        for part in 0..PARTS {
            let here: u64 = self.runs.iter().map(|run| run.length(part)).sum();
            if count + here > most && first < part {
                ranges.push(first..part);
                (first, count) = (part, 0);
            }
            count += here;
        }
        ranges.push(first..PARTS);
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

/// The pages, of `pages` in all, that begin in some parts.
pub(super) fn pages_of(parts: &Range<u64>, pages: u64) -> Range<u64> {
    let first = |part: u64| (u128::from(part) * u128::from(pages)).div_ceil(PARTS.into()) as u64;
    first(parts.start)..first(parts.end)
}

/// The parts that the hashes of some pages are in.
pub(super) fn parts_of(range: &Range<u64>, pages: u64) -> Range<u64> {
    let scaled = |page: u64| u128::from(page) * u128::from(PARTS);
    let (first, end) = (scaled(range.start), scaled(range.end));
    (first / u128::from(pages)) as u64..end.div_ceil(pages.into()) as u64
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

    /// Every page is in one range, and all of its hashes are in the parts that are read for it.
    #[test]
    fn pages_and_parts_belong_together() {
        for pages in [1, 2, 3, 700, 1023, 1024, 1025, 5000, (1 << 37) - 1] {
            let mut end = 0;
            for cuts in [&[0, PARTS][..], &[0, 1, 700, 701, PARTS]] {
                let all = cuts.windows(2).map(|cut| pages_of(&(cut[0]..cut[1]), pages));
                for range in all.filter(|range| !range.is_empty()) {
                    assert_eq!(range.start, end);
                    end = range.end;
                    let parts = parts_of(&range, pages);
                    assert!(parts.end <= PARTS);
                    for number in 0..2000 {
                        let hash = split_mix(pages, number);
                        if is_of(hash, &range, pages) {
                            assert!(parts.contains(&page_of(hash, PARTS)));
                        }
                    }
                    for hash in [0, u64::MAX] {
                        let inside = parts.contains(&page_of(hash, PARTS));
                        assert!(inside || !is_of(hash, &range, pages));
                    }
                }
                assert_eq!(end, pages);
                end = 0;
            }
        }
    }

    #[test]
    fn runs_give_back_what_they_took() {
        let mut spill = Spill::new().unwrap();
        let hashes: Vec<u64> = (0..300_000).map(|number| split_mix(1, number)).collect();
        for run in hashes.chunks(100_000) {
            let mut pieces: Vec<Vec<u64>> = run.chunks(30_001).map(<[u64]>::to_vec).collect();
            spill.write(&mut pieces, 2).unwrap();
        }
        let ranges = spill.ranges(50_000);
        assert!(ranges.len() > 5);
        let (mut found, mut read) = (Vec::new(), Vec::new());
        for parts in ranges {
            spill.read(parts.clone(), 1 << 20, |_| true, &mut read).unwrap();
            assert!(read.len() <= 50_000);
            assert!(read.iter().all(|&hash| parts.contains(&page_of(hash, PARTS))));
            found.extend_from_slice(&read);
        }
        found.sort_unstable();
        let mut hashes = hashes;
        hashes.sort_unstable();
        assert_eq!(found, hashes);
    }

    #[test]
    fn repetitions_take_no_memory() {
        let mut spill = Spill::new().unwrap();
        for _ in 0..4 {
            spill.write(&mut [vec![7; 400_000]], 1).unwrap();
        }
        let mut read = Vec::new();
        spill.read(0..PARTS, 1000, |_| true, &mut read).unwrap();
        read.dedup();
        assert_eq!(read, [7]);
        assert!(read.capacity() < 400_000);
    }
}

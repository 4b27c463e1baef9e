//! Many hashes into a filter that no other handle has yet, on several threads.
//!
//! Hashes are taken in rounds. In each, every thread sorts its share by region of the filter,
//! keeping the order within a region; then every thread fills regions of its own. A region fits
//! the cache, so its lines are fetched once and not once per key; and each block sees its hashes
//! in the order they came, so the outcome is that of adding them one by one, whatever the number
//! of threads.

use std::ops::Range;

use crate::kernel::Cells;
use crate::storage::Map;
use crate::sync::Task;

/// Hashes of one thread in one round: bounds the memory, 8 bytes for each.
const SHARE: usize = 1 << 20;

/// Hashes below which sorting and starting threads costs more than it saves.
const FEWEST: usize = 1 << 14;

/// Bytes of a region: they stay in the second-level cache while it is filled.
const REGION_BYTES: u64 = 1 << 18;

/// Most regions, which is most places that sorting writes to at the same time.
const MOST_REGIONS: u64 = 1 << 9;

/// Adds `count` hashes, given by `hash`; how many of them changed the filter.
///
/// No other thread changes the cells at the same time.
pub(super) fn add<Q: Map>(
    cells: &Cells<Q>,
    threads: usize,
    count: usize,
    hash: impl Fn(usize) -> u64 + Sync,
) -> u64 {
    let round = SHARE * threads;
    let rounds = (0..count).step_by(round).map(|start| start..count.min(start + round));
    match Regions::new(cells) {
        Some(regions) if count >= FEWEST => {
            let mut sorted: Vec<Sorted> = (0..threads).map(|_| Sorted::default()).collect();
            rounds.map(|range| add_round(cells, &regions, &mut sorted, range, &hash)).sum()
        }
        _ => add_in_order(cells, 0..count, hash),
    }
}

/// How blocks are grouped.
struct Regions {
    /// A region is 2^this blocks.
    block_shift: u32,
    count: usize,
}

impl Regions {
    /// The regions of cells, if there is more than one.
    fn new<Q: Map>(cells: &Cells<Q>) -> Option<Self> {
        let geometry = cells.geometry();
        cells.own_block(0)?;
        let block_bytes = geometry.block_span() / 8;
        let least = (REGION_BYTES / block_bytes).max(geometry.blocks().div_ceil(MOST_REGIONS));
        let block_shift = least.next_power_of_two().trailing_zeros();
        let count = geometry.blocks().div_ceil(1 << block_shift) as usize;
        (count > 1).then_some(Regions { block_shift, count })
    }
}

/// One thread's share of a round, sorted by region.
#[derive(Default)]
struct Sorted {
    hashes: Vec<u64>,
    /// The hashes of region r are those from `starts[r]` to `starts[r + 1]`.
    starts: Vec<usize>,
    /// The hashes as they came.
    unsorted: Vec<u64>,
}

impl Sorted {
    fn sort<Q: Map>(
        &mut self,
        cells: &Cells<Q>,
        regions: &Regions,
        hashes: impl Iterator<Item = u64>,
    ) {
        let region = |hash| (cells.geometry().block(hash) >> regions.block_shift) as usize;
        self.unsorted.clear();
        self.starts.clear();
        self.starts.resize(regions.count + 2, 0);
        // Counted two places on: the sums then are the starts of the next region, which become
        // those of the region itself while its hashes are put in place.
        for hash in hashes {
            self.unsorted.push(hash);
            self.starts[region(hash) + 2] += 1;
        }
        for at in 2..self.starts.len() {
            self.starts[at] += self.starts[at - 1];
        }
        self.hashes.resize(self.unsorted.len(), 0);
        for &hash in &self.unsorted {
            let start = &mut self.starts[region(hash) + 1];
            self.hashes[*start] = hash;
            *start += 1;
        }
    }

    fn region(&self, region: usize) -> &[u64] {
        &self.hashes[self.starts[region]..self.starts[region + 1]]
    }
}

fn add_round<Q: Map>(
    cells: &Cells<Q>,
    regions: &Regions,
    sorted: &mut [Sorted],
    range: Range<usize>,
    hash: &(impl Fn(usize) -> u64 + Sync),
) -> u64 {
    let threads = sorted.len();
    let share = range.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let sorters: Vec<_> = sorted
            .iter_mut()
            .enumerate()
            .map(|(thread, sorted)| {
                let start = (range.start + thread * share).min(range.end);
                let share = start..(start + share).min(range.end);
                Task::start(scope, move || sorted.sort(cells, regions, share.map(hash)))
            })
            .collect();
        sorters.into_iter().for_each(Task::finish);
    });
    let sorted = &*sorted;
    std::thread::scope(|scope| {
        let share = regions.count.div_ceil(threads);
        let adders: Vec<_> = (0..threads)
            .map(|thread| {
                let mine = (thread * share)..((thread + 1) * share).min(regions.count);
                Task::start(scope, move || {
                    mine.flat_map(|region| sorted.iter().map(move |sorted| sorted.region(region)))
                        .map(|hashes| add_in_order(cells, 0..hashes.len(), |at| hashes[at]))
                        .sum::<u64>()
                })
            })
            .collect();
        adders.into_iter().map(Task::finish).sum()
    })
}

/// Adds hashes one after the other; how many of them changed the filter.
fn add_in_order<Q: Map>(cells: &Cells<Q>, range: Range<usize>, hash: impl Fn(usize) -> u64) -> u64 {
    let mut new = 0;
    cells.visit_batch(
        range.len(),
        |at| hash(range.start + at),
        |hash| new += u64::from(cells.add(hash)),
    );
    new
}

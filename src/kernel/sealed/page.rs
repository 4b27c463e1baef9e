//! The keys of one page → its bytes (F-144 to F-147).

use super::Kernel;
use crate::sealed::PageBytes;
use crate::sealed::banding::System;
use crate::sealed::header::{Header, Solved};
use crate::sealed::shape::{MOST_BLOCKS, PARTS, Shape, least_blocks, part_of};

/// Values that are sorted by counting them; with more, repetitions aside, a page cannot be solved.
const MOST_COUNTED: usize = 1 << 15;

/// Values of equal leading bits that are sorted by insertion. Values are mixed hashes; more than this
/// in one place were crafted, and insertion would take a time that grows with their square.
const MOST_INSERTED: u16 = 48;

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageOutcome {
    /// Distinct keys: `ones` of the page's entry in the page table.
    pub(crate) keys: u32,
    /// Blocks; 0 of a page that is empty or answers "maybe".
    pub(crate) blocks: u32,
    /// How often the keys were banded: each time but the last, their rows depended on one another.
    pub(crate) bandings: u32,
}

impl PageOutcome {
    /// Whether the page answers "maybe" for every key.
    pub(crate) fn is_maybe(&self) -> bool {
        self.keys > 0 && self.blocks == 0
    }
}

/// Memory that building a page needs, to be used again for the next one.
pub(crate) struct Scratch {
    kernel: Kernel,
    sorter: Sorter,
    system: System,
}

impl Scratch {
    /// With the best kernel for this processor that the environment allows.
    pub(crate) fn new() -> Self {
        Self::with_kernel(Kernel::choose())
    }

    pub(super) fn with_kernel(kernel: Kernel) -> Self {
        let places = vec![0; MOST_COUNTED].into();
        let sorter = Sorter { sorted: vec![0; MOST_COUNTED].into(), places };
        Scratch { kernel, sorter, system: System::new() }
    }
}

/// Memory to sort values in.
struct Sorter {
    sorted: Box<[u64]>,
    /// Where the next value of each leading number goes to.
    places: Box<[u16]>,
}

impl Sorter {
    /// The distinct ones of some values, sorted: they are in this memory, or where they were.
    fn distinct<'a>(&'a mut self, values: &'a mut [u64]) -> &'a [u64] {
        // About one value for each leading number.
        let bits = values.len().max(2).ilog2();
        if values.len() > MOST_COUNTED || self.count(values, bits) > MOST_INSERTED {
            values.sort_unstable();
            return without_repetitions(values);
        }
        let sorted = &mut self.sorted[..values.len()];
        for &value in &*values {
            let place = &mut self.places[leading(value, bits)];
            sorted[usize::from(*place)] = value;
            *place += 1;
        }
        for at in 1..sorted.len() {
            let value = sorted[at];
            let mut to = at;
            while to > 0 && sorted[to - 1] > value {
                sorted[to] = sorted[to - 1];
                to -= 1;
            }
            sorted[to] = value;
        }
        without_repetitions(sorted)
    }

    /// Finds the place of the first value of each leading number; most values that one has.
    fn count(&mut self, values: &[u64], bits: u32) -> u16 {
        let places = &mut self.places[..1 << bits];
        places.fill(0);
        for &value in values {
            places[leading(value, bits)] += 1;
        }
        let (mut sum, mut most) = (0, 0);
        for place in places {
            let count = *place;
            *place = sum;
            sum += count;
            most = most.max(count);
        }
        most
    }
}

/// The number that a value begins with.
#[inline(always)]
fn leading(value: u64, bits: u32) -> usize {
    (value >> (64 - bits)) as usize
}

/// The distinct ones of sorted values, moved to the front.
fn without_repetitions(values: &mut [u64]) -> &[u64] {
    let Some(first) = (1..values.len()).find(|&at| values[at] == values[at - 1]) else {
        return values;
    };
    let mut kept = first;
    for at in first + 1..values.len() {
        if values[at] != values[kept - 1] {
            values[kept] = values[at];
            kept += 1;
        }
    }
    &values[..kept]
}

/// Builds the page of some keys from their [values](crate::sealed::value_of), which may come in any order and
/// repeatedly, and are left in any order.
///
/// The bytes are a function of the set of values alone.
pub(crate) fn build_page(
    values: &mut [u64],
    scratch: &mut Scratch,
    page: &mut PageBytes,
) -> PageOutcome {
    let Scratch { kernel, sorter, system } = scratch;
    let values = sorter.distinct(values);
    // From far fewer keys on, a page is a "maybe".
    let keys = u32::try_from(values.len()).unwrap_or(u32::MAX);
    if keys == 0 {
        Header::Empty.encode(page);
        return PageOutcome { keys, blocks: 0, bandings: 0 };
    }
    let mut blocks = least_blocks(keys);
    let mut bandings = 0;
    let below = below(values);
    while blocks <= MOST_BLOCKS {
        let shape = Shape::of_blocks(blocks);
        let bends = shape.bends(&below);
        bandings += 1;
        if kernel.band(values, &below, &shape, &bends, system) {
            Header::Solved(Solved::new(&shape, bends)).encode(page);
            kernel.solve(system, &shape, page);
            return PageOutcome { keys, blocks, bandings };
        }
        // In longer and longer steps, so that a page which cannot be solved is given up soon.
        blocks += 1 + bandings / 8;
    }
    Header::Maybe.encode(page);
    PageOutcome { keys, blocks: 0, bandings }
}

/// How many of the sorted values are in parts below each part.
fn below(values: &[u64]) -> [u32; PARTS + 1] {
    std::array::from_fn(|part| values.partition_point(|&value| part_of(value) < part) as u32)
}

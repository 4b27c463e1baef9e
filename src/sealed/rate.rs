//! False positive rates of pages and filters.

use super::header::{Header, Solved};
use super::shape::{BLOCK_SLOTS, MOST_BLOCKS, PARTS, Shape, least_blocks, most_keys};

/// How many blocks a page has beyond the fewest, on average, by its number of keys: rows depend on one
/// another more often the more there are. Measured, linear in between; `blocks_beyond_the_fewest` in
/// the tests prints it.
const BLOCKS_BEYOND: [(f64, f64); 22] = [
    // Below, the fewest blocks that a page has are many for its keys.
    (1_008.0, 0.0),
    (1_016.0, 0.0074),
    (2_500.0, 0.0080),
    (3_000.0, 0.0090),
    (4_000.0, 0.015),
    (5_000.0, 0.038),
    (6_000.0, 0.097),
    (7_000.0, 0.217),
    (8_000.0, 0.449),
    (9_000.0, 0.827),
    (10_000.0, 1.32),
    (11_000.0, 1.96),
    (12_000.0, 2.70),
    (14_000.0, 4.60),
    (16_000.0, 6.95),
    (18_000.0, 9.60),
    (20_000.0, 12.5),
    (22_000.0, 15.6),
    (24_000.0, 18.9),
    (26_000.0, 22.1),
    (28_000.0, 25.2),
    (30_000.0, 28.0),
];

/// Standard deviations of a page's load beyond which no page is looked at.
const DEVIATIONS: f64 = 9.0;

impl Header {
    /// The share of absent keys of this page for which it answers "maybe".
    pub(crate) fn rate(&self) -> f64 {
        match self {
            Header::Empty => 0.0,
            Header::Maybe => 1.0,
            Header::Solved(solved) => solved.rate(),
        }
    }
}

impl Solved {
    /// A key is right by chance in a column every second time; how many columns there are depends on
    /// the block that its band starts in.
    fn rate(&self) -> f64 {
        let shape = self.shape();
        let bends = self.bends();
        let parts = (0..PARTS).map(|at| shape.part(at, bends[at], bends[at + 1]));
        let below = parts.map(|part| part.share_below(wide_slot(&shape)));
        mixed_rate(&shape, below.sum::<f64>() / PARTS as f64)
    }
}

/// The first slot that a band with the greater number of columns starts in; if no band does, one that
/// is behind all, clamped or not.
fn wide_slot(shape: &Shape) -> i64 {
    let slot = i64::from(shape.wide_from() * BLOCK_SLOTS);
    if slot < shape.starts() { slot } else { i64::MAX }
}

/// The rate of a page when a share of all bands has the smaller number of columns.
fn mixed_rate(shape: &Shape, narrow: f64) -> f64 {
    let rate = |columns: u32| 0.5f64.powi(columns.cast_signed());
    narrow * rate(shape.columns()) + (1.0 - narrow) * rate(shape.columns() + 1)
}

/// The rate of a page of this number of blocks whose bands start evenly.
fn rate_of_blocks(blocks: u32) -> f64 {
    let shape = Shape::of_blocks(blocks.min(MOST_BLOCKS));
    mixed_rate(&shape, shape.even().share_below(wide_slot(&shape)))
}

/// The rate to expect of a page with this number of distinct keys.
pub(crate) fn rate_of_keys(keys: u32) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    let least = least_blocks(keys);
    if least > MOST_BLOCKS {
        return 1.0;
    }
    let blocks = f64::from(least) + blocks_beyond(f64::from(keys));
    let (floor, rest) = (blocks.floor() as u32, blocks.fract());
    (1.0 - rest) * rate_of_blocks(floor) + rest * rate_of_blocks(floor + 1)
}

/// The rate to expect of a filter of `keys` distinct keys in `pages` pages: the mean of its pages'.
///
/// The number of keys in a page is binomial.
pub(crate) fn rate_of_filter(keys: u64, pages: u64) -> f64 {
    let of_keys = |keys: f64| rate_of_keys(keys.min(f64::from(u32::MAX)) as u32);
    let (keys, pages) = (keys as f64, pages.max(1) as f64);
    let mean = keys / pages;
    let variance = mean * (1.0 - 1.0 / pages);
    // Both ends are far out even where the law is not symmetric.
    let reach = DEVIATIONS * variance.sqrt() + DEVIATIONS * DEVIATIONS * f64::from(variance > 0.0);
    if mean - reach > f64::from(most_keys(MOST_BLOCKS)) {
        return 1.0;
    }
    let mode = mean.floor();
    let (mut rates, mut weights) = (of_keys(mode), 1.0);
    // Weights relative to the mode's, from each to its neighbour: P(j + 1) / P(j) is
    // (n − j) / ((j + 1)(B − 1)).
    let ratio = |load: f64| (keys - load) / ((load + 1.0) * (pages - 1.0));
    let (mut load, mut weight) = (mode, 1.0);
    while load < (mean + reach).floor().min(keys) {
        weight *= ratio(load);
        load += 1.0;
        rates += weight * of_keys(load);
        weights += weight;
    }
    (load, weight) = (mode, 1.0);
    while load > (mean - reach).max(0.0) {
        load -= 1.0;
        weight /= ratio(load);
        rates += weight * of_keys(load.max(0.0));
        weights += weight;
    }
    rates / weights
}

/// [`BLOCKS_BEYOND`] the fewest.
fn blocks_beyond(keys: f64) -> f64 {
    let behind = BLOCKS_BEYOND.partition_point(|&(at, _)| at <= keys);
    let at = behind.clamp(1, BLOCKS_BEYOND.len() - 1);
    let ((low, from), (high, to)) = (BLOCKS_BEYOND[at - 1], BLOCKS_BEYOND[at]);
    (from + (to - from) * (keys - low) / (high - low)).max(0.0)
}

//! The law that the loads of blocks follow: Poisson's, seen through the ones that keys leave.

use std::ops::Range;

/// Bins of a histogram.
const BINS: f64 = 24.0;

/// Standard deviations that the histogram reaches to either side.
const REACH: f64 = 4.5;

/// Share of zeros below which a block's load cannot be told from its ones.
const FEWEST_ZEROS: f64 = 0.02;

/// Cells of a row in which no two keys meet, few enough for the share of one to have its digits.
const CELLS_WITHOUT_END: u64 = 1 << 40;

/// What to think of the loads of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LoadVerdict {
    /// There are no keys.
    Empty,
    /// The ones no longer tell how many keys there are.
    TooFull,
    /// As chance would have it.
    AsExpected,
    /// The loads differ more than chance explains.
    Uneven,
    /// The loads differ less than chance explains.
    TooEven,
    /// Some blocks hold more keys than chance brings together in any.
    Crowded,
}

/// Blocks that hold more keys than chance brings together; told by
/// [`report::crowding`](crate::report::crowding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Crowding {
    /// Blocks of the segment.
    pub blocks: u64,
    /// Those that were looked at.
    pub looked_at: u64,
    /// Those of them that hold too many keys.
    pub crowded: u64,
}

/// The share of segments that may have a block which is taken for crowded by chance.
const CROWDED_BY_CHANCE: f64 = 1e-6;

/// Standard deviations by which the ones of a block may be more than its keys make likely.
const ONES_REACH: f64 = 6.0;

/// The keys that leave this share of zeros in rows of `row_cells` cells, on the average of many blocks.
pub(crate) fn load_of_zeros(row_cells: u64, zeros: f64) -> f64 {
    -(row_cells as f64) * zeros.max(f64::MIN_POSITIVE).ln()
}

/// The ones from which on a block is crowded, where `blocks` blocks have a mean load of `mean`: as
/// many keys as make that many ones likely hardly ever meet in any of the blocks.
pub(crate) fn crowded_from(rows: u32, row_cells: u64, blocks: u64, mean: f64) -> u64 {
    let (rows, w) = (f64::from(rows), row_cells as f64);
    let mean = mean.max(f64::MIN_POSITIVE);
    // Chernoff's bound: P(J ≥ a) ≤ e^(a − λ − a·ln(a/λ)) for a > λ.
    let unlikely = |load: f64| {
        let chance = load - mean - load * (load / mean).ln();
        load > mean && chance + (blocks.max(1) as f64).ln() < CROWDED_BY_CHANCE.ln()
    };
    let (mut low, mut high) = (mean, 4.0 * mean + 100.0);
    while !unlikely(high) {
        high *= 2.0;
    }
    while high - low > 0.01 {
        let middle = (low + high) / 2.0;
        if unlikely(middle) { high = middle } else { low = middle }
    }
    // That is how many keys leave this number of zeros, give or take.
    let zeros = rows * w * (high * (-1.0 / w.max(2.0)).ln_1p()).exp();
    (rows * w - zeros + ONES_REACH * zeros.min(rows * w - zeros).max(0.0).sqrt()).floor() as u64 + 1
}

/// The loads of blocks and the law they should follow.
///
/// A load is not seen directly: it is estimated from the ones of a block, which spreads it a
/// little further. The law takes that into account.
#[derive(Clone, Debug)]
pub(crate) struct LoadLaw {
    rows: f64,
    row_cells: f64,
    blocks: f64,
    mean: f64,
    /// Variance of the estimated loads: found, and as chance gives it.
    found: f64,
    expected: f64,
    /// Loads that matter, with their probabilities.
    probabilities: Vec<(f64, f64)>,
    zeros: f64,
}

impl LoadLaw {
    /// `counted[ones]` blocks have `ones` ones, each in `rows` rows of `row_cells` cells.
    pub(crate) fn new(rows: u32, row_cells: u64, counted: &[u64]) -> Self {
        let (rows, row_cells) = (f64::from(rows), row_cells as f64);
        let blocks: f64 = counted.iter().map(|&count| count as f64).sum();
        let ones: f64 = counted.iter().zip(0..).map(|(&count, at)| count as f64 * at as f64).sum();
        let zeros = match blocks {
            0.0 => 1.0,
            _ => 1.0 - ones / (blocks * rows * row_cells),
        };
        // E[(1 − 1/w)^J] = e^(−λ/w) for a Poisson J, so the mean of the zeros tells λ.
        let mean = -row_cells * zeros.max(0.5 / (blocks.max(1.0) * rows * row_cells)).ln();
        let mut law = LoadLaw {
            rows,
            row_cells,
            blocks,
            mean: mean.max(0.0),
            found: 0.0,
            expected: 0.0,
            probabilities: poisson(mean),
            zeros,
        };
        let squares = counted
            .iter()
            .zip(0..)
            .map(|(&count, ones)| count as f64 * (law.load(ones) - law.mean).powi(2));
        law.found = squares.sum::<f64>() / blocks.max(1.0);
        let blurred = law.probabilities.iter().map(|&(load, share)| share * law.blur(load).powi(2));
        law.expected = law.mean + blurred.sum::<f64>();
        law
    }

    /// `counted[keys]` blocks have `keys` keys, which are known.
    pub(crate) fn of_keys(counted: &[u64]) -> Self {
        // As if each key had a cell of its own: then ones are keys.
        Self::new(1, CELLS_WITHOUT_END, counted)
    }

    /// The load that a number of ones stands for.
    pub(crate) fn load(&self, ones: u64) -> f64 {
        let cells = self.rows * self.row_cells;
        let zeros = (cells - ones as f64).max(0.5);
        if self.row_cells < 2.0 {
            return if ones == 0 { 0.0 } else { 1.0 };
        }
        (zeros / cells).ln() / (-1.0 / self.row_cells).ln_1p()
    }

    /// Standard deviation of the estimate of a load, by occupancy: j keys leave each cell of a row
    /// zero with q = (1 − 1/w)^j.
    fn blur(&self, load: f64) -> f64 {
        let w = self.row_cells;
        if w < 3.0 {
            return 0.0;
        }
        let missed = |cells: f64| (load * (-cells / w).ln_1p()).exp();
        let (one, two) = (missed(1.0), missed(2.0));
        let variance = (w * one + w * (w - 1.0) * two - (w * one).powi(2)).max(0.0);
        let zeros = (self.rows * w * one).max(0.5);
        (self.rows * variance).sqrt() / (zeros * -(-1.0 / w).ln_1p())
    }

    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The variance found as a multiple of the one expected.
    pub(crate) fn dispersion(&self) -> f64 {
        match self.expected {
            0.0 => 1.0,
            expected => self.found / expected,
        }
    }

    /// How many of the blocks that were counted are crowded.
    pub(crate) fn crowded(&self, counted: &[u64]) -> u64 {
        let (rows, row_cells) = (self.rows as u32, self.row_cells as u64);
        let from = crowded_from(rows, row_cells, self.blocks as u64, self.mean) as usize;
        counted.iter().skip(from).sum()
    }

    /// What to think of the loads, `crowded` blocks being crowded.
    pub(crate) fn verdict_with(&self, crowded: u64) -> LoadVerdict {
        match self.verdict() {
            LoadVerdict::AsExpected | LoadVerdict::TooEven if crowded > 0 => LoadVerdict::Crowded,
            verdict => verdict,
        }
    }

    fn verdict(&self) -> LoadVerdict {
        if self.mean == 0.0 || self.blocks == 0.0 {
            return LoadVerdict::Empty;
        }
        if self.zeros < FEWEST_ZEROS {
            return LoadVerdict::TooFull;
        }
        // Five standard deviations of a sample's variance, and what the approximations leave.
        let tolerance = 0.05 + 5.0 * ((2.0 + 1.0 / self.mean) / self.blocks).sqrt();
        match self.dispersion() - 1.0 {
            excess if excess > tolerance => LoadVerdict::Uneven,
            excess if excess < -tolerance => LoadVerdict::TooEven,
            _ => LoadVerdict::AsExpected,
        }
    }

    /// Neighbouring ranges of loads for a histogram.
    pub(crate) fn bins(&self) -> Vec<Range<u64>> {
        let reach = REACH * self.expected.max(0.25).sqrt();
        let first = (self.mean - reach).max(0.0).floor() as u64;
        let width = ((self.mean + reach - first as f64) / BINS).ceil().max(1.0) as u64;
        let end = (self.mean + reach).ceil() as u64 + 1;
        (first..end).step_by(width as usize).map(|start| start..start + width).collect()
    }

    /// The share of the blocks in each bin, given the last load that each takes.
    pub(crate) fn expected(&self, lasts: &[u64]) -> Vec<f64> {
        let below = |limit: f64| -> f64 {
            let shares = self
                .probabilities
                .iter()
                .map(|&(load, share)| share * normal_below(limit - load, self.blur(load)));
            shares.sum()
        };
        let mut before = 0.0;
        let mut shares = Vec::with_capacity(lasts.len());
        for (at, &last) in lasts.iter().enumerate() {
            let here = if at + 1 == lasts.len() { 1.0 } else { below(last as f64 + 0.5) };
            shares.push((here - before).max(0.0));
            before = here;
        }
        shares
    }
}

/// The loads that Poisson's law makes likely enough to matter.
fn poisson(mean: f64) -> Vec<(f64, f64)> {
    let reach = 10.0 * mean.max(1.0).sqrt() + 10.0;
    let first = (mean - reach).max(0.0).floor();
    let mode = mean.floor();
    // From the mode outwards, as multiples of its probability: no factorial, no underflow.
    let mut loads = Vec::new();
    let (mut load, mut weight) = (mode, 1.0);
    while load > first {
        weight *= load / mean.max(f64::MIN_POSITIVE);
        load -= 1.0;
        loads.push((load, weight));
    }
    loads.reverse();
    let (mut load, mut weight) = (mode, 1.0);
    while load <= mean + reach {
        loads.push((load, weight));
        load += 1.0;
        weight *= mean / load;
    }
    let total: f64 = loads.iter().map(|(_, weight)| weight).sum();
    loads.iter().map(|&(load, weight)| (load, weight / total)).collect()
}

/// The share of a normal distribution of this deviation that lies below `distance`.
fn normal_below(distance: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return if distance >= 0.0 { 1.0 } else { 0.0 };
    }
    // Abramowitz and Stegun 7.1.26: off by less than 1.5e-7, far less than is drawn.
    let x = distance / deviation / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.3275911 * x.abs());
    let series = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
    let tail = series.iter().rev().fold(0.0, |sum, &factor| (sum + factor) * t) * (-x * x).exp();
    if x >= 0.0 { 1.0 - 0.5 * tail } else { 0.5 * tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_adds_up() {
        for mean in [0.01, 0.5, 3.0, 50.0, 3400.0] {
            let probabilities = poisson(mean);
            let moment = |power: i32| -> f64 {
                probabilities.iter().map(|(load, share)| share * load.powi(power)).sum()
            };
            assert!((moment(0) - 1.0).abs() < 1e-9, "{mean}");
            assert!((moment(1) - mean).abs() < 1e-6 * mean, "{mean}");
            assert!((moment(2) - mean * mean - mean).abs() < 1e-3 * mean, "{mean}");
        }
        assert!((normal_below(1.0, 1.0) - 0.841_344_7).abs() < 1e-6);
        assert!((normal_below(-2.0, 1.0) - 0.022_750_1).abs() < 1e-6);
    }

    #[test]
    fn bins_meet_and_their_shares_add_up() {
        let mut counted = vec![0; 513];
        counted[280] = 1000;
        let law = LoadLaw::new(8, 64, &counted);
        let bins = law.bins();
        assert!(bins.windows(2).all(|pair| pair[0].end == pair[1].start));
        let lasts: Vec<u64> = bins.iter().map(|bin| bin.end - 1).collect();
        let shares = law.expected(&lasts);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // All blocks alike is not what chance gives.
        assert_eq!(law.verdict(), LoadVerdict::TooEven);
    }

    #[test]
    fn no_blocks_and_no_keys_are_no_news() {
        assert_eq!(LoadLaw::new(8, 64, &[0; 513]).verdict(), LoadVerdict::Empty);
        let mut counted = [0; 513];
        counted[0] = 9;
        assert_eq!(LoadLaw::new(8, 64, &counted).verdict(), LoadVerdict::Empty);
        counted[0] = 0;
        counted[512] = 9;
        assert_eq!(LoadLaw::new(8, 64, &counted).verdict(), LoadVerdict::TooFull);
    }
}

//! False positive rates: the formulas of the theory, in arithmetic that holds for 1 to 10^12
//! keys and cells.
//!
//! Powers such as (1 − 1/m)^n are taken through `ln_1p` and `exp_m1`: for a large m, 1 − 1/m
//! rounds to 1 and the naive form loses every digit.

use super::estimate::estimate_keys;
use crate::geometry::{Geometry, Layout};
use crate::sealed;

/// Rate of the textbook matrix, `rows` × `row_cells`, after `keys` distinct keys:
/// (1 − (1 − 1/m)^n)^k.
///
/// ```
/// let rate = bloomfile::plan::rows_rate(30, 2_500_000, 5_000_000);
/// assert_eq!(format!("{rate:.6}"), "0.012748");
/// ```
pub fn rows_rate(rows: u32, row_cells: u64, keys: u64) -> f64 {
    power(row_fill(row_cells, keys as f64), rows)
}

/// Rate of `rows` functions that share one row of `row_cells` cells, after `keys` distinct keys:
/// (1 − (1 − 1/m)^(kn))^k.
///
/// ```
/// let rate = bloomfile::plan::flat_rate(7, 100_000, 10_000);
/// assert_eq!(format!("{rate:.5}"), "0.00819");
/// ```
pub fn flat_rate(rows: u32, row_cells: u64, keys: u64) -> f64 {
    power(row_fill(row_cells, f64::from(rows) * keys as f64), rows)
}

/// Rate of `blocks` blocks, each of `rows` rows of `row_cells` cells, after `keys` distinct keys:
/// Σ_j P(j keys in the block) · (1 − (1 − 1/w)^j)^k.
///
/// The number of keys in a block is taken as what it is, binomial, for every number of blocks;
/// [`rate_at_load`] is the limit for many blocks. With one block this is [`rows_rate`].
///
/// ```
/// use bloomfile::plan::{blocked_rate, rows_rate};
///
/// assert_eq!(blocked_rate(1, 8, 64, 50), rows_rate(8, 64, 50));
/// assert!(blocked_rate(1000, 8, 64, 50_000) > rows_rate(8, 64_000, 50_000));
/// ```
pub fn blocked_rate(blocks: u64, rows: u32, row_cells: u64, keys: u64) -> f64 {
    if blocks <= 1 || keys == 0 {
        return rows_rate(rows, row_cells, keys);
    }
    let load = Load::Binomial { keys: keys as f64, blocks: blocks as f64 };
    if row_cells <= 1 {
        return row_fill(blocks, keys as f64);
    }
    expected_rate(load, rows, row_cells)
}

/// Rate of several filters that are asked together: that any of them reports an absent key as
/// present.
///
/// ```
/// let rate = bloomfile::plan::rate_together(&[0.01, 0.01]);
/// assert_eq!(format!("{rate:.6}"), "0.019900");
/// ```
pub fn rate_together(rates: &[f64]) -> f64 {
    match rates {
        // Exactly what it is by itself.
        [rate] => *rate,
        // Small rates would drown in 1 − (1 − rate). Not negated: that makes a zero a −0.
        rates => 0.0 - rates.iter().map(|&rate| (-rate).ln_1p()).sum::<f64>().exp_m1(),
    }
}

/// Rate of a blocked filter with very many blocks and `keys_per_block` keys in each on average:
/// the number of keys that meet in one block is then Poisson.
///
/// ```
/// // A line block of 512 cells with 10.1 bits per key.
/// let rate = bloomfile::plan::rate_at_load(512.0 / 10.1, 8, 64);
/// assert_eq!(format!("{rate:.4}"), "0.0100");
/// ```
pub fn rate_at_load(keys_per_block: f64, rows: u32, row_cells: u64) -> f64 {
    if keys_per_block.is_nan() || keys_per_block <= 0.0 {
        return 0.0;
    }
    if keys_per_block.is_infinite() {
        return 1.0;
    }
    if row_cells <= 1 {
        return -(-keys_per_block).exp_m1();
    }
    expected_rate(Load::Poisson { mean: keys_per_block }, rows, row_cells)
}

/// Rate of a filter of this geometry after `keys` distinct keys.
///
/// ```
/// use bloomfile::{plan::false_positive_rate, geometry::Geometry};
///
/// let geometry = Geometry::flat(1, 10_000)?;
/// assert_eq!(format!("{:.4}", false_positive_rate(&geometry, 10_000)), "0.6321");
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn false_positive_rate(geometry: &Geometry, keys: u64) -> f64 {
    let (rows, row_cells) = (geometry.row_count(), geometry.row_cells());
    match geometry.layout() {
        Layout::Rows => rows_rate(rows, row_cells, keys),
        Layout::Flat => flat_rate(rows, row_cells, keys),
        Layout::Page | Layout::Line => blocked_rate(geometry.blocks(), rows, row_cells, keys),
        Layout::Sealed => sealed::rate_of_filter(keys, geometry.blocks()),
    }
}

/// Rate of a filter as it stands, from the ones counted in it.
///
/// `ones` holds one entry per row for the `rows` layout and a single total for the others.
///
/// For `rows` it is the product of the rows' fills, for `flat` the fill to the power of k: both
/// follow from the bits alone. In the blocked layouts some blocks are fuller than others and
/// those answer "maybe" more often, so the mean fill to the power of k would be too low; there
/// the number of keys is estimated from the ones and [`blocked_rate`] gives the rate.
///
/// ```
/// use bloomfile::{plan::rate_at_fill, geometry::Geometry};
///
/// assert_eq!(rate_at_fill(&Geometry::rows(3, 8)?, &[4, 2, 4]), 0.0625);
/// assert_eq!(rate_at_fill(&Geometry::flat(2, 8)?, &[4]), 0.25);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn rate_at_fill(geometry: &Geometry, ones: &[u64]) -> f64 {
    let fill = |ones: u64| (ones as f64 / geometry.row_cells() as f64).min(1.0);
    let total = ones.iter().fold(0, |sum: u64, &ones| sum.saturating_add(ones));
    match geometry.layout() {
        Layout::Rows => ones.iter().map(|&ones| fill(ones)).product(),
        Layout::Flat => fill(total).powi(geometry.row_count() as i32),
        Layout::Page | Layout::Line if total == 0 => 0.0,
        Layout::Page | Layout::Line if total >= geometry.cells() => 1.0,
        Layout::Page | Layout::Line => {
            let keys = estimate_keys(geometry, ones).value.round().max(1.0);
            false_positive_rate(geometry, keys as u64)
        }
        // A sealed filter has its keys counted.
        Layout::Sealed => false_positive_rate(geometry, total),
    }
}

/// Lowest rate of a flat filter with this number of bits per key, if k could be any real number:
/// 0.6185^(m/n).
///
/// ```
/// assert_eq!(format!("{:.4}", bloomfile::plan::best_flat_rate(5.0)), "0.0905");
/// ```
pub fn best_flat_rate(bits_per_key: f64) -> f64 {
    (-bits_per_key.max(0.0) * std::f64::consts::LN_2.powi(2)).exp()
}

/// Bits per key at which [`best_flat_rate`] reaches `rate`: 1.44 · log2(1 / rate).
///
/// ```
/// assert_eq!(format!("{:.2}", bloomfile::plan::best_flat_bits_per_key(0.01)), "9.59");
/// ```
pub fn best_flat_bits_per_key(rate: f64) -> f64 {
    -rate.ln() / std::f64::consts::LN_2.powi(2)
}

/// The share to the power of a number of rows that need not be one that a geometry has.
fn power(share: f64, rows: u32) -> f64 {
    match i32::try_from(rows) {
        Ok(rows) => share.powi(rows),
        Err(_) => share.powf(f64::from(rows)),
    }
}

/// Expected share of ones in a row after `throws` uniform throws: 1 − (1 − 1/m)^n.
fn row_fill(row_cells: u64, throws: f64) -> f64 {
    if throws <= 0.0 {
        return 0.0;
    }
    if row_cells <= 1 {
        return 1.0;
    }
    -(throws * (-1.0 / row_cells as f64).ln_1p()).exp_m1()
}

/// How the number of keys in one block is distributed.
#[derive(Clone, Copy)]
enum Load {
    Poisson { mean: f64 },
    Binomial { keys: f64, blocks: f64 },
}

impl Load {
    /// Logarithm of P(`j` keys in a block), for j ≥ 1.
    ///
    /// In Loader's saddle-point form: the factorials' large logarithms, whose difference would
    /// lose seven digits at 10^9 keys per block, never appear.
    fn ln_probability(self, j: f64) -> f64 {
        let ln_two_pi = std::f64::consts::TAU.ln();
        match self {
            Load::Poisson { mean } => {
                -stirling_error(j) - deviance(j, mean) - 0.5 * (ln_two_pi + j.ln())
            }
            Load::Binomial { keys, blocks } if j >= keys => -keys * blocks.ln(),
            Load::Binomial { keys, blocks } => {
                let mean = keys / blocks;
                stirling_error(keys)
                    - stirling_error(j)
                    - stirling_error(keys - j)
                    - deviance(j, mean)
                    - deviance(keys - j, keys - mean)
                    - 0.5 * (ln_two_pi + j.ln() + (-j / keys).ln_1p())
            }
        }
    }

    /// Derivative of `ln_probability`, near enough to find the largest term.
    fn slope(self, j: f64) -> f64 {
        match self {
            Load::Poisson { mean } => (mean / j).ln(),
            Load::Binomial { keys, blocks } => ((keys - j) / (j * (blocks - 1.0))).ln(),
        }
    }

    /// Second derivative of `ln_probability`, with its sign turned.
    fn curvature(self, j: f64) -> f64 {
        match self {
            Load::Poisson { .. } => 1.0 / j,
            Load::Binomial { keys, .. } => 1.0 / j + 1.0 / (keys - j),
        }
    }

    /// The number of keys in a block on average.
    fn mean(self) -> f64 {
        match self {
            Load::Poisson { mean } => mean,
            Load::Binomial { keys, blocks } => keys / blocks,
        }
    }

    /// Largest possible number of keys in a block.
    fn most(self) -> f64 {
        match self {
            Load::Poisson { .. } => f64::INFINITY,
            Load::Binomial { keys, .. } => keys,
        }
    }
}

/// Keys per block up to which the spread of the loads is worth a sum.
const MOST_KEYS_PER_BLOCK: f64 = 1e15;

/// Σ_j P(j) · (1 − (1 − 1/w)^j)^k, for w ≥ 2.
///
/// Both factors are log-concave in j, so the terms have one peak. For a low rate it lies far out
/// in the tail of P: the range is found from the terms and not from P. The sum starts at the peak
/// and goes out on both sides until the terms no longer count.
fn expected_rate(load: Load, rows: u32, row_cells: u64) -> f64 {
    // With that number of keys in a block the loads differ by less than 10^−7 of the mean, and a few times
    // more of them are numbers that f64 has no room between.
    if load.mean() > MOST_KEYS_PER_BLOCK {
        return power(row_fill(row_cells, load.mean()), rows);
    }
    let rows = f64::from(rows);
    let decay = -(-1.0 / row_cells as f64).ln_1p();
    let slope = |j: f64| load.slope(j) + rows * decay / (decay * j).exp_m1();

    let mut low = 0.0;
    let mut high = load.most();
    if high.is_infinite() {
        high = 2.0;
        while slope(high) > 0.0 {
            high *= 2.0;
        }
    }
    while high - low > 0.5 && high - low > 1e-9 * high {
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    let peak = high.round().max(1.0);

    // A smooth peak needs no more than a few terms per standard deviation: the error of a sum in
    // steps of σ/4 is of the order e^(−2π²·16).
    let missed = (-decay * peak).exp();
    let curvature = load.curvature(peak) + rows * decay * decay * missed / (1.0 - missed).powi(2);
    let step = (0.25 / curvature.sqrt()).floor().max(1.0);

    let term = |j: f64| (load.ln_probability(j) + rows * (-(-decay * j).exp_m1()).ln()).exp();
    let mut sum = term(peak);
    for direction in [-step, step] {
        let mut j = peak + direction;
        while j >= 1.0 && j <= load.most() {
            let term = term(j);
            sum += term;
            // Also when a term is no number.
            if term.is_nan() || term <= 1e-18 * sum {
                break;
            }
            j += direction;
        }
    }
    (sum * step).min(1.0)
}

/// ln n! − ln(√(2πn) · (n/e)^n), for n ≥ 1.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        let mut factorial = 1.0;
        let mut i = 2.0;
        while i <= n {
            factorial *= i;
            i += 1.0;
        }
        return f64::ln(factorial) + n - (n + 0.5) * n.ln() - 0.5 * std::f64::consts::TAU.ln();
    }
    let square = n * n;
    let series = 1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / (1188.0 * square)) / square;
    (1.0 / 12.0 - (1.0 / 360.0 - series / square) / square) / n
}

/// x · ln(x / mean) + mean − x, without the cancellation near x = mean.
fn deviance(x: f64, mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() - difference;
    }
    let ratio = difference / (x + mean);
    let square = ratio * ratio;
    let mut sum = difference * ratio;
    let mut power = 2.0 * x * ratio;
    let mut odd = 3.0;
    loop {
        power *= square;
        let next = sum + power / odd;
        if next == sum || next.is_nan() {
            return sum;
        }
        sum = next;
        odd += 2.0;
    }
}

//! What the ones of a filter say about the keys in it, with error bounds.
//!
//! One model serves every layout. Row i, taken over all blocks, is a table of M = B·w cells into
//! which n keys fall uniformly, so −M·ln(zeros/M) estimates n. The rows of one block share its
//! load: where many keys met, every row has more ones. Their counts are therefore correlated, and
//! the variance of the total has a part of its own for that. n is fixed, not Poisson: all
//! variances are those of a fixed number of keys.

use std::iter::Sum;

use crate::geometry::{Geometry, Layout};

/// Half-width of the intervals in standard deviations: 95.4 % for a normal distribution.
const DEVIATIONS: f64 = 2.0;

/// An estimated number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Estimate {
    /// The likeliest value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval; infinite when the filter is too full to tell.
    pub high: f64,
}

/// Of numbers that do not depend on each other, such as the keys of several segments. The interval
/// holds the sum at least as often as those of the parts hold theirs.
impl Sum for Estimate {
    fn sum<I: Iterator<Item = Estimate>>(estimates: I) -> Estimate {
        estimates.fold(Estimate { value: 0.0, low: 0.0, high: 0.0 }, |sum, next| Estimate {
            value: sum.value + next.value,
            low: sum.low + next.low,
            high: sum.high + next.high,
        })
    }
}

impl Estimate {
    /// Whether the interval holds `value`.
    ///
    /// ```
    /// use bloomfile::{plan::estimate_keys, geometry::Geometry};
    ///
    /// let estimate = estimate_keys(&Geometry::flat(1, 1000)?, &[181]);
    /// assert!(estimate.contains(200.0) && !estimate.contains(250.0));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The same, with everything outside `low..=high` known to be impossible.
    fn clamped(self, low: f64, high: f64) -> Estimate {
        // A plain `clamp` would panic where rounding makes low exceed high.
        let bound = |x: f64| x.min(high).max(low);
        Estimate { value: bound(self.value), low: bound(self.low), high: bound(self.high) }
    }
}

/// Number of distinct keys in a filter, from the ones counted in it.
///
/// `ones` holds one entry per row for the `rows` layout and a single total for the others.
/// The value is −m·ln(1 − ones/m) for each row and averaged (`rows`), −(m/k)·ln(1 − ones/m)
/// (`flat`), or the same over all blocks with m = B·w (`page`, `line`), where the spread of the
/// blocks' loads does not move the mean but widens the interval. When every cell is one the value
/// is where about half a cell would still be zero, and `high` is infinite. A `sealed` filter counts
/// its keys in place of ones: there the number is exact.
///
/// ```
/// use bloomfile::{plan::estimate_keys, geometry::Geometry};
///
/// // 10,000 keys turn 1 − 1/e of 10,000 cells into ones.
/// let estimate = estimate_keys(&Geometry::rows(2, 10_000)?, &[6_300, 6_342]);
/// assert_eq!(format!("{:.0}", estimate.value), "10000");
/// assert!(estimate.contains(10_000.0) && estimate.high - estimate.low < 400.0);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn estimate_keys(geometry: &Geometry, ones: &[u64]) -> Estimate {
    if geometry.layout() == Layout::Sealed {
        let keys: f64 = ones.iter().map(|&ones| ones as f64).sum();
        return Estimate { value: keys, low: keys, high: keys };
    }
    let occupancy = Occupancy::new(geometry);
    let count = occupancy.count(ones);
    let keys = count.keys;
    let spread = DEVIATIONS * occupancy.covariance(keys, keys).sqrt() + 0.5;
    let low = occupancy.keys_at(count.zeros + spread);
    let high = occupancy.keys_at(count.zeros - spread);
    // A key cannot turn on more than one cell of a row, so fewer keys are impossible.
    // Where all rows are full, each of them by itself says less than all their cells together.
    let estimate = Estimate { value: keys, low: low.min(keys), high: high.max(keys) };
    estimate.clamped(count.fewest, f64::INFINITY)
}

/// Standard deviations of the ones within which a filter holds no more keys than it is for.
const FULL_DEVIATIONS: f64 = 6.0;

/// The ones from which on a filter holds more than `adds` keys, each of which changed it when it came
/// (F-156): with as many more keys as changed nothing, and six standard deviations on top.
pub(crate) fn most_ones(geometry: &Geometry, adds: u64) -> f64 {
    let occupancy = Occupancy::new(geometry);
    // A key that changes nothing is not counted: at most this part of those that come.
    let unseen = super::false_positive_rate(geometry, adds).min(0.99);
    let keys = adds as f64 / (1.0 - unseen);
    let cells = occupancy.tables * occupancy.cells;
    let missed = (keys * occupancy.throws * (-1.0 / occupancy.cells.max(2.0)).ln_1p()).exp();
    let spread = FULL_DEVIATIONS * occupancy.covariance(keys, keys).sqrt() + 1.0;
    cells * (1.0 - missed) + spread
}

/// How two sets relate, estimated from their filters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Overlap {
    /// Keys in the first filter.
    pub a: Estimate,
    /// Keys in the second filter.
    pub b: Estimate,
    /// Keys in at least one of them.
    pub union: Estimate,
    /// Keys in both.
    pub intersection: Estimate,
    /// Keys in both, as a share of those in at least one.
    pub jaccard: Estimate,
    /// Share of the first filter's keys that the second one holds.
    pub containment_a_in_b: Estimate,
    /// Share of the second filter's keys that the first one holds.
    pub containment_b_in_a: Estimate,
}

/// Overlap of two sets, from the ones of their filters and of the OR of both.
///
/// Each slice holds one entry per row for the `rows` layout and a single total for the others.
/// The overlap is |A| + |B| − |A ∪ B| of the estimated sizes. A cell that is zero in the OR is
/// zero in both filters, so the three errors largely cancel; the intervals follow from their full
/// covariance (delta method) and are much narrower than those of the sizes would suggest.
///
/// ```
/// use bloomfile::{plan::estimate_overlap, geometry::Geometry};
///
/// let geometry = Geometry::flat(1, 1_000_000)?;
/// let overlap = estimate_overlap(&geometry, &[9_950], &[9_950], &[14_888]);
/// assert!(overlap.intersection.contains(5_000.0));
/// assert!(overlap.containment_a_in_b.contains(0.5));
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn estimate_overlap(
    geometry: &Geometry,
    ones_a: &[u64],
    ones_b: &[u64],
    ones_union: &[u64],
) -> Overlap {
    let occupancy = Occupancy::new(geometry);
    let counts = [ones_a, ones_b, ones_union].map(|ones| occupancy.count(ones));
    let sizes = [0, 1, 2].map(|i: usize| counts[i].keys);
    let [a, b, union] = sizes;
    let smaller = a.min(b);
    let raw = a + b - union;
    let shared = raw.min(smaller).max(0.0);

    // common[i][j]: the keys that sets i and j have in common; a and b both lie in the union.
    let common = [[a, shared, a], [shared, b, b], [a, b, union]];
    let mut covariance = [[0.0; 3]; 3];
    for i in 0..3 {
        for j in 0..3 {
            let together = (sizes[i] + sizes[j] - common[i][j]).max(sizes[i]).max(sizes[j]);
            covariance[i][j] = occupancy.covariance(together, common[i][j])
                * occupancy.keys_per_zero(&counts[i])
                * occupancy.keys_per_zero(&counts[j]);
        }
    }
    // Where the sets hardly differ, a few cells tell them apart and a normal interval is too short;
    // half the squared deviations is what Wilson's interval allows for small counts.
    let few_cells = 0.5 * DEVIATIONS.powi(2) * occupancy.keys_per_zero(&counts[2]);
    let unknown = counts.iter().any(|count| count.zeros < 1.0);
    // The interval of a function of the three sizes with this gradient.
    let interval = |value: f64, gradient: [f64; 3]| {
        let mut variance = 0.0;
        for i in 0..3 {
            for j in 0..3 {
                variance += gradient[i] * gradient[j] * covariance[i][j];
            }
        }
        let spread = DEVIATIONS * variance.max(0.0).sqrt() + few_cells * gradient[2].abs();
        if unknown || !spread.is_finite() {
            return Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        Estimate { value, low: value - spread, high: value + spread }
    };
    // The share of a set's keys that the other holds too: of no keys at all it could be any.
    let containment = |part: f64, other: f64, at: usize| {
        if part <= 0.0 {
            return Estimate { value: 0.0, low: 0.0, high: 1.0 };
        }
        let mut gradient = [1.0 / part, 1.0 / part, -1.0 / part];
        gradient[at] = (union - other) / (part * part);
        interval(raw / part, gradient).clamped(0.0, 1.0)
    };
    let jaccard = if union <= 0.0 {
        Estimate { value: 0.0, low: 0.0, high: 1.0 }
    } else {
        let whole = (a + b) / (union * union);
        interval(raw / union, [1.0 / union, 1.0 / union, -whole]).clamped(0.0, 1.0)
    };
    let [size_a, size_b, size_union] =
        [ones_a, ones_b, ones_union].map(|ones| estimate_keys(geometry, ones));
    let most = size_a.high.min(size_b.high);
    let mut intersection = interval(raw, [1.0, 1.0, -1.0]).clamped(0.0, most);
    intersection.value = shared;
    Overlap {
        a: size_a,
        b: size_b,
        union: size_union,
        intersection,
        jaccard,
        containment_a_in_b: containment(a, b, 0),
        containment_b_in_a: containment(b, a, 1),
    }
}

/// A geometry seen as tables that keys fall into.
struct Occupancy {
    /// M: the cells of one table.
    cells: f64,
    /// Tables: the rows, or 1 where the functions share one.
    tables: f64,
    /// Cells that one key picks in each table.
    throws: f64,
    /// B: the blocks that each table is spread over.
    blocks: f64,
    /// Whether the ones are counted for each table.
    per_table: bool,
}

/// The counted cells of one filter.
struct Count {
    /// Zeros in all tables together, at least half a cell.
    zeros: f64,
    /// The keys they stand for.
    keys: f64,
    /// The fewest keys that can have made the ones.
    fewest: f64,
}

impl Occupancy {
    fn new(geometry: &Geometry) -> Self {
        let rows = f64::from(geometry.row_count());
        let flat = geometry.layout() == Layout::Flat;
        Occupancy {
            cells: geometry.blocks() as f64 * geometry.row_cells() as f64,
            tables: if flat { 1.0 } else { rows },
            throws: if flat { rows } else { 1.0 },
            blocks: geometry.blocks() as f64,
            per_table: geometry.layout() == Layout::Rows,
        }
    }

    fn count(&self, ones: &[u64]) -> Count {
        let total: f64 = ones.iter().map(|&ones| ones as f64).sum();
        let zeros = (self.tables * self.cells - total).max(0.5);
        if !self.per_table {
            let fewest = (total / (self.tables * self.throws)).ceil();
            return Count { zeros, keys: self.keys_at(zeros), fewest };
        }
        // A full row alone says only that half a cell at most would be zero.
        let row = |ones: u64| -self.cells * ((self.cells - ones as f64).max(0.5) / self.cells).ln();
        let keys = ones.iter().map(|&ones| row(ones)).sum::<f64>() / self.tables;
        let fewest = ones.iter().copied().max().unwrap_or(0) as f64;
        Count { zeros, keys: keys.max(0.0), fewest }
    }

    /// The keys that leave this number of zeros in all tables together.
    fn keys_at(&self, zeros: f64) -> f64 {
        if zeros <= 0.0 {
            return f64::INFINITY;
        }
        let share = (zeros / (self.tables * self.cells)).min(1.0);
        -self.cells / self.throws * share.ln()
    }

    /// How far one zero more or less moves the estimated keys.
    fn keys_per_zero(&self, count: &Count) -> f64 {
        self.cells / (self.throws * count.zeros)
    }

    /// Covariance of the zeros of two filters, over all tables: one holds a set S, the other a set
    /// T, with `together` keys in S ∪ T and `shared` in S ∩ T. With S = T it is the variance.
    ///
    /// With q = 1 − 1/M, one cell is zero in both with q^|S∪T|, and two different cells, one in each,
    /// with (1 − 2/M)^|S∩T| · q^(|S∪T|−|S∩T|); less M²·q^(|S|+|T|) that is the covariance within a
    /// table. Two tables are tied only by the loads of the blocks, which are multinomial. Both are
    /// written so that the large parts cancel on paper and not in the arithmetic.
    fn covariance(&self, together: f64, shared: f64) -> f64 {
        let (together, shared) = (together * self.throws, shared * self.throws);
        if self.cells < 3.0 || shared <= 0.0 {
            return 0.0;
        }
        let missed = |keys: f64| (keys * (-1.0 / self.cells).ln_1p()).exp();
        let squared = (self.cells - 1.0).powi(2);
        let apart = (shared * (-1.0 / squared).ln_1p()).exp_m1();
        let same_table = self.cells
            * missed(together)
            * (1.0 + missed(shared) * ((self.cells - 1.0) * apart - 1.0));
        let others = self.blocks - 1.0;
        let meeting = (shared * (others / squared).ln_1p()).exp_m1();
        // |S| + |T| = |S ∪ T| + |S ∩ T|.
        let other_table = self.cells
            * (self.cells / self.blocks)
            * missed(together + shared)
            * (meeting + others * apart);
        // Rounding may leave a tiny negative number where the true value is next to nothing.
        (self.tables * (same_table + (self.tables - 1.0) * other_table.max(0.0))).max(0.0)
    }
}

//! Capacity and rate → geometry, and what to expect of one: pure functions, no files.
//!
//! ```
//! use bloomfile::Plan;
//!
//! let plan = Plan::new(1_000_000, 0.01, None)?;
//! assert!(plan.expected_rate().unwrap() <= 0.01);
//! assert!(plan.bits_per_key().unwrap() < 10.2);
//! assert_eq!(plan.lines_per_lookup(), 1);
//! # Ok::<(), bloomfile::Error>(())
//! ```

mod distinct;
mod estimate;
mod growth;
mod loads;
mod occupancy;
mod precheck;
mod projection;
mod rate;

pub use distinct::DistinctKeys;
pub(crate) use estimate::most_ones;
pub use estimate::{Estimate, Overlap, estimate_keys, estimate_overlap};
pub use growth::{
    generation_plan, generation_rate, generations_rate, growth_capacity, growth_plan, growth_rate,
};
pub use loads::{Crowding, LoadVerdict};
pub(crate) use loads::{LoadLaw, crowded_from, load_of_zeros};
pub(crate) use occupancy::{Occupancy, SealedPages};
pub use precheck::Precheck;
pub(crate) use projection::{ones_after, split as split_ones};
pub use rate::{
    best_flat_bits_per_key, best_flat_rate, blocked_rate, false_positive_rate, flat_rate,
    rate_at_fill, rate_at_load, rate_together, rows_rate,
};

pub use crate::sealed::{HIGHEST_SEALED_RATE, LOWEST_SEALED_RATE};

use crate::error::{Error, Result};
use crate::geometry::{
    CellKind, Geometry, LINE_BLOCK_CELLS, Layout, MAX_CELLS, MAX_ROWS, PAGE_BLOCK_CELLS, PAGE_BYTES,
};
use crate::sealed;

/// Lowest rate of the `line` layout: all its cells come from 32 bits of the hash.
pub const LOWEST_LINE_RATE: f64 = 1e-7;

/// Lowest rate of any plan, 2^−32: below it the best number of rows is above 32.
pub const LOWEST_RATE: f64 = 1.0 / (1u64 << 32) as f64;

/// Keys per unit of rate that 64 hash bits can tell apart: the rate is at least capacity / 2^60.
const KEYS_AT_RATE_ONE: f64 = (1u64 << 60) as f64;

/// Rates from here on take the `line` layout by default, lower ones `page`: below 0.1 % a line
/// costs over a tenth more space than a page.
const LOWEST_DEFAULT_LINE_RATE: f64 = 0.001;

/// A plan whose rate is above this deserves a warning.
const USELESS_RATE: f64 = 0.5;

/// Bits of a cache line.
const LINE_BITS: u64 = 512;

/// Rows of the `rows` and `flat` layouts are whole words long.
const ROW_STEP: u64 = 64;

/// (1 − 1/m)^n asks for half a cell more than e^(−n/m). From 2^13 cells on, where sizes must be in
/// proportion to the capacity, this factor covers it; below, a plan checks its rate and steps up.
const HALF_CELL: f64 = 1.0 + 1.25 / (1u64 << 14) as f64;

/// Keys of a sealed filter whose bits per key are those of any large one.
const LARGE: u64 = 1 << 28;

/// A geometry together with what to expect of it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Plan {
    /// Where the cells are.
    geometry: Geometry,
    /// The keys it is meant for; an exact geometry may come without.
    capacity: Option<u64>,
    /// False positive rate once `capacity` keys are in.
    expected_rate: Option<f64>,
}

impl Plan {
    /// The smallest geometry that holds `capacity` distinct keys at a false positive rate of at
    /// most `rate`; without a layout, `line` down to 0.1 % and `page` below.
    ///
    /// Sizes grow in proportion to the capacity and are rounded up to eight significant binary
    /// digits, so that a filter for twice the keys has exactly twice the blocks: the larger one
    /// folds to the smaller one, and the two can be merged.
    ///
    /// ```
    /// use bloomfile::{Plan, geometry::Layout};
    ///
    /// let small = Plan::new(1_000_000, 0.01, None)?;
    /// let large = Plan::new(2_000_000, 0.01, None)?;
    /// assert_eq!(small.geometry().layout(), Layout::Line);
    /// assert_eq!(large.geometry().folded(2)?, *small.geometry());
    /// assert!(Plan::new(1_000_000, 1.5, None).is_err());
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn new(capacity: u64, rate: f64, layout: Option<Layout>) -> Result<Plan> {
        if capacity == 0 {
            return Err(Error::parameter("capacity", capacity, "it must be at least 1"));
        }
        let layout = layout.unwrap_or(if rate >= LOWEST_DEFAULT_LINE_RATE {
            Layout::Line
        } else {
            Layout::Page
        });
        if layout == Layout::Sealed {
            let geometry = Geometry::sealed(sealed::pages_for(capacity, rate)?)?;
            return Ok(Plan::exact(geometry, Some(capacity)));
        }
        let (bits, rows) = bits_per_key(layout, rate)?;
        check_capacity(capacity, rate, bits)?;

        let unit = match layout {
            Layout::Rows => (ROW_STEP * u64::from(rows)) as f64 / HALF_CELL,
            Layout::Flat => ROW_STEP as f64 / HALF_CELL,
            Layout::Page | Layout::Sealed => PAGE_BLOCK_CELLS as f64,
            Layout::Line => LINE_BLOCK_CELLS as f64,
        };
        let mut units = round_up(capacity as f64 * bits / unit);
        loop {
            let geometry = match layout {
                Layout::Rows => Geometry::rows(rows, ROW_STEP * units)?,
                Layout::Flat => Geometry::flat(rows, ROW_STEP * units)?,
                Layout::Page => Geometry::page(rows, units)?,
                Layout::Line => Geometry::line(rows, units)?,
                Layout::Sealed => Geometry::sealed(units)?,
            };
            let plan = Plan::exact(geometry, Some(capacity));
            // The size per key holds for large filters; a small one may need a step more.
            if plan.expected_rate.is_some_and(|expected| expected <= rate) {
                return Ok(plan);
            }
            units = round_up((units + 1) as f64);
        }
    }

    /// The plan of a geometry given exactly.
    ///
    /// ```
    /// use bloomfile::{Plan, geometry::Geometry};
    ///
    /// let plan = Plan::exact(Geometry::rows(30, 900_000)?, Some(5_000_000));
    /// assert!(plan.warning().unwrap().starts_with("the false positive rate will be 89 %"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn exact(geometry: Geometry, capacity: Option<u64>) -> Plan {
        let expected_rate = capacity.map(|keys| false_positive_rate(&geometry, keys));
        Plan { geometry, capacity, expected_rate }
    }

    /// The same with counters in place of bits, or the other way round.
    ///
    /// ```
    /// use bloomfile::{CellKind, Plan};
    ///
    /// let plan = Plan::new(1_000_000, 0.01, None)?;
    /// let bytes = plan.data_bytes();
    /// assert_eq!(plan.with_cells(CellKind::Counting).data_bytes(), 4 * bytes);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn with_cells(self, cells: CellKind) -> Plan {
        Plan { geometry: self.geometry.with_cells(cells), ..self }
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The number of distinct keys it is meant for.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// The false positive rate once `capacity` distinct keys are in.
    pub fn expected_rate(&self) -> Option<f64> {
        self.expected_rate
    }

    /// The cells that a key can fall on.
    pub fn cells(&self) -> u64 {
        self.geometry.cells()
    }

    /// Bits of data per key at capacity, without what rounds the data up to whole pages.
    pub fn bits_per_key(&self) -> Option<f64> {
        let cells = match self.geometry.layout() {
            // A page that k does not divide leaves a few cells unused: they cost space as well.
            Layout::Page | Layout::Sealed => self.geometry.blocks() * PAGE_BLOCK_CELLS,
            _ => self.geometry.cells(),
        };
        let bits = cells as f64 * f64::from(self.geometry.cell_kind().bits());
        self.capacity.filter(|&keys| keys > 0).map(|keys| bits / keys as f64)
    }

    /// Bytes of data, in whole pages.
    pub fn data_bytes(&self) -> u64 {
        self.geometry.pages() * PAGE_BYTES
    }

    /// Most cache lines that a look-up touches.
    pub fn lines_per_lookup(&self) -> u32 {
        self.touched(LINE_BITS)
    }

    /// Most pages that a look-up touches.
    pub fn pages_per_lookup(&self) -> u32 {
        self.touched(8 * PAGE_BYTES)
    }

    /// Most pieces of `piece_bits` that a key's cells can lie in: k, unless a block has fewer.
    fn touched(&self, piece_bits: u64) -> u32 {
        let rows = self.geometry.row_count();
        let cells = match self.geometry.layout() {
            // Each row starts on a page of its own.
            Layout::Rows => return rows,
            Layout::Sealed => return self.touched_sealed(piece_bits),
            Layout::Flat => self.geometry.row_cells(),
            Layout::Page => PAGE_BLOCK_CELLS,
            Layout::Line => LINE_BLOCK_CELLS,
        };
        let pieces = (cells * u64::from(self.geometry.cell_kind().bits())).div_ceil(piece_bits);
        u32::try_from(pieces).map_or(rows, |pieces| pieces.min(rows))
    }

    /// As [`touched`](Self::touched): the header of a page, and the columns of three blocks behind it.
    fn touched_sealed(&self, piece_bits: u64) -> u32 {
        if piece_bits >= 8 * PAGE_BYTES {
            return 1;
        }
        let mean = self.capacity.unwrap_or(0) / self.geometry.blocks();
        1 + sealed::shape::Shape::of_keys(mean).words_of_band().div_ceil(piece_bits as u32 / 32) + 1
    }

    /// What is wrong with a plan that can be built but will hardly be of use.
    ///
    /// ```
    /// use bloomfile::{Plan, geometry::Geometry};
    ///
    /// assert_eq!(Plan::new(1_000_000, 0.01, None)?.warning(), None);
    /// let full = Plan::exact(Geometry::flat(1, 2_000)?, Some(10_000));
    /// assert_eq!(
    ///     full.warning().unwrap(),
    ///     "the false positive rate will be 99 % or more with 10000 keys in 2000 cells; \
    ///      a rate of 1 % takes about 96000 cells"
    /// );
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn warning(&self) -> Option<String> {
        let (keys, rate) = (self.capacity?, self.expected_rate?);
        if rate <= USELESS_RATE {
            return None;
        }
        let cells = self.geometry.cells();
        // Two digits: it is advice, and the exact size depends on the layout.
        let enough = best_flat_bits_per_key(0.01) * keys as f64;
        let digit = 10f64.powf(enough.log10().floor() - 1.0).max(1.0);
        let enough = (enough / digit).ceil() * digit;
        // Not rounded up to 100 %: that would claim that nothing is ever reported absent.
        let percent = (100.0 * rate).floor();
        let percent = if percent >= 99.0 { "99 % or more".into() } else { format!("{percent} %") };
        Some(format!(
            "the false positive rate will be {percent} with {keys} keys in {cells} cells; \
             a rate of 1 % takes about {enough} cells"
        ))
    }
}

/// Bits per key that a large filter needs for a rate, and the number of rows that needs fewest,
/// before anything is rounded.
///
/// For `flat` and `rows` k is a whole number; [`best_flat_bits_per_key`] is the bound with a real
/// one. `sealed` has no rows.
///
/// ```
/// use bloomfile::{plan::bits_per_key, geometry::Layout};
///
/// let (bits, rows) = bits_per_key(Layout::Line, 0.01)?;
/// assert_eq!((format!("{bits:.2}"), rows), ("10.10".to_string(), 8));
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn bits_per_key(layout: Layout, rate: f64) -> Result<(f64, u32)> {
    if layout == Layout::Sealed {
        // Pages of a large filter, each with about the same keys.
        let pages = sealed::pages_for(LARGE, rate)?;
        return Ok(((pages * PAGE_BLOCK_CELLS) as f64 / LARGE as f64, 0));
    }
    check_rate(layout, rate)?;
    let bits = |rows: u32| match layout {
        Layout::Rows | Layout::Flat => single_bits(rows, rate),
        Layout::Page => blocked_bits(PAGE_BLOCK_CELLS, rows, rate),
        Layout::Line => blocked_bits(LINE_BLOCK_CELLS, rows, rate),
        Layout::Sealed => f64::INFINITY,
    };
    // The best k of an unblocked filter; the bits have one minimum, near it.
    let start = ((1.0 / rate).log2().round() as u32).clamp(1, MAX_ROWS);
    let candidates: Vec<u32> = match layout {
        Layout::Line => (0..=MAX_ROWS.ilog2()).map(|power| 1 << power).collect(),
        _ => (start.saturating_sub(3).max(1)..=(start + 3).min(MAX_ROWS)).collect(),
    };
    let best = candidates
        .into_iter()
        .map(|rows| (bits(rows), rows))
        .min_by(|(left, _), (right, _)| left.total_cmp(right));
    Ok(best.unwrap_or((f64::INFINITY, start)))
}

/// Refuses a rate that is none, or that the layout cannot reach.
fn check_rate(layout: Layout, rate: f64) -> Result<()> {
    let refuse = |reason: &str| Err(Error::parameter("false positive rate", rate, reason));
    // Written so that a NaN is refused.
    if !(rate > 0.0 && rate < 1.0) {
        return refuse("it must be above 0 and below 1, for example 0.01 for 1 %");
    }
    if layout == Layout::Line && rate < LOWEST_LINE_RATE {
        return refuse("the line layout goes down to 1e-7; take the page layout for lower rates");
    }
    if rate < LOWEST_RATE {
        return refuse("it must be at least 2^-32 (about 2.4e-10), the most that 32 rows are for");
    }
    Ok(())
}

/// Refuses more keys than the largest filter holds, or than 64 hash bits tell apart at this rate.
fn check_capacity(capacity: u64, rate: f64, bits: f64) -> Result<()> {
    let keys = capacity as f64;
    // Leaves room for rounding up, and for each row's padding to whole pages of counters.
    let padding = f64::from(MAX_ROWS) * 8.0 * PAGE_BYTES as f64;
    let by_size = (MAX_CELLS as f64 / 1.01 - padding) / bits;
    let by_hash = rate * KEYS_AT_RATE_ONE;
    let most = by_size.min(by_hash) as u64;
    if keys > by_size {
        return Err(Error::parameter(
            "capacity",
            capacity,
            format!("a filter has at most 2^52 cells, at a rate of {rate} that is for {most} keys"),
        ));
    }
    if keys > by_hash {
        return Err(Error::parameter(
            "false positive rate",
            rate,
            format!(
                "64 hash bits cannot tell {capacity} keys apart so well; take {:.1e} or more, or \
                 at most {most} keys",
                // Rounded up in its last digit, so that the rate it names is accepted.
                keys / KEYS_AT_RATE_ONE * 1.1
            ),
        ));
    }
    Ok(())
}

/// Bits per key of one large block, each row of it filled to rate^(1/k).
fn single_bits(rows: u32, rate: f64) -> f64 {
    f64::from(rows) / row_keys_per_cell(rows, rate)
}

/// n / m at which a row is filled to rate^(1/k).
fn row_keys_per_cell(rows: u32, rate: f64) -> f64 {
    // −ln(1 − rate^(1/k)): near a rate of 1 the plain difference would lose its digits.
    -(-(rate.ln() / f64::from(rows)).exp_m1()).ln()
}

/// Bits per key of very many blocks: from the most keys per block that meet the rate.
///
/// The loads of few blocks vary less than Poisson's. That lowers the rate, except where most
/// cells are ones and a spread is of use; so the load of a single block, which does not vary at
/// all, bounds the answer from above, and what is found holds for any number of blocks.
fn blocked_bits(block_cells: u64, rows: u32, rate: f64) -> f64 {
    let row_cells = block_cells / u64::from(rows);
    let fits = |keys: f64| rate_at_load(keys, rows, row_cells) <= rate;
    let mut high = row_keys_per_cell(rows, rate) / -(-1.0 / row_cells as f64).ln_1p();
    if !fits(high) {
        let mut low = 0.5 * high;
        while !fits(low) {
            high = low;
            low *= 0.5;
        }
        while high - low > 1e-10 * high {
            let middle = 0.5 * (low + high);
            if fits(middle) { low = middle } else { high = middle }
        }
        high = low;
    }
    block_cells as f64 / high
}

/// `size`, at least 1, rounded up to eight significant binary digits.
///
/// Eight, because a ninth would save no more than 0.14 % on average (0.28 % are lost: 10.13 bits
/// per key instead of 10.10 at 1 % for `line`), and each digit fewer gives files more chances to
/// have a common fold. The step doubles above 254·2^i and not at 256·2^i: so
/// `round_up(2 * size) == 2 * round_up(size)` for every size above 127.
fn round_up(size: f64) -> u64 {
    let mut step = 1u64;
    while size > 254.0 * step as f64 {
        step *= 2;
    }
    ((size / step as f64).ceil() as u64).max(1) * step
}

//! The shares of a rate: of the segments of a growing filter, each twice as large as the last and a
//! little more exact, and of the generations of a rotating one, which are all alike.

use super::{LOWEST_LINE_RATE, Plan};
use crate::error::Result;
use crate::geometry::Layout;

/// Share of the whole rate that the first segment may take; the others take less and less, and all
/// together never more than the whole: the sum of 0.2 · 0.8^i is 1.
const FIRST_SHARE: f64 = 0.2;
const NEXT_SHARE: f64 = 0.8;

/// Keys that segment `index` (from 0) of a growing filter is for.
///
/// ```
/// assert_eq!(bloomfile::plan::growth_capacity(10_000, 3), 80_000);
/// ```
pub fn growth_capacity(capacity: u64, index: u32) -> u64 {
    capacity.saturating_mul(1u64.checked_shl(index).unwrap_or(u64::MAX))
}

/// Rate of segment `index` (from 0) of a growing filter whose segments together stay below `rate`.
///
/// ```
/// use bloomfile::plan::growth_rate;
///
/// assert!((0..32).map(|index| growth_rate(0.01, index)).sum::<f64>() < 0.01);
/// ```
pub fn growth_rate(rate: f64, index: u32) -> f64 {
    rate * FIRST_SHARE * NEXT_SHARE.powi(i32::try_from(index).unwrap_or(i32::MAX))
}

/// What segment `index` of a growing filter shall be. Without a layout it is the one of the whole
/// rate, so that a look-up in a filter of lines touches one in each segment.
///
/// ```
/// let plan = bloomfile::plan::growth_plan(10_000, 0.01, 0, None)?;
/// assert!(plan.expected_rate().unwrap() <= 0.002);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn growth_plan(capacity: u64, rate: f64, index: u32, layout: Option<Layout>) -> Result<Plan> {
    let share = growth_rate(rate, index);
    let layout = match whole_layout(capacity, rate, layout)? {
        // A filter that was possible goes on growing.
        Layout::Line if index > 0 && share < LOWEST_LINE_RATE => Layout::Page,
        layout => layout,
    };
    Plan::new(growth_capacity(capacity, index), share, Some(layout))
}

/// Rate of each of the generations of a rotating filter that together have this `rate`.
///
/// ```
/// use bloomfile::plan::{generation_rate, rate_together};
///
/// let each = generation_rate(0.01, 8);
/// assert!((rate_together(&[each; 8]) - 0.01).abs() < 1e-12);
/// ```
pub fn generation_rate(rate: f64, generations: u64) -> f64 {
    // 1 − (1 − rate)^(1/generations), with the digits of a small rate.
    -((-rate).ln_1p() / generations.max(1) as f64).exp_m1()
}

/// Rate of the generations of a rotating filter together, each of which has the rate `each`: the
/// other way round than [`generation_rate`].
///
/// ```
/// let together = bloomfile::plan::generations_rate(0.01, 8);
/// assert!((together - (1.0 - 0.99f64.powi(8))).abs() < 1e-12);
/// ```
pub fn generations_rate(each: f64, generations: u64) -> f64 {
    -((-each).ln_1p() * generations as f64).exp_m1()
}

/// What each of the generations of a rotating filter shall be: `capacity` is that of each, `rate`
/// that of all together. The layout is as that of a growing filter.
///
/// ```
/// let plan = bloomfile::plan::generation_plan(10_000, 0.01, 8, None)?;
/// assert!(plan.expected_rate().unwrap() < 0.00126);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn generation_plan(
    capacity: u64,
    rate: f64,
    generations: u64,
    layout: Option<Layout>,
) -> Result<Plan> {
    let layout = whole_layout(capacity, rate, layout)?;
    Plan::new(capacity, generation_rate(rate, generations), Some(layout))
}

/// The layout of the whole, which is checked as it was given, so that an error speaks of that.
fn whole_layout(capacity: u64, rate: f64, layout: Option<Layout>) -> Result<Layout> {
    Ok(Plan::new(capacity, rate, layout)?.geometry().layout())
}

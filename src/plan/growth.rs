//! How a growing filter grows: each segment twice as large as the last and a little more exact.

use super::Plan;
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

/// What segment `index` of a growing filter shall be.
///
/// ```
/// let plan = bloomfile::plan::growth_plan(10_000, 0.01, 0, None)?;
/// assert!(plan.expected_rate().unwrap() <= 0.002);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn growth_plan(capacity: u64, rate: f64, index: u32, layout: Option<Layout>) -> Result<Plan> {
    // The whole is checked as it was given, so that an error speaks of that.
    Plan::new(capacity, rate, layout)?;
    Plan::new(growth_capacity(capacity, index), growth_rate(rate, index), layout)
}

//! Capacity and rate → number of pages.

use super::rate::rate_of_filter;
use crate::error::{Error, Result};
use crate::geometry::MOST_SEALED_PAGES;

/// Lowest rate of the `sealed` layout, 2^−31: a page has 31 or 32 columns at most.
pub const LOWEST_SEALED_RATE: f64 = 1.0 / (1u64 << 31) as f64;

/// Highest rate of the `sealed` layout. A page is not solved with fewer columns than 1, and hardly ever with more than
/// 30,000 keys; up to this rate, pages stay far below that.
pub const HIGHEST_SEALED_RATE: f64 = 0.4;

/// Keys per unit of rate that 64 hash bits can tell apart: the rate is at least capacity / 2^60.
const KEYS_AT_RATE_ONE: f64 = (1u64 << 60) as f64;

/// The fewest pages that hold `capacity` distinct keys at a false positive rate of at most `rate`.
pub(crate) fn pages_for(capacity: u64, rate: f64) -> Result<u64> {
    check(capacity, rate)?;
    let fits = |pages: u64| rate_of_filter(capacity, pages) <= rate;
    let mut high = 1;
    while !fits(high) {
        high *= 2;
    }
    let mut low = high / 2;
    // `low` pages are too few, or none.
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    if high > MOST_SEALED_PAGES {
        let most = capacity as f64 * MOST_SEALED_PAGES as f64 / high as f64;
        let reason = format!(
            "a filter has at most 2^37 pages, at a rate of {rate} that is for about {most:.2e} keys"
        );
        return Err(Error::parameter("capacity", capacity, reason));
    }
    Ok(high)
}

/// Refuses a rate that is none or that pages cannot have, and more keys than 64 hash bits tell apart
/// at this rate.
fn check(capacity: u64, rate: f64) -> Result<()> {
    let refuse = |reason: String| Err(Error::parameter("false positive rate", rate, reason));
    // Written so that a NaN is refused.
    if !(rate > 0.0 && rate < 1.0) {
        return refuse("it must be above 0 and below 1, for example 0.01 for 1 %".into());
    }
    if rate < LOWEST_SEALED_RATE {
        return refuse("a sealed filter goes down to 2^-31 (about 4.7e-10)".into());
    }
    if rate > HIGHEST_SEALED_RATE {
        return refuse(format!("a sealed filter goes up to {HIGHEST_SEALED_RATE}"));
    }
    if capacity as f64 > rate * KEYS_AT_RATE_ONE {
        return refuse(format!(
            "64 hash bits cannot tell {capacity} keys apart so well; take {:.1e} or more, or at most \
             {} keys",
            // Rounded up in its last digit, so that the rate it names is accepted.
            capacity as f64 / KEYS_AT_RATE_ONE * 1.1,
            (rate * KEYS_AT_RATE_ONE) as u64,
        ));
    }
    Ok(())
}

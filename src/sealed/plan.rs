//! Capacity and rate → number of pages, and what to expect of it.

use super::rate::rate_of_filter;
use crate::error::{Error, Result};
use crate::geometry::{MAX_CELLS, PAGE_BYTES};

/// Lowest rate, 2^−31: a page has 31 or 32 columns at most.
pub(crate) const LOWEST_RATE: f64 = 1.0 / (1u64 << 31) as f64;

/// Highest rate. A page is not solved with fewer columns than 1, and hardly ever with more than
/// 30,000 keys; up to this rate, pages stay far below that.
pub(crate) const HIGHEST_RATE: f64 = 0.4;

/// Keys per unit of rate that 64 hash bits can tell apart: the rate is at least capacity / 2^60.
const KEYS_AT_RATE_ONE: f64 = (1u64 << 60) as f64;

/// Most pages: a geometry spans 2^52 bits.
const MOST_PAGES: u64 = MAX_CELLS / (8 * PAGE_BYTES);

/// A number of pages together with what to expect of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SealedPlan {
    pages: u64,
    capacity: u64,
    expected_rate: f64,
}

impl SealedPlan {
    /// The fewest pages that hold `capacity` distinct keys at a false positive rate of at most `rate`.
    pub(crate) fn new(capacity: u64, rate: f64) -> Result<Self> {
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
        if high > MOST_PAGES {
            let most = capacity as f64 * MOST_PAGES as f64 / high as f64;
            let reason = format!(
                "a filter has at most 2^37 pages, at a rate of {rate} that is for about {most:.2e} keys"
            );
            return Err(Error::parameter("capacity", capacity, reason));
        }
        Ok(Self::exact(high, capacity))
    }

    /// The plan of a number of pages given exactly.
    pub(crate) fn exact(pages: u64, capacity: u64) -> Self {
        let expected_rate = rate_of_filter(capacity, pages);
        SealedPlan { pages, capacity, expected_rate }
    }

    /// The number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// The number of distinct keys it is meant for.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The false positive rate once `capacity` distinct keys are in.
    pub(crate) fn expected_rate(&self) -> f64 {
        self.expected_rate
    }

    /// Bytes of data.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES
    }

    /// Bits of data per key at capacity, all of every page counted.
    pub(crate) fn bits_per_key(&self) -> Option<f64> {
        (self.capacity > 0).then(|| 8.0 * self.data_bytes() as f64 / self.capacity as f64)
    }
}

/// Refuses a rate that is none or that pages cannot have, and more keys than 64 hash bits tell apart
/// at this rate.
fn check(capacity: u64, rate: f64) -> Result<()> {
    let refuse = |reason: String| Err(Error::parameter("false positive rate", rate, reason));
    // Written so that a NaN is refused.
    if !(rate > 0.0 && rate < 1.0) {
        return refuse("it must be above 0 and below 1, for example 0.01 for 1 %".into());
    }
    if rate < LOWEST_RATE {
        return refuse("a sealed filter goes down to 2^-31 (about 4.7e-10)".into());
    }
    if rate > HIGHEST_RATE {
        return refuse(format!("a sealed filter goes up to {HIGHEST_RATE}"));
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

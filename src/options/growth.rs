//! What a growing file becomes as it grows.

use super::Options;
use crate::error::{Error, Result};
use crate::file::file_bytes;
use crate::format::{Extent, MAX_SEGMENTS, WhenFull};
use crate::plan::{self, Plan};

/// A growing filter once it has a number of segments; made by [`Options::growth`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GrowthStage {
    /// Its segments.
    pub segments: usize,
    /// Keys that all of them together are for.
    pub capacity: u64,
    /// False positive rate of all of them together at that number of keys.
    pub expected_rate: f64,
    /// Bits of data per key at that number of keys.
    pub bits_per_key: f64,
    /// Bytes of data.
    pub data_bytes: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

impl Options {
    /// What a growing filter becomes: one stage for each segment, up to `segments`. There are fewer
    /// where the filter cannot grow any further.
    ///
    /// ```
    /// use bloomfile::Options;
    ///
    /// let options = Options::new().capacity(10_000).false_positive_rate(0.01).grow();
    /// let stages = options.growth(3)?;
    /// assert_eq!(stages[0].file_bytes, options.file_bytes()?);
    /// assert_eq!(stages[2].capacity, 70_000);
    /// assert!(stages[2].expected_rate < 0.01);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn growth(&self, segments: usize) -> Result<Vec<GrowthStage>> {
        let first = self.plan()?;
        let (Some(WhenFull::Grow), Some(capacity), Some(rate)) =
            (self.when_full, self.capacity, self.rate)
        else {
            let reason = "only a filter that grows has stages of growth";
            return Err(Error::parameter("when full", "left as it is", reason));
        };
        let layout = Some(first.geometry().layout());
        let cells = first.geometry().cell_kind();
        let mut end = file_bytes(&self.superblock(&first)?, &first);
        let mut plans: Vec<Plan> = vec![first];
        let mut stages = Vec::new();
        while stages.len() < segments.min(MAX_SEGMENTS) {
            stages.push(stage(&plans, end));
            let next = plan::growth_plan(capacity, rate, plans.len() as u32, layout)
                .map(|plan| plan.with_cells(cells));
            // The first was possible: what is refused now is a filter that has become too large.
            let Ok(next) = next else { break };
            end = Extent::of(next.geometry(), end).end();
            plans.push(next);
        }
        Ok(stages)
    }
}

fn stage(plans: &[Plan], file_bytes: u64) -> GrowthStage {
    let capacities = plans.iter().filter_map(Plan::capacity);
    let capacity = capacities.fold(0, u64::saturating_add);
    let rates: Vec<f64> = plans.iter().filter_map(Plan::expected_rate).collect();
    let bits = |plan: &Plan| Some(plan.bits_per_key()? * plan.capacity()? as f64);
    GrowthStage {
        segments: plans.len(),
        capacity,
        expected_rate: plan::rate_together(&rates),
        bits_per_key: plans.iter().filter_map(bits).sum::<f64>() / capacity as f64,
        data_bytes: plans.iter().map(Plan::data_bytes).sum(),
        file_bytes,
    }
}

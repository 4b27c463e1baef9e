//! How full an open filter is.

use super::Filter;
use crate::plan::Estimate;

impl Filter {
    /// About how many keys are in it now, with the 95 % interval.
    ///
    /// This, [`fill`](Filter::fill) and [`rate`](Filter::rate) read and write nothing, and wait for
    /// no checkpoint: they go by what the last checkpoint counted and by the adds since then. Where
    /// repairs have set pages to all ones, [`report::inspect`](crate::report::inspect) tells more
    /// exactly.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
    /// for key in 0..1000u32 {
    ///     filter.add(key.to_le_bytes())?;
    /// }
    /// assert!(filter.estimate().contains(1000.0));
    /// assert!(filter.fill() > 0.4 && filter.fill() < 0.6);
    /// assert!(filter.rate() > 0.005 && filter.rate() < 0.015);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn estimate(&self) -> Estimate {
        self.engine.figures().keys
    }

    /// About what share of the cells is not zero now; see [`estimate`](Filter::estimate).
    pub fn fill(&self) -> f64 {
        self.engine.figures().fill
    }

    /// About what share of absent keys it says "maybe" to now; see [`estimate`](Filter::estimate).
    pub fn rate(&self) -> f64 {
        self.engine.figures().rate
    }
}

//! What a filter in front of something slow saves.

/// Look-ups in something slow, with and without a filter asked first.
///
/// ```
/// use bloomfile::plan::Precheck;
///
/// let precheck = Precheck {
///     lookups: 102_000,
///     present: 2_000,
///     slow_seconds: 0.5,
///     filter_seconds: 0.001,
///     rate: 0.03,
/// };
/// assert_eq!(precheck.without(), 51_000.0);
/// assert_eq!(precheck.with(), 2_602.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Precheck {
    /// All look-ups.
    pub lookups: u64,
    /// Those for keys that are there: they always go on to the slow side.
    pub present: u64,
    /// Seconds of one slow look-up.
    pub slow_seconds: f64,
    /// Seconds of one look-up in the filter.
    pub filter_seconds: f64,
    /// The filter's false positive rate: the share of the absent keys that go on as well.
    pub rate: f64,
}

impl Precheck {
    /// Seconds without a filter.
    pub fn without(&self) -> f64 {
        self.lookups as f64 * self.slow_seconds
    }

    /// Seconds with the filter asked first.
    pub fn with(&self) -> f64 {
        let absent = self.lookups.saturating_sub(self.present) as f64;
        let slow = self.lookups.min(self.present) as f64 + self.rate * absent;
        self.lookups as f64 * self.filter_seconds + slow * self.slow_seconds
    }
}

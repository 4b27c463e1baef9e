//! How full a filter is right now, without reading or writing anything.

use super::{Engine, lock};
use crate::plan::{Estimate, estimate_keys, ones_after, rate_at_fill, rate_together, split_ones};
use crate::storage::Medium;

/// How full a filter is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// Keys in it.
    pub(crate) keys: Estimate,
    /// Share of the cells that are not zero.
    pub(crate) fill: f64,
    /// Share of absent keys that it says "maybe" to.
    pub(crate) rate: f64,
}

impl<M: Medium> Engine<M> {
    /// The cells that were counted for the last slot, and what the adds since then make of them. No
    /// checkpoint has to be waited for: tables and data are not looked at.
    pub(crate) fn figures(&self) -> Figures {
        let committed = lock(&self.committed);
        let known = committed.slot.adds();
        let mut counted: Vec<_> =
            committed.slot.segments.iter().map(|record| (record.geometry, record.ones)).collect();
        drop(committed);
        if let Some((geometry, ones)) = counted.last_mut() {
            *ones = ones_after(geometry, *ones, self.adds() as f64 - known as f64);
        }
        let rates: Vec<f64> = counted
            .iter()
            .map(|(geometry, ones)| rate_at_fill(geometry, &split_ones(geometry, *ones)))
            .collect();
        let (cells, ones) = counted.iter().fold((0, 0), |(cells, ones), (geometry, more)| {
            (cells + geometry.cells(), ones + more)
        });
        Figures {
            keys: counted
                .iter()
                .map(|(geometry, ones)| estimate_keys(geometry, &split_ones(geometry, *ones)))
                .sum(),
            fill: ones as f64 / cells as f64,
            rate: rate_together(&rates),
        }
    }
}

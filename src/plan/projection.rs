//! How full a filter is after some more adds, from how full it was.

use super::rate_at_fill;
use crate::geometry::{Geometry, Layout};

/// Steps in which adds are taken: their share that changes nothing rises on the way.
const STEPS: u32 = 16;

/// The ones that adds leave in a filter that had `ones`: as many adds as changed it, or fewer than
/// none where keys were taken out.
///
/// An absent key turns on k cells, of which some are on already, and all of them at the rate of the
/// filter: then the add changes nothing and is not among those that were counted.
pub(crate) fn ones_after(geometry: &Geometry, ones: u64, adds: f64) -> u64 {
    let cells = geometry.cells() as f64;
    let rows = f64::from(geometry.row_count());
    let mut zeros = (cells - ones as f64).max(0.0);
    let step = adds / f64::from(STEPS);
    for _ in 0..STEPS {
        let rate = if adds > 0.0 {
            rate_at_fill(geometry, &split(geometry, (cells - zeros) as u64))
        } else {
            0.0
        };
        let keys = step / (1.0 - rate).max(f64::EPSILON);
        zeros = (zeros * (-rows * keys / cells).exp()).min(cells);
    }
    (cells - zeros).round() as u64
}

/// Ones as the formulas take them: for each row, or all together.
pub(crate) fn split(geometry: &Geometry, ones: u64) -> Vec<u64> {
    match geometry.layout() {
        Layout::Rows => {
            let rows = u64::from(geometry.row_count());
            (0..rows).map(|row| (ones + row) / rows).collect()
        }
        _ => vec![ones],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::plan::{estimate_keys, false_positive_rate};

    /// Keys that come one after the other, most of which change something.
    #[test]
    fn adds_lead_from_one_fill_to_the_next() {
        for geometry in [
            Geometry::rows(7, 100_000).unwrap(),
            Geometry::flat(7, 700_000).unwrap(),
            Geometry::page(7, 20).unwrap(),
            Geometry::line(8, 1400).unwrap(),
        ] {
            // Adds that change something, of keys that come to a filter which has `start` already.
            let adds = |start: u32, end: u32| -> f64 {
                (start..end).map(|keys| 1.0 - false_positive_rate(&geometry, keys.into())).sum()
            };
            let mut ones = 0;
            for (start, end) in [(0, 30_000), (30_000, 70_000), (70_000, 140_000)] {
                ones = ones_after(&geometry, ones, adds(start, end));
                let found = estimate_keys(&geometry, &split(&geometry, ones)).value;
                let error = found / f64::from(end) - 1.0;
                assert!(error.abs() < 0.02, "{geometry}: {found} of {end} keys");
            }
            let back = ones_after(&geometry, ones, -70_000.0);
            let found = estimate_keys(&geometry, &split(&geometry, back)).value;
            assert!((found / 70_000.0 - 1.0).abs() < 0.04, "{geometry}: {found} of 70,000 keys");
            assert_eq!(ones_after(&geometry, 0, -5.0), 0);
            let full = geometry.cells();
            assert_eq!(ones_after(&geometry, full, 1e12), full);
        }
    }

    #[test]
    fn rows_share_the_ones() {
        let geometry = Geometry::rows(3, 100).unwrap();
        assert_eq!(split(&geometry, 10), [3, 3, 4]);
        assert_eq!(split(&Geometry::flat(3, 100).unwrap(), 10), [10]);
    }
}

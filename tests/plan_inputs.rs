//! Every function of the plan takes every number: it returns, and what it returns is a number.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::mpsc;
use std::time::Duration;

use bloomfile::plan::*;
use bloomfile::{
    Plan,
    geometry::{Geometry, Layout},
};

const REALS: [f64; 24] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    -1.0,
    5e-324,
    f64::MIN_POSITIVE,
    1e-300,
    1e-17,
    2.4e-10,
    0.01,
    0.5,
    1.0 - f64::EPSILON,
    1.0,
    1.0 + f64::EPSILON,
    50.7,
    1e9,
    1e15,
    9_007_199_254_740_993.0,
    1e18,
    1e100,
    1e308,
    f64::MAX,
];

const NUMBERS: [u64; 17] = [
    0,
    1,
    2,
    3,
    63,
    64,
    65,
    4681,
    1_000_000,
    u32::MAX as u64,
    1 << 32,
    1 << 52,
    (1 << 53) + 1,
    u64::MAX / 2,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

const ROWS: [u32; 10] = [0, 1, 2, 8, 31, 32, 33, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX];

/// Runs work that takes some milliseconds at most, and fails if it does not come to an end.
fn soon(what: String, work: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        sender.send(()).ok();
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} does not come to an end"),
        _ => thread.join().unwrap_or_else(|_| panic!("{what} panicked")),
    }
}

fn is_rate(rate: f64, what: impl std::fmt::Debug) {
    assert!((0.0..=1.0).contains(&rate), "{what:?}: {rate}");
}

#[test]
fn rates_of_any_load() {
    for keys in REALS {
        soon(format!("rate_at_load({keys:e}, …)"), move || {
            for rows in ROWS {
                for row_cells in NUMBERS {
                    is_rate(rate_at_load(keys, rows, row_cells), (keys, rows, row_cells));
                }
            }
        });
    }
}

#[test]
fn rates_of_any_size() {
    for keys in NUMBERS {
        soon(format!("rates of {keys} keys"), move || {
            for (rows, row_cells) in ROWS.into_iter().flat_map(|rows| NUMBERS.map(|w| (rows, w))) {
                let what = (rows, row_cells, keys);
                is_rate(rows_rate(rows, row_cells, keys), ("rows", what));
                is_rate(flat_rate(rows, row_cells, keys), ("flat", what));
                for blocks in NUMBERS {
                    let rate = blocked_rate(blocks, rows, row_cells, keys);
                    is_rate(rate, ("blocked", blocks, what));
                }
            }
        });
    }
}

/// The smallest and the largest of each layout, and some that are in use.
fn geometries() -> Vec<Geometry> {
    let mut geometries = Vec::new();
    for rows in [1, 2, 8, 31, 32] {
        for size in [1, 2, 100, 1 << 20, 1 << 37, 1 << 43, 1 << 47, 1 << 52] {
            geometries.extend(Geometry::rows(rows, size));
            geometries.extend(Geometry::flat(rows, size));
            geometries.extend(Geometry::page(rows, size));
            geometries.extend(Geometry::line(rows, size));
        }
    }
    geometries
}

#[test]
fn rates_and_estimates_of_any_count() {
    for geometry in geometries() {
        soon(format!("estimates of {geometry}"), move || {
            let rows = geometry.row_count() as usize;
            let counts = NUMBERS.into_iter().chain([geometry.cells(), geometry.row_cells() - 1]);
            let mut ones: Vec<Vec<u64>> = counts.map(|count| vec![count]).collect();
            ones.extend(NUMBERS.map(|count| vec![count; rows]));
            ones.push(Vec::new());
            for ones in &ones {
                is_rate(rate_at_fill(&geometry, ones), (geometry, ones));
                let estimate = estimate_keys(&geometry, ones);
                assert!(estimate.low <= estimate.high, "{geometry} {ones:?}: {estimate:?}");
                // One count for each row, or one of all: with another number of them there is
                // nothing that the estimate would have to hold.
                let apart = geometry.layout() == Layout::Rows;
                if ones.len() == if apart { rows } else { 1 } {
                    assert!(estimate.contains(estimate.value), "{geometry} {ones:?}: {estimate:?}");
                }
            }
            for (a, b) in ones.iter().flat_map(|a| ones.iter().map(move |b| (a, b))) {
                let overlap = estimate_overlap(&geometry, a, b, a);
                let value = overlap.intersection.value;
                assert!(value >= 0.0, "{geometry} {a:?} {b:?}: {overlap:?}");
            }
            for keys in NUMBERS {
                is_rate(false_positive_rate(&geometry, keys), (geometry, keys));
                let plan = Plan::exact(geometry, Some(keys));
                plan.warning();
                plan.bits_per_key();
            }
        });
    }
}

#[test]
fn plans_for_any_capacity_and_rate() {
    let layouts = [None, Some(Layout::Rows), Some(Layout::Flat), Some(Layout::Page)];
    for layout in layouts.into_iter().chain([Some(Layout::Line)]) {
        for rate in REALS.into_iter().chain([1e-7, 1e-6, 0.1, 0.9, 0.999, 1.0 - 1e-12]) {
            soon(format!("a plan for a rate of {rate:e}, {layout:?}"), move || {
                bits_per_key(layout.unwrap_or(Layout::Line), rate).ok();
                for capacity in NUMBERS {
                    if let Ok(plan) = Plan::new(capacity, rate, layout) {
                        let expected = plan.expected_rate().unwrap();
                        assert!(expected <= rate, "{capacity} {rate} {layout:?}: {expected}");
                    }
                    for index in [0, 1, 31, 32, 63, 64, 65, u32::MAX] {
                        growth_plan(capacity, rate, index, layout).ok();
                    }
                }
            });
        }
    }
}

#[test]
fn growth_and_optima_of_any_number() {
    for real in REALS {
        soon(format!("formulas of {real:e}"), move || {
            best_flat_bits_per_key(real);
            let rate = best_flat_rate(real);
            assert!(real.is_nan() || (0.0..=1.0).contains(&rate), "{real}: {rate}");
            for index in ROWS {
                let rate = growth_rate(real, index);
                assert!(!(0.0..1.0).contains(&real) || (0.0..1.0).contains(&rate), "{real} {rate}");
            }
            rate_together(&[real, 0.5, real]);
        });
    }
    for capacity in NUMBERS {
        for index in ROWS {
            assert!(growth_capacity(capacity, index) >= capacity);
        }
    }
}

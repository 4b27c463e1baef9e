//! The theory that the filter obeys: formulas, reference values and planning.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use bloomfile::plan::*;
use bloomfile::{
    CellKind, Plan,
    geometry::{Geometry, Layout},
};

fn printed(value: f64, text: &str) {
    let digits = text.split('.').nth(1).map_or(0, str::len);
    assert_eq!(format!("{value:.digits$}"), text, "{value}");
}

fn close(left: f64, right: f64, relative: f64) {
    assert!((left - right).abs() <= relative * right.abs(), "{left:e} against {right:e}");
}

/// ADD and CONTAINS of the notes on a matrix of bits, with the positions given.
struct Matrix(Vec<Vec<bool>>);

impl Matrix {
    fn new(rows: usize, row_cells: usize) -> Self {
        Matrix(vec![vec![false; row_cells]; rows])
    }

    fn add(&mut self, positions: &[usize]) {
        for (row, &position) in self.0.iter_mut().zip(positions) {
            row[position] = true;
        }
    }

    fn contains(&self, positions: &[usize]) -> bool {
        self.0.iter().zip(positions).all(|(row, &position)| row[position])
    }
}

#[test]
fn worked_example_has_its_false_positive() {
    let mut matrix = Matrix::new(3, 5);
    assert!(!matrix.contains(&[2, 1, 4]));
    matrix.add(&[2, 1, 4]); // thisisavirus.com
    assert!(matrix.contains(&[2, 1, 4]));
    assert!(!matrix.contains(&[2, 0, 4])); // verynormalsite.com, not yet
    matrix.add(&[1, 0, 4]); // totallynotsuspicious.com
    assert!(matrix.contains(&[2, 1, 4]) && matrix.contains(&[1, 0, 4]));
    assert!(matrix.contains(&[2, 0, 4]));
    assert!(!matrix.contains(&[0, 0, 4]) && !matrix.contains(&[2, 0, 3]));
    let ones: Vec<u64> =
        matrix.0.iter().map(|row| row.iter().filter(|&&one| one).count() as u64).collect();
    assert_eq!(ones, [2, 2, 1]);
    let geometry = Geometry::rows(3, 5).unwrap();
    close(rate_at_fill(&geometry, &ones), 0.4 * 0.4 * 0.2, 1e-12);
}

#[test]
fn rows_reference_values() {
    printed(100.0 * rows_rate(30, 2_500_000, 5_000_000), "1.2748");
    printed(100.0 * rows_rate(30, 900_000, 5_000_000), "89");
    let plan = Plan::exact(Geometry::rows(30, 2_500_000).unwrap(), Some(5_000_000));
    assert_eq!(plan.cells(), 75_000_000);
    assert_eq!(plan.bits_per_key(), Some(15.0));
    assert_eq!(plan.warning(), None);
    let plan = Plan::exact(Geometry::rows(30, 900_000).unwrap(), Some(5_000_000));
    assert_eq!(plan.cells(), 8 * 3_375_000);
    assert_eq!(
        plan.warning().unwrap(),
        "the false positive rate will be 89 % with 5000000 keys in 27000000 cells; \
         a rate of 1 % takes about 48000000 cells"
    );
    assert_eq!(Plan::exact(*plan.geometry(), None).warning(), None);
}

#[test]
fn flat_reference_values() {
    for (cells, rate) in [
        (2_000, "0.9933"),
        (5_000, "0.8647"),
        (10_000, "0.6321"),
        (50_000, "0.1813"),
        (100_000, "0.0952"),
        (500_000, "0.0198"),
        (1_000_000, "0.0100"),
    ] {
        printed(flat_rate(1, cells, 10_000), rate);
        let geometry = Geometry::flat(1, cells).unwrap();
        printed(false_positive_rate(&geometry, 10_000), rate);
    }
    for (cells, rate) in [
        (10_000.0, "0.6185"),
        // Sometimes printed as 0.3826; it is e^(−2·ln²2) = 0.382546.
        (20_000.0, "0.3825"),
        (30_000.0, "0.2366"),
        (40_000.0, "0.1463"),
        (50_000.0, "0.0905"),
        (100_000.0, "0.00819"),
        (125_000.0, "0.00246"),
    ] {
        printed(best_flat_rate(cells / 10_000.0), rate);
    }
    printed(flat_rate(7, 100_000, 10_000), "0.00819");
    printed(flat_rate(1, 100_000, 10_000), "0.0952");
}

#[test]
fn bits_per_key_table() {
    for (rate, flat, page, page_rows, line, line_rows) in [
        (0.1, "4.79", "4.81", 3, "4.89", 4),
        (0.01, "9.59", "9.60", 7, "10.10", 8),
        (0.001, "14.38", "14.40", 10, "15.72", 8),
        (0.0001, "19.17", "19.22", 13, "23.01", 16),
        // With rows of 32,768/20 = 1,638.4 cells it would be 28.92; a row has 1,638.
        (1e-6, "28.76", "28.93", 20, "39.24", 16),
    ] {
        printed(best_flat_bits_per_key(rate), flat);
        close(best_flat_rate(best_flat_bits_per_key(rate)), rate, 1e-12);
        for (layout, text, rows) in
            [(Layout::Page, page, page_rows), (Layout::Line, line, line_rows)]
        {
            let (bits, found) = bits_per_key(layout, rate).unwrap();
            printed(bits, text);
            assert_eq!(found, rows, "{layout} at {rate}");
        }
        // A whole number of functions costs little more than the real optimum.
        for layout in [Layout::Flat, Layout::Rows] {
            let (bits, _) = bits_per_key(layout, rate).unwrap();
            let over = bits / best_flat_bits_per_key(rate);
            assert!((1.0..1.005).contains(&over), "{layout} at {rate}: {over}");
        }
    }
    // The split block of Parquet: 8 rows of 32 cells in a block of 256. (51.2 bits, which some print
    // for 1e-6, give 3.2e-6.)
    for (rate, bits) in [(0.1, 6.0), (0.01, 10.5), (0.001, 16.9), (1e-4, 26.3), (1e-6, 64.7)] {
        close(rate_at_load(256.0 / bits, 8, 32), rate, 0.03);
    }
}

#[test]
fn best_rows_are_the_best_of_all() {
    for rate in [0.9, 0.5, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-7, 1e-9] {
        let (bits, _) = bits_per_key(Layout::Page, rate).unwrap();
        for rows in 1..=32 {
            // With 0.01 % fewer bits, no number of rows meets the rate.
            let reached = rate_at_load(32_768.0 / (bits * 0.9999), rows, 32_768 / u64::from(rows));
            assert!(reached > rate, "{rows} rows at {rate}: {reached}");
        }
    }
}

/// The sum as the notes write it, term by term from 0.
fn plain_poisson(mean: f64, rows: i32, row_cells: f64) -> f64 {
    let (mut probability, mut sum, mut j) = ((-mean).exp(), 0.0, 0.0);
    while j < 10.0 * mean + 400.0 {
        sum += probability * (-(j * (-1.0 / row_cells).ln_1p()).exp_m1()).powi(rows);
        j += 1.0;
        probability *= mean / j;
    }
    sum
}

fn plain_binomial(blocks: f64, rows: i32, row_cells: f64, keys: u64) -> f64 {
    let mut probability = (keys as f64 * (-1.0 / blocks).ln_1p()).exp();
    let mut sum = 0.0;
    for j in 0..=keys {
        sum += probability * (-(j as f64 * (-1.0 / row_cells).ln_1p()).exp_m1()).powi(rows);
        probability *= (keys - j) as f64 / (j + 1) as f64 / (blocks - 1.0);
    }
    sum
}

#[test]
fn blocked_rate_equals_the_plain_sum() {
    for mean in [1e-6, 0.01, 0.7, 3.0, 20.0, 51.0, 128.0, 400.0, 690.0] {
        for rows in [1, 2, 5, 8, 16, 32] {
            for row_cells in [2, 16, 64, 512, 4096, 1 << 20] {
                let plain = plain_poisson(mean, rows as i32, row_cells as f64);
                if plain > 1e-290 {
                    close(rate_at_load(mean, rows, row_cells), plain, 1e-9);
                }
            }
        }
    }
    for (blocks, keys) in [(2, 1), (2, 300), (3, 7), (10, 3000), (100, 20_000), (7, 900)] {
        for rows in [1, 4, 8, 32] {
            for row_cells in [2, 16, 64, 4096] {
                let plain = plain_binomial(blocks as f64, rows as i32, row_cells as f64, keys);
                close(blocked_rate(blocks, rows, row_cells, keys), plain, 1e-9);
            }
        }
    }
}

#[test]
fn one_block_is_the_matrix_and_many_are_poisson() {
    for keys in [0, 1, 10, 1_000, 1_000_000_000_000] {
        assert_eq!(blocked_rate(1, 8, 4096, keys), rows_rate(8, 4096, keys));
    }
    for (rows, row_cells, mean) in [(8, 64, 50), (16, 32, 22), (7, 4681, 3413), (20, 1638, 1133)] {
        let mut last = f64::INFINITY;
        for blocks in [100, 10_000, 100_000_000u64] {
            let exact = blocked_rate(blocks, rows, row_cells, blocks * mean);
            let limit = rate_at_load(mean as f64, rows, row_cells);
            let error = (exact / limit - 1.0).abs();
            assert!(error < last, "{error} after {last}");
            assert!(error < 60.0 / blocks as f64, "{error} with {blocks} blocks");
            last = error;
        }
    }
}

#[test]
fn rates_rise_with_the_keys_and_stay_in_bounds_at_the_extremes() {
    const LARGE: u64 = 1_000_000_000_000;
    let sizes = [1, 2, 3, 1000, 1_000_000, LARGE];
    for rows in [1, 2, 7, 32] {
        for cells in sizes {
            for blocks in sizes {
                let rates = |keys| {
                    [
                        rows_rate(rows, cells, keys),
                        flat_rate(rows, cells, keys),
                        blocked_rate(blocks, rows, cells, keys),
                    ]
                };
                let mut last = rates(0);
                assert_eq!(last, [0.0; 3]);
                for keys in [1, 2, 10, 1000, 123_456, 1_000_000_000, LARGE] {
                    let now = rates(keys);
                    for (now, last) in now.into_iter().zip(last) {
                        assert!((0.0..=1.0).contains(&now), "{now} {rows} {cells} {blocks} {keys}");
                        assert!(
                            now >= last * (1.0 - 1e-11),
                            "{now} after {last}: {rows} rows, {cells} cells, {blocks} blocks, {keys} keys"
                        );
                    }
                    last = now;
                }
            }
        }
    }
    // The values themselves, where naive arithmetic gives 0 or 1.
    close(rows_rate(1, LARGE, 1), 1e-12, 1e-9);
    close(rows_rate(2, LARGE, 1000), 1e-18, 1e-8);
    close(rows_rate(3, LARGE, LARGE), (1.0 - (-1f64).exp()).powi(3), 1e-9);
    close(blocked_rate(LARGE, 1, 1, 1), 1e-12, 1e-9);
    close(blocked_rate(1_000_000, 2, 1000, 1), 1e-12, 1e-9);
    close(blocked_rate(1_000_000, 1, 1_000_000, LARGE), 1.0 - (-1f64).exp(), 1e-9);
    assert_eq!(rows_rate(1, 1, 1), 1.0);
    assert_eq!((rate_at_load(0.0, 8, 64), rate_at_load(f64::NAN, 8, 64)), (0.0, 0.0));
    close(rate_at_load(1e15, 8, 64), 1.0, 1e-12);
    assert_eq!(rate_at_load(f64::INFINITY, 8, 64), 1.0);
    assert_eq!(rows_rate(32, 1000, LARGE), 1.0);
}

#[test]
fn plans_meet_their_rate_at_every_capacity() {
    let mut capacities = vec![];
    for power in 0..=9 {
        for factor in [1.0, 1.7, 3.0, 5.9, 9.99] {
            capacities.push((10f64.powi(power) * factor) as u64);
        }
    }
    capacities.retain(|&capacity| capacity <= 1_000_000_000);
    let rates = [0.5, 0.3, 0.25, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-7, 1e-9];
    for layout in Layout::BLOOM {
        for rate in rates {
            if layout == Layout::Line && rate < LOWEST_LINE_RATE {
                continue;
            }
            let (bits, _) = bits_per_key(layout, rate).unwrap();
            for &capacity in &capacities {
                let plan = Plan::new(capacity, rate, Some(layout)).unwrap();
                assert_eq!(plan.geometry().layout(), layout);
                let expected = plan.expected_rate().unwrap();
                assert!(expected <= rate, "{expected} for {capacity} at {rate}, {layout}");
                if plan.geometry().foldable() >= 1 << 14 {
                    // And not by waste: rounding up costs less than 1/127.
                    let over = plan.bits_per_key().unwrap() / bits;
                    assert!(over < 1.0081, "{over} for {capacity} at {rate}, {layout}");
                }
            }
        }
    }
}

#[test]
fn sizes_are_in_proportion_to_the_capacity() {
    for layout in Layout::BLOOM {
        for rate in [0.5, 0.1, 0.01, 1e-3, 1e-6] {
            for step in 0..60 {
                let capacity = (3_000.0 * 1.37f64.powi(step)) as u64 | 1;
                let geometry = *Plan::new(capacity, rate, Some(layout)).unwrap().geometry();
                let unit = if matches!(layout, Layout::Rows | Layout::Flat) { 64 } else { 1 };
                let size = geometry.foldable() / unit;
                assert_eq!(geometry.foldable() % unit, 0);
                let digits = 64 - size.leading_zeros();
                assert_eq!(size % (1 << digits.saturating_sub(8)), 0, "{size}");
                let double = *Plan::new(2 * capacity, rate, Some(layout)).unwrap().geometry();
                if size >= 128 {
                    assert_eq!(double.folded(2).unwrap(), geometry, "{capacity} at {rate}");
                } else {
                    assert!(double.foldable() >= geometry.foldable());
                }
            }
        }
    }
}

#[test]
fn doubling_holds_for_every_capacity_near_the_smallest_sizes() {
    for layout in [Layout::Rows, Layout::Flat] {
        for rate in [0.5, 0.01] {
            for capacity in 1..15_000 {
                let size = |capacity| {
                    let plan = Plan::new(capacity, rate, Some(layout)).unwrap();
                    assert!(plan.expected_rate().unwrap() <= rate);
                    plan.geometry().foldable()
                };
                if size(capacity) >= 128 * 64 {
                    assert_eq!(size(2 * capacity), 2 * size(capacity), "{layout}, {capacity} keys");
                }
            }
        }
    }
}

#[test]
fn lines_cost_little_on_average() {
    let mut sum = 0.0;
    for step in 0..1000 {
        let capacity = (1e6 * 10f64.powf(f64::from(step) / 500.0)) as u64;
        sum += Plan::new(capacity, 0.01, None).unwrap().bits_per_key().unwrap();
    }
    let mean = sum / 1000.0;
    assert!((10.10..10.15).contains(&mean), "{mean}");
}

#[test]
fn refusals_say_what_is_possible() {
    let refused = |capacity, rate, layout, message: &str| {
        let error = Plan::new(capacity, rate, layout).unwrap_err().into_cause();
        assert_eq!(error.to_string(), message);
    };
    refused(0, 0.01, None, "capacity cannot be 0: it must be at least 1");
    // The first thing wrong is the one that is named.
    refused(0, 2.0, None, "capacity cannot be 0: it must be at least 1");
    for (rate, text) in
        [(0.0, "0"), (1.0, "1"), (-0.5, "-0.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")]
    {
        for layout in [None, Some(Layout::Rows), Some(Layout::Line)] {
            refused(
                10,
                rate,
                layout,
                &format!(
                    "false positive rate cannot be {text}: it must be above 0 and below 1, \
                     for example 0.01 for 1 %"
                ),
            );
        }
    }
    refused(
        10,
        0.00000005,
        Some(Layout::Line),
        "false positive rate cannot be 0.00000005: the line layout goes down to 1e-7; \
         take the page layout for lower rates",
    );
    assert!(Plan::new(10, 1e-7, Some(Layout::Line)).is_ok());
    assert!(Plan::new(10, 0.00000005, None).is_ok());
    refused(
        10,
        0.0000000002,
        None,
        "false positive rate cannot be 0.0000000002: it must be at least 2^-32 (about 2.4e-10), \
         the most that 32 rows are for",
    );
    assert_eq!(Plan::new(10, LOWEST_RATE, None).unwrap().geometry().row_count(), 32);
    refused(
        10_000_000_000,
        0.000000001,
        Some(Layout::Page),
        "false positive rate cannot be 0.000000001: 64 hash bits cannot tell 10000000000 keys \
         apart so well; take 9.5e-9 or more, or at most 1152921504 keys",
    );
    assert!(Plan::new(10_000_000_000, 9.5e-9, Some(Layout::Page)).is_ok());
    assert!(Plan::new(1_152_921_504, 1e-9, Some(Layout::Page)).is_ok());
    for layout in Layout::BLOOM {
        for capacity in [10_000_000_000_000_000, u64::MAX] {
            let text =
                Plan::new(capacity, 0.01, Some(layout)).unwrap_err().into_cause().to_string();
            let start = format!("capacity cannot be {capacity}: a filter has at most 2^52 cells");
            assert!(text.starts_with(&start), "{text}");
            let most: u64 = text.split(' ').rev().nth(1).unwrap().parse().unwrap();
            assert!(most > 400_000_000_000_000);
            assert!(Plan::new(most, 0.01, Some(layout)).is_ok(), "{most}");
        }
    }
}

#[test]
fn plans_say_what_a_lookup_costs() {
    let costs = |plan: &Plan| (plan.lines_per_lookup(), plan.pages_per_lookup());
    let plan = |layout| Plan::new(1_000_000, 0.01, Some(layout)).unwrap();
    assert_eq!(costs(&plan(Layout::Line)), (1, 1));
    assert_eq!(costs(&plan(Layout::Page)), (7, 1));
    assert_eq!(costs(&plan(Layout::Rows)), (7, 7));
    assert_eq!(costs(&plan(Layout::Flat)), (7, 7));
    assert_eq!(costs(&Plan::exact(Geometry::flat(7, 1000).unwrap(), None)), (2, 1));
    assert_eq!(costs(&plan(Layout::Line).with_cells(CellKind::Counting)), (4, 1));
    assert_eq!(costs(&plan(Layout::Page).with_cells(CellKind::Counting)), (7, 4));
    let default = |rate| Plan::new(1000, rate, None).unwrap().geometry().layout();
    assert_eq!(default(0.001), Layout::Line);
    assert_eq!(default(0.000999), Layout::Page);
    let exact = Plan::exact(Geometry::line(8, 64).unwrap(), None);
    assert_eq!((exact.capacity(), exact.expected_rate(), exact.bits_per_key()), (None, None, None));
    assert_eq!((exact.cells(), exact.data_bytes()), (32_768, 4096));
}

#[test]
fn precheck_of_the_notes() {
    let precheck = Precheck {
        lookups: 102_000,
        present: 2_000,
        slow_seconds: 0.5,
        filter_seconds: 0.001,
        rate: 0.03,
    };
    assert_eq!(precheck.without(), 51_000.0);
    close(precheck.with(), 2_602.0, 1e-12);
}

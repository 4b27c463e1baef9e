//! The keys estimated from the bits: each interval holds the truth as often as it says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use bloomfile::plan::*;
use bloomfile::{
    Plan,
    geometry::{Geometry, Layout},
};
// All different, as the hashes of different keys are.
use common::random as hash;

fn close(left: f64, right: f64, relative: f64) {
    assert!((left - right).abs() <= relative * right.abs(), "{left:e} against {right:e}");
}

/// The bits of a filter, one row after the other and blocks within a row.
#[derive(Clone)]
struct Bits {
    geometry: Geometry,
    words: Vec<u64>,
    row_span: u64,
}

impl Bits {
    fn new(geometry: Geometry) -> Self {
        let flat = geometry.layout() == Layout::Flat;
        let row_span = geometry.blocks() * geometry.row_cells();
        let rows = if flat { 1 } else { u64::from(geometry.row_count()) };
        let words = vec![0; (rows * row_span).div_ceil(64) as usize];
        Bits { geometry, words, row_span: if flat { 0 } else { row_span } }
    }

    fn place(&self, hash: u64, row: u32) -> u64 {
        u64::from(row) * self.row_span
            + self.geometry.block(hash) * self.geometry.row_cells()
            + self.geometry.cell(hash, row)
    }

    fn add(&mut self, seed: u64, keys: std::ops::Range<u64>) {
        for index in keys {
            let hash = hash(seed, index);
            for row in 0..self.geometry.row_count() {
                let place = self.place(hash, row);
                self.words[(place / 64) as usize] |= 1 << (place % 64);
            }
        }
    }

    fn or(&self, other: &Bits) -> Bits {
        let mut both = self.clone();
        both.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
        both
    }

    /// One count per row for `rows`, one total for the others.
    fn ones(&self) -> Vec<u64> {
        if self.geometry.layout() != Layout::Rows {
            return vec![self.words.iter().map(|word| u64::from(word.count_ones())).sum()];
        }
        assert_eq!(self.row_span % 64, 0);
        self.words
            .chunks((self.row_span / 64) as usize)
            .map(|row| row.iter().map(|word| u64::from(word.count_ones())).sum())
            .collect()
    }
}

/// Geometries that differ in how their ones vary, with their capacity.
fn trial_geometries(capacity: u64) -> Vec<Geometry> {
    let plan = |rate, layout| *Plan::new(capacity, rate, Some(layout)).unwrap().geometry();
    vec![
        plan(0.01, Layout::Rows),
        plan(0.01, Layout::Flat),
        plan(0.1, Layout::Flat),
        plan(0.01, Layout::Page),
        plan(0.01, Layout::Line),
        plan(1e-4, Layout::Line),
        Geometry::line(32, capacity / 16 + 1).unwrap(),
    ]
}

#[test]
fn estimated_keys_lie_in_their_interval() {
    const TRIALS: u64 = 500;
    let capacity = 2_000;
    for geometry in trial_geometries(capacity) {
        let stops = [0.01, 0.03, 0.1, 0.3, 0.6, 1.0].map(|part| (part * capacity as f64) as u64);
        let (mut inside, mut near, mut sums) = ([0; 6], [0; 6], [0.0; 6]);
        for trial in 0..TRIALS {
            let mut bits = Bits::new(geometry);
            let mut added = 0;
            for (i, &stop) in stops.iter().enumerate() {
                bits.add(7_000 + trial, added..stop);
                added = stop;
                let estimate = estimate_keys(&geometry, &bits.ones());
                assert!(estimate.contains(estimate.value));
                inside[i] += u64::from(estimate.contains(added as f64));
                let quarter = 0.25 * (estimate.high - estimate.low);
                near[i] += u64::from((estimate.value - added as f64).abs() <= quarter);
                sums[i] += estimate.value / added as f64;
            }
        }
        println!("{geometry}: {inside:?} inside and {near:?} near of {TRIALS}");
        for (i, stop) in stops.into_iter().enumerate() {
            assert!(inside[i] * 100 >= TRIALS * 93, "{geometry}, {stop}: {inside:?}");
            assert!((sums[i] / TRIALS as f64 - 1.0).abs() < 0.005, "{geometry}, {stop}: {sums:?}");
            // Half the interval holds 68 %: one that is too wide would hold more. With few keys
            // the counts are too small for that.
            if i >= 2 {
                assert!(near[i] * 100 <= TRIALS * 78, "{geometry}, {stop}: {near:?}");
            }
        }
    }
}

fn overlap_of(geometry: Geometry, seed: u64, keys: u64, common: u64) -> Overlap {
    let (mut a, mut b) = (Bits::new(geometry), Bits::new(geometry));
    a.add(seed, 0..keys);
    b.add(seed, keys - common..2 * keys - common);
    estimate_overlap(&geometry, &a.ones(), &b.ones(), &a.or(&b).ones())
}

/// Whether each of the seven intervals holds the truth.
fn overlap_hits(overlap: &Overlap, keys: u64, common: u64) -> [bool; 7] {
    let (keys, common) = (keys as f64, common as f64);
    let union = 2.0 * keys - common;
    [
        overlap.a.contains(keys),
        overlap.b.contains(keys),
        overlap.union.contains(union),
        overlap.intersection.contains(common),
        overlap.jaccard.contains(common / union),
        overlap.containment_a_in_b.contains(common / keys),
        overlap.containment_b_in_a.contains(common / keys),
    ]
}

#[test]
fn overlap_of_a_million_keys_lies_in_its_interval() {
    const KEYS: u64 = 1_000_000;
    for layout in Layout::BLOOM {
        let geometry = *Plan::new(KEYS, 0.01, Some(layout)).unwrap().geometry();
        for common in [KEYS / 100, KEYS / 10, KEYS / 2] {
            let overlap = overlap_of(geometry, 11, KEYS, common);
            println!("{layout} {common}: {:?} {:?}", overlap.intersection, overlap.jaccard);
            let hits = overlap_hits(&overlap, KEYS, common);
            // The sizes have a test of their own.
            assert_eq!(hits[3..], [true; 4], "{layout}, {common} common: {overlap:?}");
            let Estimate { low, high, .. } = overlap.intersection;
            assert!(high - low < 0.01 * KEYS as f64, "{layout}: {low} to {high}");
        }
    }
}

#[test]
fn overlaps_lie_in_their_intervals() {
    const TRIALS: u64 = 300;
    let keys = 2_000;
    for geometry in trial_geometries(keys) {
        for common in [0, keys / 100, keys / 10, keys / 2, keys - 1] {
            let mut hits = [0; 7];
            for trial in 0..TRIALS {
                let overlap = overlap_of(geometry, 90_000 + trial, keys, common);
                let now = overlap_hits(&overlap, keys, common);
                hits.iter_mut().zip(now).for_each(|(hits, now)| *hits += u64::from(now));
            }
            println!("{geometry}, {common} common: {hits:?} of {TRIALS}");
            assert!(
                hits.iter().all(|&hits| hits * 100 >= TRIALS * 92),
                "{geometry}, {common} common: {hits:?} of {TRIALS}"
            );
        }
    }
}

#[test]
fn estimates_at_the_ends() {
    for geometry in trial_geometries(2_000) {
        let rows =
            if geometry.layout() == Layout::Rows { geometry.row_count() as usize } else { 1 };
        let none = vec![0; rows];
        let estimate = estimate_keys(&geometry, &none);
        assert_eq!((estimate.value, estimate.low), (0.0, 0.0));
        assert!(estimate.high <= 1.0, "{estimate:?}");
        assert_eq!(rate_at_fill(&geometry, &none), 0.0);
        let overlap = estimate_overlap(&geometry, &none, &none, &none);
        assert_eq!(overlap.intersection.value, 0.0);
        assert_eq!((overlap.jaccard.low, overlap.jaccard.high), (0.0, 1.0));

        let all = vec![geometry.cells() / rows as u64; rows];
        let estimate = estimate_keys(&geometry, &all);
        assert!(estimate.value.is_finite() && estimate.value > 10_000.0, "{estimate:?}");
        assert!(estimate.low > 2_000.0 && estimate.low <= estimate.value);
        assert_eq!(estimate.high, f64::INFINITY);
        assert_eq!(rate_at_fill(&geometry, &all), 1.0);
        let overlap = estimate_overlap(&geometry, &all, &all, &all);
        assert_eq!((overlap.jaccard.low, overlap.jaccard.high), (0.0, 1.0));
        assert!(overlap.intersection.value.is_finite());

        // One key and a filter with itself.
        let mut bits = Bits::new(geometry);
        bits.add(1, 0..1);
        assert!(estimate_keys(&geometry, &bits.ones()).contains(1.0));
        bits.add(1, 1..1500);
        let ones = bits.ones();
        let overlap = estimate_overlap(&geometry, &ones, &ones, &ones);
        assert_eq!(overlap.a, overlap.union);
        close(overlap.intersection.value, overlap.a.value, 1e-12);
        close(overlap.jaccard.value, 1.0, 1e-12);
        assert!(overlap.jaccard.low > 0.997 && overlap.containment_a_in_b.low > 0.997);
        let rate = rate_at_fill(&geometry, &ones);
        close(rate, false_positive_rate(&geometry, 1500), 0.2);
    }
    for geometry in [Geometry::flat(1, 1), Geometry::rows(2, 1), Geometry::rows(3, 2)] {
        let geometry = geometry.unwrap();
        for ones in [0, 1] {
            let ones = vec![ones; geometry.row_count() as usize];
            let estimate = estimate_keys(&geometry, &ones);
            assert!(estimate.value.is_finite() && estimate.low <= estimate.high, "{estimate:?}");
        }
    }
    // Few keys in a huge filter: every cell counts.
    let geometry = Geometry::rows(4, 1_000_000_000_000).unwrap();
    let estimate = estimate_keys(&geometry, &[1000; 4]);
    assert!(estimate.contains(1000.0) && estimate.high - estimate.low < 1.0, "{estimate:?}");
}

#[test]
fn blocked_rate_at_fill_is_above_the_mean_fill_to_the_power_of_k() {
    let geometry = *Plan::new(100_000, 1e-4, Some(Layout::Line)).unwrap().geometry();
    let mut bits = Bits::new(geometry);
    bits.add(5, 0..100_000);
    let ones = bits.ones();
    let naive = (ones[0] as f64 / geometry.cells() as f64).powi(geometry.row_count() as i32);
    let rate = rate_at_fill(&geometry, &ones);
    assert!(rate > 2.0 * naive, "{rate} against {naive}");
    close(rate, false_positive_rate(&geometry, 100_000), 0.05);
}

/// Builds a filter and tells what is thought of its blocks' loads.
fn verdict(options: bloomfile::Options, hashes: impl Iterator<Item = u64>) -> (LoadVerdict, f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loads.bloom");
    let mut builder = options.start_build(&path).unwrap();
    hashes.for_each(|hash| {
        builder.add_hash(hash);
    });
    builder.finish().unwrap();
    let loads = bloomfile::report::block_loads(&path).unwrap();
    let observed: u64 = loads[0].bins.iter().map(|bin| bin.observed).sum();
    let expected: f64 = loads[0].bins.iter().map(|bin| bin.expected).sum();
    assert_eq!(observed, loads[0].blocks);
    assert!((expected - observed as f64).abs() < 1e-6 * expected, "{expected}");
    (loads[0].verdict, loads[0].dispersion)
}

#[test]
fn block_loads_follow_poissons_law_unless_the_hashes_are_bad() {
    let keys = 400_000u64;
    let hash = |key: u64| hash(7, key);
    for layout in Layout::BLOOM {
        for (rate, part) in [(0.01, 1), (0.1, 1), (0.001, 1), (0.01, 50)] {
            let options = || {
                bloomfile::Options::new().capacity(keys).false_positive_rate(rate).layout(layout)
            };
            let (found, dispersion) = verdict(options(), (0..keys / part).map(hash));
            assert_eq!(found, LoadVerdict::AsExpected, "{layout} {rate} {part}: {dispersion}");
        }
    }
    let line = || bloomfile::Options::new().capacity(keys).false_positive_rate(0.01);
    // Numbers for hashes: all fall into the first block.
    assert_eq!(verdict(line(), 0..keys).0, LoadVerdict::Uneven);
    // A hash whose upper half is weak: only some blocks are reached.
    let weak = (0..keys).map(|key| hash(key) & 0x0fff_ffff_ffff_ffff);
    assert_eq!(verdict(line(), weak).0, LoadVerdict::Uneven);
    // One that fills block after block in turn.
    let turn = (0..keys).map(|key| (key * (u64::MAX / keys)) ^ (hash(key) >> 32));
    assert_eq!(verdict(line(), turn).0, LoadVerdict::TooEven);
}

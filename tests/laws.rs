//! The laws of the set operations, for all layouts and for sizes down to one page.
//!
//! Each case has a seed of its own, which an assertion that fails prints.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_docs, reason = "tests")]

mod common;

use std::path::{Path, PathBuf};

use bloomfile::{
    Reader,
    geometry::{Geometry, Layout},
    ops::SetOperation,
    report::verify,
};
use common::{Folder, below, data};

const CASES: u64 = 25;

/// A case: three sets of keys that overlap, and a geometry that folds by `d` · `e`.
struct Case {
    seed: u64,
    folder: Folder,
    geometry: Geometry,
    d: u64,
    e: u64,
    sets: [std::ops::Range<u64>; 3],
}

impl Case {
    fn new(layout: Layout, seed: u64) -> Self {
        let draw = |index, limit| below(seed, index, limit);
        let factors = [1, 2, 3, 4, 5, 7, 8, 16, 64, 100, 128];
        let [d, e] = [0, 1].map(|at| factors[draw(at, factors.len() as u64) as usize]);
        let (d, e) = if layout == Layout::Page { (d.min(16), e.min(16)) } else { (d, e) };
        let rows = 1 + draw(2, 8) as u32;
        // From a part of one page to many, so that some end within a page at every size.
        let size = |most: u64| d * e * (1 + draw(3, most / (d * e) + 1).div_ceil(1 + draw(4, 9)));
        let geometry = match layout {
            Layout::Rows => Geometry::rows(rows, size(500_000)),
            Layout::Flat => Geometry::flat(rows, size(3_000_000)),
            Layout::Page => Geometry::page(rows, size(100)),
            _ => Geometry::line(1 << draw(2, 6), size(6_000)),
        };
        let keys = 1 + draw(5, 3000);
        let sets = [6, 7, 8].map(|at| {
            let start = draw(at, keys);
            start..start + draw(at + 3, keys)
        });
        Case { seed, folder: Folder::new(), geometry: geometry.unwrap(), d, e, sets }
    }

    fn build(&self, name: &str, set: usize) -> PathBuf {
        self.folder.build(name, self.geometry, self.sets[set].clone())
    }

    fn union(&self, name: &str, inputs: &[&Path]) -> PathBuf {
        let path = self.folder.at(name);
        SetOperation::new().union(inputs, &path).unwrap();
        assert!(verify(&path).unwrap().is_sound(), "seed {}", self.seed);
        path
    }

    fn intersection(&self, name: &str, inputs: &[&Path]) -> PathBuf {
        let path = self.folder.at(name);
        SetOperation::new().intersection(inputs, &path).unwrap();
        assert!(verify(&path).unwrap().is_sound(), "seed {}", self.seed);
        path
    }

    fn fold(&self, name: &str, input: &Path, factor: u64) -> PathBuf {
        let path = self.folder.at(name);
        SetOperation::new().fold(input, factor, &path).unwrap();
        assert!(verify(&path).unwrap().is_sound(), "seed {}", self.seed);
        path
    }

    #[track_caller]
    fn same(&self, left: &Path, right: &Path) {
        assert!(data(left) == data(right), "{}, seed {}", self.geometry, self.seed);
    }

    /// Whether a file may hold all of the keys.
    #[track_caller]
    fn holds(&self, path: &Path, keys: impl IntoIterator<Item = u64>) {
        let reader = Reader::open(path).unwrap();
        for key in keys {
            let held = reader.contains(key.to_le_bytes());
            assert!(held, "{}, seed {}: key {key}", self.geometry, self.seed);
        }
    }
}

fn each_case(law: impl Fn(&Case)) {
    for layout in Layout::BLOOM {
        for seed in 0..CASES {
            law(&Case::new(layout, seed));
        }
    }
}

#[test]
fn union_is_commutative_associative_idempotent_and_has_the_empty_filter_as_identity() {
    each_case(|case| {
        let [a, b, c] = [0, 1, 2].map(|set| case.build(&format!("set {set}"), set));
        let empty = case.folder.build("empty", case.geometry, 0..0);
        let a_b = case.union("a b", &[&a, &b]);
        let b_a = case.union("b a", &[&b, &a]);
        assert!(std::fs::read(&a_b).unwrap() == std::fs::read(b_a).unwrap(), "all of the file");
        let b_c = case.union("b c", &[&b, &c]);
        let left = case.union("(a b) c", &[&a_b, &c]);
        case.same(&left, &case.union("a (b c)", &[&a, &b_c]));
        case.same(&left, &case.union("a b c", &[&a, &b, &c]));
        case.same(&a, &case.union("a a", &[&a, &a]));
        case.same(&a, &case.union("a alone", &[&a]));
        case.same(&a, &case.union("a empty", &[&a, &empty]));
        case.same(&empty, &case.intersection("a and empty", &[&a, &empty]));
    });
}

#[test]
fn the_union_holds_what_any_holds_and_the_intersection_what_all_hold() {
    each_case(|case| {
        let [a, b, c] = [0, 1, 2].map(|set| case.build(&format!("set {set}"), set));
        let union = case.union("union", &[&a, &b, &c]);
        case.sets.iter().for_each(|set| case.holds(&union, set.clone()));
        let intersection = case.intersection("intersection", &[&a, &b, &c]);
        let in_all =
            case.sets[0].clone().filter(|key| case.sets.iter().all(|set| set.contains(key)));
        case.holds(&intersection, in_all);
        case.same(&intersection, &case.intersection("other order", &[&c, &a, &b]));
        // Bit by bit, as the definition says.
        let [a, b, c] = [&a, &b, &c].map(|path| data(path));
        let bytes = || a.iter().zip(&b).zip(&c).map(|((a, b), c)| (a, b, c));
        assert!(data(&union) == bytes().map(|(a, b, c)| a | b | c).collect::<Vec<_>>());
        assert!(data(&intersection) == bytes().map(|(a, b, c)| a & b & c).collect::<Vec<_>>());
    });
}

#[test]
fn folding_gives_the_bytes_of_a_direct_build_and_goes_with_union_and_itself() {
    each_case(|case| {
        let [a, b] = [0, 1].map(|set| case.build(&format!("set {set}"), set));
        let (d, e) = (case.d, case.e);
        let [a_d, b_d] = [&a, &b].map(|path| {
            let name = format!("{} by d", path.file_name().unwrap().display());
            case.fold(&name, path, d)
        });
        let direct = case.geometry.folded(d).unwrap();
        case.same(&a_d, &case.folder.build("direct", direct, case.sets[0].clone()));
        let a_b = case.union("a b", &[&a, &b]);
        case.same(&case.fold("folded union", &a_b, d), &case.union("folds", &[&a_d, &b_d]));
        case.same(&case.fold("twice", &a_d, e), &case.fold("once", &a, d * e));
        case.holds(&case.folder.at("once"), case.sets[0].clone());
    });
}

#[test]
fn files_of_different_sizes_give_what_building_at_the_small_size_gives() {
    each_case(|case| {
        let small = case.geometry.folded(case.d * case.e).unwrap();
        let middle = case.geometry.folded(case.d).unwrap();
        let inputs = [case.geometry, middle, small];
        let paths: Vec<PathBuf> = (0..3)
            .map(|at| case.folder.build(&format!("input {at}"), inputs[at], case.sets[at].clone()))
            .collect();
        let union = case.folder.at("union");
        let derivation = SetOperation::new().union(&paths, &union).unwrap();
        assert_eq!(derivation.geometry, small);
        let factors: Vec<u64> = derivation.inputs.iter().map(|input| input.folded_by).collect();
        assert_eq!(factors, [case.d * case.e, case.e, 1]);
        let keys = case.sets.iter().cloned().flatten();
        case.same(&union, &case.folder.build("direct", small, keys));

        let both: [&Path; 2] = [&paths[0], &paths[2]];
        let intersection = case.intersection("intersection", &both);
        let [set, other] = [&case.sets[0], &case.sets[2]];
        case.holds(&intersection, set.clone().filter(|key| other.contains(key)));
        let folded = data(&case.fold("folded", &paths[0], case.d * case.e));
        let expected = folded.iter().zip(data(&paths[2])).map(|(a, b)| a & b);
        assert!(data(&intersection) == expected.collect::<Vec<_>>(), "seed {}", case.seed);
    });
}

/// Large enough for several threads, and for many pages in one fold.
#[test]
fn large_files_obey_too() {
    let geometries = [
        Geometry::rows(3, 3 * 40_000_000),
        Geometry::flat(4, 6 * 30_000_000),
        Geometry::page(7, 6 * 900),
        Geometry::line(8, 6 * 50_000),
    ];
    for geometry in geometries.map(Result::unwrap) {
        let folder = Folder::new();
        let (a, b) =
            (folder.build("a", geometry, 0..60_000), folder.build("b", geometry, 50_000..90_000));
        let both = folder.at("both");
        let progress = std::sync::atomic::AtomicU64::new(0);
        let listener = |now: bloomfile::ops::Progress| {
            assert!(now.bytes_done <= now.bytes_total);
            progress.fetch_max(now.bytes_done, std::sync::atomic::Ordering::Relaxed);
        };
        SetOperation::new().progress(&listener).union(&[&a, &b], &both).unwrap();
        let bytes = 2 * data(&a).len() as u64;
        assert_eq!(progress.into_inner(), bytes, "all of it was read and told of");
        assert!(data(&both) == data(&folder.build("direct", geometry, 0..90_000)));
        for factor in [2, 3, 6, 6 * 10] {
            let small = folder.at("small");
            let operation = SetOperation::new().replace(true);
            operation.fold(&both, factor, &small).unwrap();
            let direct = geometry.folded(factor).unwrap();
            assert!(data(&small) == data(&folder.build("direct", direct, 0..90_000)), "{direct}");
        }
    }
}

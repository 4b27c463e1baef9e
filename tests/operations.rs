//! Set operations on files as they are found: damaged, crashed, being written, built differently.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_docs, reason = "tests")]

mod common;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bloomfile::plan::Estimate;
use bloomfile::{
    CellKind, Error, Filter, Options, Reader,
    geometry::{Geometry, Layout},
    ops::{Contents, Readers, Relation, SetOperation, compare},
    report::{Health, inspect, verify},
};
use common::{Folder, data, data_start, write_at};
use support::power_cut;

fn geometries() -> [Geometry; 4] {
    [
        Geometry::rows(3, 400_000).unwrap(),
        Geometry::flat(4, 1_200_000).unwrap(),
        Geometry::page(7, 40).unwrap(),
        Geometry::line(8, 2560).unwrap(),
    ]
}

fn contains(path: &Path, keys: std::ops::Range<u64>) -> bool {
    let reader = Reader::open(path).unwrap();
    keys.into_iter().all(|key| reader.contains(key.to_le_bytes()))
}

fn add(filter: &Filter, keys: impl IntoIterator<Item = u64>) {
    for key in keys {
        filter.add(key.to_le_bytes()).unwrap();
    }
}

/// The intervals hold the truth in 95 of 100 cases, twice as wide in nearly all.
#[track_caller]
fn near(estimate: Estimate, truth: f64) {
    let Estimate { value, low, high } = estimate;
    assert!((value - truth).abs() <= high - low, "{truth} is not near {estimate:?}");
}

#[test]
fn a_damaged_input_is_refused_and_nothing_is_left() {
    for geometry in geometries() {
        let folder = Folder::new();
        let sound = folder.build("sound", geometry, 0..5000);
        let damaged = folder.build("damaged", geometry, 0..5000);
        let (start, mut bytes) = (data_start(&damaged), std::fs::read(&damaged).unwrap());
        // One bit more on one page, one fewer on another: neither may pass.
        let lost = (start + 3 * 4096..bytes.len()).find(|&at| bytes[at] != 0).unwrap();
        bytes[lost] &= bytes[lost] - 1;
        bytes[start + 4096] ^= 0x10;
        std::fs::write(&damaged, bytes).unwrap();
        let out = folder.at("out");
        let operation = SetOperation::new();
        let inputs = [&sound, &damaged];
        for result in [
            operation.union(&inputs, &out),
            operation.intersection(&inputs, &out),
            operation.fold(&damaged, 2, &out),
        ] {
            let error = result.unwrap_err();
            let Error::File { path, error: cause } = &error else { panic!("{error}") };
            assert_eq!(*path, damaged);
            assert!(error.is_damage());
            assert!(matches!(**cause, Error::Damaged { count: 1 | 2, page: 1, .. }), "{error}");
        }
        let other = folder.build("other", geometry, 0..10_000);
        assert!(compare(&other, &damaged).unwrap_err().into_cause().is_damage());
        assert_eq!(folder.names(), ["damaged", "other", "sound"]);

        let filter = Options::new().geometry(geometry).create(&out).unwrap();
        filter.add(b"mine").unwrap();
        let error = filter.union_from(&Reader::open(&damaged).unwrap()).unwrap_err();
        assert!(error.is_damage() && error.path() == Some(&*damaged), "{error}");
        assert!(!filter.contains(0u64.to_le_bytes()), "not a bit has changed");
        filter.add(b"another").unwrap();
        filter.close().unwrap();
        assert_eq!(inspect(&out).unwrap().segments[0].adds, 2);
    }
}

#[test]
fn what_cannot_be_combined_is_refused_by_the_first_parameter_that_differs() {
    let folder = Folder::new();
    let make = |name: &str, options: Options| {
        options.create(folder.at(name)).unwrap().close().unwrap();
        folder.at(name)
    };
    let line = |rows, blocks| Options::new().geometry(Geometry::line(rows, blocks).unwrap());
    let base = make("base", line(8, 12));
    let seeded = make("seeded", line(8, 12).seed(7));
    let out = folder.at("out");
    let error = SetOperation::new().union(&[&base, &seeded], &out).unwrap_err().into_cause();
    assert!(matches!(error.cause(), Error::Incompatible { parameter: "seed", .. }), "{error}");
    for (name, options, expected) in [
        ("seed", line(8, 12).seed(7), ("seed", "0", "7")),
        ("rows", line(4, 12), ("rows", "8", "4")),
        ("layout", Options::new().rows(3).row_bits(64), ("layout", "line", "rows")),
        ("blocks", line(8, 20), ("blocks", "12", "20, which is no multiple")),
        ("smaller", line(8, 8), ("blocks", "8", "12, which is no multiple")),
    ] {
        let other = make(name, options);
        let inputs = [&base, &other];
        let error = SetOperation::new().intersection(&inputs, &out).unwrap_err().into_cause();
        let Error::Incompatible { parameter, left, right } = error.cause() else {
            panic!("{error}")
        };
        assert_eq!((*parameter, &left[..], &right[..]), expected);
        assert!(!error.is_bad_file() && !out.exists());
        let Contents::Incomparable { reason } = compare(&base, &other).unwrap().contents else {
            panic!("{name} compares")
        };
        assert!(reason.starts_with(&format!("{parameter} differs: {left} and ")), "{reason}");
        let filter = Filter::open(&base).unwrap();
        let error = filter.union_from(&Reader::open(&other).unwrap()).unwrap_err();
        assert!(matches!(error.cause(), Error::Incompatible { .. }), "{name}: {error}");
        assert_eq!(error.path(), Some(&*other), "{name}: as of a merge");
    }
    let none: [&Path; 0] = [];
    let result = SetOperation::new().union(&none, folder.at("out"));
    assert!(matches!(
        result.map_err(Error::into_cause),
        Err(Error::Parameter { name: "number of inputs", .. })
    ));
    assert!(matches!(
        SetOperation::new().union(&[&base], &base).map_err(Error::into_cause),
        Err(Error::Exists)
    ));
}

/// Sizes that do not fold into one another: a segment for each, the smallest first, that holds every
/// key and has the rate that was announced.
#[test]
fn files_of_any_sizes_are_merged() {
    let folder = Folder::new();
    let key = |file: u64, number: u64| [file, number].map(u64::to_le_bytes).concat();
    let keys = [3_000u64, 70_001, 20_011, 3_000];
    let mut paths = Vec::new();
    for (file, count) in keys.into_iter().enumerate() {
        let path = folder.at(&format!("{file}"));
        let options = Options::new().capacity(count).false_positive_rate(0.01);
        let mut builder = options.start_build(&path).unwrap();
        for number in 0..count {
            builder.add(key(file as u64, number));
        }
        builder.finish().unwrap();
        paths.push(path);
    }
    // Other kinds of the same seed: one that grew, one of pages, one without a capacity.
    let grown = Options::new().capacity(1_000).false_positive_rate(0.01).grow();
    let grown = grown.create(folder.at("4")).unwrap();
    let page =
        Options::new().geometry(Geometry::page(7, 3).unwrap()).create(folder.at("5")).unwrap();
    for number in 0..5_000 {
        grown.add(key(4, number)).unwrap();
        page.add(key(5, number)).unwrap();
    }
    grown.close().unwrap();
    page.close().unwrap();
    paths.extend(["4", "5"].map(|name| folder.at(name)));
    let counts = keys.into_iter().chain([5_000, 5_000]);

    let out = folder.at("out");
    let merged = SetOperation::new().union(&paths, &out).unwrap();
    let segments = inspect(folder.at("4")).unwrap().segments.len() + 4;
    assert_eq!(merged.segments, segments, "the two of 3,000 keys are joined");
    assert!(verify(&out).unwrap().is_sound());
    let reader = Reader::open(&out).unwrap();
    for (file, count) in (0..).zip(counts.clone()) {
        assert!((0..count).all(|number| reader.contains(key(file, number))), "{file}");
    }
    assert!(merged.keys.contains(counts.sum::<u64>() as f64), "{}", merged.keys.value);
    let sizes = inspect(&out).unwrap().segments;
    assert!(sizes.is_sorted_by_key(|segment| segment.cells));
    let asked = 200_000;
    let wrong = (0..asked).filter(|&number| reader.contains(key(99, number))).count() as f64;
    let measured = wrong / asked as f64;
    let chance = 4.0 * (merged.rate / asked as f64).sqrt();
    assert!((measured - merged.rate).abs() < chance, "{measured}, announced {}", merged.rate);
    // In any order the same bytes; and it takes more keys, and grows when it is full.
    paths.reverse();
    SetOperation::new().union(&paths, folder.at("again")).unwrap();
    let same = std::fs::read(&out).unwrap() == std::fs::read(folder.at("again")).unwrap();
    assert!(same, "the order of the inputs shows");
    let filter = Filter::open(&out).unwrap();
    for number in 0..200_000 {
        filter.add(key(7, number)).unwrap();
    }
    assert!(filter.segments() > segments && (0..200_000).all(|n| filter.contains(key(7, n))));
    filter.close().unwrap();
    assert!(verify(&out).unwrap().is_sound());
}

/// A segment takes as many adds as it is for itself, whatever the sizes of the others are: a merge of
/// several of much the same size grew only when the newest was far above its rate.
#[test]
fn f16_a_merged_file_grows_when_its_newest_segment_is_full() {
    let folder = Folder::new();
    let mut paths = Vec::new();
    for capacity in [20_011u64, 20_507, 21_001] {
        let path = folder.at(&format!("{capacity}"));
        let options = Options::new().capacity(capacity).false_positive_rate(0.01);
        let mut builder = options.start_build(&path).unwrap();
        for number in 0..capacity / 2 {
            builder.add([capacity, number].map(u64::to_le_bytes).concat());
        }
        builder.finish().unwrap();
        paths.push(path);
    }
    let out = folder.at("out");
    assert_eq!(SetOperation::new().union(&paths, &out).unwrap().segments, 3);
    let filter = Filter::open(&out).unwrap();
    for number in 0..40_000u64 {
        filter.add(number.to_le_bytes()).unwrap();
    }
    filter.close().unwrap();
    let segments = inspect(&out).unwrap().segments;
    assert_eq!(segments.len(), 4);
    for segment in segments {
        let capacity = segment.capacity.unwrap();
        assert!(segment.adds <= capacity, "{} adds in a segment for {capacity}", segment.adds);
    }
}

/// More sizes than a file has segments: what folds is folded; where nothing does, it is refused.
#[test]
fn more_sizes_than_segments_are_folded_or_refused() {
    let folder = Folder::new();
    let make = |name: String, blocks| {
        let options = Options::new().geometry(Geometry::line(8, blocks).unwrap());
        let filter = options.create(folder.at(&name)).unwrap();
        filter.add(name.as_bytes()).unwrap();
        filter.close().unwrap();
        (folder.at(&name), name)
    };
    // 40 sizes, 20 of which are twice another.
    let twice: Vec<_> =
        (21..=40).flat_map(|n| [n, 2 * n]).map(|n| make(format!("t{n}"), n)).collect();
    let paths: Vec<_> = twice.iter().map(|(path, _)| path).collect();
    let merged = SetOperation::new().union(&paths, folder.at("out")).unwrap();
    assert!(merged.segments <= 32);
    assert!(merged.inputs.iter().any(|input| input.folded_by == 2));
    let reader = Reader::open(folder.at("out")).unwrap();
    assert!(twice.iter().all(|(_, name)| reader.contains(name)));
    let primes = (2..).filter(|&n: &u64| (2..n).all(|d| n % d != 0)).skip(20).take(33);
    let primes: Vec<_> = primes.map(|n| make(format!("p{n}"), n).0).collect();
    let error = SetOperation::new().union(&primes, folder.at("none")).unwrap_err().to_string();
    assert!(error.contains("33") && error.contains("at most 32 segments"), "{error}");
    assert!(!folder.at("none").exists());
}

#[test]
fn a_merge_gives_a_file_another_journal() {
    let folder = Folder::new();
    let options = Options::new().capacity(1_000).false_positive_rate(0.01).journal_bytes(1 << 20);
    for (name, options) in [
        ("plain", options.clone()),
        ("counting", options.clone().kind(CellKind::Counting)),
        ("growing", options.clone().grow()),
    ] {
        let filter = options.create(folder.at(name)).unwrap();
        filter.add(b"sheep").unwrap();
        filter.close().unwrap();
        let out = folder.at(&format!("{name}-out"));
        let made = SetOperation::new().journal_bytes(0).union(&[folder.at(name)], &out).unwrap();
        assert_eq!(made.file_bytes, std::fs::metadata(folder.at(name)).unwrap().len() - (1 << 20));
        let filter = Filter::open(&out).unwrap();
        assert!(filter.contains(b"sheep") && filter.add(b"goat").unwrap());
        filter.close().unwrap();
        assert!(Reader::open(&out).unwrap().contains(b"goat"));
        let again = folder.at(&format!("{name}-again"));
        SetOperation::new().journal_bytes(70_000).union(&[&out], &again).unwrap();
        assert_eq!(inspect(&again).unwrap().journal_bytes, 73_728);
        assert!(Reader::open(&again).unwrap().contains(b"goat"));
    }
    let large = SetOperation::new().journal_bytes(u64::MAX);
    assert!(large.union(&[folder.at("plain")], folder.at("no")).is_err());
}

#[test]
fn equal_pairs_are_kept_and_the_others_listed_beside_the_uuids() {
    let folder = Folder::new();
    let make = |name: &str, blocks, uuid: u8, pairs: &[(&str, &str)]| {
        let mut options =
            Options::new().geometry(Geometry::line(8, blocks).unwrap()).uuid([uuid; 16]);
        for (key, value) in pairs {
            options = options.metadata(*key, *value);
        }
        options.create(folder.at(name)).unwrap().close().unwrap();
        folder.at(name)
    };
    let a = make("a", 4, 0xaa, &[("keys", "URLs"), ("host", "a")]);
    let b = make("b", 8, 0xbb, &[("keys", "URLs"), ("host", "b"), ("note", "late")]);
    let out = folder.at("out");
    let merged = SetOperation::new().union(&[&b, &a], &out).unwrap();
    let expected = BTreeMap::from(
        [
            ("keys", "URLs"),
            ("provenance", "union of 2 files"),
            ("provenance.1", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"),
            ("provenance.1.host", "a"),
            ("provenance.2", "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb, folded by 2"),
            ("provenance.2.host", "b"),
            ("provenance.2.note", "late"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let reader = Reader::open(&out).unwrap();
    assert_eq!(*reader.metadata(), expected);
    let factors: Vec<u64> = merged.inputs.iter().map(|input| input.folded_by).collect();
    assert_eq!((merged.operation.as_str(), factors), ("union of 2 files", vec![2, 1]));

    // What an operation said of its inputs is a matter of each input in the next one.
    let again = folder.at("again");
    SetOperation::new().fold(&out, 4, &again).unwrap();
    let metadata = inspect(&again).unwrap().metadata;
    assert_eq!(metadata["keys"], "URLs");
    assert_eq!(metadata["provenance"], "fold by 4");
    assert_eq!(metadata["provenance.1"], format!("{}, folded by 4", merged.uuid));
    assert_eq!(metadata["provenance.1.provenance.1.host"], "a");
}

#[test]
fn a_result_has_the_capacity_that_its_size_allows_and_sensible_adds() {
    let folder = Folder::new();
    let make = |name: &str, capacity: u64, keys: std::ops::Range<u64>| {
        let options = Options::new().capacity(capacity).false_positive_rate(0.01);
        let mut builder = options.journal_bytes(capacity).start_build(folder.at(name)).unwrap();
        for key in keys {
            builder.add(key.to_le_bytes());
        }
        builder.finish().unwrap();
        folder.at(name)
    };
    let small = make("small", 100_000, 0..40_000);
    let large = make("large", 400_000, 30_000..60_000);
    let out = folder.at("out");
    let merged = SetOperation::new().union(&[&large, &small], &out).unwrap();
    assert_eq!(merged.capacity, Some(100_000));
    near(merged.keys, 60_000.0);
    let [large_input, small_input] = &merged.inputs[..] else { panic!() };
    assert_eq!((large_input.folded_by, small_input.folded_by), (4, 1));
    assert!(large_input.rate < 1e-5 && large_input.rate_folded > 10.0 * large_input.rate);
    assert_eq!(small_input.rate, small_input.rate_folded);
    let inspection = inspect(&out).unwrap();
    assert_eq!((inspection.capacity, inspection.target_rate), (Some(100_000), Some(0.01)));
    assert_eq!(inspection.journal_bytes, inspect(&large).unwrap().journal_bytes);
    assert!(inspection.segments[0].adds.abs_diff(60_000) < 600);
    assert_eq!(inspection.segments[0].rate_now, merged.rate);

    let folded = folder.at("folded");
    SetOperation::new().fold(&large, 4, &folded).unwrap();
    let inspection = inspect(&folded).unwrap();
    assert_eq!(inspection.capacity, Some(100_000));
    assert_eq!(inspection.segments[0].adds, inspect(&large).unwrap().segments[0].adds);

    let both = folder.at("both");
    SetOperation::new().intersection(&[&large, &small], &both).unwrap();
    assert!(inspect(&both).unwrap().segments[0].adds <= 30_000);
}

#[test]
fn the_fold_to_a_rate_is_the_smallest_that_keeps_it() {
    for layout in Layout::BLOOM {
        let folder = Folder::new();
        let path = folder.at("roomy");
        let options = Options::new().capacity(1 << 18).false_positive_rate(0.001).layout(layout);
        let mut builder = options.start_build(&path).unwrap();
        for key in 0..2000u64 {
            builder.add(key.to_le_bytes());
        }
        builder.finish().unwrap();
        let geometry = *Reader::open(&path).unwrap().geometry();
        for rate in [0.001, 0.01, 0.2] {
            let out = folder.at("out");
            let operation = SetOperation::new().replace(true);
            let derivation = operation.fold_to_rate(&path, rate, &out).unwrap();
            let factor = derivation.inputs[0].folded_by;
            assert!(derivation.inputs[0].rate_folded <= rate, "{derivation:?}");
            // The next larger divisor is one too many.
            let size = geometry.foldable();
            let next = (factor + 1..=size).find(|next| size.is_multiple_of(*next));
            if let Some(next) = next {
                let keys = derivation.inputs[0].keys.value.round() as u64;
                let smaller = geometry.folded(next).unwrap();
                assert!(bloomfile::plan::false_positive_rate(&smaller, keys) > rate);
            }
            assert!(factor >= 64, "{layout} at {rate}: {factor}");
            assert!((derivation.rate / derivation.inputs[0].rate_folded - 1.0).abs() < 0.2);
            assert!(contains(&out, 0..2000));
        }
        let result = SetOperation::new().fold_to_rate(&path, 1e-200, folder.at("none"));
        assert!(matches!(result, Err(Error::Parameter { .. })), "{result:?}");
        assert!(!folder.at("none").exists());
        assert!(SetOperation::new().fold(&path, 1_000_003, folder.at("none")).is_err());
        assert!(SetOperation::new().fold(&path, 0, folder.at("none")).is_err());
    }
}

/// The file of a writer that lost power: all that it synced is in the journal, and none of the
/// data it wrote has reached the disk.
fn crashed(folder: &Folder, geometry: Geometry, keys: std::ops::Range<u64>) -> PathBuf {
    let path = folder.at("written");
    let options = Options::new().geometry(geometry).journal_bytes(1 << 20);
    let filter = options.create(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    add(&filter, keys);
    filter.sync().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let start = data_start(&path);
    bytes[start..].copy_from_slice(&before[start..]);
    drop(filter);
    std::fs::remove_file(&path).unwrap();
    let path = folder.at("crashed");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_crashed_input_is_read_as_recovery_would_leave_it() {
    for geometry in geometries() {
        let folder = Folder::new();
        let crashed = crashed(&folder, geometry, 0..1000);
        let sound = folder.build("sound", geometry, 500..2000);
        let bytes = std::fs::read(&crashed).unwrap();
        assert_eq!(Reader::open(&crashed).unwrap().health(), Health::Crashed);
        let out = folder.at("out");
        let operation = SetOperation::new().replace(true);
        let derivation = operation.union(&[&crashed, &sound], &out).unwrap();
        assert_eq!(derivation.inputs[0].health, Health::Crashed);
        let direct = data(&folder.build("direct", geometry, 0..2000));
        assert!(data(&out) == direct);
        operation.intersection(&[&sound, &crashed], &out).unwrap();
        assert!(contains(&out, 500..1000));
        operation.fold(&crashed, 8, &out).unwrap();
        let folded = geometry.folded(8).unwrap();
        assert!(data(&out) == data(&folder.build("small", folded, 0..1000)));
        let Contents::Compared(pages) = compare(&crashed, &sound).unwrap().contents else {
            panic!()
        };
        near(pages.overlap.intersection, 500.0);

        let filter = Options::new().geometry(geometry).replace(true).create(&out).unwrap();
        filter.union_from(&Reader::open(&crashed).unwrap()).unwrap();
        filter.union_from(&Reader::open(&sound).unwrap()).unwrap();
        filter.close().unwrap();
        assert!(data(&out) == direct);
        assert!(std::fs::read(&crashed).unwrap() == bytes, "the input itself is left alone");

        // A lost bit is damage, however the file came to be as it is.
        let mut bytes = bytes;
        let filled = folder.build("filled", geometry, 0..1000);
        let mut open = std::fs::read(&filled).unwrap();
        let at = data_start(&filled);
        open[at + 4096 + 7] ^= 1;
        bytes.truncate(data_start(&crashed));
        bytes.extend_from_slice(&open[at..]);
        std::fs::write(&crashed, &bytes).unwrap();
        // More ones than journal and table explain: in the same boot that is damage.
        let refused = operation.union(&[&crashed], &out).unwrap_err().into_cause();
        assert!(matches!(refused.cause(), Error::Damaged { page: 1, .. }), "{refused:?}");
        // After a power cut: keys that had not been synced, perhaps.
        power_cut(&mut bytes);
        std::fs::write(&crashed, &bytes).unwrap();
        let derivation = operation.union(&[&crashed], &out).unwrap();
        assert_eq!(derivation.inputs[0].pages_unverified, 1);
    }
}

/// Adds keys in another thread while `work` runs again and again with the number of adds that had
/// returned before.
fn while_adding(filter: &Filter, checkpoints: bool, mut work: impl FnMut(u64)) {
    let (returned, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0u64.. {
                filter.add(key.to_le_bytes()).unwrap();
                returned.store(key + 1, Ordering::Release);
                if done.load(Ordering::Relaxed) {
                    break;
                }
                match key % 1000 {
                    300 => filter.sync().unwrap(),
                    900 if checkpoints => filter.checkpoint().unwrap(),
                    _ => {}
                }
                // Room enough for the filter not to fill up before the end of the test.
                if key > 200_000 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        // Also when an assertion fails, or the scope would wait for ever.
        let _end = AtEnd(&done);
        for _ in 0..6 {
            work(returned.load(Ordering::Acquire));
        }
    });
}

struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_result_holds_every_key_whose_add_had_returned() {
    let geometries = [
        Geometry::rows(4, 2_000_000),
        Geometry::flat(4, 8_000_000),
        Geometry::page(7, 256),
        Geometry::line(8, 16_384),
    ];
    for (at, geometry) in geometries.into_iter().map(Result::unwrap).enumerate() {
        for journal_bytes in [0, 1 << 14, 1 << 20] {
            let folder = Folder::new();
            let (live, out) = (folder.at("live"), folder.at("out"));
            let options = Options::new().geometry(geometry).journal_bytes(journal_bytes);
            let filter = options.create(&live).unwrap();
            // From the first change on it is live.
            filter.add(b"first").unwrap();
            let full = folder.build("full", geometry, 0..400_000);
            let operation = SetOperation::new().replace(true);
            while_adding(&filter, at % 2 == 0, |returned| {
                let derivation = operation.union(&[&live], &out).unwrap();
                assert_eq!(derivation.inputs[0].health, Health::Live);
                assert!(contains(&out, 0..returned), "{geometry}, journal {journal_bytes}");
                // What a live writer's full journal did not log leaves no doubt.
                assert!(verify(&out).unwrap().is_sound());
            });
            while_adding(&filter, at % 2 == 0, |returned| {
                operation.intersection(&[&full, &live], &out).unwrap();
                assert!(contains(&out, 0..returned), "{geometry}, journal {journal_bytes}");
            });
            let reader = Reader::open(&live).unwrap();
            let sink = Options::new().geometry(geometry).create(folder.at("sink")).unwrap();
            while_adding(&filter, at % 2 == 0, |returned| {
                sink.union_from(&reader).unwrap();
                assert!((0..returned).all(|key| sink.contains(key.to_le_bytes())));
            });
        }
    }
}

#[test]
fn a_live_input_that_lost_a_bit_is_refused() {
    let folder = Folder::new();
    let geometry = Geometry::line(8, 2560).unwrap();
    let live = folder.at("live");
    let filter = Options::new().geometry(geometry).create(&live).unwrap();
    add(&filter, 0..20_000);
    filter.checkpoint().unwrap();
    add(&filter, 20_000..20_100);
    let out = folder.at("out");
    let operation = SetOperation::new().replace(true);
    operation.union(&[&live], &out).unwrap();
    assert!(contains(&out, 0..20_100));
    // Through the page cache the change is in the writer's map at once.
    let file = std::fs::OpenOptions::new().write(true).open(&live).unwrap();
    let (start, bytes) = (data_start(&live), std::fs::read(&live).unwrap());
    let at = (start + 5 * 4096..bytes.len()).find(|&at| bytes[at] != 0).unwrap();
    write_at(&file, &[bytes[at] & (bytes[at] - 1)], at as u64);
    let error = operation.union(&[&live], &out).unwrap_err().into_cause();
    assert!(error.is_damage(), "{error}");
    drop(filter);
}

#[test]
fn union_from_is_durable_and_folds() {
    for geometry in geometries() {
        let folder = Folder::new();
        let large = folder.build("large", geometry, 0..3000);
        let small = geometry.folded(4).unwrap();
        let path = folder.at("filter");
        let filter = Options::new().geometry(small).create(&path).unwrap();
        add(&filter, 2000..4000);
        let absorbed = filter.union_from(&Reader::open(&large).unwrap()).unwrap();
        assert_eq!(absorbed.folded_by, 4);
        assert!(absorbed.cells_set > 0, "{absorbed:?}");
        near(absorbed.keys, 4000.0);
        assert!(filter.adds().abs_diff(4000) < 200, "{}", filter.adds());
        // It ended in a checkpoint: what a power cut leaves from here on needs no journal.
        let copy = folder.at("copy");
        std::fs::copy(&path, &copy).unwrap();
        let verification = verify(&copy).unwrap();
        assert_eq!(verification.health, Health::Crashed);
        assert_eq!(verification.pages_exact, verification.pages);
        assert_eq!(verification.journal_records, 0);
        assert!(contains(&copy, 0..4000));
        let direct = folder.build("direct", small, 0..4000);
        assert!(data(&copy) == data(&direct));
        let again = filter.union_from(&Reader::open(&large).unwrap()).unwrap();
        assert_eq!(again.cells_set, 0);
        // Logged again as before: a record for each new key.
        filter.add(b"one more").unwrap();
        filter.sync().unwrap();
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(verify(&copy).unwrap().journal_records, 1);
        filter.close().unwrap();
    }
}

/// An add that finds its bits set by a union under way leaves no record. The sync after it must
/// then not return before those bits are durable.
#[test]
fn a_key_that_a_union_under_way_brought_survives_the_sync_of_its_adder() {
    let folder = Folder::new();
    let geometry = Geometry::page(7, 16_384).unwrap();
    let other = folder.build("other", geometry, 0..2000);
    // The union may be over before this thread has looked.
    assert!((0..50).any(|_| sync_during_union(&folder, geometry, &other)));
}

/// Whether a sync came between the first and the last bit of a union.
fn sync_during_union(folder: &Folder, geometry: Geometry, other: &Path) -> bool {
    let (path, copy) = (folder.at("filter"), folder.at("copy"));
    let filter = Options::new().geometry(geometry).replace(true).create(&path).unwrap();
    let reader = Reader::open(other).unwrap();
    std::thread::scope(|scope| {
        let union = scope.spawn(|| filter.union_from(&reader).unwrap());
        while !union.is_finished() {
            // Keys that are in without anyone having added them: the union brought their bits.
            let held: Vec<u64> =
                (0..2000).filter(|key: &u64| filter.contains(key.to_le_bytes())).collect();
            if held.is_empty() || held.len() == 2000 {
                continue;
            }
            assert!(held.iter().all(|key| !filter.add(key.to_le_bytes()).unwrap()));
            filter.sync().unwrap();
            // What is durable for certain: what the newest page table describes.
            std::fs::copy(&path, &copy).unwrap();
            let ones = inspect(&copy).unwrap().segments[0].ones;
            assert!(ones >= held.len() as u64, "{ones} ones, {} keys", held.len());
            return true;
        }
        false
    })
}

#[test]
fn comparing_names_the_pages_that_differ() {
    for geometry in geometries() {
        let folder = Folder::new();
        let a = folder.build("a", geometry, 0..6000);
        let same = folder.build("same", geometry, 0..6000);
        let pages = |a: &Path, b: &Path| match compare(a, b).unwrap().contents {
            Contents::Compared(pages) => *pages,
            other => panic!("{other:?}"),
        };
        let equal = pages(&a, &same);
        assert_eq!((equal.relation, equal.pages_differing), (Relation::Equal, 0));
        assert!(compare(&a, &same).unwrap().is_same());
        assert!(equal.differing.is_empty() && equal.overlap.jaccard.value > 0.999);

        let more = folder.build("more", geometry, 0..6001);
        let superset = pages(&more, &a);
        assert_eq!(superset.relation, Relation::Superset);
        assert_eq!(pages(&a, &more).relation, Relation::Subset);
        assert!((1..=8).contains(&superset.pages_differing), "{superset:?}");
        assert!(!compare(&a, &more).unwrap().is_same());
        let (left, right) = (data(&more), data(&a));
        let differing: Vec<u64> = (0..superset.pages)
            .filter(|&page| {
                let at = page as usize * 4096..(page as usize + 1) * 4096;
                left[at.clone()] != right[at]
            })
            .collect();
        let listed: Vec<u64> =
            superset.differing.iter().flat_map(|run| run.first..run.first + run.pages).collect();
        assert_eq!(listed, differing);

        let other = folder.build("other", geometry, 3000..9000);
        let neither = pages(&a, &other);
        assert_eq!(neither.relation, Relation::Neither);
        near(neither.overlap.intersection, 3000.0);
        // The same keys at a quarter of the size.
        let small = folder.build("small", geometry.folded(4).unwrap(), 3000..9000);
        let folded = pages(&a, &small);
        assert_eq!(folded.relation, Relation::Neither);
        near(folded.overlap.intersection, 3000.0);
        assert_eq!(pages(&other, &small).relation, Relation::Equal);
        let comparison = compare(&other, &small).unwrap();
        assert!(!comparison.is_same(), "the same keys, but not the same answers");
        assert_eq!((comparison.a.folded_by, comparison.b.folded_by), (4, 1));
        let differing: Vec<&str> = comparison
            .parameters
            .iter()
            .filter(|pair| !pair.is_same())
            .map(|pair| pair.name)
            .collect();
        let unit = match geometry.layout() {
            Layout::Rows | Layout::Flat => "row bits",
            _ => "blocks",
        };
        assert!(differing.contains(&unit) && !differing.contains(&"layout"), "{differing:?}");
    }
}

#[test]
fn many_files_are_asked_together_whatever_their_seeds_and_sizes() {
    let folder = Folder::new();
    let mut paths = Vec::new();
    for file in 0..60u64 {
        let path = folder.at(&file.to_string());
        let options = Options::new().capacity(100 + file).false_positive_rate(1e-9);
        let filter = options.seed(file % 3).journal_bytes(0).create(&path).unwrap();
        add(&filter, (0..100u64).filter(|key| key % (file + 1) == 0));
        paths.push(path);
    }
    let readers = Readers::open(&paths).unwrap();
    assert_eq!(readers.len(), 60);
    for key in 0..100u64 {
        let expected: Vec<usize> = (0..60).filter(|file| key % (*file as u64 + 1) == 0).collect();
        assert_eq!(readers.which(key.to_le_bytes()), expected);
    }
    assert!(readers.which(b"nowhere").is_empty() && !readers.any(b"nowhere"));
    paths.push(folder.at("missing"));
    let error = Readers::open(&paths).unwrap_err();
    assert!(matches!(error, Error::File { path, .. } if path == folder.at("missing")));
}

//! Counting, growing, rotating and refusing filters.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bloomfile::{
    CellKind, Error, Filter, Options, ReadOptions, Reader, WhenFull,
    geometry::Layout,
    ops::{SetOperation, repair},
    plan,
    reader::Access,
    report::{inspect, verify},
};

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A place for a file, and the folder that goes away with it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.bloom");
    (folder, path)
}

/// A seeded sequence of numbers.
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % below
    }
}

#[test]
fn counting_filters_follow_a_multiset() {
    for layout in Layout::BLOOM {
        let (_folder, path) = place();
        let options = Options::new()
            .capacity(20_000)
            .false_positive_rate(0.01)
            .layout(layout)
            .kind(CellKind::Counting);
        let mut filter = options.create(&path).unwrap();
        let mut model: HashMap<u64, u32> = HashMap::new();
        let mut next = numbers(layout as u64);
        for step in 0..120_000u64 {
            let number = next(30_000);
            if next(5) < 3 {
                // Below 15 a counter is exact; a key is not added so often that it sticks.
                if model.get(&number).copied().unwrap_or(0) < 3 {
                    let new = filter.add(key(number)).unwrap();
                    let count = model.entry(number).or_default();
                    assert!(*count == 0 || !new, "{layout}: key {number} was in already");
                    *count += 1;
                }
            } else if let Some(count) = model.get_mut(&number) {
                filter.remove(key(number)).unwrap();
                *count -= 1;
                if *count == 0 {
                    model.remove(&number);
                }
            }
            match step % 20_000 {
                7_000 => filter.sync().unwrap(),
                13_000 => filter.checkpoint().unwrap(),
                19_999 => {
                    filter.close().unwrap();
                    assert!(verify(&path).unwrap().is_sound());
                    filter = Filter::open(&path).unwrap();
                }
                _ => {}
            }
        }
        for (&number, &count) in &model {
            assert!(filter.contains(key(number)), "{layout}: key {number} is lost");
            assert!(u32::from(filter.count_estimate(key(number)).unwrap()) >= count.min(15));
        }
        // The rate is that of the keys that remain.
        filter.sync().unwrap();
        let keys = model.len() as u64;
        let asked = 400_000;
        let wrong = (0..asked).filter(|n| filter.contains(key(n + (1 << 40)))).count() as f64;
        let expected = plan::false_positive_rate(filter.geometry(), keys) * asked as f64;
        let slack = 0.05 * expected + 4.0 * expected.sqrt() + 4.0;
        assert!((wrong - expected).abs() < slack, "{layout}: {wrong} wrong, {expected} expected");
        // Everything taken out leaves an empty filter, but for counters that stick.
        for (&number, &count) in &model {
            (0..count).for_each(|_| filter.remove(key(number)).unwrap());
        }
        filter.close().unwrap();
        let ones = inspect(&path).unwrap().segments[0].ones;
        assert!(ones < 20, "{layout}: {ones} counters are left");
    }
}

/// Removing what is not in is an error and changes nothing (F-130).
#[test]
fn a_key_that_is_not_in_cannot_be_taken_out() {
    let (_folder, path) = place();
    let filter = Options::new()
        .capacity(100)
        .false_positive_rate(0.01)
        .kind(CellKind::Counting)
        .create(&path)
        .unwrap();
    filter.add(b"in").unwrap();
    assert!(matches!(filter.remove(b"out").map_err(Error::into_cause), Err(Error::NotPresent)));
    filter.remove(b"in").unwrap();
    assert!(matches!(filter.remove(b"in").map_err(Error::into_cause), Err(Error::NotPresent)));
    assert_eq!(filter.count_estimate(b"in"), Some(0));
    // A counter that reached 15 stays, so that no other key can be lost by it.
    for _ in 0..40 {
        filter.add(b"often").unwrap();
    }
    assert_eq!(filter.count_estimate(b"often"), Some(15));
    (0..40).for_each(|_| filter.remove(b"often").unwrap());
    assert!(filter.contains(b"often"));

    let plain = Options::new().capacity(9).false_positive_rate(0.1).replace(true);
    drop(filter);
    let plain = plain.create(&path).unwrap();
    plain.add(b"in").unwrap();
    assert!(matches!(plain.remove(b"in").map_err(Error::into_cause), Err(Error::Parameter { .. })));
    assert_eq!(plain.count_estimate(b"in"), None);
}

/// Changes are logged first, and made in the data when a sync has made the log durable (F-130).
#[test]
fn counters_are_seen_by_readers_once_they_are_synced() {
    let (_folder, path) = place();
    let filter = Options::new()
        .capacity(1000)
        .false_positive_rate(0.01)
        .kind(CellKind::Counting)
        .create(&path)
        .unwrap();
    filter.add(b"new").unwrap();
    assert!(filter.contains(b"new"));
    let reader = Reader::open(&path).unwrap();
    assert!(!reader.contains(b"new"));
    filter.sync().unwrap();
    assert!(reader.contains(b"new") && Reader::open(&path).unwrap().contains(b"new"));
    filter.remove(b"new").unwrap();
    filter.sync().unwrap();
    assert!(!reader.contains(b"new"));
}

/// Live, left by a crash, closed and damaged: of one segment and of several.
#[test]
fn readers_count_as_the_filter_does() {
    let options =
        || Options::new().capacity(1000).false_positive_rate(1e-4).kind(CellKind::Counting);
    for (name, options) in [
        ("fixed", options()),
        ("flat", options().layout(Layout::Flat)),
        ("growing", options().grow()),
        ("rotating", options().generations(3)),
    ] {
        let (folder, path) = place();
        let filter = options.create(&path).unwrap();
        let times = |number: u64| number % 20;
        for number in 0..300 {
            for _ in 0..times(number) {
                filter.add(key(number)).unwrap();
            }
            if number == 150 && name == "rotating" {
                filter.rotate().unwrap();
            }
        }
        filter.sync().unwrap();
        let expected: Vec<Option<u8>> = (0..400).map(|n| filter.count_estimate(key(n))).collect();
        assert_eq!(expected[7..9], [Some(7), Some(8)], "{name}");
        assert_eq!(expected[19], Some(15), "{name}");
        let counts = |path: &Path, access: Access| {
            let reader = ReadOptions::new().access(access).open(path).unwrap();
            (0..400).map(|n| reader.count_estimate(key(n))).collect::<Vec<_>>()
        };
        let crashed = folder.path().join("crashed");
        std::fs::copy(&path, &crashed).unwrap();
        for access in [Access::Mapped, Access::Memory] {
            assert!(counts(&path, access) == expected, "{name}, {access:?}: live");
            assert!(counts(&crashed, access) == expected, "{name}, {access:?}: crashed");
        }
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.count_estimate(key(7)), Some(7), "{name}");
        filter.remove(key(7)).unwrap();
        filter.close().unwrap();
        assert_eq!(reader.count_estimate(key(7)), Some(6), "{name}: of a reader opened before");
        drop(reader);
        let mut bytes = std::fs::read(&path).unwrap();
        // Every page of the newest segment is lost.
        let newest = inspect(&path).unwrap().segments.pop().unwrap();
        let data = (newest.offset + newest.table_bytes) as usize;
        bytes[data..][..newest.data_bytes as usize].fill(0);
        std::fs::write(&path, bytes).unwrap();
        for access in [Access::Mapped, Access::Memory] {
            let found = counts(&path, access);
            assert!(found.iter().all(|&count| count == Some(15)), "{name}, {access:?}: {found:?}");
        }
    }
    let (_folder, path) = place();
    Options::new().capacity(9).false_positive_rate(0.1).create(&path).unwrap().close().unwrap();
    assert_eq!(Reader::open(&path).unwrap().count_estimate("sheep"), None);
}

#[test]
fn a_growing_filter_keeps_its_rate() {
    let (_folder, path) = place();
    let rate = 0.01;
    let filter =
        Options::new().capacity(1_000).false_positive_rate(rate).grow().create(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    let keys = 500_000;
    for number in 0..keys {
        filter.add(key(number)).unwrap();
        // A reader that was there before sees the segments come.
        if number % 97 == 0 {
            assert!(reader.contains(key(number)), "the reader misses key {number}");
        }
    }
    assert!(filter.segments() >= 9, "{} segments", filter.segments());
    assert_eq!(reader.segments(), filter.segments());
    filter.close().unwrap();
    assert!(verify(&path).unwrap().is_sound());
    let filter = Filter::open(&path).unwrap();
    assert!((0..keys).all(|number| filter.contains(key(number))));
    assert!(!filter.add(key(5)).unwrap(), "a key that is in is not added again");
    let asked = 300_000;
    let wrong = (0..asked).filter(|n| filter.contains(key(n + (1 << 40)))).count() as f64;
    assert!(wrong / (asked as f64) < rate, "{wrong} of {asked}");
    let inspection = inspect(&path).unwrap();
    let bits: u64 = inspection.segments.iter().map(|segment| segment.cells).sum();
    let single = bloomfile::Plan::new(keys, rate, None).unwrap().cells() as f64;
    assert!((bits as f64) < 2.5 * single, "{bits} bits against {single}");
}

#[test]
fn a_rotating_filter_forgets() {
    for kind in [CellKind::Plain, CellKind::Counting] {
        let (_folder, path) = place();
        let filter = Options::new()
            .capacity(2_000)
            .false_positive_rate(0.001)
            .generations(3)
            .kind(kind)
            .create(&path)
            .unwrap();
        let reader = Reader::open(&path).unwrap();
        let generation = |generation: u64| (generation << 32..).take(1_500).map(key);
        for number in 0..10 {
            for key in generation(number) {
                assert!(filter.add(key).unwrap() || number > 0);
            }
            filter.sync().unwrap();
            for old in 0..=number {
                let held = generation(old).filter(|key| filter.contains(key)).count();
                let seen = generation(old).filter(|key| reader.contains(key)).count();
                assert_eq!(held, seen, "a reader sees generation {old} otherwise");
                if old + 3 > number {
                    assert_eq!(held, 1_500, "generation {old} at {number}");
                } else {
                    // What is left of older ones is the false positives of three filters.
                    assert!(held < 30, "{held} of generation {old} at {number}");
                }
            }
            filter.rotate().unwrap();
        }
        filter.close().unwrap();
        assert!(verify(&path).unwrap().is_sound());
        let filter = Filter::open(&path).unwrap();
        assert_eq!(filter.segments(), 3);
        assert!(generation(9).all(|key| filter.contains(key)));
    }
}

/// The rate asked for is that of the file, of whatever kind, once all of it is full.
#[test]
fn the_rate_asked_for_is_that_of_the_whole_file() {
    const CAPACITY: u64 = 10_000;
    const ASKED: u64 = 400_000;
    let options = || Options::new().capacity(CAPACITY);
    let rotating = |generations| options().generations(generations).rotate_after(CAPACITY);
    let mut kinds = vec![
        ("plain", 1, options()),
        ("refusing", 1, options().when_full(WhenFull::Refuse)),
        ("counting", 1, options().kind(CellKind::Counting)),
        ("growing", 7, options().grow()),
        ("growing and counting", 3, options().grow().kind(CellKind::Counting)),
        ("rotating and counting", 3, rotating(3).kind(CellKind::Counting)),
    ];
    kinds.extend([2, 8, 24].map(|generations| ("rotating", generations, rotating(generations))));
    for (kind, parts, options) in kinds {
        for rate in [0.01, 0.001] {
            let (_folder, path) = place();
            let filter = options.clone().false_positive_rate(rate).create(&path).unwrap();
            for number in 0..parts * CAPACITY {
                let _ = filter.add(key(number)).unwrap();
            }
            let wrong = (0..ASKED).filter(|n| filter.contains(key(n + (1 << 40)))).count() as f64;
            let measured = wrong / ASKED as f64;
            // Three deviations of what is measured.
            let chance = 3.0 * (rate / ASKED as f64).sqrt();
            assert!(measured < 1.03 * rate + chance, "{kind}, {parts}: {measured} of {rate}");
            // No more exact than it must be, as far as the whole of it is full: pages of few keys,
            // and the rates of segments still to come, leave room.
            let full = kind == "rotating" && parts <= 8;
            assert!(!full || measured > 0.6 * rate, "{kind}, {parts}: {measured} of {rate}");
            let inspection = inspect(&path).unwrap();
            assert!(inspection.rate_at_capacity().unwrap() <= rate, "{kind}, {parts}");
            assert_eq!(inspection.target_rate, Some(rate));
        }
    }
}

#[test]
fn the_rate_of_each_generation_has_a_name() {
    let (_folder, path) = place();
    let options = Options::new().capacity(10_000).generation_rate(0.01);
    assert!(options.create(&path).unwrap_err().to_string().contains("goes with generations"));
    options.generations(8).create(&path).unwrap();
    let inspection = inspect(&path).unwrap();
    let (asked, expected) =
        (inspection.target_rate.unwrap(), inspection.rate_at_capacity().unwrap());
    assert!((asked - (1.0 - 0.99f64.powi(8))).abs() < 1e-12, "{asked}");
    assert!(expected <= asked && expected > 0.9 * asked, "{expected} of {asked}");
}

#[test]
fn a_filter_rotates_by_itself_and_remembers_what_comes_again() {
    let (_folder, path) = place();
    let filter = Options::new()
        .capacity(100)
        .false_positive_rate(0.001)
        .generations(2)
        .rotate_after(100)
        .create(&path)
        .unwrap();
    assert!(filter.add(b"again").unwrap());
    for number in 0..1000 {
        filter.add(key(number)).unwrap();
        // Known, though in another generation than the newest: so it is added to that.
        assert!(!filter.add(b"again").unwrap());
    }
    assert!(filter.contains(b"again"));
    let kept = (0..1000).filter(|&number| filter.contains(key(number))).count();
    assert!((98..205).contains(&kept), "{kept} of 1000 are kept");
}

#[test]
fn a_full_filter_refuses_if_it_was_made_to() {
    for kind in [CellKind::Plain, CellKind::Counting] {
        let (_folder, path) = place();
        let filter = Options::new()
            .capacity(50)
            .false_positive_rate(0.0001)
            .when_full(WhenFull::Refuse)
            .kind(kind)
            .create(&path)
            .unwrap();
        (0..50).for_each(|number| assert!(filter.add(key(number)).unwrap()));
        assert!(!filter.add(key(7)).unwrap(), "a key that is in needs no room");
        assert!(matches!(
            filter.add(b"more").map_err(Error::into_cause),
            Err(Error::Full { capacity: 50, .. })
        ));
        assert!(!filter.contains(b"more") && !filter.is_poisoned());
        if kind == CellKind::Counting {
            (0..2).for_each(|_| filter.remove(key(7)).unwrap());
            assert!(filter.add(b"more").unwrap());
        }
        drop(filter);
        let filter = Filter::open(&path).unwrap();
        assert!(matches!(
            filter.add(b"still more").map_err(Error::into_cause),
            Err(Error::Full { .. })
        ));
    }
}

#[test]
fn damaged_files_of_every_kind_are_repaired_without_losing_a_key() {
    let kinds: [fn(Options) -> Options; 3] = [
        |options| options.kind(CellKind::Counting),
        |options| options.grow(),
        |options| options.generations(2),
    ];
    for options in kinds {
        let (_folder, path) = place();
        let filter = options(Options::new().capacity(2_000).false_positive_rate(0.01))
            .create(&path)
            .unwrap();
        for number in 0..5_000 {
            filter.add(key(number)).unwrap();
        }
        filter.close().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        // The first page of data of the first segment.
        let inspection = inspect(&path).unwrap();
        let segment = &inspection.segments[0];
        let data = (segment.offset + segment.table_bytes) as usize;
        bytes[data + 100..data + 200].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(verify(&path).unwrap().pages_damaged, [0]);
        assert!(matches!(
            Filter::open(&path).map_err(Error::into_cause),
            Err(Error::Damaged { segment: 0, page: 0, .. })
        ));
        let report = repair(&path).unwrap();
        assert_eq!(report.pages_repaired, [0]);
        assert!(verify(&path).unwrap().is_sound());
        let filter = Filter::open(&path).unwrap();
        assert!((0..5_000).all(|number| filter.contains(key(number))));
    }
}

#[test]
fn the_export_of_counters_is_the_plain_filter_of_the_keys() {
    for layout in Layout::BLOOM {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let options = Options::new().capacity(20_000).false_positive_rate(0.01).layout(layout);
        let counting = options.clone().kind(CellKind::Counting).create(at("home")).unwrap();
        let mut plain = options.start_build(at("plain")).unwrap();
        for number in 0..30_000 {
            counting.add(key(number)).unwrap();
        }
        // Some are taken out again, and counters that they shared stay.
        for number in 15_000..30_000 {
            counting.remove(key(number)).unwrap();
        }
        for number in 0..15_000 {
            plain.add(key(number));
        }
        counting.close().unwrap();
        plain.finish().unwrap();
        SetOperation::new().export(at("home"), at("digest")).unwrap();
        let [digest, plain] = ["digest", "plain"].map(|name| {
            let bytes = std::fs::read(at(name)).unwrap();
            let segment = &inspect(at(name)).unwrap().segments[0];
            bytes[(segment.offset + segment.table_bytes) as usize..].to_vec()
        });
        // A counter at 15 stays, so that the export may have a few bits more, never fewer.
        assert_eq!(digest.len(), plain.len());
        assert!(digest.iter().zip(&plain).all(|(digest, plain)| digest & plain == *plain));
        let more = digest.iter().zip(&plain).map(|(d, p)| (d ^ p).count_ones()).sum::<u32>();
        assert!(more < 20, "{layout}: {more} bits more");
        assert!(verify(at("digest")).unwrap().is_sound());
        // It merges with plain filters built the same way.
        SetOperation::new().union(&[at("digest"), at("plain")], at("both")).unwrap();
        assert!(SetOperation::new().export(at("plain"), at("again")).is_err());
    }
}

#[test]
fn merging_counting_files_adds_their_counters() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options =
        Options::new().capacity(1_000).false_positive_rate(0.001).kind(CellKind::Counting);
    for (name, times) in [("a", 2), ("b", 3), ("c", 14)] {
        let filter = options.create(at(name)).unwrap();
        (0..times).for_each(|_| assert!(filter.add(b"shared").is_ok()));
        filter.add(name.as_bytes()).unwrap();
        filter.close().unwrap();
    }
    SetOperation::new().union(&[at("a"), at("b")], at("two")).unwrap();
    let two = Filter::open(at("two")).unwrap();
    assert_eq!(two.count_estimate(b"shared"), Some(5));
    (0..5).for_each(|_| two.remove(b"shared").unwrap());
    assert!(!two.contains(b"shared") && two.contains(b"a") && two.contains(b"b"));
    SetOperation::new().union(&[at("a"), at("b"), at("c")], at("three")).unwrap();
    let three = Filter::open(at("three")).unwrap();
    assert_eq!(three.count_estimate(b"shared"), Some(15), "counters saturate");
}

#[test]
fn growing_files_are_joined_segment_by_segment() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for kind in [CellKind::Plain, CellKind::Counting] {
        let options =
            Options::new().capacity(500).false_positive_rate(0.01).grow().kind(kind).replace(true);
        for (name, keys) in [("small", 0..300), ("large", 10_000..14_000)] {
            let filter = options.create(at(name)).unwrap();
            keys.for_each(|number| assert!(filter.add(key(number)).is_ok()));
            filter.close().unwrap();
        }
        let union = SetOperation::new().replace(true);
        let derivation = union.union(&[at("small"), at("large")], at("both")).unwrap();
        assert!(derivation.rate < 0.02, "{derivation:?}");
        assert!(verify(at("both")).unwrap().is_sound());
        // The joined file is a growing filter, which goes on to grow.
        let both = Filter::open(at("both")).unwrap();
        assert_eq!(both.segments(), 4);
        assert!((0..300).chain(10_000..14_000).all(|number| both.contains(key(number))));
        (20_000..40_000).for_each(|number| assert!(both.add(key(number)).is_ok()));
        assert!(both.segments() > 4);
        both.close().unwrap();

        let other = options.clone().capacity(501).create(at("other")).unwrap();
        other.close().unwrap();
        let fixed = Options::new().capacity(500).false_positive_rate(0.01).kind(kind);
        fixed.replace(true).create(at("fixed")).unwrap().close().unwrap();
        // Of those that were made otherwise, other sizes become segments of their own.
        for (name, segments) in [("other", 1), ("fixed", 2)] {
            let joined = union.union(&[at("small"), at(name)], at("joined")).unwrap();
            assert_eq!(joined.segments, segments, "{name}");
            let reader = Reader::open(at("joined")).unwrap();
            assert!((0..300).all(|number| reader.contains(key(number))), "{name}");
        }
        assert!(union.intersection(&[at("small"), at("large")], at("no")).is_err());
    }
}

#[test]
#[ignore = "a minute: cargo test --release --test kinds -- --ignored"]
fn a_filter_for_ten_thousand_keys_grows_to_ten_million() {
    let (_folder, path) = place();
    let (rate, keys) = (0.01, 10_000_000);
    let filter =
        Options::new().capacity(10_000).false_positive_rate(rate).grow().create(&path).unwrap();
    (0..keys).for_each(|number| assert!(filter.add(key(number)).is_ok()));
    filter.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!((0..keys).all(|number| reader.contains(key(number))));
    let asked = 10_000_000;
    let wrong = (0..asked).filter(|n| reader.contains(key(n + (1 << 40)))).count() as f64;
    let bits: u64 = inspect(&path).unwrap().segments.iter().map(|segment| segment.cells).sum();
    let single = bloomfile::Plan::new(keys, rate, None).unwrap().cells();
    let (measured, ratio) = (wrong / asked as f64, bits as f64 / single as f64);
    println!(
        "{} segments, measured rate {measured:.6}, {ratio:.3} times the bits",
        reader.segments()
    );
    assert!(measured < rate && ratio < 2.5);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let (_folder, path) = place();
    let options = || Options::new().capacity(100).false_positive_rate(0.01);
    for options in [
        options().generations(1),
        options().generations(33),
        options().generations(2).grow(),
        options().rotate_after(5),
        Options::new().rows(3).row_bits(500).grow(),
        Options::new().rows(3).row_bits(500).when_full(WhenFull::Refuse),
    ] {
        let result = options.create(&path);
        assert!(
            matches!(result.map_err(Error::into_cause), Err(Error::Parameter { .. })),
            "{options:?}"
        );
        assert!(!path.exists());
    }
    assert!(options().kind(CellKind::Counting).start_build(&path).is_err());
}

/// Folding would have to add counters that are not those of one key.
#[test]
fn counters_are_not_folded() {
    let (folder, path) = place();
    let options = Options::new().capacity(1000).false_positive_rate(0.01);
    options.kind(CellKind::Counting).create(&path).unwrap().close().unwrap();
    let small = folder.path().join("small.bloom");
    let error = SetOperation::new().fold(&path, 2, &small).unwrap_err().into_cause();
    assert!(error.to_string().contains("counters cannot be folded"), "{error}");
    let error = SetOperation::new().fold_to_rate(&path, 0.5, &small).unwrap_err().into_cause();
    assert!(error.to_string().contains("counters cannot be folded"), "{error}");
    assert!(!small.exists());
}

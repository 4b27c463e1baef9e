//! What a file that was closed tells: nothing of its journal's records (F-88).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::Path;

use bloomfile::{
    CellKind, Filter, Options, Reader,
    geometry::Geometry,
    ops::{SetOperation, repair},
    report::{inspect, verify},
};
use common::*;

/// Where the journal begins (format-spec.md).
const JOURNAL: usize = 12288;

/// Words of the journal that are not zero.
fn words_left(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let length = inspect(path).unwrap().journal_bytes as usize;
    let journal = &bytes[JOURNAL..JOURNAL + length];
    journal.chunks_exact(8).filter(|word| word.iter().any(|&byte| byte != 0)).count()
}

fn kinds() -> Vec<(&'static str, Options)> {
    let exact = || {
        Options::new().geometry(Geometry::line(8, 600).unwrap()).journal_bytes(32_768).seed(0x5eed)
    };
    let planned = || {
        Options::new().capacity(150).false_positive_rate(0.01).journal_bytes(32_768).seed(0x5eed)
    };
    vec![
        ("plain", exact()),
        ("growing", planned().grow()),
        ("rotating", exact().generations(2)),
        ("counting", exact().kind(CellKind::Counting)),
        ("counting growing", planned().grow().kind(CellKind::Counting)),
    ]
}

fn add(filter: &Filter, keys: std::ops::Range<u64>) {
    for key in keys {
        filter.add(key.to_le_bytes()).unwrap();
    }
}

#[test]
fn f88_a_closed_file_holds_no_records() {
    let folder = Folder::new();
    for (kind, options) in kinds() {
        let path = folder.at(kind);
        let filter = options.create(&path).unwrap();
        add(&filter, 0..40);
        filter.sync_with_mark(1).unwrap();
        add(&filter, 40..47);
        let live = folder.at("live");
        std::fs::copy(&path, &live).unwrap();
        assert!(words_left(&live) > 0, "{kind}");
        // Taken for crashed: recovered and closed, or repaired.
        let recovered = Filter::open(&live).unwrap();
        assert!(recovered.recovery().is_some());
        recovered.close().unwrap();
        assert_eq!(words_left(&live), 0, "{kind}: recovered");
        std::fs::copy(&path, &live).unwrap();
        repair(&live).unwrap();
        assert_eq!(words_left(&live), 0, "{kind}: repaired");
        filter.close().unwrap();
        assert_eq!(words_left(&path), 0, "{kind}");
        for (session, count) in [(1, 400), (2, 5_000), (3, 0), (4, 3)] {
            let filter = Filter::open(&path).unwrap();
            add(&filter, session * 10_000..session * 10_000 + count);
            filter.sync_with_mark(session).unwrap();
            if session % 2 == 1 {
                filter.set_metadata("session", Some("odd")).unwrap();
            } else {
                add(&filter, session * 20_000..session * 20_000 + 7);
            }
            // Dropping closes as well.
            if session == 4 {
                drop(filter)
            } else {
                filter.close().unwrap()
            }
            assert_eq!(words_left(&path), 0, "{kind}: session {session}");
            assert!(verify(&path).unwrap().is_sound(), "{kind}: session {session}");
            let reader = Reader::open(&path).unwrap();
            assert_eq!(reader.mark(), session, "{kind}");
            if kind != "rotating" {
                let last = session * 10_000..session * 10_000 + count;
                assert!(last.into_iter().all(|key| reader.contains(key.to_le_bytes())), "{kind}");
            }
        }
    }
}

#[test]
fn f88_new_files_hold_no_records() {
    let folder = Folder::new();
    let options = || Options::new().geometry(Geometry::line(8, 600).unwrap()).seed(7);
    let live = options().create(folder.at("live")).unwrap();
    add(&live, 0..500);
    live.sync().unwrap();
    let mut builder = options().start_build(folder.at("built")).unwrap();
    (0..500u64).for_each(|key| assert!(builder.add(key.to_le_bytes()) || key > 0));
    builder.finish().unwrap();
    let counting = options().kind(CellKind::Counting).create(folder.at("counting")).unwrap();
    add(&counting, 0..500);
    counting.sync().unwrap();
    let inputs = [folder.at("live"), folder.at("built")];
    SetOperation::new().union(&inputs, folder.at("union")).unwrap();
    SetOperation::new().intersection(&inputs, folder.at("intersection")).unwrap();
    SetOperation::new().fold(folder.at("live"), 2, folder.at("fold")).unwrap();
    SetOperation::new().export(folder.at("counting"), folder.at("export")).unwrap();
    for name in ["built", "union", "intersection", "fold", "export"] {
        assert_eq!(words_left(&folder.at(name)), 0, "{name}");
    }
    // A union that is taken in leaves a record that says that cells came without any.
    let taken = options().create(folder.at("taken")).unwrap();
    taken.union_from(&Reader::open(folder.at("built")).unwrap()).unwrap();
    taken.close().unwrap();
    assert_eq!(words_left(&folder.at("taken")), 0);
}

/// What a rotating file dropped last is still in it (README, "What a file tells a stranger"), until the
/// region is needed again. A clean copy does not have it.
#[test]
fn f28_a_generation_that_was_dropped_stays_until_its_region_is_taken() {
    let folder = Folder::new();
    let path = folder.at("rotating");
    let options = Options::new().geometry(Geometry::line(8, 600).unwrap()).generations(2);
    options.create(&path).unwrap().close().unwrap();
    let open = || Filter::open(&path).unwrap();
    let filter = open();
    add(&filter, 0..600);
    filter.checkpoint().unwrap();
    let start = data_start(&path);
    let line = std::fs::read(&path).unwrap()[start..start + 64].to_vec();
    assert!(line.iter().any(|&byte| byte != 0));
    filter.rotate().unwrap();
    filter.rotate().unwrap();
    filter.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    let found = (0..600u64).filter(|key| reader.contains(key.to_le_bytes())).count();
    assert_eq!(found, 0, "it was dropped");
    let has_line = |path: &Path| std::fs::read(path).unwrap().windows(64).any(|at| at == line);
    assert!(has_line(&path), "its bits are there");
    #[cfg(feature = "digest")]
    {
        let copy = folder.at("copy");
        bloomfile::ops::DeltaOperation::new().clean_copy(&path, &copy, 0, |_| ()).unwrap();
        assert!(!has_line(&copy), "a copy has them");
    }
    let filter = open();
    filter.rotate().unwrap();
    filter.close().unwrap();
    assert!(!has_line(&path), "the next generation took the region");
}

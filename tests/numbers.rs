//! Counters of a file that are near their ends: a writer starts only where it can finish (F-26), and
//! nothing that a file claims of its adds makes trouble later (F-38).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};

use bloomfile::{
    CellKind, Error, Filter, Options, Reader,
    geometry::Geometry,
    ops::{SetOperation, repair},
    report::verify,
};
use support::*;

/// Largest sequence number, epoch and number of adds.
const MOST: u64 = i64::MAX as u64;

const KINDS: [&str; 6] =
    ["plain", "no journal", "growing", "rotating", "counting", "counting growing"];

fn options(kind: &str) -> Options {
    let planned = Options::new().capacity(40).false_positive_rate(0.1).journal_bytes(8192);
    let exact = Options::new().geometry(Geometry::line(8, 40).unwrap()).journal_bytes(8192);
    match kind {
        "plain" => exact,
        "no journal" => exact.journal_bytes(0),
        "growing" => planned.grow(),
        "rotating" => exact.generations(2),
        "counting" => exact.kind(CellKind::Counting),
        _ => planned.grow().kind(CellKind::Counting),
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn add_all(filter: &Filter, numbers: std::ops::Range<u32>) {
    for number in numbers {
        filter.add(key(number)).unwrap();
    }
}

/// A closed file of a kind with 60 keys.
fn closed(folder: &Path, kind: &str) -> PathBuf {
    let path = folder.join(kind);
    let filter = options(kind).replace(true).create(&path).unwrap();
    add_all(&filter, 0..60);
    filter.close().unwrap();
    path
}

/// Gives the slot that counts other numbers, and the place that goes with them.
fn renumber(bytes: &mut [u8], name: &str, value: u64) {
    let newest = newest_slot(bytes);
    let mut slot = bytes[newest..newest + PAGE].to_vec();
    let Field { offset, size, .. } = field("slot", name);
    write(&mut slot, offset, size, value);
    fix_header(&mut slot, 0);
    // Without the other slot, whose numbers are not those before these.
    bytes[SLOTS[0]..SLOTS[0] + 2 * PAGE].fill(0);
    let place = if name == "sequence" { SLOTS[value as usize % 2] } else { newest };
    bytes[place..place + PAGE].copy_from_slice(&slot);
}

/// A writer either finds numbers for all the slots that it needs to open and close a file, or
/// refuses it before it has changed anything.
#[test]
fn f26_a_writer_starts_only_with_numbers_to_finish() {
    let folder = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for kind in KINDS {
        let path = closed(folder.path(), kind);
        let sound = std::fs::read(&path).unwrap();
        for (name, left) in
            ["sequence", "epoch"].into_iter().flat_map(|n| (0..9).map(move |l| (n, l)))
        {
            let what = format!("{kind}: {left} left of the {name}s");
            let mut bytes = sound.clone();
            renumber(&mut bytes, name, MOST - left);
            std::fs::write(&path, &bytes).unwrap();
            let all = || {
                let reader = Reader::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!((0..60).all(|number| reader.contains(key(number))), "{what}");
            };
            all();
            match Filter::open(&path).map_err(Error::into_cause) {
                Ok(filter) => {
                    let added = filter.add(b"one more").and_then(|_| filter.sync_with_mark(5));
                    filter.close().unwrap_or_else(|error| panic!("{what}: close: {error}"));
                    let reader = Reader::open(&path).unwrap();
                    assert!(added.is_err() || reader.contains(b"one more"), "{what}");
                    assert!(verify(&path).unwrap().is_sound(), "{what}");
                }
                Err(Error::NumbersSpent { .. }) => {
                    refused += 1;
                    assert!(left < 4, "{what}");
                    assert!(std::fs::read(&path).unwrap() == bytes, "{what}: it was changed");
                }
                Err(error) => panic!("{what}: {error}"),
            }
            all();
        }
    }
    assert!(refused >= KINDS.len() * 6, "{refused}");
}

/// A session that goes on for longer than there are numbers: what needs a slot is an error and
/// nothing is broken by it; closing still works.
#[test]
fn f26_a_session_keeps_the_numbers_to_close_with() {
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        for left in 3..9 {
            let path = closed(folder.path(), kind);
            let mut bytes = std::fs::read(&path).unwrap();
            renumber(&mut bytes, "sequence", MOST - left);
            std::fs::write(&path, &bytes).unwrap();
            let filter = Filter::open(&path).unwrap();
            let (mut synced, mut spent) = (Vec::new(), 0);
            let mut count = |result: Result<(), Error>| match result.map_err(Error::into_cause) {
                Ok(()) => true,
                Err(Error::NumbersSpent { .. }) => {
                    spent += 1;
                    false
                }
                Err(error) => panic!("{kind}: {left}: {error}"),
            };
            for round in 0..12u32 {
                let keys: Vec<u32> = (1000 + 9 * round..1009 + 9 * round).collect();
                let added: Vec<u32> =
                    keys.into_iter().filter(|&n| count(filter.add(key(n)).map(drop))).collect();
                if count(filter.checkpoint()) {
                    synced.extend(added);
                }
            }
            assert!(spent > 0 && !filter.is_poisoned(), "{kind}: {left}: {spent}");
            // As a crash at this moment would leave it.
            let crashed = folder.path().join("crashed");
            std::fs::copy(&path, &crashed).unwrap();
            filter.close().unwrap_or_else(|error| panic!("{kind}: {left}: close: {error}"));
            repair(&crashed).unwrap_or_else(|error| panic!("{kind}: {left}: repair: {error}"));
            for path in [&path, &crashed] {
                assert!(verify(path).unwrap().is_sound(), "{kind}: {left}");
                let reader = Reader::open(path).unwrap();
                assert!(synced.iter().all(|&number| reader.contains(key(number))), "{kind}");
                assert!(
                    matches!(
                        Filter::open(path).map_err(Error::into_cause),
                        Err(Error::NumbersSpent { .. })
                    ),
                    "{kind}"
                );
            }
        }
    }
}

/// Lets every segment of the slot that counts claim this number of adds.
fn claim(path: &Path, adds: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    let slot = newest_slot(&bytes);
    let segments = read(&bytes, slot + field("slot", "segment_count").offset, 4) as usize;
    let Field { offset, size, .. } = field("segment", "adds");
    for segment in 0..segments {
        write(&mut bytes, slot + SEGMENT_RECORDS + 64 * segment + offset, size, adds);
    }
    fix_header(&mut bytes, slot);
    std::fs::write(path, bytes).unwrap();
}

/// What a file claims of its adds is held against its bits: it can be opened, written, repaired and
/// taken into others, which go on counting.
#[test]
fn f38_a_claim_of_adds_is_bounded_by_the_bits() {
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = closed(folder.path(), kind);
        claim(&path, MOST);
        let reader = Reader::open(&path).unwrap();
        assert!((40..1 << 30).contains(&reader.adds()), "{kind}: {}", reader.adds());
        // Windows does not let a mapped file be written over.
        drop(reader);
        for round in 0..3 {
            let filter = Filter::open(&path).unwrap_or_else(|error| panic!("{kind}: {error}"));
            let before = filter.adds();
            assert!(before < 1 << 30, "{kind}: {before}");
            for number in 0..40 {
                let result = filter.add(key(5000 + 100 * round + number));
                result.unwrap_or_else(|error| panic!("{kind}: {error}"));
            }
            filter.sync_with_mark(u64::from(round)).unwrap();
            filter.close().unwrap_or_else(|error| panic!("{kind}: {error}"));
            claim(&path, MOST);
        }
        repair(&path).unwrap_or_else(|error| panic!("{kind}: repair: {error}"));
        Filter::open(&path).unwrap().close().unwrap();
    }
}

#[test]
fn f38_a_hostile_count_is_not_taken_in() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let hostile = closed(folder.path(), "plain");
    claim(&hostile, MOST);
    let trusted = at("trusted");
    let filter = options("plain").create(&trusted).unwrap();
    add_all(&filter, 100..150);
    for _ in 0..3 {
        filter.union_from(&Reader::open(&hostile).unwrap()).unwrap();
        assert!(filter.adds() < 1 << 20, "{}", filter.adds());
        add_all(&filter, 200..260);
        filter.sync_with_mark(1).unwrap();
        filter.checkpoint().unwrap();
    }
    filter.close().unwrap();
    Filter::open(&trusted).unwrap().close().unwrap();
    repair(&trusted).unwrap();

    let growing = closed(folder.path(), "growing");
    claim(&growing, MOST);
    let merged = at("merged");
    for inputs in [vec![&hostile, &trusted], vec![&growing, &growing], vec![&hostile, &hostile]] {
        let operation = SetOperation::new().replace(true);
        operation.union(&inputs, &merged).unwrap();
        let filter = Filter::open(&merged).unwrap();
        assert!(filter.adds() < 1 << 20, "{}", filter.adds());
        add_all(&filter, 300..360);
        filter.close().unwrap();
        assert!(verify(&merged).unwrap().is_sound());
        Filter::open(&merged).unwrap().close().unwrap();
    }
    let counting = closed(folder.path(), "counting");
    claim(&counting, MOST);
    SetOperation::new().replace(true).export(&counting, &merged).unwrap();
    assert!(Reader::open(&merged).unwrap().adds() < 1 << 20);
    SetOperation::new().replace(true).intersection(&[&hostile, &hostile], &merged).unwrap();
    assert!(Reader::open(&merged).unwrap().adds() < 1 << 20);
}

//! Two slots from the start (F-21, F-23, F-80, F-81): damage to either of a new file loses nothing.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod support;

use std::path::{Path, PathBuf};

#[cfg(feature = "digest")]
use bloomfile::ops::DeltaOperation;
use bloomfile::{
    CellKind, Filter, Options, Reader, ops::SetOperation, parts::Join, report::verify,
};
use common::Folder;
use support::{SLOTS, field, fields, fix_header, read};

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

const KEYS: std::ops::Range<u64> = 0..300;

/// New files of every origin, each with the same keys, by the command that makes them: a test of the
/// command finds those that are missing.
fn new_files(folder: &Folder) -> Vec<(&'static str, PathBuf)> {
    let options = || Options::new().capacity(100).false_positive_rate(0.01).journal_bytes(4096);
    let built = folder.at("built");
    let mut builder = options().capacity(300).start_build(&built).unwrap();
    KEYS.for_each(|number| assert!(builder.add(key(number)) || number > 0));
    builder.finish().unwrap();
    let [growing, counting] = ["growing source", "counting source"].map(|name| folder.at(name));
    for (path, options) in
        [(&growing, options().grow()), (&counting, options().kind(CellKind::Counting))]
    {
        let filter = options.create(path).unwrap();
        KEYS.for_each(|number| assert!(filter.add(key(number)).is_ok()));
        filter.close().unwrap();
    }
    let operation = SetOperation::new();
    let [union, fold, joined, exported] =
        ["union", "fold", "joined", "exported"].map(|name| folder.at(name));
    operation.union(&[&built, &built], &union).unwrap();
    operation.fold(&built, 1, &fold).unwrap();
    operation.union(&[&growing], &joined).unwrap();
    operation.export(&counting, &exported).unwrap();
    let mut files = vec![
        ("build", built.clone()),
        ("merge", union),
        ("shrink", fold),
        ("merge growing", joined),
        ("export", exported),
    ];
    let mut made = |name: &'static str| {
        files.push((name, folder.at(name)));
        folder.at(name)
    };
    operation.intersection(&[&built, &built], made("intersect")).unwrap();
    operation.journal_bytes(0).union(&[&built], made("compact")).unwrap();
    let sealed = Options::new().sealed(true).false_positive_rate(0.01);
    let mut builder = sealed.start_build(made("build --sealed")).unwrap();
    KEYS.for_each(|number| assert!(builder.add(key(number)) || number > 0));
    builder.finish().unwrap();
    let plan = options().capacity(300).plan_parts(1).unwrap();
    let part = folder.at("part");
    let mut builder = plan.part(1).start(&part).unwrap();
    KEYS.for_each(|number| assert!(builder.add(key(number)) || number > 0));
    builder.finish().unwrap();
    Join::new().run(&[part], made("join")).unwrap();
    #[cfg(feature = "digest")]
    {
        let operation = DeltaOperation::new();
        let copy = made("publish");
        operation.clean_copy(&built, &copy, 8192, |_| ()).unwrap();
        operation.make(&built, &copy, folder.at("delta")).unwrap();
        operation.apply(folder.at("delta"), &built, made("apply")).unwrap();
    }
    files
}

fn assert_holds_all(path: &Path, what: &str) {
    let reader = Reader::open(path).unwrap_or_else(|error| panic!("{what}: {error}"));
    let missing = KEYS.filter(|&number| !reader.contains(key(number))).count();
    assert_eq!(missing, 0, "{what}");
}

#[test]
fn f23_and_f80_and_f81_new_files_have_two_slots_that_say_the_same() {
    let folder = Folder::new();
    for (name, path) in new_files(&folder) {
        let bytes = std::fs::read(&path).unwrap();
        let at = |slot: usize, name| {
            let field = field("slot", name);
            read(&bytes, SLOTS[slot] + field.offset, field.size)
        };
        assert_eq!([at(1, "sequence"), at(1, "epoch")], [1, 1], "{name}");
        assert_eq!([at(0, "sequence"), at(0, "epoch")], [2, 2], "{name}");
        assert_eq!(!at(1, "next_salt"), at(0, "salt"), "{name}");
        assert_eq!(at(1, "salt_after_next"), at(0, "next_salt"), "{name}");
        assert_ne!(at(0, "next_salt"), at(0, "salt_after_next"), "{name}");
        // All else is equal.
        let mut slots = SLOTS.map(|slot| bytes[slot..slot + 4096].to_vec());
        for slot in &mut slots {
            for field in fields("slot") {
                if ["sequence", "epoch", "salt", "next_salt", "salt_after_next"]
                    .contains(&field.name)
                {
                    slot[field.offset..field.offset + field.size].fill(0);
                }
            }
            fix_header(slot, 0);
        }
        assert!(slots[0] == slots[1], "{name}");
    }
}

#[test]
fn a_flipped_bit_in_either_slot_loses_nothing() {
    let folder = Folder::in_memory();
    let damaged = folder.at("damaged");
    for (at, (name, path)) in new_files(&folder).into_iter().enumerate() {
        let sound = std::fs::read(&path).unwrap();
        // Every byte of a built file; some of the others.
        let step = if at == 0 { 1 } else { 61 };
        for byte in (SLOTS[0]..SLOTS[1] + 4096).step_by(step) {
            let what = format!("{name}, byte {byte}");
            let mut bytes = sound.clone();
            bytes[byte] ^= 1 << (byte % 8);
            std::fs::write(&damaged, &bytes).unwrap();
            assert_holds_all(&damaged, &what);
            if byte % 64 == 0 {
                assert!(verify(&damaged).unwrap().is_sound(), "{what}");
                if name == "build --sealed" {
                    continue;
                }
                // A writer goes on from it, and both slots are whole again in the end.
                let filter = Filter::open(&damaged).unwrap();
                filter.add(b"one more").unwrap();
                filter.close().unwrap();
                let filter = Filter::open(&damaged).unwrap();
                assert!(filter.recovery().is_none(), "{what}");
                filter.close().unwrap();
                assert_holds_all(&damaged, &what);
            }
        }
        for slot in SLOTS {
            let mut bytes = sound.clone();
            bytes[slot..slot + 4096].fill(0);
            std::fs::write(&damaged, &bytes).unwrap();
            assert_holds_all(&damaged, &format!("{name}, slot at {slot} zeroed"));
            // With the other one gone as well, it is refused.
            bytes[SLOTS[0] + SLOTS[1] - slot] ^= 1;
            std::fs::write(&damaged, &bytes).unwrap();
            assert!(Reader::open(&damaged).is_err());
        }
    }
}

/// A slot of zeros is a lost one: what it said may be newer than the other (F-34).
#[test]
fn a_slot_of_zeros_is_not_taken_for_one_that_was_never_written() {
    let folder = Folder::new();
    let path = folder.at("filter");
    let options = Options::new().capacity(1000).false_positive_rate(0.01).journal_bytes(0);
    options.start_build(&path).unwrap().finish().unwrap();
    // Data that only a newer slot would explain.
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 4096;
    bytes[last] = 1;
    bytes[SLOTS[1]..SLOTS[1] + 4096].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert!(Reader::open(&path).is_err());
}

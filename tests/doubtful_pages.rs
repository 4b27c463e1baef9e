//! Pages that a recovery kept although it could not verify them, and pages that a repair filled, stay
//! known: in the file, and in all that is made of it (F-94, F-99).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use bloomfile::{
    CellKind, Filter, Options, Reader,
    ops::{self, SetOperation},
    report::{Verification, inspect, verify},
};
use support::power_cut;
use tempfile::TempDir;

const PAGE: usize = 4096;

fn options() -> Options {
    Options::new().capacity(20_000).false_positive_rate(0.01)
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A file with one page, its last, that was not verifiable after a power cut.
fn cut(path: &Path, options: &Options) {
    let filter = options.clone().create(path).unwrap();
    filter.add("synced").unwrap();
    filter.sync().unwrap();
    filter.add("not synced").unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    drop(filter);
    power_cut(&mut bytes);
    let last = bytes.len() - PAGE;
    let free = (last..bytes.len()).find(|&at| bytes[at] == 0).unwrap();
    bytes[free] = 0x7f;
    std::fs::write(path, bytes).unwrap();
}

/// The same after the next writer, which took what the page holds.
fn recovered(path: &Path, options: &Options) {
    cut(path, options);
    assert_eq!(ops::recover(path).unwrap().unwrap().pages_unverifiable, 1);
}

/// A file of which a repair filled two pages.
fn repaired(path: &Path, options: &Options) {
    let filter = options.clone().create(path).unwrap();
    filter.add("synced").unwrap();
    filter.close().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    for page in [1, 2] {
        let at = bytes.len() - page * PAGE;
        bytes[at] ^= 0x10;
    }
    std::fs::write(path, bytes).unwrap();
    assert_eq!(ops::repair(path).unwrap().pages_repaired.len(), 2);
}

/// Pages that could not be verified, and pages that were filled, as the file tells them.
fn doubts(path: impl AsRef<Path>) -> (u64, u64) {
    let inspection = inspect(path).unwrap();
    (inspection.unverifiable_pages, inspection.repaired_pages)
}

#[test]
fn f94_a_page_that_a_recovery_kept_keeps_its_file_from_being_called_sound() {
    let folder = folder();
    let path = folder.path().join("a");
    cut(&path, &options());
    let found: Verification = verify(&path).unwrap();
    assert_eq!((found.pages_unverifiable.len(), found.pages_kept_unverified), (1, 0));
    assert!(!found.is_sound() && !found.is_as_written());

    ops::recover(&path).unwrap().unwrap();
    for session in 0..3 {
        let found = verify(&path).unwrap();
        assert_eq!((found.pages_exact, found.pages_kept_unverified), (found.pages, 1), "{session}");
        assert!(!found.is_sound() && found.is_as_written(), "{session}");
        let filter = Filter::open(&path).unwrap();
        filter.add(format!("later {session}")).unwrap();
        filter.close().unwrap();
    }

    // A repair in place of the recovery loses no cell: the page answers "maybe".
    cut(&folder.path().join("b"), &options());
    ops::repair(folder.path().join("b")).unwrap();
    assert!(verify(folder.path().join("b")).unwrap().is_sound());
    assert_eq!(doubts(folder.path().join("b")), (0, 1));
}

#[test]
fn f94_and_f99_what_is_made_of_files_has_their_doubtful_pages() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let operation = SetOperation::new().replace(true);
    recovered(&at("recovered"), &options());
    cut(&at("cut"), &options());
    repaired(&at("repaired"), &options());
    options().create(at("good")).unwrap().close().unwrap();

    let union = |names: &[&str]| {
        let inputs: Vec<_> = names.iter().map(|name| at(name)).collect();
        operation.union(&inputs, at("made")).unwrap();
        doubts(at("made"))
    };
    assert_eq!(union(&["good"]), (0, 0));
    assert_eq!(union(&["good", "recovered"]), (1, 0));
    assert_eq!(union(&["cut"]), (1, 0), "found now");
    assert_eq!(union(&["recovered", "cut", "repaired", "good"]), (2, 2));

    let intersection = |names: [&str; 2]| {
        operation.intersection(&names.map(at), at("made")).unwrap();
        doubts(at("made"))
    };
    assert_eq!(intersection(["recovered", "cut"]), (2, 0));
    // What was filled in one input is what the other one says.
    assert_eq!(intersection(["repaired", "good"]), (0, 0));
    assert_eq!(intersection(["repaired", "repaired"]), (0, 2));

    // One that is larger becomes a single page in a small one: it has no more than that.
    operation.fold(at("cut"), 99, at("made")).unwrap();
    assert_eq!((verify(at("made")).unwrap().pages, doubts(at("made"))), (1, (1, 0)));
    operation.fold(at("repaired"), 99, at("made")).unwrap();
    assert_eq!(doubts(at("made")), (0, 1));
    // Folding to a rate reads an open file twice, and counts its page once.
    let made = operation.fold_to_rate(at("cut"), 0.01, at("made")).unwrap();
    assert_eq!((doubts(at("made")), made.inputs[0].pages_unverified), ((1, 0), 1));
}

#[test]
fn f94_and_f99_so_have_growing_and_counting_files() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let operation = SetOperation::new().replace(true);
    let growing = options().grow();
    recovered(&at("recovered"), &growing);
    cut(&at("cut"), &growing);
    // Until it has a second segment: the number is the file's, not that of each segment.
    let filter = Filter::open(at("recovered")).unwrap();
    (0..30_000u32).for_each(|key| assert!(filter.add(key.to_le_bytes()).is_ok()));
    filter.close().unwrap();
    assert_eq!(inspect(at("recovered")).unwrap().segments.len(), 2);
    repaired(&at("repaired"), &growing);
    let names = ["recovered", "cut", "repaired"].map(at);
    operation.union(&names, at("made")).unwrap();
    assert_eq!(doubts(at("made")), (2, 2));
    operation.union(&names[..1], at("compact")).unwrap();
    assert_eq!(doubts(at("compact")), (1, 0));

    let counting = options().kind(CellKind::Counting);
    repaired(&at("counting"), &counting);
    operation.export(at("counting"), at("made")).unwrap();
    assert_eq!(doubts(at("made")), (0, 2));
}

#[test]
fn f94_and_f99_an_open_filter_takes_doubtful_pages_in_with_their_number() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    recovered(&at("recovered"), &options());
    cut(&at("cut"), &options());
    repaired(&at("repaired"), &options());
    let filter = options().create(at("live")).unwrap();
    for (name, expected) in [("recovered", (1, 0)), ("cut", (2, 0)), ("repaired", (2, 2))] {
        filter.union_from(&Reader::open(at(name)).unwrap()).unwrap();
        assert_eq!(doubts(at("live")), expected, "{name}: durable with the bits");
    }
    filter.close().unwrap();
    assert_eq!(doubts(at("live")), (2, 2));
    assert!(!verify(at("live")).unwrap().is_sound());
}

#[cfg(feature = "digest")]
#[test]
fn f94_a_delta_that_is_applied_in_place_brings_the_number_of_the_new_file() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    options().create(at("old")).unwrap().close().unwrap();
    std::fs::copy(at("old"), at("new")).unwrap();
    let filter = Filter::open(at("new")).unwrap();
    recovered(&at("other"), &options());
    filter.union_from(&Reader::open(at("other")).unwrap()).unwrap();
    filter.close().unwrap();
    ops::DeltaOperation::new().make(at("old"), at("new"), at("delta")).unwrap();
    // Once more changes nothing: it is the same version.
    for turn in 0..2 {
        let _ = ops::apply_delta(at("delta"), at("old"));
        assert_eq!(doubts(at("old")), (1, 0), "{turn}");
    }
}

#[test]
fn f99_what_a_live_writer_added_without_a_record_leaves_no_doubt() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let filter = options().journal_bytes(0).create(at("live")).unwrap();
    (0..1_000u32).for_each(|number| drop(filter.add(number.to_le_bytes()).map(drop)));
    let merged = SetOperation::new().union(&[at("live")], at("merged")).unwrap();
    assert!(merged.inputs[0].pages_unverified > 0, "the operation tells of them");
    assert_eq!(doubts(at("merged")), (0, 0));
    assert!(verify(at("merged")).unwrap().is_sound());
    // The writer was killed, as far as the file tells.
    std::fs::copy(at("live"), at("killed")).unwrap();
    SetOperation::new().union(&[at("killed")], at("of the killed one")).unwrap();
    assert!(doubts(at("of the killed one")).0 > 0);
    assert!(!verify(at("of the killed one")).unwrap().is_sound());
}

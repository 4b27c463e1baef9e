//! Counting files whose writers are killed and go on from the mark: every key counts once (F-79).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::{Path, PathBuf};

use bloomfile::{CellKind, Error, Filter, Options, geometry::Geometry, report::verify};
use common::*;

const KEYS: u64 = 3_000;

fn options(kind: &str) -> Options {
    let options = match kind {
        "growing" => Options::new().capacity(400).false_positive_rate(0.01).grow(),
        "rotating" => Options::new().geometry(Geometry::line(8, 700).unwrap()).generations(3),
        _ => Options::new().geometry(Geometry::line(8, 700).unwrap()),
    };
    // Much less than a sync of many keys needs.
    options.journal_bytes(4096).kind(CellKind::Counting)
}

/// Handles each key once, with a sync now and then, and is killed now and then: what the
/// killed process leaves is a copy of the file as it is in the system's cache. Goes on from its mark.
fn go_on_after_kills(
    folder: &Folder,
    mut path: PathBuf,
    seed: u64,
    handle: impl Fn(&Filter, u64) -> Result<(), Error>,
) -> (PathBuf, u64) {
    const SYNC_EVERY: u64 = 500;
    let mut kills = 0;
    loop {
        let filter = Filter::open(&path).unwrap();
        let start = filter.mark();
        let killed_at = start + below(seed, kills, 1_300);
        for number in start..KEYS {
            if number == killed_at {
                let left = folder.at(&format!("{seed}-{kills}"));
                std::fs::copy(&path, &left).unwrap();
                drop(filter);
                std::fs::remove_file(&path).unwrap();
                path = left;
                break;
            }
            handle(&filter, number).unwrap();
            if (number + 1) % SYNC_EVERY == 0 || number + 1 == KEYS {
                filter.sync_with_mark(number + 1).unwrap();
            }
            if number + 1 == KEYS {
                filter.sync_with_mark(0).unwrap();
                filter.close().unwrap();
                return (path, kills);
            }
        }
        kills += 1;
    }
}

fn create(folder: &Folder, kind: &str, name: &str) -> PathBuf {
    let path = folder.at(name);
    options(kind).create(&path).unwrap().close().unwrap();
    path
}

fn keys_found(path: &Path) -> usize {
    let reader = bloomfile::Reader::open(path).unwrap();
    (0..KEYS).filter(|key| reader.contains(key.to_le_bytes())).count()
}

#[test]
fn f79_killed_adds_and_removals_count_each_key_once() {
    for kind in ["plain", "growing", "rotating"] {
        let folder = Folder::new();
        let (mut kills, mut survived) = (0, 0);
        for seed in 0..4 {
            let path = create(&folder, kind, &format!("{kind}-{seed}"));
            let (path, killed) = go_on_after_kills(&folder, path, 2 * seed, |filter, number| {
                filter.add(number.to_le_bytes()).map(drop)
            });
            kills += killed;
            assert_eq!(keys_found(&path), KEYS as usize, "{kind}: {seed}");
            let (path, killed) =
                go_on_after_kills(&folder, path, 2 * seed + 1, |filter, number| {
                    match filter.remove(number.to_le_bytes()) {
                        // A key that two segments seem to hold stays where it is.
                        Err(Error::Ambiguous) => Ok(()),
                        result => result,
                    }
                });
            kills += killed;
            assert!(verify(&path).unwrap().is_sound(), "{kind}: {seed}");
            survived += keys_found(&path);
        }
        // A cell that came to 15 stays there; of growing files a few keys are ambiguous.
        assert!(survived < 40, "{kind}: {survived} keys survived their removal");
        assert!(kills > 10, "{kind}: only {kills} kills");
    }
}

/// What a killed process leaves without having synced is not there at all, so that doing it again
/// from the start is right.
#[test]
fn f79_changes_without_a_sync_leave_nothing_behind() {
    let folder = Folder::new();
    let path = create(&folder, "plain", "live");
    let before = data(&path);
    let filter = Filter::open(&path).unwrap();
    (0..KEYS).for_each(|key| assert!(filter.add(key.to_le_bytes()).is_ok()));
    assert!((0..KEYS).all(|key| filter.contains(key.to_le_bytes())));
    let copy = folder.at("killed");
    std::fs::copy(&path, &copy).unwrap();
    assert!(data(&copy) == before);
    let recovered = Filter::open(&copy).unwrap();
    assert_eq!((0..KEYS).filter(|key| recovered.contains(key.to_le_bytes())).count(), 0);
    recovered.close().unwrap();
    filter.close().unwrap();
    assert_eq!(keys_found(&path), KEYS as usize);
    let lengths = [&path, &copy].map(|path| std::fs::metadata(path).unwrap().len());
    assert_eq!(lengths[0], lengths[1]);
}

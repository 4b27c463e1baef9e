//! Deltas that an open filter takes in: durable, seen by readers, and refused whole.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bloomfile::geometry::Geometry;
use bloomfile::ops::{self, DeltaOperation, digest};
use bloomfile::{CellKind, Error, Filter, Key, Options, Reader, WhenFull, report};
use common::{Folder, below};

/// Says to a process that it is the child of a test, and in which folder it works.
const FOLDER: &str = "BLOOMFILE_TEST_FOLDER";

fn add(path: &Path, keys: std::ops::Range<u64>) {
    let filter = Filter::open(path).unwrap();
    for key in keys {
        filter.add(key.to_le_bytes()).unwrap();
    }
    filter.close().unwrap();
}

/// `old` with 3,000 keys, `new` with 2,000 more, and `delta` from one to the other.
fn versions(folder: &Folder, options: Options) {
    options.create(folder.at("old")).unwrap().close().unwrap();
    add(&folder.at("old"), 0..3_000);
    std::fs::copy(folder.at("old"), folder.at("new")).unwrap();
    add(&folder.at("new"), 3_000..5_000);
    let make = DeltaOperation::new().replace(true);
    make.make(folder.at("old"), folder.at("new"), folder.at("delta")).unwrap();
}

fn geometries() -> [Geometry; 4] {
    [
        Geometry::line(8, 700).unwrap(),
        Geometry::page(7, 40).unwrap(),
        Geometry::rows(5, 50_000).unwrap(),
        Geometry::flat(6, 300_000).unwrap(),
    ]
}

#[test]
fn what_a_delta_leads_to_in_place() {
    let folder = Folder::new();
    for (geometry, journal) in geometries().into_iter().flat_map(|it| [(it, 0), (it, 65_536)]) {
        let file = folder.at("old");
        let _ = std::fs::remove_file(&file);
        versions(&folder, Options::new().geometry(geometry).journal_bytes(journal));
        let new = Filter::open(folder.at("new")).unwrap();
        new.set_metadata("published", Some("series 2")).unwrap();
        new.sync_with_mark(77).unwrap();
        new.close().unwrap();
        let make = DeltaOperation::new().replace(true);
        let made = make.make(&file, folder.at("new"), folder.at("delta")).unwrap();

        let reader = Reader::open(&file).unwrap();
        let filter = Filter::open(&file).unwrap();
        filter.set_metadata("old pair", Some("goes")).unwrap();
        assert_eq!(filter.apply_delta(folder.at("delta")).unwrap(), made);
        assert!((0..5_000).all(|key: u64| reader.contains(key.to_le_bytes())), "{geometry}");
        // Nothing has to be closed for it to be there.
        std::fs::copy(&file, folder.at("crashed")).unwrap();
        assert_eq!(digest(folder.at("crashed")).unwrap(), made.new_digest);
        let uuid = filter.uuid();
        filter.close().unwrap();
        assert_eq!(digest(&file).unwrap(), digest(folder.at("new")).unwrap(), "{geometry}");
        let [here, there] = [&file, &folder.at("new")].map(|it| report::inspect(it).unwrap());
        assert_eq!((here.mark, &here.metadata), (77, &there.metadata));
        assert_eq!(here.segments[0].adds, there.segments[0].adds);
        assert!(report::verify(&file).unwrap().is_sound());
        // Once more changes nothing.
        ops::apply_delta(folder.at("delta"), &file).unwrap();
        let filter = Filter::open(&file).unwrap();
        assert_eq!((filter.uuid(), filter.mark()), (uuid, 77));
        filter.close().unwrap();
        assert_eq!(digest(&file).unwrap(), made.new_digest);
    }
}

/// The keys that a delta brings count: a filter that grows does so when it has as many as it is for, and
/// one that refuses takes no more than that.
#[test]
fn the_keys_of_a_delta_take_places() {
    let folder = Folder::new();
    let [old, new, delta] = ["old", "new", "delta"].map(|name| folder.at(name));
    for refuses in [false, true] {
        let options = Options::new().capacity(1_000).false_positive_rate(0.01);
        let options = if refuses { options.when_full(WhenFull::Refuse) } else { options.grow() };
        let _ = std::fs::remove_file(&old);
        options.create(&old).unwrap().close().unwrap();
        std::fs::copy(&old, &new).unwrap();
        add(&new, 0..900);
        DeltaOperation::new().replace(true).make(&old, &new, &delta).unwrap();
        let filter = Filter::open(&old).unwrap();
        filter.apply_delta(&delta).unwrap();
        let added: Vec<_> = (1_000..1_300u64).map(|key| filter.add(key.to_le_bytes())).collect();
        if refuses {
            assert!(matches!(added[299].as_ref().unwrap_err().cause(), Error::Full { .. }));
        }
        filter.close().unwrap();
        let segments = report::inspect(&old).unwrap().segments;
        let adds: u64 = segments.iter().map(|segment| segment.adds).sum();
        let expected = if refuses { (1, 901..=1_000) } else { (2, 1_101..=1_200) };
        assert!((segments.len(), expected.1.contains(&adds)) == (expected.0, true), "{adds}");
    }
}

#[test]
fn a_keyed_file_takes_no_secret() {
    let folder = Folder::new();
    let options = Options::new().capacity(5_000).false_positive_rate(0.01);
    let key = Key::from_bytes(*b"0123456789abcdef");
    options.key(&key).create(folder.at("old")).unwrap().close().unwrap();
    std::fs::copy(folder.at("old"), folder.at("new")).unwrap();
    let filter = Filter::open_with_key(folder.at("new"), &key).unwrap();
    filter.add("sheep").unwrap();
    filter.close().unwrap();
    DeltaOperation::new().make(folder.at("old"), folder.at("new"), folder.at("delta")).unwrap();
    ops::apply_delta(folder.at("delta"), folder.at("old")).unwrap();
    assert!(Filter::open_with_key(folder.at("old"), &key).unwrap().contains("sheep"));
}

/// The error, once it is sure that not a byte of the file has changed.
#[track_caller]
fn refused(delta: &Path, file: &Path) -> Error {
    let before = std::fs::read(file).unwrap();
    let error = ops::apply_delta(delta, file).unwrap_err();
    assert!(std::fs::read(file).unwrap() == before, "{error}");
    error
}

#[test]
fn what_cannot_be_done_in_place_is_refused() {
    let folder = Folder::new();
    let options = || Options::new().capacity(4_000).false_positive_rate(0.01);
    let make = DeltaOperation::new().replace(true);
    let [old, new, delta] = ["old", "new", "delta"].map(|name| folder.at(name));
    let in_place = |error: &Error| match error.cause() {
        Error::NotInPlace { reason } => reason.clone(),
        other => panic!("{other}"),
    };
    // Back to the old version: cells are cleared.
    versions(&folder, options());
    make.make(&new, &old, &delta).unwrap();
    let error = refused(&delta, &new);
    assert!(in_place(&error).contains("clears cells"), "{error}");
    assert!(error.to_string().contains("DeltaOperation::apply"), "{error}");
    // Another version.
    add(&old, 9_000..9_001);
    make.make(&old, &new, &delta).unwrap();
    add(&old, 9_001..9_002);
    let error = refused(&delta, &old);
    assert!(matches!(error.cause(), Error::OtherVersion { parameter: "digest", .. }), "{error}");
    // Another file.
    options().seed(5).create(folder.at("other")).unwrap().close().unwrap();
    let error = refused(&delta, &folder.at("other"));
    assert!(matches!(error.cause(), Error::OtherVersion { parameter: "seed", .. }), "{error}");
    options().capacity(9_000).create(folder.at("larger")).unwrap().close().unwrap();
    let error = refused(&delta, &folder.at("larger"));
    assert!(matches!(error.cause(), Error::OtherVersion { .. }), "{error}");
    let error = refused(&new, &old);
    assert!(matches!(error.cause(), Error::NotADelta { .. }), "{error}");
    // Kinds.
    for (options, reason) in [
        (options().kind(CellKind::Counting), "counting"),
        (options().capacity(500).grow(), "segments"),
        (options().capacity(500).generations(3).rotate_after(1_000), "segments"),
    ] {
        let _ = [&old, &new].map(std::fs::remove_file);
        versions(&folder, options);
        let error = refused(&delta, &old);
        assert!(in_place(&error).contains(reason), "{error}");
        // As a new file it is no problem.
        make.apply(&delta, &old, &old).unwrap();
        assert_eq!(digest(&old).unwrap(), digest(&new).unwrap());
    }
}

#[test]
fn damaged_deltas_change_nothing() {
    let folder = Folder::new();
    versions(&folder, Options::new().capacity(5_000).false_positive_rate(0.01));
    let whole = std::fs::read(folder.at("delta")).unwrap();
    for round in 0..300 {
        let mut bytes = whole.clone();
        let at = below(31, round, bytes.len() as u64) as usize;
        if round % 5 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << below(32, round, 8);
        }
        std::fs::write(folder.at("damaged"), bytes).unwrap();
        let error = refused(&folder.at("damaged"), &folder.at("old"));
        assert_eq!(error.path(), Some(folder.at("damaged").as_path()), "{error}");
    }
    ops::apply_delta(folder.at("delta"), folder.at("old")).unwrap();
}

/// Threads that add and ask at the same time: nothing of theirs is lost, and nothing is denied.
#[test]
fn others_go_on() {
    let folder = Folder::in_memory();
    versions(&folder, Options::new().geometry(Geometry::line(8, 1 << 16).unwrap()));
    let filter = Filter::open(folder.at("old")).unwrap();
    let (added, stop) = (std::sync::atomic::AtomicU64::new(3_000), AtomicBool::new(false));
    let applied = AtomicBool::new(false);
    let mut outcomes = [0, 0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // At first keys that the delta brings as well, then others.
                let key = added.load(Ordering::Relaxed);
                if key < 4_999 || applied.load(Ordering::Relaxed) {
                    filter.add(key.to_le_bytes()).unwrap();
                    added.store(if key == 4_999 { 10_000 } else { key + 1 }, Ordering::Release);
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!((0..3_000).all(|key: u64| filter.contains(key.to_le_bytes())));
            }
        });
        // Refused from the first key on that the delta does not know, which comes late on a busy machine.
        let start = Instant::now();
        let [enough, most] = [Duration::from_millis(1500), Duration::from_secs(60)];
        while start.elapsed() < enough || outcomes.contains(&0) && start.elapsed() < most {
            match filter.apply_delta(folder.at("delta")) {
                Ok(_) => {
                    outcomes[0] += 1;
                    applied.store(true, Ordering::Relaxed);
                }
                Err(error) => {
                    assert!(matches!(error.cause(), Error::OtherVersion { .. }), "{error}");
                    outcomes[1] += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    filter.close().unwrap();
    let reader = Reader::open(folder.at("old")).unwrap();
    assert!((10_000..added.load(Ordering::Acquire)).all(|key| reader.contains(key.to_le_bytes())));
    assert!(report::verify(folder.at("old")).unwrap().is_sound());
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}: applied, and refused");
}

/// The child of the test below.
#[test]
#[ignore = "started by the test of kills as a process of its own"]
fn applies_until_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let at = |name: &str| Path::new(&folder).join(name);
    ops::apply_delta(at("delta"), at("file")).unwrap();
}

/// Killed at any point: the old keys are in, the file is sound, and applying again goes on.
#[test]
fn killed_in_the_middle() {
    let folder = Folder::in_memory();
    let options = Options::new().geometry(Geometry::line(8, 1 << 18).unwrap());
    options.journal_bytes(1 << 16).create(folder.at("old")).unwrap().close().unwrap();
    add(&folder.at("old"), 0..20_000);
    std::fs::copy(folder.at("old"), folder.at("new")).unwrap();
    add(&folder.at("new"), 20_000..60_000);
    let made = DeltaOperation::new().make(folder.at("old"), folder.at("new"), folder.at("delta"));
    let made = made.unwrap();
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "applies_until_killed", "--ignored"]);
        command.env(FOLDER, folder.at("old").parent().unwrap());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    // How long it takes without a kill.
    std::fs::copy(folder.at("old"), folder.at("file")).unwrap();
    let begin = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = begin.elapsed();
    let (mut before, mut between, mut after) = (0, 0, 0);
    for round in 0..15 {
        std::fs::copy(folder.at("old"), folder.at("file")).unwrap();
        let mut child = start();
        std::thread::sleep(whole.mul_f64(below(41, round, 1_000) as f64 / 1_000.0));
        child.kill().unwrap();
        child.wait().unwrap();
        let reader = Reader::open(folder.at("file")).unwrap();
        assert!((0..20_000).all(|key: u64| reader.contains(key.to_le_bytes())), "{round}");
        drop(reader);
        ops::recover(folder.at("file")).unwrap();
        assert!(report::verify(folder.at("file")).unwrap().is_as_written(), "{round}");
        let left = digest(folder.at("file")).unwrap();
        *(match left {
            left if left == made.old_digest => &mut before,
            left if left == made.new_digest => &mut after,
            _ => &mut between,
        }) += 1;
        ops::apply_delta(folder.at("delta"), folder.at("file")).unwrap();
        assert_eq!(digest(folder.at("file")).unwrap(), made.new_digest, "{round}");
        // What recovery could not verify is what the digest stands for by now.
        assert!(report::verify(folder.at("file")).unwrap().is_sound(), "{round}");
    }
    println!("killed before the first cell {before} times, between {between}, behind {after}");
}

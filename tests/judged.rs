//! What a kill left and damage on top of it, in every segment; and files that a writer opens and
//! closes while others verify them: each page is judged alike by all, and never wrongly (F-92 to
//! F-94, F-114).

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bloomfile::{
    CellKind, Error, Filter, Options, ReadOptions,
    ops::{SetOperation, compare, repair},
    reader::Access,
    report::{Health, verify},
};
use support::{PAGE, newest_slot, power_cut, read, table_bytes};

/// Says to a process that it is a child of a test, and on which file it works.
const FILE: &str = "BLOOMFILE_TEST_FILE";

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Starts this test program again as a child that runs one function, and waits for its first line.
fn child(role: &str, path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--ignored", "--nocapture"])
        .env(FILE, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "the child did not come up");
    child
}

fn say_ready() {
    println!("\nready");
    std::io::stdout().flush().unwrap();
}

/// Keys that are synced before the kill, and keys after that.
const SYNCED: u64 = 400;
const KEYS: u64 = 420;

#[test]
#[ignore = "started by other tests, as a process of its own"]
fn adds_and_waits() {
    let Ok(path) = std::env::var(FILE) else { return };
    let filter = Filter::open(path).unwrap();
    for number in 0..KEYS {
        filter.add(key(number)).unwrap();
        if number == 200 {
            let _ = filter.rotate();
        }
        if number + 1 == SYNCED {
            filter.sync().unwrap();
        }
    }
    say_ready();
    std::thread::sleep(std::time::Duration::from_secs(600));
}

/// The kinds of files, and what they are made with.
fn kinds() -> [(&'static str, Options); 6] {
    let plain = || Options::new().capacity(2000).false_positive_rate(0.01).journal_bytes(1 << 20);
    let small = || Options::new().capacity(150).false_positive_rate(0.01).journal_bytes(1 << 20);
    [
        ("plain", plain()),
        ("counting", plain().kind(CellKind::Counting)),
        ("growing", small().grow()),
        ("rotating", plain().generations(3)),
        ("counting growing", small().kind(CellKind::Counting).grow()),
        ("counting rotating", plain().kind(CellKind::Counting).generations(3)),
    ]
}

/// Leaves the file of a writer that was killed.
fn kill(path: &Path, options: &Options) {
    options.clone().create(path).unwrap().close().unwrap();
    let mut child = child("adds_and_waits", path);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Where the data of each listed segment start, and how long they are: from the slot.
fn segments(bytes: &[u8]) -> Vec<(usize, usize)> {
    let slot = newest_slot(bytes);
    let count = read(bytes, slot + 36, 4) as usize;
    let counting = read(bytes, 56, 4) == 4;
    (0..count)
        .map(|at| {
            let record = slot + 128 + at * 64;
            let [rows, blocks, cells] =
                [(4, 4), (8, 8), (16, 8)].map(|(at, size)| read(bytes, record + at, size));
            // All of the line layout.
            let bytes_used = blocks * rows * cells * if counting { 4 } else { 1 } / 8;
            let pages = (bytes_used as usize).div_ceil(PAGE);
            let offset = read(bytes, record + 40, 8) as usize;
            (offset + 2 * table_bytes(pages), bytes_used as usize)
        })
        .collect()
}

/// Sets 25 bits that are off, and clears 20 that are on.
fn damage(bytes: &mut [u8], (start, length): (usize, usize)) {
    let (mut cleared, mut set) = (0, 0);
    for at in (start..start + length).rev() {
        for bit in (0..8).map(|bit| 1u8 << bit) {
            if bytes[at] & bit != 0 && cleared < 20 {
                bytes[at] &= !bit;
                cleared += 1;
            } else if bytes[at] & bit == 0 && set < 25 {
                bytes[at] |= bit;
                set += 1;
            }
        }
    }
    assert_eq!((cleared, set), (20, 25));
}

/// What is said of the last page of a segment that something is said of but that all is well.
fn explained(path: &Path, segment: usize) -> String {
    let (mut note, name) = (String::new(), format!("segment {segment}, data"));
    bloomfile::report::explain(path, bloomfile::report::Detail::Everything, |explained| {
        if explained.structure == name && !explained.note.starts_with("as ") {
            note = explained.note;
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    note
}

/// What is said to be wrong in a file.
fn wrong(path: &Path) -> Vec<bloomfile::report::Explained> {
    let mut wrong = Vec::new();
    bloomfile::report::explain(path, bloomfile::report::Detail::Summary, |explained| {
        if explained.note.contains("wrong") || explained.note.contains("cut short") {
            wrong.push(explained);
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    wrong
}

fn damaged_at(error: &Error) -> Option<u32> {
    match error.cause() {
        Error::Damaged { segment, .. } => Some(*segment),
        _ => None,
    }
}

#[test]
fn f93_after_a_kill_all_refuse_damage_in_every_segment() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (kind, options) in kinds() {
        let path = at("killed");
        let _ = std::fs::remove_file(&path);
        kill(&path, &options);
        let sound = std::fs::read(&path).unwrap();
        let found = verify(&path).unwrap();
        assert_eq!((found.health, found.is_sound()), (Health::Crashed, true), "{kind}: {found:?}");
        let segments = segments(&sound);
        let several = kind.contains("growing") || kind.contains("rotating");
        assert_eq!(segments.len() > 1, several, "{kind}");
        for (index, &place) in segments.iter().enumerate() {
            let what = format!("{kind}, segment {index} of {}", segments.len());
            let mut bytes = sound.clone();
            damage(&mut bytes, place);
            std::fs::write(&path, &bytes).unwrap();
            let found = verify(&path).unwrap();
            assert_eq!(found.pages_damaged.len(), 1, "{what}: {found:?}");
            assert_eq!(
                explained(&path, index),
                "wrong: damaged, not what was written (F-83, F-93)"
            );
            let index = index as u32;
            for access in [Access::Mapped, Access::Memory] {
                let read = ReadOptions::new().verify(true).access(access).open(&path);
                assert_eq!(damaged_at(&read.unwrap_err().into_cause()), Some(index), "{what}");
            }
            if !kind.contains("rotating") {
                let merged = SetOperation::new().union(&[&path], at("merged"));
                assert_eq!(damaged_at(&merged.unwrap_err().into_cause()), Some(index), "{what}");
                assert!(!at("merged").exists());
            }
            if !several {
                let compared = compare(&path, &path);
                assert_eq!(damaged_at(&compared.unwrap_err().into_cause()), Some(index), "{what}");
            }
            assert_eq!(
                damaged_at(&Filter::open(&path).unwrap_err().into_cause()),
                Some(index),
                "{what}"
            );
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{what}: refused, yet changed");
            let report = repair(&path).unwrap();
            assert_eq!(report.pages_repaired.len(), 1, "{what}");
            assert!(verify(&path).unwrap().is_sound(), "{what}");
            let filter = Filter::open(&path).unwrap();
            // Counters that were not synced are in the process alone.
            let kept = if kind.contains("counting") { SYNCED } else { KEYS };
            assert!((0..kept).all(|number| filter.contains(key(number))), "{what}");
        }
        // After a power cut, only the newest segment of bits may hold more than is explained.
        for (index, &(start, length)) in segments.iter().enumerate() {
            let what = format!("{kind}, segment {index} after a power cut");
            let mut bytes = sound.clone();
            power_cut(&mut bytes);
            let free = (start..start + length).rev().find(|&at| bytes[at] == 0).unwrap();
            bytes[free] = 0xff;
            std::fs::write(&path, &bytes).unwrap();
            let found = verify(&path).unwrap();
            let newest = index + 1 == segments.len() && !kind.contains("counting");
            assert_eq!(found.pages_unverifiable.len(), usize::from(newest), "{what}");
            assert_eq!(found.pages_damaged.len(), usize::from(!newest), "{what}");
            assert!(!found.is_sound(), "{what}");
            let words = if newest { "not verifiable: " } else { "wrong: damaged, " };
            assert!(explained(&path, index).starts_with(words), "{what}");
            let opened = Filter::open(&path);
            if newest {
                let recovered = opened.unwrap().recovery().unwrap().pages_unverifiable;
                assert_eq!(recovered, 1, "{what}");
            } else {
                assert_eq!(
                    damaged_at(&opened.unwrap_err().into_cause()),
                    Some(index as u32),
                    "{what}"
                );
            }
        }
    }
}

/// Adds that find no room, and bits that are taken in from another file, are told from damage by
/// the journal's last record.
#[test]
fn f78_and_f94_what_a_full_journal_did_not_log_is_not_verifiable() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options = || Options::new().capacity(20_000).false_positive_rate(0.01).journal_bytes(4096);
    let copy = |taken_in: bool| {
        let filter = options().replace(true).create(at("live")).unwrap();
        if taken_in {
            let mut other = options().replace(true).start_build(at("other")).unwrap();
            (0..1000).for_each(|number| assert!(other.add(key(number))));
            other.finish().unwrap();
            filter.union_from(&bloomfile::Reader::open(at("other")).unwrap()).unwrap();
        }
        // What the journal has room for, or far more.
        let keys = if taken_in { 100 } else { 1000 };
        (5000..5000 + keys).for_each(|number| assert!(filter.add(key(number)).is_ok()));
        std::fs::copy(at("live"), at("killed")).unwrap();
        drop(filter);
    };
    copy(false);
    let found = verify(at("killed")).unwrap();
    assert!(found.pages_damaged.is_empty() && !found.pages_unverifiable.is_empty(), "{found:?}");
    let filter = Filter::open(at("killed")).unwrap();
    assert!(filter.recovery().unwrap().pages_unverifiable > 0);
    assert!((5000..6000).all(|number| filter.contains(key(number))));
    // Windows does not let a mapped file be written over.
    drop(filter);
    // `union_from` ends with a checkpoint: all of it is described again.
    copy(true);
    assert!(verify(at("killed")).unwrap().is_sound());
}

#[test]
#[ignore = "started by other tests, as a process of its own"]
fn opens_adds_and_closes() {
    let Ok(path) = std::env::var(FILE) else { return };
    say_ready();
    let mut stop = String::new();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read_line(&mut stop);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        for turn in 0u64.. {
            if done.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            // Refused while a reader looks whether there is a writer.
            let Ok(filter) = Filter::open(&path) else { continue };
            for number in 0..20 {
                filter.add(key(1000 + (turn * 20 + number) % 5000)).unwrap();
            }
            if turn.is_multiple_of(3) {
                filter.sync().unwrap();
            }
            if turn.is_multiple_of(5) {
                filter.checkpoint().unwrap();
            }
            filter.close().unwrap();
        }
    });
}

/// Reads of each kind beside a writer.
const READS: usize = 700;

#[test]
fn f37_a_writer_that_comes_and_goes_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("busy");
    for (kind, options) in kinds() {
        let _ = std::fs::remove_file(&path);
        let filter = options.create(&path).unwrap();
        (0..100).for_each(|number| assert!(filter.add(key(number)).is_ok()));
        filter.close().unwrap();
        let mut child = child("opens_adds_and_closes", &path);
        let mut states = [0, 0, 0];
        for turn in 0..READS {
            let found = verify(&path).unwrap_or_else(|error| panic!("{kind}, {turn}: {error}"));
            assert!(found.pages_damaged.is_empty(), "{kind}, {turn}: {found:?}");
            states[found.health as usize] += 1;
            let access = if turn % 2 == 0 { Access::Mapped } else { Access::Memory };
            let read = ReadOptions::new().verify(true).access(access).open(&path);
            match read {
                Ok(reader) => assert!((0..100).all(|number| reader.contains(key(number)))),
                Err(error) if matches!(error.cause(), Error::Busy) => {}
                Err(error) => panic!("{kind}, {turn}: {error}"),
            }
        }
        // What is explained byte by byte goes on for longer than one slot lasts.
        for turn in 0..READS / 4 {
            let wrong = wrong(&path);
            assert_eq!(wrong, [], "{kind}, {turn}");
        }
        println!("{kind}: clean, live and crashed: {states:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

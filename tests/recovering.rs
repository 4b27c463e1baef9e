//! Readers beside a writer that recovers, or beside anyone who holds a lock: what the journal says
//! counts until the slots have moved on (F-97, F-107).

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bloomfile::{
    CellKind, Filter, Options, ReadOptions, Reader, geometry::Layout, ops::SetOperation,
    reader::Access, report::inspect,
};
use common::Folder;

/// Keys that were synced before the power cut, in the journal alone.
const SYNCED: u64 = 600;
/// Keys that were in before, in the data.
const EARLIER: u64 = 500;

/// Keys that are not in: enough to have every page of a small file asked.
const ABSENT: u64 = 3_000;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// The kinds of files.
fn kinds() -> Vec<(&'static str, Options)> {
    let options =
        || Options::new().capacity(100_000).false_positive_rate(0.001).journal_bytes(4 << 20);
    vec![
        ("line", options().layout(Layout::Line)),
        ("page", options().layout(Layout::Page)),
        ("rows", options().layout(Layout::Rows)),
        ("flat", options().layout(Layout::Flat)),
        ("counting", options().kind(CellKind::Counting)),
        ("growing", options().capacity(400).grow()),
        ("rotating", options().generations(3)),
    ]
}

/// A file as a power cut leaves it that came when the journal was durable and the data not.
fn cut_off(folder: &Folder, name: &str, options: &Options) -> PathBuf {
    let path = folder.at(name);
    let filter = options.create(&path).unwrap();
    for number in 0..EARLIER {
        filter.add(key(number)).unwrap();
    }
    if name == "rotating" {
        filter.rotate().unwrap();
    }
    filter.checkpoint().unwrap();
    let before = std::fs::read(&path).unwrap();
    for number in EARLIER..EARLIER + SYNCED {
        filter.add(key(number)).unwrap();
    }
    filter.sync().unwrap();
    let mut after = std::fs::read(&path).unwrap();
    for segment in inspect(&path).unwrap().segments {
        let start = (segment.offset + segment.table_bytes) as usize;
        let data = start..start + segment.data_bytes as usize;
        after[data.clone()].copy_from_slice(&before[data]);
    }
    let cut = folder.at(&format!("{name}.cut"));
    drop(filter);
    std::fs::write(&cut, after).unwrap();
    cut
}

fn missing(contains: impl Fn(&[u8]) -> bool) -> u64 {
    (0..EARLIER + SYNCED).filter(|&number| !contains(&key(number))).count() as u64
}

fn options(access: Access) -> ReadOptions {
    ReadOptions::new().access(access)
}

/// All ways to read a file: how many synced keys each denies.
fn ask_all_ways(path: &Path, folder: &Folder, merge: bool) -> Vec<(&'static str, u64)> {
    let mut ways = vec![
        ("mapped", missing_in(path, &options(Access::Mapped))),
        ("in memory", missing_in(path, &options(Access::Memory))),
        ("verified", missing_in(path, &options(Access::Mapped).verify(true))),
    ];
    if merge {
        let merged = folder.at(&format!("merged.{:?}", std::thread::current().id()));
        SetOperation::new().replace(true).union(&[path, path], &merged).unwrap();
        ways.push(("merged", missing_in(&merged, &options(Access::Mapped))));
    }
    ways
}

fn missing_in(path: &Path, options: &ReadOptions) -> u64 {
    let reader = options.open(path).unwrap();
    let before = missing(|key| reader.contains(key));
    // What is absent has pages checked, and the journal must count no less after that.
    let maybe = (1 << 40..(1 << 40) + ABSENT).filter(|&n| reader.contains(key(n))).count() as u64;
    assert!(maybe < ABSENT / 10, "{maybe} of the absent keys may be in");
    assert_eq!(reader.stats().pages_damaged, 0, "{:?}", reader.stats());
    before + missing(|key| reader.contains(key))
}

/// Several segments cannot be merged.
fn can_be_merged(name: &str) -> bool {
    !matches!(name, "growing" | "rotating")
}

#[test]
fn f107_a_lock_of_anybody_does_not_hide_the_journal() {
    let folder = Folder::new();
    for (name, options) in kinds() {
        let path = cut_off(&folder, name, &options);
        for exclusive in [true, false] {
            // A descriptor that cannot write is enough to hold a lock.
            let file = File::open(&path).unwrap();
            if exclusive { file.lock() } else { file.lock_shared() }.unwrap();
            for (way, missing) in ask_all_ways(&path, &folder, can_be_merged(name)) {
                assert_eq!(missing, 0, "{name}, {way}, exclusive: {exclusive}");
            }
        }
    }
}

#[test]
fn f107_a_reader_sees_the_journal_until_the_writer_has_recovered() {
    let folder = Folder::new();
    for (name, options) in kinds() {
        let path = cut_off(&folder, name, &options);
        let lock = File::open(&path).unwrap();
        lock.lock().unwrap();
        let reader = Reader::open(&path).unwrap();
        drop(lock);
        let filter = Filter::open(&path).unwrap();
        assert_eq!(missing(|key| reader.contains(key)), 0, "{name}: after recovery");
        filter.add(b"new").unwrap();
        filter.sync().unwrap();
        assert!(reader.contains(b"new"), "{name}: what the recovered writer adds");
        filter.close().unwrap();
        assert_eq!(missing(|key| reader.contains(key)), 0, "{name}: after closing");
        assert!(reader.contains(b"new"), "{name}");
    }
}

/// Reads in every way from several threads while `work` goes on; how often, and how many keys were
/// denied.
fn beside(path: &Path, folder: &Folder, merge: bool, work: impl FnOnce()) -> (u64, u64) {
    let (done, asked, denied) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (_, missing) in ask_all_ways(path, folder, merge) {
                        denied.fetch_add(missing, Ordering::Relaxed);
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while asked.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        work();
        done.store(true, Ordering::Relaxed);
    });
    (asked.into_inner(), denied.into_inner())
}

#[test]
fn f107_readers_beside_recovery_and_repair_deny_nothing() {
    let folder = Folder::new();
    let options = || Options::new().capacity(6_000_000).false_positive_rate(0.001);
    for (name, options) in [
        ("line", options()),
        ("counting", options().capacity(1_500_000).kind(CellKind::Counting)),
        ("rotating", options().capacity(2_000_000).generations(3)),
    ] {
        let cut = cut_off(&folder, name, &options);
        let bytes = std::fs::read(&cut).unwrap();
        for repair in [false, true] {
            std::fs::write(&cut, &bytes).unwrap();
            let (asked, denied) = beside(&cut, &folder, can_be_merged(name), || {
                if repair {
                    drop(bloomfile::ops::repair(&cut).unwrap());
                } else {
                    Filter::open(&cut).unwrap().close().unwrap();
                }
            });
            println!("{name}, repair: {repair}: asked {asked} times, {denied} keys denied");
            assert_eq!(denied, 0, "{name}, repair: {repair}");
        }
    }
}

//! Keys that are members all the time are never denied, however fast segments come and go under
//! those who ask (F-106).

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloomfile::{CellKind, Filter, Options, ReadOptions, Reader, geometry::Layout, reader::Access};

/// Keys that are in before, during and after every rotation.
const MEMBERS: u64 = 40;
/// Threads that ask: many more than cores, so that the system stops them in the middle of look-ups.
const THREADS: usize = 12;
/// Rotations of a run at least, and its length.
const ROTATIONS: u64 = 500;
const LENGTH: Duration = Duration::from_millis(1500);

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A folder in memory where there is one: rotations wait for nothing there.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

fn rotating(path: &Path, kind: CellKind, layout: Layout) -> Filter {
    let filter = Options::new()
        .capacity(2_000)
        .false_positive_rate(1e-6)
        .layout(layout)
        .kind(kind)
        .generations(2)
        .journal_bytes(64 << 10)
        .create(path)
        .unwrap();
    remember(&filter);
    filter
}

/// Adds all members to the newest generation, durably.
fn remember(filter: &Filter) {
    for number in 0..MEMBERS {
        filter.add(key(number)).unwrap();
    }
    filter.sync().unwrap();
}

/// Rotates as fast as it goes until `ask` says, from many threads, that it has had enough; how
/// often, and how many members were denied.
fn under_rotation(filter: &Filter, ask: impl Fn() -> u64 + Sync) -> (u64, u64) {
    let (done, denied) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let rotations = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    denied.fetch_add(ask(), Ordering::Relaxed);
                }
            });
        }
        let mut rotations = 0;
        while start.elapsed() < LENGTH || rotations < ROTATIONS {
            remember(filter);
            filter.rotate().unwrap();
            rotations += 1;
        }
        done.store(true, Ordering::Relaxed);
        rotations
    });
    (rotations, denied.into_inner())
}

fn denied(contains: impl Fn(&[u8]) -> bool) -> u64 {
    (0..MEMBERS).filter(|&number| !contains(&key(number))).count() as u64
}

fn kinds() -> impl Iterator<Item = (CellKind, Layout)> {
    [
        (CellKind::Plain, Layout::Line),
        (CellKind::Plain, Layout::Rows),
        (CellKind::Counting, Layout::Page),
    ]
    .into_iter()
}

#[test]
fn f106_mapped_readers_deny_no_member_under_rotation() {
    for (kind, layout) in kinds() {
        let folder = folder();
        let path = folder.path().join("keys.bloom");
        let filter = rotating(&path, kind, layout);
        let reader = Reader::open(&path).unwrap();
        let (rotations, denied) = under_rotation(&filter, || denied(|key| reader.contains(key)));
        println!("{kind:?} {layout:?}: {rotations} rotations, {denied} members denied");
        assert_eq!(denied, 0, "{kind:?} {layout:?}");
    }
}

#[test]
fn f106_readers_in_memory_deny_no_member_under_rotation() {
    for (kind, layout) in kinds() {
        let folder = folder();
        let path = folder.path().join("keys.bloom");
        let filter = rotating(&path, kind, layout);
        let opened = AtomicU64::new(0);
        let (rotations, denied) = under_rotation(&filter, || {
            let Ok(reader) = ReadOptions::new().access(Access::Memory).open(&path) else {
                return 0;
            };
            opened.fetch_add(1, Ordering::Relaxed);
            denied(|key| reader.contains(key))
        });
        let opened = opened.into_inner();
        println!("{kind:?} {layout:?}: {rotations} rotations, {opened} opened, {denied} denied");
        assert_eq!(denied, 0, "{kind:?} {layout:?}");
        assert!(opened > 20, "hardly a copy was ever whole: {opened}");
    }
}

#[test]
fn f106_a_writer_denies_no_member_under_its_own_rotation() {
    for (kind, layout) in kinds() {
        let folder = folder();
        let path = folder.path().join("keys.bloom");
        let filter = rotating(&path, kind, layout);
        let (rotations, denied) = under_rotation(&filter, || denied(|key| filter.contains(key)));
        println!("{kind:?} {layout:?}: {rotations} rotations, {denied} members denied");
        assert_eq!(denied, 0, "{kind:?} {layout:?}");
    }
}

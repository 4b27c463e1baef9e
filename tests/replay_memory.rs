//! Memory for a crashed file's journal: a small multiple of the records that are there (F-39).
//!
//! Alone in its file: the allocator counts for the process as a whole.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(missing_docs, reason = "tests")]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use bloomfile::{
    CellKind, Filter, Options, Reader,
    geometry::Geometry,
    ops::repair,
    report::{Health, verify},
};

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn count(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: the system's allocator does the work; counting takes none of it away.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        count(memory.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        HELD.fetch_sub(memory.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, memory) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        // A block as large as those that matter here is moved by its pages, not copied.
        HELD.fetch_sub(memory.size(), Ordering::Relaxed);
        count(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, memory, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn peak(work: impl FnOnce()) -> usize {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed) - before
}

/// A file whose writer is gone, with a journal of this length in which these keys are synced.
fn crash(path: &Path, options: &Options, journal_bytes: u64, keys: u64) {
    let live = path.with_extension("live");
    let filter = options.clone().journal_bytes(journal_bytes).create(&live).unwrap();
    for number in 0..keys {
        filter.add(number.to_le_bytes()).unwrap();
        if number % 100 == 99 {
            filter.sync().unwrap();
        }
    }
    std::fs::copy(&live, path).unwrap();
    drop(filter);
    std::fs::remove_file(live).unwrap();
}

#[test]
fn f39_a_journal_is_replayed_in_a_small_multiple_of_its_size() {
    assert!(peak(|| drop(std::hint::black_box(vec![0u8; 1 << 20]))) >= 1 << 20, "it counts");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filter");
    let journal_bytes = 4 << 20;
    let line = |rows| Options::new().geometry(Geometry::line(rows, 1 << 15).unwrap());
    let flat = Options::new().geometry(Geometry::flat(8, 1 << 24).unwrap());
    // Nine tenths of the journal are used.
    let records = journal_bytes / 16 * 9 / 10;
    for (what, options, keys, most) in [
        ("line, 8 rows", line(8), records, 5),
        ("line, 32 rows", line(32), records, 17),
        ("flat, 8 rows", flat, records, 5),
        ("counting, 8 rows", line(8).kind(CellKind::Counting), records / 9, 5),
    ] {
        crash(&path, &options, journal_bytes, keys);
        // The chunk that the journal is read in, the page table, what opening takes anyway.
        let most = most * journal_bytes as usize + (2 << 20);
        let open = || drop(Reader::open(&path).unwrap());
        assert_eq!(Reader::open(&path).unwrap().health(), Health::Crashed);
        let copy = path.with_extension("copy");
        for (how, bytes) in [
            ("reader", peak(open)),
            ("verify", peak(|| drop(verify(&path).unwrap()))),
            ("writer", {
                std::fs::copy(&path, &copy).unwrap();
                peak(|| Filter::open(&copy).unwrap().close().unwrap())
            }),
            ("repair", {
                std::fs::copy(&path, &copy).unwrap();
                peak(|| drop(repair(&copy).unwrap()))
            }),
        ] {
            println!("{what}, {how}: {:.1} times the journal", bytes as f64 / journal_bytes as f64);
            assert!(bytes < most, "{what}: a {how} took {bytes} bytes");
        }
    }
}

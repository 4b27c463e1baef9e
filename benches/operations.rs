//! Set operations: merging against the memory's own speed, and one key asked of 1,000 files.
//!
//! `cargo bench --bench operations` prints a table; each figure is the best of a few rounds.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]
#![allow(missing_docs, reason = "a benchmark")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bloomfile::{
    Options,
    geometry::Geometry,
    ops::{Readers, SetOperation},
};

/// Counts what is allocated now, and the most there ever was.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 5;
const FILES: u64 = 8;
const MIB: f64 = (1u64 << 20) as f64;

fn best(mut work: impl FnMut()) -> Duration {
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    merge(&folder.path().join("merge"));
    ask(&folder.path().join("ask"));
}

/// Eight files of 256 MiB.
fn merge(folder: &PathBuf) {
    std::fs::create_dir(folder).unwrap();
    let geometry = Geometry::line(8, 4 << 20).unwrap();
    let bytes = 256u64 << 20;
    let paths: Vec<PathBuf> = (0..FILES)
        .map(|file| {
            let path = folder.join(file.to_string());
            let mut builder =
                Options::new().geometry(geometry).journal_bytes(0).start_build(&path).unwrap();
            let keys: Vec<[u8; 8]> =
                (0..4_000_000).map(|key| (file << 32 | key).to_le_bytes()).collect();
            builder.add_batch(&keys);
            builder.finish().unwrap();
            path
        })
        .collect();
    let total = (FILES * bytes) as f64 / MIB;
    println!("merging {FILES} files of 256 MiB ({total} MiB), in the page cache");

    // Reading the same bytes and ORing them into memory.
    let mut sum = vec![0u8; bytes as usize];
    let mut buffer = vec![0u8; 1 << 20];
    let baseline = best(|| {
        sum.fill(0);
        for path in &paths {
            let mut file = File::open(path).unwrap();
            for part in sum.chunks_mut(buffer.len()) {
                let buffer = &mut buffer[..part.len()];
                file.read_exact(buffer).unwrap();
                part.iter_mut().zip(&*buffer).for_each(|(sum, byte)| *sum |= byte);
            }
        }
        black_box(&sum);
    });
    drop((sum, buffer));
    let out = folder.join("out");
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let operation = SetOperation::new().replace(true);
    let merged = best(|| drop(operation.union(&paths, &out).unwrap()));
    let heap = (MOST.load(Ordering::Relaxed) - before) as f64 / MIB;
    let speed = |time: Duration| total / time.as_secs_f64();
    println!("  read and OR in memory  {baseline:8.3?}  {:7.0} MiB/s", speed(baseline));
    println!("  union, durable         {merged:8.3?}  {:7.0} MiB/s", speed(merged));
    let ratio = baseline.as_secs_f64() / merged.as_secs_f64();
    println!("  union is {ratio:.2} times as fast; it took {heap:.2} MiB of heap");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A thousand files and one key.
fn ask(folder: &PathBuf) {
    const COUNT: usize = 1000;
    const KEYS: u64 = 2000;
    std::fs::create_dir(folder).unwrap();
    let mut readers = Readers::new();
    for file in 0..COUNT {
        let path = folder.join(file.to_string());
        let options = Options::new().capacity(10_000).false_positive_rate(0.01).journal_bytes(0);
        let mut builder = options.start_build(&path).unwrap();
        let keys: Vec<[u8; 8]> =
            (0..10_000u64).map(|key| (key << 10 | file as u64).to_le_bytes()).collect();
        builder.add_batch(&keys);
        builder.finish().unwrap();
        readers.push(bloomfile::Reader::open(&path).unwrap());
    }
    println!("one key asked of {COUNT} files of 10,000 keys each (12 MiB in all)");
    for length in [8, 64, 1024] {
        let keys: Vec<Vec<u8>> = (0..KEYS)
            .map(|key| {
                let mut bytes = key.to_le_bytes().to_vec();
                bytes.resize(length, 7);
                bytes
            })
            .collect();
        let each = |time: Duration| time.as_nanos() as f64 / (KEYS as f64 * COUNT as f64);
        let together = best(|| {
            for key in &keys {
                black_box(readers.which(key));
            }
        });
        let apart = best(|| {
            for key in &keys {
                let held: Vec<usize> =
                    (0..COUNT).filter(|&at| readers.as_slice()[at].contains(key)).collect();
                black_box(held);
            }
        });
        println!(
            "  key of {length:4} bytes: {:6.2} ns per file hashed once, {:6.2} ns hashed for each file",
            each(together),
            each(apart)
        );
    }
}

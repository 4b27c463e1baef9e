//! Many files: merging against the memory's own speed, one key asked of 1,000 files, and 10,000 small
//! files open at once.
//!
//! `cargo bench --bench operations` prints a table; each figure is the best of a few rounds. With
//! `merge`, `ask` or `open` that one is measured alone.

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
    Filter, Options, Reader,
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

/// Measures something in a folder that is not there yet.
type Measure = fn(&PathBuf);

const MEASURES: [(&str, Measure); 3] = [("merge", merge), ("ask", ask), ("open", open)];

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
    let asked: Vec<String> = std::env::args().skip(1).filter(|name| name != "--bench").collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    for (name, measure) in MEASURES {
        if wanted(name) {
            measure(&folder.path().join(name));
        }
    }
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
        readers.push(Reader::open(&path).unwrap());
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

#[cfg(not(unix))]
fn open(_: &PathBuf) {
    println!("skipped: files open at once, which are measured on Unix systems");
}

/// Ten thousand files of a thousand keys, all open at once.
#[cfg(unix)]
fn open(folder: &PathBuf) {
    use std::os::unix::fs::FileExt as _;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    const COUNT: usize = 10_000;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    if maximum.is_some_and(|most| most < COUNT as u64 + 100) {
        return println!("skipped: {COUNT} files open at once, of {maximum:?} that may be");
    }
    std::fs::create_dir(folder).unwrap();
    let first = folder.join("0");
    let options = Options::new().capacity(1000).false_positive_rate(0.01);
    let mut builder = options.start_build(&first).unwrap();
    builder.add_hash_batch(&(0..1000u64).map(|key| key << 54 | key).collect::<Vec<u64>>());
    builder.finish().unwrap();
    let paths: Vec<PathBuf> = (0..COUNT).map(|file| folder.join(file.to_string())).collect();
    for path in &paths[1..] {
        std::fs::copy(&first, path).unwrap();
    }

    let file = File::options().write(true).create(true).truncate(true).open(folder.join("flush"));
    let file = file.unwrap();
    let mut flushes: Vec<Duration> = (0..200)
        .map(|round| {
            file.write_all_at(&[round as u8; 4096], 0).unwrap();
            let start = Instant::now();
            file.sync_data().unwrap();
            start.elapsed()
        })
        .collect();
    flushes.sort();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{COUNT} files of 1,000 keys, {} KiB each, open at once; one flush of the disk takes {:.0} µs",
        std::fs::metadata(&first).unwrap().len() >> 10,
        micros(flushes[100])
    );
    let told = |what: &str, before: usize, time: Duration| {
        let bytes = (NOW.load(Ordering::Relaxed) - before) as f64 / COUNT as f64;
        println!(
            "  {what}: {:.0} µs and {:.2} KiB each",
            micros(time) / COUNT as f64,
            bytes / 1024.0
        );
    };
    // Once before, so that the system knows all names.
    for _ in 0..2 {
        let (before, start) = (NOW.load(Ordering::Relaxed), Instant::now());
        let mut readers = Vec::with_capacity(COUNT);
        readers.extend(paths.iter().map(|path| Reader::open(path).unwrap()));
        told("for reading", before, start.elapsed());
        drop(readers);
        let (before, start) = (NOW.load(Ordering::Relaxed), Instant::now());
        let mut filters = Vec::with_capacity(COUNT);
        filters.extend(paths.iter().map(|path| Filter::open(path).unwrap()));
        told("for writing", before, start.elapsed());
        drop(filters);
    }
}

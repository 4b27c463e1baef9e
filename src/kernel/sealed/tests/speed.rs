//! How long things take. Not run by themselves:
//!
//! ```text
//! cargo test --release --lib kernel::sealed::tests::speed -- --ignored --nocapture --test-threads 1
//! ```

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

use crate::builder::sealed::pages::{Build, PageRun};
use crate::geometry::Geometry;
use crate::geometry::PAGE_BYTES;
use crate::hash::split_mix;
use crate::kernel::Cells;
use crate::kernel::sealed::Kernel;
use crate::kernel::sealed::Query;
use crate::sealed::*;
use crate::storage::{FileMap, Map};

/// Pages that are built; a larger filter repeats them, which look-ups of absent keys cannot tell.
const PAGES: u64 = 4096;

/// Keys of a page at 1 %.
const KEYS: u64 = 4826;

/// Look-ups of one measurement.
const LOOK_UPS: usize = 1 << 20;

/// Hashes that a batch takes at once.
const BATCH: usize = 1 << 10;

/// Nanoseconds of processor time of this thread.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The least of three measurements: others use the machine too.
fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..7).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn key(number: u64) -> u64 {
    split_mix(number, 5)
}

fn pages_of(map: &FileMap) -> &[PageInMap] {
    let words = map.words();
    // SAFETY: the words of the map, which lives as long.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() / PAGE_WORDS) }
}

#[test]
#[ignore = "a benchmark"]
fn building() {
    for (keys, rate) in [(10_000_000, 0.01), (10_000_000, 1e-6)] {
        let pages = pages_for(keys, rate).unwrap();
        let time = least(|| {
            let mut hashes: Vec<u64> = (0..keys).map(key).collect();
            let start = now();
            Build::new(pages).run([&mut hashes[..]], |_| Ok(())).unwrap();
            now() - start
        });
        println!("{keys} keys at {rate}: {:.1} ns per key on one thread", time / keys as f64);
    }
}

/// The most memory that this process had at a time, in bytes.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.trim_end_matches("kB").trim().parse::<u64>().unwrap()
}

/// By itself, for the sake of the memory: 200 million keys on two threads.
#[test]
#[ignore = "a benchmark"]
#[cfg(target_os = "linux")]
fn large_build() {
    let keys = 200_000_000;
    let pages = pages_for(keys, 0.01).unwrap();
    let before = peak();
    // As a program has them that does not know how many will come.
    let mut pieces: Vec<Vec<u64>> = Vec::new();
    for start in (0..keys).step_by(1 << 20) {
        pieces.push((start..keys.min(start + (1 << 20))).map(key).collect());
    }
    let start = std::time::Instant::now();
    let pieces = pieces.iter_mut().map(|piece| &mut piece[..]);
    let mut crc = crc32fast::Hasher::new();
    let write = |run: PageRun<'_>| {
        crc.update(run.pages.as_flattened());
        Ok(())
    };
    let built = Build::new(pages).threads(2).run(pieces, write).unwrap();
    let memory = (peak() - before) as f64 / keys as f64;
    println!(
        "{keys} keys: {:.1} ns per key on two threads, {memory:.2} bytes of memory per key; {built:?}, {:08x}",
        start.elapsed().as_nanos() as f64 / keys as f64,
        crc.finalize(),
    );
    assert_eq!((built.keys, built.maybe_pages), (keys, 0));
    assert!(memory <= 9.0, "{memory} bytes per key");
}

fn singly(contains: impl Fn(u64) -> bool, first: u64) -> f64 {
    least(|| {
        let start = now();
        for number in 0..LOOK_UPS as u64 {
            black_box(contains(key(first + number)));
        }
        (now() - start) / LOOK_UPS as f64
    })
}

/// Each look-up waits for the one before it.
fn one_by_one(contains: impl Fn(u64) -> bool, first: u64) -> f64 {
    least(|| {
        let start = now();
        let mut found = false;
        for number in 0..LOOK_UPS as u64 / 2 {
            found = contains(key(first + number) ^ u64::from(black_box(found)));
        }
        black_box(found);
        (now() - start) / (LOOK_UPS / 2) as f64
    })
}

fn in_batches(contains: impl Fn(&[u64], &mut [bool]), first: u64) -> f64 {
    let mut found = [false; BATCH];
    let hashes: Vec<u64> = (0..LOOK_UPS as u64).map(|number| key(first + number)).collect();
    least(|| {
        let start = now();
        for hashes in hashes.chunks_exact(BATCH) {
            contains(hashes, &mut found);
            black_box(&found);
        }
        (now() - start) / LOOK_UPS as f64
    })
}

#[test]
#[ignore = "a benchmark"]
fn looking_up() {
    let mut built = vec![[0; PAGE_BYTES as usize]; PAGES as usize];
    let mut hashes: Vec<u64> = (0..PAGES * KEYS).map(key).collect();
    let write = |run: PageRun<'_>| {
        built[run.first as usize..][..run.pages.len()].copy_from_slice(run.pages);
        Ok(())
    };
    Build::new(PAGES).threads(2).run([&mut hashes[..]], write).unwrap();
    drop(hashes);
    for pages in [PAGES, 64 * PAGES] {
        let bytes = (pages * PAGE_BYTES) as usize;
        println!("{} MiB", bytes >> 20);
        let map = FileMap::anonymous(bytes).unwrap();
        for page in 0..pages {
            let bytes = &built[(page % PAGES) as usize];
            for (word, bytes) in bytes.chunks_exact(8).enumerate() {
                let word = page as usize * PAGE_WORDS + word;
                map.store(word, u64::from_le_bytes(bytes.try_into().unwrap()));
            }
        }
        let absent = 1 << 40;
        let at = pages_of(&map);
        for kernel in Kernel::found() {
            let query = Query::with_kernel(pages, pages * KEYS, kernel);
            let contains = |hash| query.contains(at, hash);
            let batch = |hashes: &[u64], found: &mut [bool]| {
                query.contains_batch(at, |at| hashes[at], found);
            };
            println!(
                "  {kernel:?}: singly {:.1} ns, one by one {:.1} ns, in batches {:.1} ns",
                singly(contains, absent),
                one_by_one(contains, absent),
                in_batches(batch, absent),
            );
            if pages == PAGES {
                println!(
                    "  {kernel:?}, present: singly {:.1} ns, one by one {:.1} ns, in batches {:.1} ns",
                    singly(contains, 0),
                    one_by_one(contains, 0),
                    in_batches(batch, 0),
                );
            }
        }
        drop(map);
        let map = FileMap::anonymous(bytes).unwrap();
        for word in 0..bytes / 8 {
            map.store(word, split_mix(word as u64, 11));
        }
        let cells = Cells::new(Geometry::page(7, pages).unwrap(), map).unwrap();
        println!(
            "  `page` layout: singly {:.1} ns, one by one {:.1} ns, in batches {:.1} ns",
            singly(|hash| cells.contains(hash), absent),
            one_by_one(|hash| cells.contains(hash), absent),
            in_batches(|hashes, found| cells.contains_batch(|at| hashes[at], found), absent),
        );
    }
}

//! Side by side with crates that keep everything in memory, on the same keys, in one process.
//!
//! `cargo bench --bench speed` prints the tables and writes them to `benches/RESULTS.md`, with a
//! plot in `benches/growth.svg`. `-- --large` goes to 1 GiB (and the plot to 4 GiB) instead of
//! 64 MiB. Files are made in the folder that `BLOOMFILE_BENCH_DIR` names, or a temporary one.
//!
//! Contenders take turns within each round and the best round of each counts, so that what else
//! runs on the machine hurts them alike. One thread's work is timed by that thread's own clock. sbbf-rs takes hashes: it is given ours.

#![allow(clippy::unwrap_used, reason = "a benchmark")]

mod contenders;
mod measure;
mod plot;

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use bloomfile::{Filter, Layout, Options, Plan, Reader};
use contenders::{Bloomfilter, Sbbf, fastbloom_atomic, fastbloom_plain, random_words};
use measure::{Race, key, mix, nanoseconds};

const RATE: f64 = 0.01;
const KEYS: usize = 1 << 17;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return println!("run with `cargo bench --bench speed`");
    }
    let large = arguments.iter().any(|argument| argument == "--large");
    let folder = match std::env::var_os("BLOOMFILE_BENCH_DIR") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let path = folder.path().join("bench.bloom");
    let mut report = String::from(
        "# Benchmark\n\nMade by `cargo bench --bench speed`. Times are nanoseconds per key, best round; in brackets how many times longer than bloomfile. Keys are random bytes; the rate asked for is 1 %. Look-ups and adds are in the thread's own time, builds and two threads by the clock on the wall, which other work on the machine lengthens. The bits of the other crates are drawn at random at the density of a full filter; what is measured of bloomfilter's rate shows that this does not suit it, so take its figures for orientation only.\n",
    );
    let sizes: &[u64] =
        if large { &[256 << 10, 16 << 20, 1 << 30] } else { &[256 << 10, 16 << 20, 64 << 20] };
    for &bytes in sizes {
        size_class(&path, bytes, &mut report);
        eprintln!("{} done", name(bytes));
    }
    let most = if large { 4 << 30 } else { 64 << 20 };
    growth(&path, most, &mut report);
    println!("{report}");
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    std::fs::write(out.join("RESULTS.md"), report).unwrap();
}

/// Keys that a filter of so many bytes is for.
fn capacity(bytes: u64) -> u64 {
    let bits = Plan::new(1 << 30, RATE, Some(Layout::Line)).unwrap().bits_per_key().unwrap();
    (bytes as f64 * 8.0 / bits) as u64
}

fn name(bytes: u64) -> String {
    match bytes {
        0..=0xf_ffff => format!("{} KiB", bytes >> 10),
        0x10_0000..=0x3fff_ffff => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// Makes a file for `capacity` keys and fills it: with the given keys, then with hashes like theirs
/// up to `total`. Nanoseconds per key.
fn build(path: &Path, capacity: u64, total: u64, keys: &[Vec<u8>], threads: usize) -> f64 {
    let options = Options::new().capacity(capacity).false_positive_rate(RATE).replace(true);
    let mut builder = options.layout(Layout::Line).build(path).unwrap();
    builder.set_threads(threads);
    builder.add_batch(keys);
    let mut spent = 0.0;
    let mut done = keys.len() as u64;
    let mut hashes = Vec::new();
    while done < total {
        let count = (total - done).min(4 << 20);
        hashes.clear();
        hashes.extend((done..done + count).map(|i| mix(i ^ 0x5eed_0000_0000)));
        let start = Instant::now();
        builder.add_hash_batch(&hashes);
        spent += start.elapsed().as_secs_f64();
        done += count;
    }
    builder.finish().unwrap();
    spent * 1e9 / (total - keys.len() as u64).max(1) as f64
}

fn size_class(path: &Path, bytes: u64, report: &mut String) {
    let capacity = capacity(bytes);
    let count = KEYS.min(capacity as usize / 2);
    writeln!(report, "\n## {}: {capacity} keys\n", name(bytes)).unwrap();
    let lengths = [8, 16, 64];
    let present: Vec<Vec<Vec<u8>>> = lengths
        .iter()
        .map(|&length| {
            (0..count as u64 / 3).map(|i| key(i ^ (length as u64) << 40, length)).collect()
        })
        .collect();
    let absent: Vec<Vec<Vec<u8>>> = lengths
        .iter()
        .map(|&length| {
            (0..count as u64 / 3)
                .map(|i| key(i ^ (length as u64) << 40 ^ 1 << 60, length))
                .collect()
        })
        .collect();
    let all: Vec<Vec<u8>> = present.iter().flatten().cloned().collect();
    let one = build(path, capacity, capacity, &all, 1);
    let both = build(path, capacity, capacity, &all, 2);
    let reader = Reader::open(path).unwrap();
    let hasher = reader.hasher();

    let others = capacity - all.len() as u64;
    let mut sbbf = Sbbf::new(capacity, others);
    let mut fast = fastbloom_plain(capacity, others, RATE);
    let mut other = Bloomfilter::new(capacity, others, RATE);
    for key in &all {
        sbbf.insert(hasher.hash(key));
        fast.insert(&key[..]);
        other.insert(key);
    }
    let lines = (bytes / 64) as usize;
    let words = random_words(bytes as usize / 8, 0.5);

    writeln!(report, "| look-up | bloomfile | batch | sbbf-rs | fastbloom | bloomfilter | touch | touch ahead |\n|---|---|---|---|---|---|---|---|").unwrap();
    let mut found = Vec::new();
    for (present_keys, keys_of) in [(false, &absent), (true, &present)] {
        for (length, keys) in lengths.iter().zip(keys_of) {
            let mut race = Race::new(keys.len());
            for _ in 0..race.rounds() {
                race.time(0, || keys.iter().filter(|key| reader.contains(key)).count());
                race.time(1, || {
                    reader.contains_batch(keys, &mut found);
                    found.len()
                });
                race.time(2, || keys.iter().filter(|key| sbbf.contains(hasher.hash(key))).count());
                race.time(3, || keys.iter().filter(|key| fast.contains(&key[..])).count());
                race.time(4, || keys.iter().filter(|key| other.contains(key)).count());
                race.time(5, || {
                    let touch = |key: &Vec<u8>| words[(hasher.hash(key) as usize % lines) * 8];
                    keys.iter().map(touch).fold(0, |a, b| a ^ b) as usize
                });
                race.time(6, || measure::touch_ahead(&words, lines, keys, &hasher) as usize);
            }
            let what = if present_keys { "present" } else { "absent" };
            race.row(report, &format!("{what}, {length} bytes"));
        }
    }
    let rate = |hits: usize| format!("{:.3} %", 100.0 * hits as f64 / (3 * absent[0].len()) as f64);
    let hits =
        |contains: &dyn Fn(&[u8]) -> bool| absent.iter().flatten().filter(|k| contains(k)).count();
    let bits = |bits: u64| format!("{:.2}", bits as f64 / capacity as f64);
    let geometry = *reader.geometry();
    writeln!(
        report,
        "| bits per key | {0} | {0} | {1} | {2} | {3} | | |",
        bits(geometry.blocks() * 512),
        bits(sbbf.bits()),
        bits(fast.num_bits() as u64),
        bits(other.bits()),
    )
    .unwrap();
    writeln!(
        report,
        "| measured rate | {0} | {0} | {1} | {2} | {3} | | |",
        rate(hits(&|key| reader.contains(key))),
        rate(hits(&|key| sbbf.contains(hasher.hash(key)))),
        rate(hits(&|key| fast.contains(key))),
        rate(hits(&|key| other.contains(&key.to_vec()))),
    )
    .unwrap();

    drop(reader);
    adds(path, bytes, capacity, (one, both), report);
}

/// Adds of new keys, builds, threads and opening.
fn adds(path: &Path, bytes: u64, capacity: u64, built: (f64, f64), report: &mut String) {
    let count = (capacity as usize / 20).min(KEYS);
    let batches: Vec<Vec<Vec<u8>>> = (0..6u64)
        .map(|batch| (0..count as u64).map(|i| key(i ^ batch << 32 ^ 3 << 61, 16)).collect())
        .collect();
    let hasher = bloomfile::Hasher::new(0);
    let filter = Filter::open(path).unwrap();
    let mut sbbf = Sbbf::new(capacity, capacity);
    let fast = fastbloom_atomic(capacity, capacity, RATE);
    let mut race = Race::new(count);
    // Every round adds keys of its own: they are new to everyone.
    for [one, two] in batches.as_chunks().0 {
        race.time(0, || one.iter().filter(|key| filter.add(key).unwrap()).count());
        race.time(1, || filter.add_batch(two).unwrap() as usize);
        race.time(2, || one.iter().filter(|key| sbbf.insert(hasher.hash(key))).count());
        race.time(3, || one.iter().filter(|key| fast.insert(&key[..])).count());
    }
    writeln!(report, "\n| change | bloomfile | batch | sbbf-rs (no threads) | fastbloom (atomic) |\n|---|---|---|---|---|").unwrap();
    race.row(report, "add new, 16 bytes");
    let insert = race.best(2);
    writeln!(
        report,
        "| build | {:.1} on 1 thread, {:.1} on 2 | | {insert:.1} ({:.2}, {:.2}) | |",
        built.0,
        built.1,
        insert / built.0,
        insert / built.1
    )
    .unwrap();

    let hashes: Vec<u64> = (0..KEYS as u64 * 4).map(|i| mix(i ^ 7 << 40)).collect();
    let mut threads = Race::new(hashes.len());
    for round in 0..3u64 {
        let new: Vec<u64> = hashes.iter().map(|&hash| mix(hash ^ round << 8)).collect();
        let newer: Vec<u64> = new.iter().map(|&hash| mix(hash)).collect();
        threads.time_all(0, || hashes.iter().filter(|&&hash| filter.contains_hash(hash)).count());
        threads.time_all(1, || measure::halves(&hashes, |hash| filter.contains_hash(hash)));
        threads.time_all(2, || new.iter().filter(|&&hash| filter.add_hash(hash).unwrap()).count());
        threads.time_all(3, || measure::halves(&newer, |hash| filter.add_hash(hash).unwrap()));
    }
    writeln!(
        report,
        "\nTwo threads do {:.2} times the look-ups of one, and {:.2} times the adds of new keys.",
        threads.best(0) / threads.best(1),
        threads.best(2) / threads.best(3)
    )
    .unwrap();
    drop(filter);

    let start = Instant::now();
    black_box(std::fs::read(path).unwrap().len());
    let read = start.elapsed();
    let open = (0..5).map(|_| nanoseconds(|| drop(black_box(Reader::open(path).unwrap()))));
    let open = open.fold(f64::MAX, f64::min);
    writeln!(
        report,
        "\nOpening takes {:.3} ms, reading the file {:.1} ms ({:.0} times as long); {}.",
        open / 1e6,
        read.as_secs_f64() * 1e3,
        read.as_secs_f64() * 1e9 / open,
        name(bytes)
    )
    .unwrap();
}

/// Times over sizes from 64 KiB on.
fn growth(path: &Path, most: u64, report: &mut String) {
    writeln!(report, "\n## Cost of growth\n\n| size | look-up | batch | add |\n|---|---|---|---|")
        .unwrap();
    let absent: Vec<u64> = (0..KEYS as u64).map(|i| mix(i ^ 9 << 50)).collect();
    let mut points = Vec::new();
    let mut found = Vec::new();
    let mut bytes = 64 << 10;
    while bytes <= most {
        // A line takes as long whatever is in it: enough keys to touch every page will do.
        build(path, capacity(bytes), capacity(bytes).min(16 << 20), &[], 2);
        let filter = Filter::open(path).unwrap();
        let count = absent.len().min(capacity(bytes) as usize / 8);
        let mut race = Race::new(count);
        for round in 0..race.rounds() as u64 {
            race.time(0, || {
                absent[..count].iter().filter(|&&hash| filter.contains_hash(hash)).count()
            });
            race.time(1, || {
                filter.contains_hash_batch(&absent[..count], &mut found);
                found.len()
            });
            if round < 3 {
                let new: Vec<u64> =
                    absent[..count].iter().map(|&hash| mix(hash ^ round << 33)).collect();
                race.time(2, || new.iter().filter(|&&hash| filter.add_hash(hash).unwrap()).count());
            }
        }
        let best = [race.best(0), race.best(1), race.best(2)];
        writeln!(report, "| {} | {:.1} | {:.1} | {:.1} |", name(bytes), best[0], best[1], best[2])
            .unwrap();
        points.push((bytes, best));
        bytes *= 4;
    }
    let svg = plot::growth(&points, &["look-up", "look-up in a batch", "add of a new key"]);
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/growth.svg");
    std::fs::write(out, svg).unwrap();
    writeln!(report, "\n![nanoseconds per operation over file size](growth.svg)").unwrap();
}

//! Side by side with crates that keep everything in memory, on the same keys, in one process.
//!
//! `cargo bench --bench speed` takes a quarter of an hour, 8 GiB of memory and as much disk. It prints its
//! tables and writes them to `benches/RESULTS.md`, with a plot in `benches/growth.svg`. Sizes given
//! as arguments, in KiB, are measured alone, and nothing is written:
//! `cargo bench --bench speed -- 256 16384`; `sealed=10000000` measures the sealed kind alone, with
//! that number of keys. Files are made in the folder that `BLOOMFILE_BENCH_DIR` names, or a temporary
//! one.
//!
//! Contenders take turns within each round and the best round of each counts, so that what else
//! runs on the machine hurts them alike. One thread's work is timed by that thread's own clock.

#![allow(clippy::unwrap_used, reason = "a benchmark")]

mod changes;
mod clock;
mod contenders;
mod growth;
mod look_ups;
mod measure;
mod plot;
mod sealed;
mod skew;

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use bloomfile::{Options, Plan, geometry::Layout};
use measure::{keys, mix, nanoseconds, work_nanoseconds};

const RATE: f64 = 0.01;

/// Sets of keys that are added: half of them one by one, half in batches.
const NEW_SETS: u64 = 12;

/// In the second-level cache, in the third-level cache, in memory.
const SIZES: [u64; 3] = [256 << 10, 16 << 20, 1 << 30];

const HEAD: &str = "# Benchmark

Made by `cargo bench --bench speed`. Times are nanoseconds per key in the best round; in brackets how many times longer than bloomfile's. bloomfile works on a mapped file, the others in memory; the rate asked for is 1 %, keys are random bytes. Look-ups, adds and builds on one thread are in the thread's own time; two threads, merges and opening go by the clock on the wall, which other work on the machine lengthens. One and two threads are compared by the medians of rounds in turn, not by the best: what disturbs a core disturbs two of them twice as often. The plain store beside their adds is the least that anybody could do, and loses what two threads change at once.

sbbf-rs takes hashes and is given bloomfile's. \"Touch\" hashes the key and reads one word of a random line: what any filter has to do; \"touch ahead\" does so with the line asked for 64 keys before. Adds have the default journal, which logs what it has room for until the next sync.
";

/// The folder that files are made in, which goes with them.
fn folder() -> tempfile::TempDir {
    match std::env::var_os("BLOOMFILE_BENCH_DIR") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return println!("run with `cargo bench --bench speed`");
    }
    // The sealed kind alone, for one number of keys.
    let keys = arguments.iter().find_map(|argument| argument.strip_prefix("sealed=")?.parse().ok());
    if let Some(keys) = keys {
        let (folder, mut report) = (folder(), String::new());
        sealed::measure(folder.path(), keys, &mut report);
        skew::measure(folder.path(), &mut report);
        return println!("{report}");
    }
    let only: Vec<u64> = arguments.iter().filter_map(|kib| kib.parse().ok()).collect();
    let sizes =
        if only.is_empty() { SIZES.to_vec() } else { only.iter().map(|kib| kib << 10).collect() };
    let folder = folder();
    let path = folder.path().join("bench.bloom");
    let mut glance = String::from(
        "\n## At a glance\n\nHow many times as fast as the others bloomfile is, keys of 16 bytes; absent and present keys.\n\n| size | look-up: sbbf-rs | fastbloom | batch: sbbf-rs | fastbloom | add: fastbloom (atomic) | batch | build: sbbf-rs, 1 and 2 threads | 2 threads: look-ups | adds | batches |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut report = String::new();
    for &bytes in &sizes {
        size_class(&path, bytes, &mut glance, &mut report);
        sealed::measure(folder.path(), capacity(bytes), &mut report);
        eprintln!("{} done", name(bytes));
    }
    if !only.is_empty() {
        return println!("{glance}{report}");
    }
    skew::measure(folder.path(), &mut report);
    let svg = growth::growth(&path, &mut report);
    let report = format!("{HEAD}{glance}{report}");
    println!("{report}");
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    std::fs::write(out.join("RESULTS.md"), report).unwrap();
    std::fs::write(out.join("growth.svg"), svg).unwrap();
}

/// Everything about one size: a file filled to a bit below its capacity, then adds up to it, then
/// look-ups.
fn size_class(path: &Path, bytes: u64, glance: &mut String, report: &mut String) {
    let capacity = capacity(bytes);
    // A million keys touch more memory than caches hold.
    let samples = (capacity as usize / 40).min(1 << 20);
    let present = look_ups::Samples::new(1, samples);
    let new: Vec<Vec<[u8; 16]>> = (0..NEW_SETS).map(|set| keys(10 + set, samples)).collect();
    let before = capacity - (3 + NEW_SETS) * samples as u64;

    writeln!(report, "\n## {}: {capacity} keys\n", name(bytes)).unwrap();
    write!(glance, "| {}", name(bytes)).unwrap();
    // The first build finds memory that nothing has used for a while; the others find it in use, as
    // the other contenders do.
    let [_, built @ ..] = [2, 1, 2].map(|threads| build(path, capacity, before, threads));
    let mut rivals = contenders::Rivals::new(capacity, before, RATE);
    let filter = bloomfile::Filter::open(path).unwrap();
    present.insert(&filter, &mut rivals);
    let changes = changes::measure(&filter, &mut rivals, &new, &built, report);
    filter.close().unwrap();

    look_ups::measure(path, bytes, &rivals, &present, glance, report);
    drop(rivals);
    let threads = changes::two_threads(path, capacity, report);
    changes::files(path, bytes, report);
    let [look_ups, adds, batches] = threads;
    writeln!(glance, "{changes} | {look_ups:.2} | {adds:.2} | {batches:.2} |").unwrap();
}

/// Keys that a filter of this number of bytes is for.
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

/// What a build took, in nanoseconds per key.
struct Built {
    /// Handing the keys over.
    adding: f64,
    /// That, and what is left to do until the file is in its place: checksums, sync, renaming.
    whole: f64,
}

/// Makes a file for `capacity` keys and builds it with hashes, as many as `count`.
fn build(path: &Path, capacity: u64, count: u64, threads: usize) -> Built {
    let options = Options::new().capacity(capacity).false_positive_rate(RATE).replace(true);
    let mut builder = options.layout(Layout::Line).start_build(path).unwrap();
    builder.set_threads(threads);
    let mut adding = 0.0;
    let mut done = 0;
    let mut hashes = Vec::new();
    while done < count {
        let end = count.min(done + (4 << 20));
        hashes.clear();
        hashes.extend((done..end).map(|i| mix(i ^ 0x5eed_0000_0000)));
        let add = || {
            black_box(builder.add_hash_batch(&hashes));
        };
        // One thread at work is measured as sbbf-rs is; two, by what they are there for.
        adding += if threads == 1 { work_nanoseconds(add) } else { nanoseconds(add) };
        done = end;
    }
    let finish = nanoseconds(|| {
        builder.finish().unwrap();
    });
    let per_key = |time: f64| time / count as f64;
    Built { adding: per_key(adding), whole: per_key(adding + finish) }
}

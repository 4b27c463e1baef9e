//! The other kinds beside the plain one, with as many keys at the same rate, in one run: what several
//! segments, generations and counters cost.
//!
//! `cargo bench --bench kinds` writes `benches/KINDS.md`; it takes more than an hour, nearly all of it to
//! fill files of 1 GiB, 8 GiB of memory and of disk. A size of the plain filter given as an argument, in
//! KiB, is measured alone (16384 in two minutes), and nothing is written. Files are made in the folder
//! that `BLOOMFILE_BENCH_DIR` names, or a temporary one.

#![allow(clippy::unwrap_used, reason = "a benchmark")]

#[path = "speed/clock.rs"]
#[allow(dead_code, reason = "shared with the benchmark of speed")]
mod clock;
#[path = "speed/measure.rs"]
#[allow(dead_code, reason = "shared with the benchmark of speed")]
mod measure;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bloomfile::{
    CellKind, Filter, Options, Plan, Reader,
    report::{Inspection, inspect},
};
use cuckoofilter::CuckooFilter;
use measure::{Race, mix, together};

const RATE: f64 = 0.01;
const SIZES: [u64; 2] = [16 << 20, 1 << 30];

/// Hashes of absent or present keys that are asked for, and of keys that are added and removed.
const ASKED: u64 = 1 << 20;

/// Rounds of adds and removals on one thread and on two, and keys of each.
const THREAD_ROUNDS: u64 = 12;
const THREAD_ADDS: u64 = 1 << 17;

/// Keys of a batch that is made durable.
const DURABLE: u64 = 10_000;

const HEAD: &str = "# The kinds of filters beside the plain one

Made by `cargo bench --bench kinds`. Nanoseconds per hash in the best round, by the thread's own clock, each kind with as many keys as the plain filter of the size named is for, at a rate of 1 %; in brackets how many times as long as the plain one. \"Add\" and \"remove\" are of new keys in a filter that is full but for them; \"durable\" is with a sync after every 10,000 keys, by the clock on the wall.

\"Touch\" reads one word of a line of each segment, and does nothing else: what a look-up that says \"no\" has to wait for, as every segment has to be asked. \"Touch ahead\" asks for the lines 64 keys before, as batches do. A plain filter needs one line, one of ten segments ten.
";

/// A hash of a set.
fn hash(set: u64, number: u64) -> u64 {
    mix(number ^ set << 48)
}

/// A kind, and how it is made for a number of keys in all.
fn kinds(keys: u64) -> Vec<(&'static str, Options)> {
    let options = || Options::new().false_positive_rate(RATE);
    let rotating = |generations: u64| {
        let each = keys.div_ceil(generations);
        options().capacity(each).generations(generations).rotate_after(each)
    };
    // A little more than needed, so that no further segment is begun with the last keys.
    let growing =
        |segments: u32| options().capacity((keys + keys / 32).div_ceil((1 << segments) - 1)).grow();
    vec![
        ("plain", options().capacity(keys)),
        ("growing, 4 segments", growing(4)),
        ("growing, 10 segments", growing(10)),
        ("rotating, 2 generations", rotating(2)),
        ("rotating, 8 generations", rotating(8)),
        ("plain, with the memory of counting", options().capacity(4 * keys)),
        ("counting", options().capacity(keys).kind(CellKind::Counting)),
    ]
}

fn fill(filter: &Filter, keys: u64) {
    let mut hashes = Vec::new();
    for first in (0..keys).step_by(1 << 16) {
        hashes.clear();
        hashes.extend((first..keys.min(first + (1 << 16))).map(|number| hash(0, number)));
        filter.add_hash_batch(&hashes).unwrap();
    }
}

/// Nanoseconds of each kind of work, for one kind of filter.
struct Figures {
    name: &'static str,
    segments: usize,
    /// Reading one word of a line of each segment: singly, and asked for ahead.
    touch: [f64; 2],
    bits_per_key: f64,
    rate: f64,
    times: Vec<f64>,
}

const WORKS: [&str; 7] =
    ["absent", "present", "batch, absent", "add", "add in batches", "remove", "durable"];

fn measure_kind(name: &'static str, options: &Options, keys: u64, path: &Path) -> Figures {
    let filter = options.create(path).unwrap();
    let added = ASKED.min(keys / 8);
    fill(&filter, keys - 2 * added);
    filter.checkpoint().unwrap();

    let fresh = |set| (0..added).map(move |number| hash(set, number)).collect::<Vec<u64>>();
    let per_key = |start: f64| (clock::of_thread() - start) / added as f64;
    let [one_by_one, in_batches] = [fresh(1), fresh(2)];
    let start = clock::of_thread();
    one_by_one.iter().for_each(|&hash| drop(filter.add_hash(hash).map(drop)));
    let add = per_key(start);
    let start = clock::of_thread();
    in_batches.chunks(1024).for_each(|hashes| drop(filter.add_hash_batch(hashes).map(drop)));
    let add_batch = per_key(start);
    filter.sync().unwrap();
    let mut remove = f64::NAN;
    if filter.kind() == CellKind::Counting {
        let start = clock::of_thread();
        one_by_one.iter().for_each(|&hash| drop(filter.remove_hash(hash)));
        remove = per_key(start);
        filter.sync().unwrap();
    }
    let start = Instant::now();
    let rounds = (added / 2 / DURABLE).clamp(1, 20);
    for round in 0..rounds {
        let hashes: Vec<u64> =
            (0..DURABLE).map(|number| hash(3, round * DURABLE + number)).collect();
        filter.add_hash_batch(&hashes).unwrap();
        filter.sync().unwrap();
    }
    let durable = start.elapsed().as_secs_f64() * 1e9 / (rounds * DURABLE) as f64;
    filter.close().unwrap();

    let reader = Reader::open(path).unwrap();
    let absent: Vec<u64> = (0..ASKED).map(|number| hash(9, number)).collect();
    // The newest half of them, which no generation has lost.
    let present: Vec<u64> = (0..added).map(|number| hash(2, number)).collect();
    let mut found = Vec::new();
    reader.contains_hash_batch(&absent, &mut found);
    let wrong = found.iter().filter(|&&found| found).count();
    let mut race = Race::new(ASKED as usize);
    for _ in 0..race.rounds() {
        race.time(0, || absent.iter().filter(|&&hash| reader.contains_hash(hash)).count());
        race.time(1, || {
            let asked = present.iter().cycle().take(ASKED as usize);
            asked.filter(|&&hash| reader.contains_hash(hash)).count()
        });
        race.time(2, || {
            reader.contains_hash_batch(&absent, &mut found);
            found.len()
        });
    }
    let mut times: Vec<f64> = (0..3).map(|contender| race.best(contender)).collect();
    times.extend([add, add_batch, remove, durable]);
    let inspection = inspect(path).unwrap();
    let touch = touch(path, &inspection, &absent);
    let bytes: u64 = inspection.segments.iter().map(|segment| segment.data_bytes).sum();
    let figures = Figures {
        name,
        segments: reader.segments(),
        touch,
        bits_per_key: 8.0 * bytes as f64 / keys as f64,
        rate: wrong as f64 / ASKED as f64,
        times,
    };
    std::fs::remove_file(path).unwrap();
    figures
}

/// What it takes to read one word of a line of each segment for each hash: singly, and with the lines
/// asked for some hashes ahead.
fn touch(path: &Path, inspection: &Inspection, hashes: &[u64]) -> [f64; 2] {
    const AHEAD: usize = 64;
    let file = std::fs::File::open(path).unwrap();
    // SAFETY: nothing else has the file, which stays as it is.
    let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
    let segments: Vec<(usize, u64)> = inspection
        .segments
        .iter()
        .map(|segment| ((segment.offset + segment.table_bytes) as usize, segment.data_bytes / 64))
        .collect();
    let lines = |hash: u64| {
        let line = move |lines: u64| ((u128::from(hash) * u128::from(lines)) >> 64) as usize;
        segments.iter().map(move |&(start, lines)| start + 64 * line(lines))
    };
    let read = |hash| lines(hash).map(|at| usize::from(map[at])).sum::<usize>();
    let mut race = Race::new(hashes.len());
    for _ in 0..race.rounds() {
        race.time(0, || hashes.iter().map(|&hash| read(hash)).sum());
        race.time(1, || {
            let each = hashes.iter().enumerate().map(|(at, &hash)| {
                let later = hashes[(at + AHEAD).min(hashes.len() - 1)];
                lines(later).for_each(|at| prefetch(&map[at]));
                read(hash)
            });
            each.sum()
        });
    }
    [0, 1].map(|contender| race.best(contender))
}

fn prefetch(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: asks for memory that is there, and changes nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(byte);
}

/// How many times as many keys two threads add to counters as one, and take out.
fn two_threads(keys: u64, path: &Path) -> [f64; 2] {
    let options = Options::new().capacity(keys).false_positive_rate(RATE).kind(CellKind::Counting);
    let filter = options.create(path).unwrap();
    fill(&filter, keys / 2);
    filter.sync().unwrap();
    let mut races = [Race::new(THREAD_ADDS as usize), Race::new(THREAD_ADDS as usize)];
    for round in 0..THREAD_ROUNDS {
        for threads in [1, 2] {
            let hashes: Vec<u64> = (0..THREAD_ADDS).map(|number| hash(4 + round, number)).collect();
            let add =
                |part: &[u64]| part.iter().filter(|&&hash| filter.add_hash(hash).unwrap()).count();
            races[0].take(threads - 1, together(threads, round, [&[], &hashes], add));
            filter.sync().unwrap();
            let remove = |part: &[u64]| {
                part.iter().filter(|&&hash| filter.remove_hash(hash).is_ok()).count()
            };
            races[1].take(threads - 1, together(threads, round, [&[], &hashes], remove));
            filter.sync().unwrap();
        }
    }
    filter.close().unwrap();
    std::fs::remove_file(path).unwrap();
    races.map(|race| race.median(0) / race.median(1))
}

/// A cuckoo filter in memory, from which keys can be taken out as well.
fn measure_cuckoo(keys: u64) -> Figures {
    let mut filter = CuckooFilter::<std::hash::DefaultHasher>::with_capacity(keys as usize);
    let added = ASKED.min(keys / 8);
    (0..keys - 2 * added).for_each(|number| drop(filter.add(&hash(0, number))));
    let per_key = |start: f64| (clock::of_thread() - start) / added as f64;
    let start = clock::of_thread();
    (0..added).for_each(|number| drop(filter.add(&hash(1, number))));
    let add = per_key(start);
    let wrong = (0..ASKED).filter(|&number| filter.contains(&hash(9, number))).count();
    let mut race = Race::new(ASKED as usize);
    for _ in 0..race.rounds() {
        race.time(0, || (0..ASKED).filter(|&number| filter.contains(&hash(9, number))).count());
        race.time(1, || {
            (0..ASKED).filter(|&number| filter.contains(&hash(1, number % added))).count()
        });
    }
    let [absent, present] = [0, 1].map(|contender| race.best(contender));
    let start = clock::of_thread();
    let removed = (0..added).filter(|&number| filter.delete(&hash(1, number))).count();
    let remove = per_key(start);
    assert!(removed as u64 > added / 2, "{removed} of {added}");
    Figures {
        name: "cuckoofilter 0.5, in memory",
        segments: 1,
        touch: [f64::NAN; 2],
        bits_per_key: 8.0 * filter.memory_usage() as f64 / keys as f64,
        rate: wrong as f64 / ASKED as f64,
        times: vec![absent, present, f64::NAN, add, f64::NAN, remove, f64::NAN],
    }
}

fn measure(bytes: u64, folder: &Path) -> String {
    // As many keys as a filter of about that size is for.
    let per_key = Plan::new(10_000_000, RATE, None).unwrap().bits_per_key().unwrap();
    let keys = (bytes as f64 * 8.0 / per_key) as u64;
    let mut all: Vec<Figures> = Vec::new();
    for (name, options) in kinds(keys) {
        all.push(measure_kind(name, &options, keys, &folder.join("kinds.bloom")));
    }
    all.push(measure_cuckoo(keys));
    let mut table = format!(
        "\n## {} MiB, {keys} keys\n\n| kind | segments | bits per key | measured rate | {} | touch | touch ahead |\n|{}\n",
        bytes >> 20,
        WORKS.join(" | "),
        "---|".repeat(6 + WORKS.len())
    );
    for Figures { name, segments, touch, bits_per_key, rate, times } in &all {
        let _ =
            write!(table, "| {name} | {segments} | {bits_per_key:.2} | {:.3} % |", 100.0 * rate);
        // A removal is held against an add.
        for (at, time) in times.iter().enumerate() {
            let plain = all[0].times[if WORKS[at] == "remove" { 3 } else { at }];
            let _ = if time.is_nan() {
                write!(table, " – |")
            } else {
                write!(table, " {time:.1} ({:.2}) |", time / plain)
            };
        }
        for time in touch {
            let _ =
                if time.is_nan() { write!(table, " – |") } else { write!(table, " {time:.1} |") };
        }
        table.push('\n');
    }
    let [add, remove] = two_threads(keys, &folder.join("kinds.bloom"));
    let _ = writeln!(
        table,
        "\nTwo threads add {add:.2} times as many keys to a counting filter as one, and take out {remove:.2} times as many."
    );
    table
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return println!("run with `cargo bench --bench kinds`");
    }
    let sizes: Vec<u64> = arguments
        .iter()
        .filter_map(|argument| argument.parse().ok())
        .map(|kib: u64| kib << 10)
        .collect();
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("BLOOMFILE_BENCH_DIR")
        .map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    if !sizes.is_empty() {
        return sizes.iter().for_each(|&bytes| print!("{}", measure(bytes, &folder)));
    }
    let tables: String = SIZES.iter().map(|&bytes| measure(bytes, &folder)).collect();
    print!("{HEAD}{tables}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/KINDS.md");
    std::fs::write(path, format!("{HEAD}{tables}")).unwrap();
}

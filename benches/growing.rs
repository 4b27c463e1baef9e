//! What several segments cost: a filter that grew from 10,000 keys to 10,000,000 beside one that
//! was made for them. `cargo bench --bench growing`

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use bloomfile::{Options, Reader, report::inspect};

const KEYS: u64 = 10_000_000;
const ASKED: u64 = 4_000_000;
const ROUNDS: usize = 5;

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Nanoseconds per look-up of keys from `first` on, the best of a few rounds.
fn time(reader: &Reader, first: u64) -> f64 {
    let round = || {
        let start = Instant::now();
        for number in first..first + ASKED {
            black_box(reader.contains(key(number)));
        }
        start.elapsed().as_secs_f64() * 1e9 / ASKED as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Fills a file with all keys; nanoseconds per add.
fn fill(options: &Options, path: &Path) -> f64 {
    let filter = options.create(path).unwrap();
    let start = Instant::now();
    for number in 0..KEYS {
        filter.add(key(number)).unwrap();
    }
    let time = start.elapsed().as_secs_f64() * 1e9 / KEYS as f64;
    filter.close().unwrap();
    time
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let rate = 0.01;
    let files = [
        ("one segment", Options::new().capacity(KEYS).false_positive_rate(rate)),
        ("grown", Options::new().capacity(10_000).false_positive_rate(rate).grow()),
    ];
    println!("{KEYS} keys of 16 bytes at a rate of {rate}; nanoseconds, best of {ROUNDS} rounds\n");
    println!("| file | segments | bits per key | measured rate | absent | present | add |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut first: Option<[f64; 3]> = None;
    for (name, options) in files {
        let path = folder.path().join(name);
        let add = fill(&options, &path);
        let reader = Reader::open(&path).unwrap();
        let cells: u64 = inspect(&path).unwrap().segments.iter().map(|it| it.cells).sum();
        let wrong = (1 << 40..(1 << 40) + ASKED).filter(|&n| reader.contains(key(n))).count();
        let times = [time(&reader, 1 << 40), time(&reader, 0), add];
        let base = *first.get_or_insert(times);
        let [absent, present, add] =
            [0, 1, 2].map(|at| format!("{:.1} ({:.2})", times[at], times[at] / base[at]));
        println!(
            "| {name} | {} | {:.2} | {:.4} % | {absent} | {present} | {add} |",
            reader.segments(),
            cells as f64 / KEYS as f64,
            wrong as f64 * 100.0 / ASKED as f64,
        );
    }
}

//! Sealed pages that get more keys than they are for, and keys that were crafted to fall on one place of
//! their page: what a page of them takes.

use std::fmt::Write as _;
use std::path::Path;

use bloomfile::Options;

use crate::RATE;
use crate::measure::{mix, work_nanoseconds};

/// Keys that a filter is made for.
const CAPACITY: u64 = 300_000;

/// What the values of two keys have to begin with for them to have one start, whatever the page.
const START_BITS: u32 = 36;

/// The hash whose value (F-140) this is.
fn hash_of(value: u64) -> u64 {
    let mut x = value;
    x = (x ^ (x >> 31) ^ (x >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    x = (x ^ (x >> 27) ^ (x >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    (x ^ (x >> 30) ^ (x >> 60)).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// The hash of a key with a start of its own, as keys are.
fn random(number: u64) -> u64 {
    mix(number ^ 0x5e3d_0000_0000)
}

/// The hash of a key with the start that all of these have.
fn crafted(number: u64) -> u64 {
    hash_of(0x0123_4567_89ab_cdef >> (64 - START_BITS) << (64 - START_BITS) | number)
}

/// Builds files and tells how long a page of theirs took.
pub(crate) fn measure(folder: &Path, report: &mut String) {
    let path = folder.join("skew.bloom");
    let options = Options::new().capacity(CAPACITY).false_positive_rate(RATE).sealed(true);
    let pages = options.plan().unwrap().geometry().pages();
    let planned = CAPACITY / pages;
    writeln!(report, "\n## Sealed pages with too many keys\n\nA filter of {pages} pages for {planned} keys each, given other keys: milliseconds of processor time for each page, sorted, solved or given up, described and written; and how many pages the builder tells to answer \"maybe\" for every key.\n").unwrap();
    writeln!(report, "| keys of a page | ms per page | \"maybe\" pages |\n|---|---|---|").unwrap();
    let rows = [
        (random as fn(u64) -> u64, "", [planned, 10_000, 30_000, 100_000]),
        (crafted, " with one start", [60, 1_000, 10_000, 100_000]),
    ];
    for (hash, what, counts) in rows {
        for count in counts {
            let hashes: Vec<u64> = (0..count * pages).map(hash).collect();
            let options = options.clone().replace(true).memory(1 << 32);
            let mut maybe = 0;
            let times = (0..5).map(|_| {
                let mut builder = options.start_build(&path).unwrap();
                builder.set_threads(1);
                builder.add_hash_batch(&hashes);
                work_nanoseconds(|| maybe = builder.finish().unwrap().maybe_pages)
            });
            let time = times.fold(f64::INFINITY, f64::min) / pages as f64 / 1e6;
            writeln!(report, "| {count}{what} | {time:.3} | {maybe} of {pages} |").unwrap();
        }
    }
    std::fs::remove_file(path).unwrap();
}

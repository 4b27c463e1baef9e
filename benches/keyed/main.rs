//! Keyed files beside unkeyed ones and beside fastbloom with its default hasher, which is SipHash-1-3
//! under a random secret: look-ups of keys of 16 bytes, in the same rounds.
//!
//! `cargo bench --bench keyed` takes some minutes, 3 GiB of memory and of disk, and writes
//! `benches/KEYED.md`. A size given as an argument, in KiB, is measured alone, and nothing is written.
//! Files are made in the folder that `BLOOMFILE_BENCH_DIR` names, or a temporary one.

#![allow(clippy::unwrap_used, reason = "a benchmark")]

#[path = "../speed/clock.rs"]
#[allow(dead_code, reason = "shared with the benchmark of speed")]
mod clock;
#[path = "../speed/measure.rs"]
#[allow(dead_code, reason = "shared with the benchmark of speed")]
mod measure;

use std::fmt::Write as _;
use std::path::Path;

use bloomfile::{Key, Options, Plan, ReadOptions, Reader, geometry::Layout};
use measure::{Race, keys, mix};

const RATE: f64 = 0.01;
const SIZES: [u64; 3] = [256 << 10, 16 << 20, 1 << 30];

const HEAD: &str = "# Keyed files

Made by `cargo bench --bench keyed`. Nanoseconds per look-up of a key of 16 bytes in the best round, in the thread's own time, files at a rate of 1 %; in brackets how many times as long as unkeyed. fastbloom has as many bits as it asks for, 7 hashes, and its default hasher: SipHash-1-3.

\"In turn\" is a look-up that cannot begin before the one before it has its answer, as in a program that does something else with the answer; the others follow one another in a loop, so that a processor looks ahead and waits for the memory of several at once. SipHash takes more instructions: hardly two fit into what it looks ahead.

| size, keys | unkeyed | keyed | in turn, unkeyed | keyed | batch, unkeyed | keyed | fastbloom |
|---|---|---|---|---|---|---|---|
";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return println!("run with `cargo bench --bench keyed`");
    }
    let only: Vec<u64> = arguments.iter().filter_map(|kib| kib.parse().ok()).collect();
    let sizes =
        if only.is_empty() { SIZES.to_vec() } else { only.iter().map(|kib| kib << 10).collect() };
    let folder = match std::env::var_os("BLOOMFILE_BENCH_DIR") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let mut report = HEAD.to_owned();
    for &bytes in &sizes {
        size_class(folder.path(), bytes, &mut report);
    }
    println!("{report}");
    if only.is_empty() {
        let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/KEYED.md");
        std::fs::write(out, report).unwrap();
    }
}

fn size_class(folder: &Path, bytes: u64, report: &mut String) {
    let bits = Plan::new(1 << 30, RATE, Some(Layout::Line)).unwrap().bits_per_key().unwrap();
    let capacity = (bytes as f64 * 8.0 / bits) as u64;
    let samples = (capacity as usize / 4).min(1 << 20);
    let present: Vec<[u8; 16]> = keys(1, samples);
    let absent: Vec<[u8; 16]> = keys(2, samples);
    let secret = Key::from_bytes(*b"a secret of none");
    let options = Options::new().capacity(capacity).false_positive_rate(RATE).layout(Layout::Line);
    let options = options.replace(true);
    let reader = |name: &str, options: Options, read: ReadOptions| -> Reader {
        let path = folder.join(name);
        let mut builder = options.start_build(&path).unwrap();
        let mut hashes = Vec::new();
        let others = capacity - samples as u64;
        for start in (0..others).step_by(4 << 20) {
            hashes.clear();
            hashes.extend((start..others.min(start + (4 << 20))).map(|i| mix(i ^ 0x5eed << 32)));
            builder.add_hash_batch(&hashes);
        }
        builder.add_batch(&present);
        builder.finish().unwrap();
        // Every page is checked at opening, so that look-ups alone are measured.
        read.verify(true).open(&path).unwrap()
    };
    let unkeyed = reader("unkeyed", options.clone(), ReadOptions::new());
    let keyed = reader("keyed", options.key(&secret), ReadOptions::new().key(&secret));
    let bits = -(capacity as f64) * RATE.ln() / 2f64.ln().powi(2);
    // Bits at random at the density that this number of keys gives, but for those that are looked up.
    let words = (0..(bits / 64.0) as u64).map(|at| mix(at ^ 0xfa57 << 48)).collect();
    let mut fastbloom = fastbloom::BloomFilter::from_vec(words).hashes(7);
    present.iter().for_each(|key| {
        fastbloom.insert(&key[..]);
    });
    for (what, keys) in [("absent", &absent), ("present", &present)] {
        let mut race = Race::in_passes(keys.len());
        let mut found = Vec::new();
        for round in 0..race.rounds() {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let reader = [&unkeyed, &keyed][which];
                race.time(which, || keys.iter().filter(|key| reader.contains(&key[..])).count());
                race.time(2 + which, || {
                    reader.contains_batch(keys, &mut found);
                    found.len()
                });
                race.time(4 + which, || in_turn(reader, keys));
            }
            race.time(6, || keys.iter().filter(|key| fastbloom.contains(&key[..])).count());
        }
        let [one, one_keyed, batch, batch_keyed, turn, turn_keyed, other] =
            [0, 1, 2, 3, 4, 5, 6].map(|which| race.best(which));
        let hits = keys.iter().filter(|key| keyed.contains(&key[..])).count();
        assert!(what == "absent" || hits == keys.len());
        writeln!(
            report,
            "| {} KiB, {what} | {one:.1} | {one_keyed:.1} ({:.2}) | {turn:.1} | {turn_keyed:.1} ({:.2}) | {batch:.1} | {batch_keyed:.1} ({:.2}) | {other:.1} ({:.2}) |",
            bytes >> 10,
            one_keyed / one,
            turn_keyed / turn,
            batch_keyed / batch,
            other / one,
        )
        .unwrap();
    }
}

/// Looks keys up so that each look-up begins when the one before it has its answer.
fn in_turn(reader: &Reader, keys: &[[u8; 16]]) -> usize {
    let mut found = 0;
    for key in keys {
        found += usize::from(reader.contains(&key[..]));
        // Waits for all loads before it.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor of this architecture has it.
        unsafe {
            std::arch::x86_64::_mm_lfence();
        }
    }
    found
}

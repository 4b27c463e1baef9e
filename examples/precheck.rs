//! A filter in front of a database: what asking it first saves.
//!
//! `cargo run --release --example precheck [KEYS]` fills a redb database and a filter with the same
//! keys, then looks up keys of which 2 in 102 are there, as in the textbook's sum: 102,000
//! look-ups, 2,000 of them real, a filter with 3 % false positives. It measures both ways, and holds
//! the time of the second against what `Precheck` works out from the single costs.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use bloomfile::plan::Precheck;
use bloomfile::{Options, Reader};
use redb::{Database, ReadableDatabase, TableDefinition};

const TABLE: TableDefinition<&[u8], u64> = TableDefinition::new("keys");
const LOOKUPS: u64 = 102_000;
const PRESENT: u64 = 2_000;
const RATE: f64 = 0.03;

fn main() -> Result<(), Box<dyn Error>> {
    let keys: u64 = std::env::args().nth(1).map_or(Ok(300_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let database = Database::create(folder.path().join("keys.redb"))?;
    let filter = folder.path().join("keys.bloom");

    let mut builder =
        Options::new().capacity(keys).false_positive_rate(RATE).start_build(&filter)?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for number in 0..keys {
            let key = key(2 * number);
            table.insert(key.as_bytes(), number)?;
            builder.add(key.as_bytes());
        }
    }
    transaction.commit()?;
    builder.finish()?;

    let reader = Reader::open(&filter)?;
    let transaction = database.begin_read()?;
    let table = transaction.open_table(TABLE)?;
    let asked = asked(keys);

    // Both ways shall find the same pages in memory.
    for key in &asked {
        black_box(table.get(key.as_bytes())?.is_some());
    }
    let start = Instant::now();
    let mut found = 0;
    for key in &asked {
        found += u64::from(table.get(key.as_bytes())?.is_some());
    }
    let without = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let (mut found_filtered, mut reads) = (0, 0);
    for key in &asked {
        if reader.contains(key.as_bytes()) {
            reads += 1;
            found_filtered += u64::from(table.get(key.as_bytes())?.is_some());
        }
    }
    let with = start.elapsed().as_secs_f64();
    assert_eq!((found, found_filtered), (PRESENT, PRESENT), "the filter loses nothing");

    let start = Instant::now();
    for key in &asked {
        black_box(reader.contains(black_box(key.as_bytes())));
    }
    let filter_seconds = start.elapsed().as_secs_f64() / LOOKUPS as f64;

    let needless = reads - PRESENT;
    let rate = needless as f64 / (LOOKUPS - PRESENT) as f64;
    println!(
        "{keys} keys in the database; {LOOKUPS} look-ups, {PRESENT} of them for keys that are there"
    );
    println!("database alone   {:>8.1} ms, {LOOKUPS} reads", 1e3 * without);
    println!(
        "filter first     {:>8.1} ms, {reads} reads: {PRESENT} and {needless} needless ones ({:.2} %)",
        1e3 * with,
        100.0 * rate
    );
    println!("reads saved      {:>8.1} %", 100.0 * (1.0 - reads as f64 / LOOKUPS as f64));

    let slow_seconds = without / LOOKUPS as f64;
    let measured =
        Precheck { lookups: LOOKUPS, present: PRESENT, slow_seconds, filter_seconds, rate };
    println!(
        "worked out       {:>8.1} ms from {:.0} ns per read, {:.0} ns per question, {:.2} % false positives",
        1e3 * measured.with(),
        1e9 * slow_seconds,
        1e9 * filter_seconds,
        100.0 * rate
    );
    // The textbook's own figures: half a second for the database, a millisecond for the filter.
    let textbook = Precheck { slow_seconds: 0.5, filter_seconds: 0.001, rate: RATE, ..measured };
    println!(
        "the textbook     {:>8.0} s without, {:.0} s with the filter",
        textbook.without(),
        textbook.with()
    );
    Ok(())
}

/// Keys with even numbers are there, those with odd ones lie between them.
fn key(number: u64) -> String {
    format!("key-{number:012}")
}

/// The keys asked for, from all over the database: 2 in 102 are there.
fn asked(keys: u64) -> Vec<String> {
    let every = LOOKUPS / PRESENT;
    (0..LOOKUPS)
        .map(|number| {
            let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
            key(2 * place + u64::from(number % every != 0))
        })
        .collect()
}

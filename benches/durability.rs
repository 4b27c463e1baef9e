//! What `sync` costs: with a journal, and without one, where every sync is a checkpoint.
//!
//! `cargo bench --bench durability` prints two tables for a filter of 256 MiB, all from one run on
//! the disk of the target folder. A journal's cost per key has two parts: its syncs, and its share
//! of the checkpoint that ends an epoch when the journal is full.
//!
//! Bytes of checkpoints are those that the system counts for this process (`write_bytes` in
//! `/proc/self/io`): pages of the cache that it made dirty, each of which the checkpoint writes.
//! Bytes of a journal's syncs are computed: the pages that hold the new records.

#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

use std::path::Path;
use std::time::{Duration, Instant};

use bloomfile::{Filter, Options, geometry::Geometry};

/// Lines of 64 bytes: 256 MiB.
const LINES: u64 = 4 << 20;

/// A key record or a sync record.
const RECORD_BYTES: u64 = 16;

const PAGE_BYTES: u64 = bloomfile::geometry::PAGE_BYTES;

/// Keys that leave hardly a page of such a filter untouched.
const KEYS_TO_TOUCH_ALL: u64 = 600_000;

/// Time and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    time: Duration,
    bytes: u64,
}

/// Cost of one key.
#[derive(Clone, Copy, Debug)]
struct PerKey {
    nanoseconds: f64,
    bytes: f64,
}

impl Cost {
    fn of(work: impl FnOnce()) -> Self {
        let (before, start) = (bytes_written(), Instant::now());
        work();
        Cost { time: start.elapsed(), bytes: bytes_written() - before }
    }

    fn per_key(self, keys: u64) -> PerKey {
        let keys = keys as f64;
        PerKey { nanoseconds: self.time.as_nanos() as f64 / keys, bytes: self.bytes as f64 / keys }
    }
}

impl std::ops::Add for PerKey {
    type Output = PerKey;

    fn add(self, other: PerKey) -> PerKey {
        PerKey {
            nanoseconds: self.nanoseconds + other.nanoseconds,
            bytes: self.bytes + other.bytes,
        }
    }
}

fn bytes_written() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = counters.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.map_or(0, |number| number.parse().unwrap())
}

/// A filter in use: every page was written before, so that no first write of a block is timed.
struct Bench {
    filter: Filter,
    journal_records: u64,
    next_key: u64,
}

impl Bench {
    fn new(folder: &Path, journal_bytes: u64) -> Self {
        let path = folder.join(format!("journal-{journal_bytes}.bloom"));
        let geometry = Geometry::line(8, LINES).unwrap();
        let options = Options::new().geometry(geometry).journal_bytes(journal_bytes);
        let filter = options.create(&path).unwrap();
        // Unlinked while it is open: nothing is left behind, whatever happens.
        std::fs::remove_file(&path).unwrap();
        // A checkpoint begins when one of the two halves is three quarters full.
        let journal_records = journal_bytes / 2 / RECORD_BYTES * 3 / 4;
        let mut bench = Bench { filter, journal_records, next_key: 0 };
        bench.add(KEYS_TO_TOUCH_ALL);
        bench.filter.checkpoint().unwrap();
        bench
    }

    fn add(&mut self, keys: u64) {
        for key in self.next_key..self.next_key + keys {
            self.filter.add(key.to_le_bytes()).unwrap();
        }
        self.next_key += keys;
    }

    /// Cost of a number of syncs after `every` adds each, adds included. Data pages that become dirty
    /// count here when each sync is a checkpoint that writes them.
    fn syncs(&mut self, every: u64, syncs: u64) -> PerKey {
        let cost = Cost::of(|| {
            for _ in 0..syncs {
                self.add(every);
                self.filter.sync().unwrap();
            }
        });
        cost.per_key(every * syncs)
    }

    /// Share of a key in the checkpoint that follows when the journal is full.
    fn checkpoint_share(&mut self, every: u64) -> PerKey {
        self.filter.checkpoint().unwrap();
        let keys = self.journal_records / (every + 1) * every;
        let mut time = Duration::ZERO;
        // The pages count from the add that makes them dirty, the time from when they are written.
        let cost = Cost::of(|| {
            self.add(keys);
            let start = Instant::now();
            self.filter.checkpoint().unwrap();
            time = start.elapsed();
        });
        Cost { time, ..cost }.per_key(keys)
    }

    fn journal(&mut self, every: u64) -> Journal {
        let syncs = (self.journal_records / (every + 1)).clamp(1, 200);
        let group_bytes = (every + 1) * RECORD_BYTES;
        let pages: u64 = (0..syncs)
            .map(|sync| (sync * group_bytes, (sync + 1) * group_bytes))
            .map(|(start, end)| end.div_ceil(PAGE_BYTES) - start / PAGE_BYTES)
            .sum();
        let bytes = (pages * PAGE_BYTES) as f64 / (syncs * every) as f64;
        let sync = PerKey { bytes, ..self.syncs(every, syncs) };
        Journal { sync, checkpoint: self.checkpoint_share(every) }
    }
}

/// Cost of a key with a journal.
struct Journal {
    sync: PerKey,
    checkpoint: PerKey,
}

fn microseconds(cost: PerKey) -> String {
    format!("{:.2} µs", cost.nanoseconds / 1000.0)
}

fn bytes(cost: PerKey) -> String {
    format!("{:.0} B", cost.bytes)
}

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let default = Options::new().geometry(Geometry::line(8, LINES).unwrap());
    let journal_bytes =
        default.file_bytes().unwrap() - default.clone().journal_bytes(0).file_bytes().unwrap();

    println!("256 MiB filter, per key; the default journal has {} KiB\n", journal_bytes >> 10);
    println!(
        "| sync every | checkpoints only | journal: syncs | its checkpoints | all | times faster | times fewer bytes |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut with = Bench::new(folder.path(), journal_bytes);
    let mut without = Bench::new(folder.path(), 0);
    for (every, checkpoints) in [(1, 50), (100, 50), (10_000, 3)] {
        let alone = without.syncs(every, checkpoints);
        let Journal { sync, checkpoint } = with.journal(every);
        let all = sync + checkpoint;
        println!(
            "| {every} | {}, {} | {}, {} | {}, {} | {}, {} | {:.1} (syncs alone {:.0}) | {:.1} (syncs alone {:.0}) |",
            microseconds(alone),
            bytes(alone),
            microseconds(sync),
            bytes(sync),
            microseconds(checkpoint),
            bytes(checkpoint),
            microseconds(all),
            bytes(all),
            alone.nanoseconds / all.nanoseconds,
            alone.nanoseconds / sync.nanoseconds,
            alone.bytes / all.bytes,
            alone.bytes / sync.bytes,
        );
    }
    drop((with, without));

    println!("\n| journal | share of the data | syncs (every 100) | its checkpoints | all |");
    println!("| --- | --- | --- | --- | --- |");
    for kibibytes in [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
        let Journal { sync, checkpoint } = Bench::new(folder.path(), kibibytes << 10).journal(100);
        let all = sync + checkpoint;
        println!(
            "| {kibibytes} KiB | 1/{} | {}, {} | {}, {} | {}, {} |",
            (LINES * 64) / (kibibytes << 10),
            microseconds(sync),
            bytes(sync),
            microseconds(checkpoint),
            bytes(checkpoint),
            microseconds(all),
            bytes(all),
        );
    }
}

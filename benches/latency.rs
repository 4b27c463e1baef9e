//! How long single calls take while a disk is being written: adds, look-ups and syncs of one filter,
//! beside the least that could be hoped for.
//!
//! `cargo bench --bench latency` takes some minutes and 3 GiB of disk, and writes `benches/LATENCY.md`
//! and `benches/latency.svg`. Sizes given as arguments, in MiB, are measured alone, or with `durable` the
//! adds that are synced one by one, and nothing is written; `BLOOMFILE_BENCH_SECONDS` says for how long
//! one thread adds; the other loads take a quarter of that. Files are made in the folder that
//! `BLOOMFILE_BENCH_DIR` names, or in the target folder.
//!
//! *The limit* is plain stores into a mapped file of the same size, while another thread calls msync of
//! 64 KiB every 10 ms and syncs the file every second: no filter in a mapped file can do better.

#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloomfile::{Options, geometry::Geometry};
use memmap2::{MmapOptions, MmapRaw};

/// Between two syncs of the filter, and two flushes of the limit.
const RHYTHM: Duration = Duration::from_millis(10);

/// Threads that add at the same time.
const ADDERS: [usize; 3] = [1, 4, 16];

/// Keys a second that one thread adds where it does not add as many as it can.
const OFFERED: u64 = 200_000;

/// Checkpoints that there are while one thread adds as fast as it can, which goes on for longer if there
/// were fewer.
const CHECKPOINTS: u64 = 10;

/// Sizes, in MiB, of filters that one thread adds to while another syncs in a loop.
const BESIDE: [u64; 3] = [1, 16, 256];

/// Threads that each add a key and sync it.
const COMMITTERS: [usize; 6] = [1, 2, 4, 8, 16, 64];

const HEAD: &str = "# Latency

![How long the slowest calls take](latency.svg)

Made by `cargo bench --bench latency`. Files on the disk of the target folder; microseconds of single calls, each timed by itself. A filter is added to by the threads stated, as fast as they can, while another syncs every 10 ms. *Limit*: plain stores of as many threads into a mapped file of the same size, while others call msync of 64 KiB every 10 ms and sync the file every second. More threads than processors wait for each other's time slices, in both.
";

/// Durations, counted in steps of a 16th.
struct Histogram {
    counts: Vec<u64>,
    longest: u64,
}

impl Histogram {
    fn new() -> Self {
        Histogram { counts: vec![0; 64 * 16], longest: 0 }
    }

    fn add(&mut self, duration: Duration) {
        let nanoseconds = (duration.as_nanos() as u64).max(1);
        let power = nanoseconds.ilog2() as usize;
        let step = (nanoseconds << (63 - power) >> 59) as usize & 15;
        self.counts[power * 16 + step] += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.longest = self.longest.max(other.longest);
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Microseconds within which this share of the calls ended.
    fn percentile(&self, share: f64) -> f64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let (power, step) = (bucket / 16, bucket % 16);
                return 2f64.powi(power as i32) * (1.0 + (step + 1) as f64 / 16.0) / 1000.0;
            }
        }
        0.0
    }

    fn row(&self, what: &str, seconds: f64) -> String {
        let cell = |microseconds: f64| match microseconds {
            small if small < 10.0 => format!("{small:.2}"),
            large => format!("{large:.0}"),
        };
        let percentiles = [0.5, 0.99, 0.999, 0.9999].map(|share| cell(self.percentile(share)));
        let longest = cell(self.longest as f64 / 1000.0);
        let rate = self.count() as f64 / seconds;
        format!("| {what} | {rate:.0} | {} | {longest} |\n", percentiles.join(" | "))
    }
}

fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Times calls until it is told to stop; the pause before each is not counted.
fn timed(stop: &AtomicBool, pause: impl Fn(u64), call: impl Fn(u64)) -> Histogram {
    let mut histogram = Histogram::new();
    for number in 0.. {
        pause(number);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        call(number);
        histogram.add(start.elapsed());
    }
    histogram
}

fn mapped(path: &Path, bytes: u64) -> (std::fs::File, MmapRaw) {
    let mut options = std::fs::File::options();
    let file = options.create(true).truncate(true).read(true).write(true).open(path).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..bytes >> 20).for_each(|_| std::io::Write::write_all(&mut &file, &zeros).unwrap());
    file.sync_all().unwrap();
    let map = MmapOptions::new().map_raw(&file).unwrap();
    (file, map)
}

/// A plain store to a random word of a map.
fn store(map: &MmapRaw, bytes: u64, number: u64) {
    let word = mix(number) % (bytes / 8);
    // SAFETY: the word is inside the map, which outlives the call, and is only used atomically.
    let cell = unsafe { AtomicU64::from_ptr(map.as_mut_ptr().cast::<u64>().add(word as usize)) };
    cell.fetch_or(1 << (number % 64), Ordering::Relaxed);
}

/// Plain stores of some threads, and others that flush.
fn limit(folder: &Path, bytes: u64, threads: usize, length: Duration) -> (String, Histogram) {
    let path = folder.join("limit");
    let (file, map) = mapped(&path, bytes);
    let stop = AtomicBool::new(false);
    let (stores, flushes, longest) = std::thread::scope(|scope| {
        let (stop, map) = (&stop, &map);
        let call = |thread: u64, number: u64| store(map, bytes, thread << 48 | number);
        let stores = each_thread(scope, threads, stop, |_| {}, call);
        let syncs = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                let start = Instant::now();
                file.sync_data().unwrap();
                longest = longest.max(start.elapsed());
            }
            longest
        });
        let flushes = scope.spawn(|| {
            let flush = |number| {
                let at = (mix(number) % (bytes >> 16)) << 16;
                map.flush_range(at as usize, 1 << 16).unwrap();
            };
            timed(stop, |_| std::thread::sleep(RHYTHM), flush)
        });
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        (joined(stores), flushes.join().unwrap(), syncs.join().unwrap())
    });
    std::fs::remove_file(path).unwrap();
    let seconds = length.as_secs_f64();
    let mut rows = stores.row(&format!("limit: store, {}", of_threads(threads)), seconds);
    let _ = write!(rows, "{}", flushes.row("limit: msync", seconds));
    let _ = writeln!(rows, "| limit: longest fdatasync | | | | | | {:.0} |", longest.as_micros());
    (rows, stores)
}

fn of_threads(threads: usize) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

type Threads<'scope> = Vec<std::thread::ScopedJoinHandle<'scope, Histogram>>;

/// Threads that make timed calls, given their own number and that of the call.
fn each_thread<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    threads: usize,
    stop: &'scope AtomicBool,
    pause: impl Fn(u64) + Copy + Send + 'scope,
    call: impl Fn(u64, u64) + Copy + Send + 'scope,
) -> Threads<'scope> {
    let calls = |thread| move || timed(stop, pause, move |number| call(thread, number));
    (0..threads as u64).map(|thread| scope.spawn(calls(thread))).collect()
}

fn joined(threads: Threads<'_>) -> Histogram {
    let mut all = Histogram::new();
    threads.into_iter().for_each(|thread| all.merge(&thread.join().unwrap()));
    all
}

/// What goes on beside the syncs of a filter.
#[derive(Clone, Copy)]
enum Load {
    /// Threads that add as fast as they can.
    Adds(usize),
    /// One that adds this number of keys a second.
    Offered(u64),
    /// One that adds as fast as it can, and one that looks up.
    LookUps,
}

fn filter(folder: &Path, bytes: u64, load: Load, length: Duration) -> (String, Histogram) {
    let path = folder.join("latency.bloom");
    let geometry = Geometry::line(8, bytes / 64).unwrap();
    let filter = Options::new().geometry(geometry).replace(true).create(&path).unwrap();
    let stop = AtomicBool::new(false);
    let (threads, name) = match load {
        Load::Adds(threads) => (threads, format!("add, {}", of_threads(threads))),
        Load::Offered(rate) => (1, format!("add, {rate} a second offered")),
        Load::LookUps => (1, "add, beside look-ups".into()),
    };
    let begin = Instant::now();
    let (adds, look_ups, syncs) = std::thread::scope(|scope| {
        let (filter, stop) = (&filter, &stop);
        // In groups, as no thread sleeps for microseconds.
        let pause = move |number| {
            if let Load::Offered(rate) = load
                && number % 64 == 0
            {
                let due = begin + Duration::from_secs_f64(number as f64 / rate as f64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        };
        let adds = each_thread(scope, threads, stop, pause, move |thread, number| {
            filter.add_hash(mix(thread << 48 | number)).unwrap();
        });
        let looking = usize::from(matches!(load, Load::LookUps));
        let look_ups = each_thread(
            scope,
            looking,
            stop,
            |_| {},
            move |_, number| {
                std::hint::black_box(filter.contains_hash(mix(number)));
            },
        );
        let syncs = scope
            .spawn(move || timed(stop, |_| std::thread::sleep(RHYTHM), |_| filter.sync().unwrap()));
        std::thread::sleep(length);
        let few = || filter.stats().checkpoints < CHECKPOINTS && begin.elapsed() < 4 * length;
        while matches!(load, Load::Adds(1)) && few() {
            std::thread::sleep(Duration::from_secs(1));
        }
        stop.store(true, Ordering::Relaxed);
        (joined(adds), joined(look_ups), syncs.join().unwrap())
    });
    let stats = filter.stats();
    let seconds = begin.elapsed().as_secs_f64();
    let mut rows = adds.row(&name, seconds);
    if look_ups.count() > 0 {
        let _ = write!(rows, "{}", look_ups.row("look-up", seconds));
    }
    let _ = write!(rows, "{}", syncs.row("sync", seconds));
    let _ = writeln!(
        rows,
        "| {} checkpoints, {} stalls; longest checkpoint | | | | | | {:.0} |",
        stats.checkpoints,
        stats.stalls,
        stats.longest_checkpoint.as_micros()
    );
    drop(filter);
    std::fs::remove_file(path).unwrap();
    (rows, adds)
}

/// Keys made durable one by one, per second, by a number of threads.
fn durable_adds(threads: usize, length: Duration, commit: impl Fn(u64) + Sync) -> f64 {
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let done: u64 = std::thread::scope(|scope| {
        let (stop, commit) = (&stop, &commit);
        let threads: Vec<_> = (0..threads as u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut done = 0;
                    while !stop.load(Ordering::Relaxed) {
                        commit(thread << 48 | done);
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}

fn durable(folder: &Path, length: Duration) -> String {
    const KEYS: redb::TableDefinition<'_, u64, ()> = redb::TableDefinition::new("keys");
    let mut rows = String::from(
        "\n## Durable adds per second\n\nEach thread adds a key and syncs it; redb and SQLite (WAL, synchronous=FULL, by way of Python) insert it and commit.\n\n| threads | bloomfile | times one thread | redb | SQLite |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut one = 0.0;
    for threads in COMMITTERS {
        let path = folder.join("durable.bloom");
        let options = Options::new().capacity(10_000_000).false_positive_rate(0.01).replace(true);
        let filter = options.create(&path).unwrap();
        let ours = durable_adds(threads, length, |number| {
            filter.add_hash(mix(number)).unwrap();
            filter.sync().unwrap();
        });
        drop(filter);
        std::fs::remove_file(path).unwrap();
        let path = folder.join("durable.redb");
        let database = redb::Database::create(&path).unwrap();
        let theirs = durable_adds(threads, length, |number| {
            let write = database.begin_write().unwrap();
            write.open_table(KEYS).unwrap().insert(mix(number), ()).unwrap();
            write.commit().unwrap();
        });
        drop(database);
        std::fs::remove_file(path).unwrap();
        if threads == 1 {
            one = ours;
        }
        let times = ours / one;
        let sqlite = sqlite_commits(folder, threads, length);
        let _ = writeln!(rows, "| {threads} | {ours:.0} | {times:.1} | {theirs:.0} | {sqlite} |");
    }
    rows
}

/// What SQLite does, where Python has it.
fn sqlite_commits(folder: &Path, threads: usize, length: Duration) -> String {
    let path = folder.join("durable.sqlite");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/sqlite_commits.py");
    let mut command = std::process::Command::new("python3");
    command.arg(script).arg(&path).arg(threads.to_string()).arg(length.as_secs().to_string());
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    let rate = text.and_then(|text| text.trim().parse::<f64>().ok());
    for name in ["durable.sqlite", "durable.sqlite-wal", "durable.sqlite-shm"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    rate.map_or("not run".into(), |rate| format!("{rate:.0}"))
}

/// Calls per second of one thread, alone or while another makes one kind of call in a loop.
fn calls(length: Duration, call: impl Fn(u64) + Sync, beside: Option<&(dyn Fn() + Sync)>) -> f64 {
    let stop = AtomicBool::new(false);
    let made: u64 = std::thread::scope(|scope| {
        let (stop, call) = (&stop, &call);
        let calls = scope.spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                call(number);
                number += 1;
            }
            number
        });
        if let Some(beside) = beside {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    beside();
                }
            });
        }
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        calls.join().unwrap()
    });
    made as f64 / length.as_secs_f64()
}

/// Adds per second of one thread, alone and while another syncs in a loop, and the same of plain stores.
fn alone_and_beside_syncs(folder: &Path, length: Duration) -> String {
    let mut rows = String::from(
        "\n## One thread beside another that syncs in a loop\n\nPer second, and as a share of what it does alone. *Limit*: plain stores into a mapped file of the same size, and fdatasync in a loop. A page that was written back is a page fault at the next store to it: the more pages there are, the fewer stores share one.\n\n| | alone | beside syncs | share | limit alone | limit beside | share |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for mebibytes in BESIDE {
        let bytes = mebibytes << 20;
        let adds = |syncs: bool| {
            let path = folder.join("beside.bloom");
            let geometry = Geometry::line(8, bytes / 64).unwrap();
            let filter = Options::new().geometry(geometry).replace(true).create(&path).unwrap();
            let sync = || filter.sync().unwrap();
            let add = |number| {
                filter.add_hash(mix(number)).unwrap();
            };
            let adds = calls(length, add, syncs.then_some(&sync));
            filter.close().unwrap();
            std::fs::remove_file(path).unwrap();
            adds
        };
        let stores = |syncs: bool| {
            let path = folder.join("limit");
            let (file, map) = mapped(&path, bytes);
            let sync = || file.sync_data().unwrap();
            let stores = calls(length, |number| store(&map, bytes, number), syncs.then_some(&sync));
            std::fs::remove_file(path).unwrap();
            stores
        };
        let [alone, beside] = [adds(false), adds(true)];
        let [limit_alone, limit_beside] = [stores(false), stores(true)];
        let _ = writeln!(
            rows,
            "| {mebibytes} MiB | {alone:.0} | {beside:.0} | {:.3} | {limit_alone:.0} | {limit_beside:.0} | {:.3} |",
            beside / alone,
            limit_beside / limit_alone,
        );
    }
    rows
}

/// The share of calls that take longer than a time, each axis by powers of ten.
fn plot(curves: &[(String, Histogram)]) -> String {
    const COLOURS: [&str; 4] = ["#999999", "#0072b2", "#cccccc", "#56b4e9"];
    let x = |share: f64| 60.0 + 75.0 * -share.log10();
    let y = |microseconds: f64| 330.0 - 50.0 * (microseconds.log10() + 1.0);
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"640\" height=\"400\" fill=\"#ffffff\"/>\n<text x=\"60\" y=\"20\">How long calls take: one in this number takes longer</text>\n",
    );
    let line = "stroke=\"#dddddd\"";
    for (power, name) in
        ["0.1 µs", "1 µs", "10 µs", "0.1 ms", "1 ms", "10 ms", "0.1 s"].iter().enumerate()
    {
        let y = y(10f64.powi(power as i32 - 1));
        let _ = writeln!(
            svg,
            "<line x1=\"60\" x2=\"600\" y1=\"{y}\" y2=\"{y}\" {line}/><text x=\"54\" y=\"{}\" text-anchor=\"end\">{name}</text>",
            y + 4.0
        );
    }
    for power in 0..=7 {
        let x = x(10f64.powi(-power));
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" x2=\"{x}\" y1=\"30\" y2=\"330\" {line}/><text x=\"{x}\" y=\"348\" text-anchor=\"middle\">10<tspan dy=\"-5\" font-size=\"9\">{power}</tspan></text>"
        );
    }
    for (number, (name, histogram)) in curves.iter().enumerate() {
        let (colour, left) = (COLOURS[number % COLOURS.len()], 60 + 140 * number);
        let points: String = (0..=28)
            .map(|step| 10f64.powf(-f64::from(step) / 4.0))
            .take_while(|share| share * histogram.count() as f64 >= 1.0)
            .map(|share| {
                format!("{:.1},{:.1} ", x(share), y(histogram.percentile(1.0 - share).max(0.1)))
            })
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n<rect x=\"{left}\" y=\"366\" width=\"14\" height=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"373\">{name}</text>",
            left + 20
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let seconds = std::env::var("BLOOMFILE_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(60));
    let folder = std::env::var_os("BLOOMFILE_BENCH_DIR").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(folder).unwrap();
    if std::env::args().any(|argument| argument == "durable") {
        return print!("{}", durable(folder.path(), length.min(Duration::from_secs(5))));
    }
    let (mut report, mut curves) = (String::from(HEAD), Vec::new());
    for &mebibytes in if sizes.is_empty() { &[256, 1024][..] } else { &sizes } {
        let bytes = mebibytes << 20;
        let mut tell = |text: &str| {
            print!("{text}");
            report.push_str(text);
        };
        tell(&format!(
            "\n## {mebibytes} MiB\n\n| call | per second | p50 | p99 | p99.9 | p99.99 | longest |\n| --- | --- | --- | --- | --- | --- | --- |\n"
        ));
        for threads in ADDERS {
            let length = if threads == 1 { length } else { length / 4 };
            let (rows, stores) = limit(folder.path(), bytes, threads, length);
            tell(&rows);
            let (rows, adds) = filter(folder.path(), bytes, Load::Adds(threads), length);
            tell(&rows);
            if threads == 1 {
                curves.push((format!("plain stores, {mebibytes} MiB"), stores));
                curves.push((format!("adds, {mebibytes} MiB"), adds));
            }
        }
        for load in [Load::Offered(OFFERED), Load::LookUps] {
            tell(&filter(folder.path(), bytes, load, length / 4).0);
        }
    }
    let alone = alone_and_beside_syncs(folder.path(), length.min(Duration::from_secs(5)));
    print!("{alone}");
    report.push_str(&alone);
    let durable = durable(folder.path(), length.min(Duration::from_secs(5)));
    print!("{durable}");
    report.push_str(&durable);
    if sizes.is_empty() {
        let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
        std::fs::write(benches.join("LATENCY.md"), report).unwrap();
        std::fs::write(benches.join("latency.svg"), plot(&curves)).unwrap();
    }
}

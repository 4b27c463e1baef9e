//! What a publication costs the hosts that follow it. The coder tells each chunk of 4 MiB by itself, so
//! that a small filter, of whose lines the same share changes from version to version, has the chunks of
//! a large one: its deltas are made and applied here, and counted as many times as the large one is
//! larger. Hosts that pull on schedules, and are away at times, then take what a manifest offers them.

use std::path::Path;

use bloomfile::geometry::Geometry;
use bloomfile::ops::DeltaOperation;
use bloomfile::{Filter, Options};

const ROWS: u32 = 8;
const LINE_BITS: u64 = 512;
const CHUNK_BYTES: u64 = 4 << 20;
const HOSTS: u64 = 10_000;

/// Bytes of a filter in front of its first segment (format-spec.md, section 1).
const HEAD_BYTES: u64 = 12_288;

/// As long as any SHA-256 in a manifest.
const HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// How often there is a version.
struct Schedule {
    name: &'static str,
    per_day: u64,
    /// Keys that a day adds, of the capacity.
    growth: f64,
    /// Versions that are made; the last one is full.
    versions: u64,
    /// Days that the hosts follow it.
    days: u64,
    keep: &'static [u64],
}

const SCHEDULES: [Schedule; 4] = [
    Schedule { name: "day", per_day: 1, growth: 0.01, versions: 45, days: 365, keep: &[30] },
    Schedule { name: "hour", per_day: 24, growth: 0.01, versions: 336, days: 60, keep: &[30, 168] },
    Schedule {
        name: "minute",
        per_day: 1440,
        growth: 0.01,
        versions: 360,
        days: 7,
        keep: &[30, 240, 1440],
    },
    // Fewer keys in each version than the others have: a chunk of 65,536 lines has two or three.
    Schedule {
        name: "minute, slowly",
        per_day: 1440,
        growth: 0.001,
        versions: 120,
        days: 7,
        keep: &[240],
    },
];

/// What was measured of a schedule.
struct Series {
    /// Bytes of each delta.
    deltas: Vec<u64>,
    /// Those of a delta without chunks.
    fixed: u64,
    lines: u64,
}

/// When a host looks for a new version.
#[derive(Clone, Copy)]
enum Habit {
    /// At each version.
    Always,
    /// The same, but for three hours in a day, on average, at any time and of any length.
    Away,
    /// Not at each version, but this number apart.
    Rarely(u64),
}

pub(crate) fn run(mib: u64) {
    // Whole chunks: each has a head.
    let mib = mib.next_multiple_of(CHUNK_BYTES >> 20);
    println!("| a version each | L / a | versions made | bits per key | by the formula |");
    println!("| --- | --- | --- | --- | --- |");
    let series: Vec<Series> = SCHEDULES.iter().map(|schedule| measure(schedule, mib)).collect();
    for (schedule, series) in SCHEDULES.iter().zip(&series) {
        crossing(schedule, series);
    }
    println!();
    println!(
        "| a version each | `--keep` | hosts | deltas | manifests | snapshots | 10^9 keys: per host \
         and day | 10,000 hosts | longest chain | 10^12 keys: per host and day |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (schedule, series) in SCHEDULES.iter().zip(&series) {
        for &keep in schedule.keep {
            let rarely = if schedule.per_day > 1 { schedule.per_day } else { 7 };
            let told = if schedule.per_day > 1 { "pull once a day" } else { "pull once a week" };
            for (habit, told) in [
                (Habit::Always, "pull each version"),
                (Habit::Away, "are away 3 h a day"),
                (Habit::Rarely(rarely), told),
            ] {
                let [small, large] = [1e9, 1e12]
                    .map(|keys| Publication::new(series, keys, keep).cost(schedule, habit));
                println!(
                    "| {} | {keep} | {told} | {} | {} | {} | {} | {} | {} | {} |",
                    schedule.name,
                    size(small.deltas),
                    size(small.manifests),
                    size(small.snapshots),
                    size(small.all()),
                    size(small.all() * HOSTS as f64),
                    small.longest,
                    size(large.all()),
                );
            }
        }
    }
}

/// Makes each version and its delta, as `bloomfile publish` does, and lets one host take all of them.
fn measure(schedule: &Schedule, mib: u64) -> Series {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let at = |name: &str| folder.path().join(name);
    let bits = mib << 23;
    let (lines, capacity) = (bits / LINE_BITS, bits * 10 / 101);
    let each = capacity as f64 * schedule.growth / schedule.per_day as f64;
    let keys_of =
        |version: u64| capacity - (each * (schedule.versions - version) as f64).round() as u64;
    let options = Options::new().geometry(Geometry::line(ROWS, lines).unwrap()).journal_bytes(0);
    let mut builder = options.start_build(at("live")).unwrap();
    let keys =
        |range: std::ops::Range<u64>| -> Vec<[u8; 8]> { range.map(u64::to_le_bytes).collect() };
    for first in (0..keys_of(0)).step_by(65_536) {
        builder.add_batch(&keys(first..(first + 65_536).min(keys_of(0))));
    }
    builder.finish().unwrap();
    let operation = DeltaOperation::new().replace(true);
    let publish = |version: u64, path: &Path| {
        let copied = operation.clean_copy(at("live"), path, 0, |pairs| {
            pairs.insert("published".into(), format!("{} {version}", "0".repeat(32)));
        });
        copied.unwrap();
    };
    publish(0, &at("old"));
    publish(1, &at("new"));
    let fixed = operation.make(at("old"), at("new"), at("delta")).unwrap().bytes;
    std::fs::copy(at("old"), at("host")).unwrap();
    let (mut deltas, mut formula) = (Vec::new(), 0.0);
    for version in 1..=schedule.versions {
        let (before, after) = (keys_of(version - 1), keys_of(version));
        let filter = Filter::open(at("live")).unwrap();
        filter.add_batch(&keys(before..after)).unwrap();
        filter.close().unwrap();
        publish(version, &at("new"));
        let made = operation.make(at("old"), at("new"), at("delta")).unwrap();
        operation.apply(at("delta"), at("host"), at("host")).unwrap();
        deltas.push(made.bytes);
        formula += by_formula(lines, before, after - before);
        std::fs::rename(at("new"), at("old")).unwrap();
    }
    let [published, host] = ["old", "host"].map(|name| std::fs::read(at(name)).unwrap());
    assert!(published == host, "the host has another file");
    let added = (capacity - keys_of(0)) as f64;
    let bits_per_key = |bytes: f64| 8.0 * bytes / added;
    let told = deltas.iter().map(|bytes| (bytes - fixed) as f64).sum();
    println!(
        "| {} | {:.0} | {} | {:.1} | {:.1} |",
        schedule.name,
        lines as f64 / each,
        deltas.len(),
        bits_per_key(told),
        bits_per_key(formula)
    );
    Series { deltas, fixed, lines }
}

/// Bytes of the chunks of a delta, by the formula of `docs/scale.md`: `added` keys on top of `before`.
fn by_formula(lines: u64, before: u64, added: u64) -> f64 {
    let (lines, added) = (lines as f64, added as f64);
    let row_cells = LINE_BITS as f64 / f64::from(ROWS);
    let zeros = (-(before as f64) / lines / row_cells).exp();
    let cells = f64::from(ROWS) * zeros * row_cells.log2();
    let bits = (lines / added).log2() + 1.5 + f64::from(ROWS) + cells;
    added * bits / 8.0 + 24.0 * lines * LINE_BITS as f64 / 8.0 / CHUNK_BYTES as f64
}

/// How many deltas together are as long as the snapshot, from the newest one back.
fn crossing(schedule: &Schedule, series: &Series) {
    let publication = Publication::new(series, 1e9, u64::MAX);
    let (mut bytes, mut count) = (0.0, 0);
    for delta in publication.deltas.iter().rev() {
        if bytes + delta > publication.snapshot {
            break;
        }
        bytes += delta;
        count += 1;
    }
    let last = publication.deltas.last().unwrap();
    print!("a version each {}: delta of 10^9 keys {}", schedule.name, size(*last));
    if count < publication.deltas.len() {
        println!(", {count} deltas are shorter than the snapshot");
    } else {
        let mean = bytes / count as f64;
        println!(", some {:.0} deltas are shorter than the snapshot", publication.snapshot / mean);
    }
}

/// A publication of a large filter.
struct Publication {
    /// Bytes of each delta and of the snapshot.
    deltas: Vec<f64>,
    snapshot: f64,
    keep: u64,
}

/// Bytes per host and day, by what they are of.
#[derive(Default)]
struct Cost {
    deltas: f64,
    manifests: f64,
    snapshots: f64,
    /// Deltas that one pull took.
    longest: u64,
}

impl Cost {
    fn all(&self) -> f64 {
        self.deltas + self.manifests + self.snapshots
    }
}

impl Publication {
    fn new(series: &Series, keys: f64, keep: u64) -> Self {
        let lines = keys * 10.1 / LINE_BITS as f64;
        let (times, fixed) = (lines / series.lines as f64, series.fixed as f64);
        let scaled = |&bytes: &u64| (bytes as f64 - fixed) * times + fixed;
        // Data, and two page tables.
        let data = lines * LINE_BITS as f64 / 8.0;
        let snapshot = HEAD_BYTES as f64 + data + 2.0 * 8.0 * data / 4096.0;
        Publication { deltas: series.deltas.iter().map(scaled).collect(), snapshot, keep }
    }

    /// The delta that leads to a version: the series is gone through again and again.
    fn delta(&self, version: u64) -> f64 {
        self.deltas[(version % self.deltas.len() as u64) as usize]
    }

    /// What the hosts transfer.
    fn cost(&self, schedule: &Schedule, habit: Habit) -> Cost {
        // From here on the manifest has all that it keeps, and hosts have been away before.
        let first = self.keep.min(2 * schedule.per_day).max(60) + schedule.per_day;
        let end = first + schedule.days * schedule.per_day;
        // By version: all deltas up to it together, what the manifest has, and the oldest version that
        // it leads from (docs/publishing.md).
        let (mut sums, mut manifests, mut oldest) = (vec![0.0], vec![0], vec![0]);
        let mut from = 0;
        let mut entries = 0;
        for version in 1..end {
            sums.push(sums[version as usize - 1] + self.delta(version));
            entries += entry_bytes(version - 1, self.delta(version));
            while version - from > self.keep || self.chain(&sums, from, version) >= self.snapshot {
                entries -= entry_bytes(from, self.delta(from + 1));
                from += 1;
            }
            manifests.push(entries + frame_bytes(version, self.snapshot));
            oldest.push(from);
        }
        let mut cost = Cost::default();
        for host in 0..HOSTS {
            let mut random = Random(host);
            let mut next = 1 + random.next() % 7;
            if let Habit::Rarely(every) = habit {
                next = 1 + random.next() % every;
            }
            let mut has = 0;
            while next < end {
                if next >= first {
                    cost.manifests += manifests[next as usize] as f64;
                    if has >= oldest[next as usize] {
                        cost.deltas += self.chain(&sums, has, next);
                        cost.longest = cost.longest.max(next - has);
                    } else {
                        cost.snapshots += self.snapshot;
                    }
                }
                has = next;
                next += match habit {
                    Habit::Always => 1,
                    Habit::Rarely(every) => every,
                    Habit::Away => random.pause(schedule.per_day),
                };
            }
        }
        let days = (HOSTS * schedule.days) as f64;
        cost.deltas /= days;
        cost.manifests /= days;
        cost.snapshots /= days;
        cost
    }

    /// Bytes of the deltas from one version to another.
    fn chain(&self, sums: &[f64], from: u64, to: u64) -> f64 {
        sums[to as usize] - sums[from as usize]
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// From 0 up to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Versions to the next pull of a host that goes away once in 24 hours, for three on average: as
    /// many lengths are short as an exponential law has it.
    fn pause(&mut self, per_day: u64) -> u64 {
        let per_hour = per_day as f64 / 24.0;
        // It may go between this pull and the next one.
        let goes = 1.0 - (-1.0 / (21.0 * per_hour)).exp();
        if self.share() >= goes {
            return 1;
        }
        // From then on it is away past as many versions.
        let away = -(1.0 - self.share()).ln() * 3.0 * per_hour;
        1 + (self.share() + away).floor() as u64
    }
}

/// Bytes that a manifest has for a version and the delta that leads from it.
fn entry_bytes(version: u64, delta: f64) -> u64 {
    let (to, hash, bytes) = (version + 1, HASH, delta.round());
    let short = &HASH[..16];
    let text = format!(
        r#",
    {{
      "version": {version},
      "head": "{hash}",
      "digest": "{hash}"
    }},
    {{
      "from": {version},
      "to": {to},
      "name": "v{version}-v{to}-{short}.delta",
      "bytes": {bytes},
      "sha256": "{hash}"
    }}"#
    );
    text.len() as u64
}

/// Bytes of the rest of a manifest.
fn frame_bytes(version: u64, snapshot: f64) -> u64 {
    let (hash, bytes) = (HASH, snapshot.round());
    let (short, series) = (&HASH[..16], &HASH[..32]);
    let text = format!(
        r#"{{
  "bloomfile_manifest": 1,
  "series": "{series}",
  "version": {version},
  "snapshot": {{
    "name": "v{version}-{short}.bloom",
    "bytes": {bytes},
    "sha256": "{hash}"
  }},
  "versions": [
    {{
      "version": {version},
      "head": "{hash}",
      "digest": "{hash}"
    }}
  ],
  "deltas": [
  ]
}}
"#
    );
    // The first delta has no comma in front of it.
    text.len() as u64 - 1
}

/// A number of bytes with its unit, three digits of it.
fn size(bytes: f64) -> String {
    if bytes == 0.0 {
        return "0".into();
    }
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let power = ((bytes.log10() / 3.0) as usize).min(units.len() - 1);
    let value = bytes / 1000f64.powi(power as i32);
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", units[power])
}

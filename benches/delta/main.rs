//! What a delta takes: bytes and time, beside tools that know nothing of filters.
//!
//! `cargo bench --features digest --bench delta -- [MiB] [LAYOUT]`; 1024 and all by default. And with
//! `scale [MiB]`, 4 by default, what a publication costs the hosts that follow it. The figures are in
//! `docs/scale.md`.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]

mod scale;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use bloomfile::geometry::Geometry;
use bloomfile::ops::DeltaOperation;
use bloomfile::{Filter, Options};

fn main() {
    let size = std::env::args().find_map(|text| text.parse().ok());
    if std::env::args().any(|text| text == "scale") {
        return scale::run(size.unwrap_or(4));
    }
    let size = size.unwrap_or(1024);
    let bits: u64 = size << 23;
    let layout =
        std::env::args().skip(1).find(|it| matches!(it.as_str(), "line" | "page" | "rows"));
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let at = |name: &str| folder.path().join(name);
    println!(
        "{size} MiB; layout, keys before, keys added: bytes, bits per key; made, applied (MB/s)"
    );
    for (name, geometry, capacity) in [
        ("line", Geometry::line(8, bits / 512), bits * 10 / 101),
        ("page", Geometry::page(7, bits / 32_768), bits * 10 / 96),
        ("rows", Geometry::rows(7, bits / 7), bits * 10 / 96),
    ] {
        if layout.as_deref().is_some_and(|layout| layout != name) {
            continue;
        }
        let options = Options::new().geometry(geometry.unwrap()).journal_bytes(0).replace(true);
        for keys in [capacity / 2, capacity] {
            let mut builder = options.start_build(at("old")).unwrap();
            for first in (0..keys).step_by(65_536) {
                let batch: Vec<[u8; 8]> =
                    (first..(first + 65_536).min(keys)).map(u64::to_le_bytes).collect();
                builder.add_batch(&batch);
            }
            builder.finish().unwrap();
            for added in [100_000, 1_000_000] {
                measure(
                    &at,
                    name,
                    keys,
                    added,
                    added == 1_000_000 && layout.is_none() && name == "line",
                );
            }
        }
    }
}

/// Adds keys to a copy, and makes and applies the delta.
fn measure(
    at: &dyn Fn(&str) -> std::path::PathBuf,
    name: &str,
    keys: u64,
    added: u64,
    others: bool,
) {
    let (old, new, delta) = (at("old"), at("new"), at("delta"));
    std::fs::copy(&old, &new).unwrap();
    let filter = Filter::open(&new).unwrap();
    let more: Vec<[u8; 8]> = (0..added).map(|key| (key + (1 << 50)).to_le_bytes()).collect();
    filter.add_batch(&more).unwrap();
    filter.close().unwrap();
    let operation = DeltaOperation::new().replace(true);
    let bytes = std::fs::metadata(&new).unwrap().len() as f64;
    let speed = |start: Instant| bytes / start.elapsed().as_secs_f64() / 1e6;
    let start = Instant::now();
    let made = operation.make(&old, &new, &delta).unwrap();
    let making = speed(start);
    let start = Instant::now();
    operation.apply(&delta, &old, at("result")).unwrap();
    let applying = speed(start);
    println!(
        "{name}, {keys}, {added}: {}, {:.1}; {making:.0}, {applying:.0}",
        made.bytes,
        8.0 * made.bytes as f64 / added as f64
    );
    std::fs::remove_file(at("result")).unwrap();
    if others {
        compare(&old, &new, at("other").as_path());
    }
    std::fs::remove_file(new).unwrap();
}

/// The same by tools that compare files.
fn compare(old: &Path, new: &Path, out: &Path) {
    let [old, new, out] = [old, new, out].map(|path| path.to_str().unwrap());
    for (name, arguments) in [
        ("rsync", format!("-I --no-whole-file --only-write-batch={out} {new} {old}")),
        ("xdelta3", format!("-e -f -S none -s {old} {new} {out}")),
    ] {
        let start = Instant::now();
        let mut command = Command::new("timeout");
        command.arg("600").arg(name).args(arguments.split(' ')).stdout(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => {
                let bytes = std::fs::metadata(out).map_or(0, |found| found.len());
                println!("  {name}: {bytes} bytes, {:.1} s", start.elapsed().as_secs_f64());
            }
            result => println!("  {name}: not done ({result:?})"),
        }
        let _ = std::fs::remove_file(out);
        let _ = std::fs::remove_file(format!("{out}.sh"));
    }
}

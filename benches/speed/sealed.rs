//! The sealed kind beside the `page` layout and binary fuse filters, all from the same hashes.

use std::fmt::Write as _;
use std::path::Path;

use bloomfile::{Options, Reader, geometry::Layout};
use xorf::{BinaryFuse8, BinaryFuse16, Filter as _};

use crate::RATE;
use crate::measure::{Race, mix, nanoseconds, work_nanoseconds};

/// Most keys: a binary fuse filter takes 24 bytes of memory for each while it is built.
const MOST_KEYS: u64 = 1 << 27;

/// Hashes that a look-up is measured with.
const LOOK_UPS: u64 = 1 << 20;

/// Hashes that a batch takes at once.
const BATCH: usize = 1 << 10;

const SEALED: usize = 0;
const SEALED_BATCH: usize = 1;
const PAGE: usize = 2;
const PAGE_BATCH: usize = 3;
const FUSE_8: usize = 4;
const FUSE_16: usize = 5;

/// Nanoseconds per key: of processor time on one thread, and by the clock on two.
struct Times {
    one: f64,
    two: f64,
}

/// Builds a file of all hashes, its data on the disk and its name given.
fn build(options: &Options, path: &Path, hashes: &[u64]) -> Times {
    let run = |threads: usize| {
        let mut builder = options.clone().replace(true).start_build(path).unwrap();
        builder.set_threads(threads);
        hashes.chunks(4 << 20).for_each(|batch| {
            builder.add_hash_batch(batch);
        });
        builder.finish().unwrap();
    };
    let each = hashes.len() as f64;
    // Once before, so that the memory was in use.
    run(2);
    Times { one: work_nanoseconds(|| run(1)) / each, two: nanoseconds(|| run(2)) / each }
}

fn once<T>(make: impl FnOnce() -> T) -> (f64, T) {
    let mut made = None;
    let time = work_nanoseconds(|| made = Some(make()));
    (time, made.unwrap())
}

/// All of it for a number of keys.
pub(crate) fn measure(folder: &Path, keys: u64, report: &mut String) {
    let count = keys.min(MOST_KEYS);
    let hashes: Vec<u64> = (0..count).map(|at| mix(at ^ 0x5ea1_ed00_0000)).collect();
    let each = count as f64;
    let [sealed, page] = ["sealed.bloom", "page.bloom"].map(|name| folder.join(name));
    let options = Options::new().capacity(count).false_positive_rate(RATE);
    let sealed_times = build(&options.clone().sealed(true).memory(64 << 30), &sealed, &hashes);
    let page_times = build(&options.layout(Layout::Page), &page, &hashes);
    let (fuse_8_time, fuse_8) = once(|| BinaryFuse8::try_from(&hashes[..]).unwrap());
    let (fuse_16_time, fuse_16) = once(|| BinaryFuse16::try_from(&hashes[..]).unwrap());
    let [sealed, page] = [sealed, page].map(|path| Reader::open(path).unwrap());

    writeln!(report, "\nThe sealed kind, {count} keys given as hashes; look-ups in batches of {BATCH}, builds in processor time on one thread and by the clock on two, to the file's name. A binary fuse filter has no batches, and no file.\n").unwrap();
    writeln!(report, "| sealed | sealed | batch | `page` | batch | BinaryFuse8 | BinaryFuse16 |\n|---|---|---|---|---|---|---|").unwrap();
    let absent: Vec<u64> = (0..LOOK_UPS).map(|at| mix(at ^ 0xab5e_0000_0000_0000)).collect();
    let step = (count / LOOK_UPS).max(1) as usize;
    let present: Vec<u64> = hashes.iter().step_by(step).take(LOOK_UPS as usize).copied().collect();
    drop(hashes);
    let mut rates = [0.0; 4];
    for (what, asked) in [("absent", &absent), ("present", &present)] {
        let mut race = Race::in_passes(asked.len());
        let mut found = Vec::new();
        for _ in 0..race.rounds() {
            for (one, batch, reader) in [(SEALED, SEALED_BATCH, &sealed), (PAGE, PAGE_BATCH, &page)]
            {
                race.time(one, || asked.iter().filter(|&&hash| reader.contains_hash(hash)).count());
                race.time(batch, || {
                    let mut sum = 0;
                    for batch in asked.chunks(BATCH) {
                        reader.contains_hash_batch(batch, &mut found);
                        sum += found.len();
                    }
                    sum
                });
            }
            race.time(FUSE_8, || asked.iter().filter(|hash| fuse_8.contains(hash)).count());
            race.time(FUSE_16, || asked.iter().filter(|hash| fuse_16.contains(hash)).count());
        }
        race.row(report, &format!("look-up, {what}"));
        if what == "absent" {
            let share = |contains: &dyn Fn(u64) -> bool| {
                asked.iter().filter(|&&hash| contains(hash)).count() as f64 / asked.len() as f64
            };
            rates = [
                share(&|hash| sealed.contains_hash(hash)),
                share(&|hash| page.contains_hash(hash)),
                share(&|hash| fuse_8.contains(&hash)),
                share(&|hash| fuse_16.contains(&hash)),
            ];
        }
    }
    let [fuse_8_time, fuse_16_time] = [fuse_8_time, fuse_16_time].map(|time| time / each);
    let times = |time: f64| format!("{time:.1} ({:.2})", time / sealed_times.one);
    writeln!(
        report,
        "| build, 1 thread | {:.1} | | {} | | {} | {} |",
        sealed_times.one,
        times(page_times.one),
        times(fuse_8_time),
        times(fuse_16_time)
    )
    .unwrap();
    writeln!(
        report,
        "| build, 2 threads | {:.1} | | {:.1} ({:.2}) | | | |",
        sealed_times.two,
        page_times.two,
        page_times.two / sealed_times.two
    )
    .unwrap();
    let bits =
        |reader: &Reader| format!("{:.2}", (reader.geometry().pages() * 32_768) as f64 / each);
    writeln!(
        report,
        "| bits per key | {} | | {} | | {:.2} | {:.2} |",
        bits(&sealed),
        bits(&page),
        8.0 * fuse_8.len() as f64 / each,
        16.0 * fuse_16.len() as f64 / each
    )
    .unwrap();
    let [sealed, page, fuse_8, fuse_16] = rates.map(|rate| format!("{:.4} %", 100.0 * rate));
    writeln!(report, "| measured rate | {sealed} | | {page} | | {fuse_8} | {fuse_16} |").unwrap();
}

//! Times over sizes.

use std::fmt::Write as _;
use std::path::Path;

use bloomfile::Filter;

use crate::measure::{Race, mix};
use crate::{build, capacity, name, plot};

const SMALLEST: u64 = 64 << 10;
const LARGEST: u64 = 4 << 30;

/// The table, and the plot of it.
pub(crate) fn growth(path: &Path, report: &mut String) -> String {
    writeln!(report, "\n## Cost of growth\n\nAbsent keys, given as hashes, each asked for once. From 16 MiB on, adds wait for memory; in the largest file most of them are the first to change their page since the system last wrote it to the disk.\n\n| size | look-up | batch | add |\n|---|---|---|---|").unwrap();
    let mut points = Vec::new();
    let mut found = Vec::new();
    let mut bytes = SMALLEST;
    while bytes <= LARGEST {
        // A line takes as long whatever is in it: enough keys to touch every page will do.
        build(path, capacity(bytes), capacity(bytes).min(16 << 20) / 2, 2);
        let filter = Filter::open(path).unwrap();
        let count = (capacity(bytes) as usize / 16).min(1 << 20);
        let mut race = Race::new(count);
        for round in 0..8u64 {
            let fresh = |set: u64| -> Vec<u64> {
                (0..count as u64).map(|i| mix(i ^ round << 33 ^ set << 50)).collect()
            };
            let (asked, batch, new) = (fresh(1), fresh(2), fresh(3));
            race.time(0, || asked.iter().filter(|&&hash| filter.contains_hash(hash)).count());
            race.time(1, || {
                filter.contains_hash_batch(&batch, &mut found);
                found.len()
            });
            race.time(2, || new.iter().filter(|&&hash| filter.add_hash(hash).unwrap()).count());
        }
        let best = [race.best(0), race.best(1), race.best(2)];
        writeln!(report, "| {} | {:.1} | {:.1} | {:.1} |", name(bytes), best[0], best[1], best[2])
            .unwrap();
        points.push((bytes, best));
        eprintln!("growth: {} done", name(bytes));
        bytes *= 4;
    }
    writeln!(report, "\n![nanoseconds per operation over file size](growth.svg)").unwrap();
    plot::growth(&points, &["look-up", "look-up in a batch", "add of a new key"])
}

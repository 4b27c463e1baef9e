//! Look-ups, one by one and in batches.

use std::fmt::Write as _;
use std::path::Path;

use bloomfile::{Filter, ReadOptions, Reader, hash::Hasher};

use crate::contenders::{Rivals, random_words};
use crate::measure::{Race, keys, mix, touch_ahead};

/// Keys of three lengths.
pub(crate) struct Samples {
    eight: Vec<[u8; 8]>,
    sixteen: Vec<[u8; 16]>,
    sixty_four: Vec<[u8; 64]>,
}

impl Samples {
    pub(crate) fn new(set: u64, count: usize) -> Self {
        Samples { eight: keys(set, count), sixteen: keys(set, count), sixty_four: keys(set, count) }
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        let eight = self.eight.iter().map(|key| &key[..]);
        let sixteen = self.sixteen.iter().map(|key| &key[..]);
        eight.chain(sixteen).chain(self.sixty_four.iter().map(|key| &key[..]))
    }

    pub(crate) fn insert(&self, filter: &Filter, rivals: &mut Rivals) {
        for key in self.all() {
            filter.add(key).unwrap();
            rivals.insert(key);
        }
    }
}

/// The contenders of a look-up.
struct Course<'a> {
    reader: &'a Reader,
    rivals: &'a Rivals,
    /// As many lines as the filter has.
    memory: &'a [u64],
    hasher: Hasher,
}

const OURS: usize = 0;
const BATCH: usize = 1;
const SBBF: usize = 2;
const FASTBLOOM: usize = 3;

impl Course<'_> {
    fn run<const N: usize>(&self, keys: &[[u8; N]]) -> Race {
        let Course { reader, rivals, memory, hasher } = self;
        let lines = memory.len() / 8;
        let mut found = Vec::new();
        let mut race = Race::in_passes(keys.len());
        for _ in 0..race.rounds() {
            race.time(OURS, || keys.iter().filter(|key| reader.contains(&key[..])).count());
            race.time(BATCH, || {
                reader.contains_batch(keys, &mut found);
                found.len()
            });
            race.time(SBBF, || {
                keys.iter().filter(|key| rivals.sbbf.contains(hasher.hash(&key[..]))).count()
            });
            race.time(FASTBLOOM, || {
                keys.iter().filter(|key| rivals.fastbloom.contains(&key[..])).count()
            });
            race.time(4, || keys.iter().filter(|key| rivals.bloomfilter.check(&key[..])).count());
            race.time(5, || {
                let line = |hash| ((u128::from(hash) * lines as u128) >> 64) as usize;
                let touch = |key: &[u8; N]| memory[line(hasher.hash(key)) * 8];
                keys.iter().map(touch).fold(0, |a, b| a ^ b) as usize
            });
            race.time(6, || touch_ahead(memory, keys, hasher) as usize);
        }
        race
    }
}

/// What checking pages costs once all of them are checked: against a reader that trusts the file, in
/// the same rounds. The one that goes first changes with the round.
fn checks(path: &Path, checked: &Reader, samples: [(&str, &Samples); 2], report: &mut String) {
    let trusting = ReadOptions::new().trust(true).open(path).unwrap();
    let mut found = Vec::new();
    let (pages, mut round) = (checked.stats().pages, 0);
    // A hash in the middle of each page; one in a hundred is answered "maybe", which checks nothing.
    while checked.stats().pages_checked < pages {
        let step = u64::MAX / pages;
        let middle = |page| (page * step + step / 2) ^ (mix(page ^ round << 40) >> 40);
        let hashes: Vec<u64> = (0..pages).map(middle).collect();
        checked.contains_hash_batch(&hashes, &mut found);
        round += 1;
    }
    writeln!(report, "\n| all pages checked | checked | trusted | batch, checked | batch, trusted |\n|---|---|---|---|---|").unwrap();
    for (what, samples) in samples {
        let keys = &samples.sixteen;
        let mut race = Race::in_passes(keys.len());
        for round in 0..race.rounds() {
            for turn in 0..2 {
                let trust = (round + turn) % 2;
                let reader = if trust == 1 { &trusting } else { checked };
                race.time(trust, || keys.iter().filter(|key| reader.contains(&key[..])).count());
                race.time(2 + trust, || {
                    reader.contains_batch(keys, &mut found);
                    found.len()
                });
            }
        }
        let [one, trusted, batch, trusted_batch] = [0, 1, 2, 3].map(|which| race.best(which));
        writeln!(
            report,
            "| {what}, 16 bytes | {one:.2} ({:.3}) | {trusted:.2} | {batch:.2} ({:.3}) | {trusted_batch:.2} |",
            one / trusted,
            batch / trusted_batch,
        )
        .unwrap();
    }
}

/// Keys that are in and keys that are not, and how exact everyone is.
pub(crate) fn measure(
    path: &Path,
    bytes: u64,
    rivals: &Rivals,
    present: &Samples,
    glance: &mut String,
    report: &mut String,
) {
    let reader = Reader::open(path).unwrap();
    let absent = Samples::new(2, present.eight.len());
    let memory = random_words(bytes as usize / 8, 0.5);
    let course = Course { reader: &reader, rivals, memory: &memory, hasher: reader.hasher() };
    writeln!(report, "\n| look-up | bloomfile | batch | sbbf-rs | fastbloom | bloomfilter | touch | touch ahead |\n|---|---|---|---|---|---|---|---|").unwrap();
    let mut of_sixteen = Vec::new();
    for (what, samples) in [("absent", &absent), ("present", present)] {
        course.run(&samples.eight).row(report, &format!("{what}, 8 bytes"));
        let race = course.run(&samples.sixteen);
        race.row(report, &format!("{what}, 16 bytes"));
        of_sixteen.push(race);
        course.run(&samples.sixty_four).row(report, &format!("{what}, 64 bytes"));
    }
    for ours in [OURS, BATCH] {
        for other in [SBBF, FASTBLOOM] {
            let [absent, present] =
                [0, 1].map(|which| of_sixteen[which].best(other) / of_sixteen[which].best(ours));
            write!(glance, " | {absent:.2}, {present:.2}").unwrap();
        }
    }
    let capacity = reader.capacity().unwrap() as f64;
    let per_key = |bits: u64| format!("{:.2}", bits as f64 / capacity);
    writeln!(
        report,
        "| bits per key | {0} | {0} | {1} | {2} | {3} | | |",
        per_key(reader.geometry().blocks() * 512),
        per_key(rivals.sbbf.bits()),
        per_key(rivals.fastbloom.num_bits() as u64),
        per_key(rivals.bloomfilter.len()),
    )
    .unwrap();
    let rate = |contains: &dyn Fn(&[u8]) -> bool| {
        let hits = absent.all().filter(|key| contains(key)).count();
        format!("{:.3} %", 100.0 * hits as f64 / (3 * absent.eight.len()) as f64)
    };
    writeln!(
        report,
        "| measured rate | {0} | {0} | {1} | {2} | {3} | | |",
        rate(&|key| reader.contains(key)),
        rate(&|key| rivals.sbbf.contains(course.hasher.hash(key))),
        rate(&|key| rivals.fastbloom.contains(key)),
        rate(&|key| rivals.bloomfilter.check(key)),
    )
    .unwrap();
    checks(path, &reader, [("absent", &absent), ("present", present)], report);
}

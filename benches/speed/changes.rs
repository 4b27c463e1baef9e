//! Adds, builds, two threads, opening and merging.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bloomfile::{Filter, Options, Reader, geometry::Layout, hash::Hasher, ops::SetOperation};

use crate::contenders::Rivals;
use crate::measure::{Race, mix, nanoseconds, together};
use crate::{Built, RATE, name};

/// Adds of new keys, and builds beside them; the ratios for the glance.
pub(crate) fn measure(
    filter: &Filter,
    rivals: &mut Rivals,
    new: &[Vec<[u8; 16]>],
    built: &[Built; 2],
    report: &mut String,
) -> String {
    let hasher = Hasher::new(0);
    let mut race = Race::new(new[0].len());
    // Every round adds keys of its own: they are new to everyone.
    for [one, two] in new.as_chunks().0 {
        // Asked for first, so that what each contender needs is in the caches when its turn comes.
        let ask = |keys: &[[u8; 16]]| keys.iter().filter(|key| filter.contains(&key[..])).count();
        black_box(ask(one));
        race.time(0, || one.iter().filter(|key| filter.add(&key[..]).unwrap()).count());
        black_box(ask(two));
        race.time(1, || filter.add_batch(two).unwrap() as usize);
        let sbbf = &mut rivals.sbbf;
        black_box(one.iter().filter(|key| sbbf.contains(hasher.hash(&key[..]))).count());
        race.time(2, || one.iter().filter(|key| sbbf.insert(hasher.hash(&key[..]))).count());
        let atomic = &rivals.fastbloom_atomic;
        black_box(one.iter().filter(|key| atomic.contains(&key[..])).count());
        race.time(3, || one.iter().filter(|key| !atomic.insert(&key[..])).count());
        for key in one {
            rivals.fastbloom.insert(&key[..]);
            rivals.bloomfilter.set(&key[..]);
        }
        for key in two {
            rivals.insert(&key[..]);
        }
    }
    writeln!(report, "| change | bloomfile | batch | sbbf-rs (no threads) | fastbloom (atomic) |\n|---|---|---|---|---|").unwrap();
    race.row(report, "add new, 16 bytes");
    let insert = race.best(2);
    for (threads, built) in built.iter().enumerate() {
        writeln!(
            report,
            "| build, {} | {:.1} | | {insert:.1} ({:.2}) | |\n| … and publish | {:.1} | | | |",
            ["1 thread", "2 threads"][threads],
            built.adding,
            insert / built.adding,
            built.whole,
        )
        .unwrap();
    }
    let fastbloom = race.best(3);
    format!(
        " | {:.2} | {:.2} | {:.2}, {:.2}",
        fastbloom / race.best(0),
        fastbloom / race.best(1),
        insert / built[0].adding,
        insert / built[1].adding
    )
}

/// Rounds of adds on one and on two threads.
const THREAD_ROUNDS: u64 = 24;

/// Rounds of look-ups, which take little time: enough of them that something else that runs then does
/// not decide.
const LOOK_UP_ROUNDS: u64 = 400;

/// Hashes that threads look up, and add at most.
const HASHES: u64 = 1 << 20;

/// How many times as much two threads do as one: look-ups, adds of new keys, and batches of them.
pub(crate) fn two_threads(path: &Path, capacity: u64, report: &mut String) -> [f64; 3] {
    let look_ups = look_ups_on_two_threads(path);
    let race = adds_on_two_threads(path, capacity);
    let times = |way: usize| race.median(2 * way) / race.median(2 * way + 1);
    writeln!(report, "\n| adds of new keys, given as hashes | bloomfile | batch | fastbloom (atomic) | a plain store |\n|---|---|---|---|---|").unwrap();
    let mut row = |what: &str, number: &dyn Fn(usize) -> f64, digits: usize| {
        let numbers = [0, 1, 2, 3].map(|way| format!("{:.digits$}", number(way)));
        writeln!(report, "| {what} | {} |", numbers.join(" | ")).unwrap();
    };
    row("1 thread", &|way| race.median(2 * way), 1);
    row("2 threads", &|way| race.median(2 * way + 1), 1);
    row("times as much", &times, 2);
    writeln!(report, "\nTwo threads do {look_ups:.2} times the look-ups of one.").unwrap();
    [look_ups, times(0), times(1)]
}

fn look_ups_on_two_threads(path: &Path) -> f64 {
    let hashes: Vec<u64> = (0..HASHES).map(|i| mix(i ^ 7 << 40)).collect();
    let filter = Filter::open(path).unwrap();
    let look_up = |part: &[u64]| part.iter().filter(|&&hash| filter.contains_hash(hash)).count();
    let mut race = Race::new(hashes.len());
    for round in 0..LOOK_UP_ROUNDS {
        for threads in [1, 2] {
            race.take(threads - 1, together(threads, round, [&[], &hashes], look_up));
        }
    }
    race.median(0) / race.median(1)
}

/// Adds, batches, fastbloom's adds, and the least that anybody could do: a store without a guard,
/// which would lose what two threads change at once. Each on one thread and then on two.
fn adds_on_two_threads(path: &Path, capacity: u64) -> Race {
    // A small filter is made again each time, or its keys would soon be old ones, and filled to a half
    // first by the threads that are measured, so that its pages are there. A large one has room for
    // all; its pages are there from the second round on.
    let small = capacity < 16 * HASHES;
    let count = (capacity / 2).min(HASHES);
    let new_filter = || {
        let options = Options::new().capacity(capacity).false_positive_rate(RATE).replace(true);
        options.layout(Layout::Line).create(path).unwrap()
    };
    let new_other = || {
        let other = fastbloom::AtomicBloomFilter::with_false_pos(RATE);
        other.expected_items(capacity as usize)
    };
    // About as many as the filter has.
    let new_words = || (0..capacity / 6).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let mut opened = (!small).then(|| (Filter::open(path).unwrap(), new_other(), new_words()));
    let mut race = Race::new(count as usize);
    for round in 0..THREAD_ROUNDS {
        for (threads, way) in
            [1, 2].into_iter().flat_map(|threads| (0..4).map(move |way| (threads, way)))
        {
            // No other handle may have the file open when it is replaced.
            drop(opened.take_if(|_| small));
            let (filter, other, words) =
                opened.get_or_insert_with(|| (new_filter(), new_other(), new_words()));
            let add = |part: &[u64]| match way {
                0 => part.iter().filter(|&&hash| filter.add_hash(hash).unwrap()).count(),
                1 => filter.add_hash_batch(part).unwrap() as usize,
                2 => part.iter().filter(|&&hash| other.insert_hash(hash)).count(),
                _ => part.iter().filter(|&&hash| store(words, hash)).count(),
            };
            let set = 16 * round + 4 * threads as u64 + way;
            let fresh = |from: u64, to: u64| -> Vec<u64> {
                (from..to).map(|i| mix(i ^ set << 36)).collect()
            };
            let (old, new) = if small {
                (fresh(0, capacity / 2), fresh(capacity / 2, capacity / 2 + count))
            } else {
                (Vec::new(), fresh(0, count))
            };
            let spent = together(threads, round, [&old, &new], add);
            race.take(2 * way as usize + threads - 1, spent);
        }
    }
    race
}

/// Sets a bit of the line of a hash, in two steps.
fn store(words: &[AtomicU64], hash: u64) -> bool {
    let line = (u128::from(hash) * (words.len() / 8) as u128) >> 64;
    let (word, bit) = (&words[8 * line as usize + (hash % 8) as usize], 1 << (hash / 8 % 64));
    let before = word.load(Ordering::Relaxed);
    word.store(before | bit, Ordering::Relaxed);
    before & bit == 0
}

/// Opening and merging.
pub(crate) fn files(path: &Path, bytes: u64, report: &mut String) {
    let read = nanoseconds(|| drop(black_box(std::fs::read(path).unwrap())));
    let best =
        |work: &mut dyn FnMut()| (0..5).map(|_| nanoseconds(&mut *work)).fold(f64::MAX, f64::min);
    let open = best(&mut || drop(black_box(Reader::open(path).unwrap())));
    writeln!(
        report,
        "\nOpening takes {:.3} ms, reading the file {:.1} ms: {:.0} times as long.",
        open / 1e6,
        read / 1e6,
        read / open,
    )
    .unwrap();
    let out = path.with_extension("merged");
    let operation = SetOperation::new().replace(true);
    let merge = best(&mut || drop(operation.union(&[path, path], &out).unwrap()));
    let (mut sum, other) = (vec![1u64; bytes as usize / 8], vec![2u64; bytes as usize / 8]);
    let or = best(&mut || {
        sum.iter_mut().zip(&other).for_each(|(sum, word)| *sum |= word);
        black_box(&mut sum);
    });
    writeln!(
        report,
        "\nMerging two files of {} into a third, checked, synced and renamed, takes {:.1} ms; to OR as much in memory takes {:.1} ms.",
        name(bytes),
        merge / 1e6,
        or / 1e6
    )
    .unwrap();
    std::fs::remove_file(&out).unwrap();
}

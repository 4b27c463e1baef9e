//! Keys, clocks and tables.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bloomfile::hash::Hasher;

use crate::clock;

/// SplitMix64.
pub(crate) fn mix(x: u64) -> u64 {
    let mut x = x.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Random keys that follow from the number of their set; `N` is a multiple of 8.
pub(crate) fn keys<const N: usize>(set: u64, count: usize) -> Vec<[u8; N]> {
    let key = |number: u64| {
        let mut key = [0; N];
        for (at, word) in key.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = mix(number ^ set << 40 ^ (N as u64) << 48 ^ (at as u64) << 56).to_le_bytes();
        }
        key
    };
    (0..count as u64).map(key).collect()
}

pub(crate) fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e9
}

/// Does a piece of work, compiled by itself: not as the inside of the loop over passes.
#[inline(never)]
fn once(work: &mut impl FnMut() -> usize) -> usize {
    work()
}

/// Nanoseconds that all threads of this process were at work.
pub(crate) fn work_nanoseconds(work: impl FnOnce()) -> f64 {
    let start = clock::of_process();
    work();
    clock::of_process() - start
}

/// Contenders that take turns.
pub(crate) struct Race {
    operations: usize,
    passes: usize,
    /// For each contender, its nanoseconds per operation in each round.
    times: Vec<Vec<f64>>,
}

impl Race {
    pub(crate) fn new(operations: usize) -> Self {
        Race { operations, passes: 1, times: Vec::new() }
    }

    /// As [`new`](Self::new), for work that is done over and over if it is small: or else it would
    /// first of all measure how what the others left in the caches is replaced.
    pub(crate) fn in_passes(operations: usize) -> Self {
        Race { passes: (1usize << 17).div_ceil(operations), ..Race::new(operations) }
    }

    /// Enough rounds to find a quiet moment.
    pub(crate) fn rounds(&self) -> usize {
        (1 << 23) / (self.operations * self.passes) + 8
    }

    /// Times what one thread does, by its own clock: it stands still while others have the core.
    pub(crate) fn time(&mut self, contender: usize, mut work: impl FnMut() -> usize) {
        let start = clock::of_thread();
        for _ in 0..self.passes {
            black_box(once(&mut work));
        }
        self.take(contender, (clock::of_thread() - start) / self.passes as f64);
    }

    /// Takes a time that was measured elsewhere, in nanoseconds for all operations.
    pub(crate) fn take(&mut self, contender: usize, spent: f64) {
        if self.times.len() <= contender {
            self.times.resize(contender + 1, Vec::new());
        }
        self.times[contender].push(spent / self.operations as f64);
    }

    /// What a contender does in a quiet moment.
    pub(crate) fn best(&self, contender: usize) -> f64 {
        self.times[contender].iter().copied().fold(f64::MAX, f64::min)
    }

    /// What a contender does half of the time.
    pub(crate) fn median(&self, contender: usize) -> f64 {
        let mut times = self.times[contender].clone();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// A row of a table: the first contender's time, and for the others how many times it.
    pub(crate) fn row(&self, report: &mut String, what: &str) {
        let first = self.best(0);
        write!(report, "| {what} | {first:.1}").unwrap();
        for contender in 1..self.times.len() {
            let time = self.best(contender);
            write!(report, " | {time:.1} ({:.2})", time / first).unwrap();
        }
        report.push_str(" |\n");
    }
}

/// Pieces of work that threads take one after the other until there are no more: none waits for
/// another whose core is busy otherwise.
const PIECE: usize = 1 << 12;

/// Nanoseconds that a number of threads, at most two, take for all `hashes`, each on a core of its own:
/// left to the system, two short-lived threads may share one for milliseconds. One thread alone is on
/// the one or the other by the number of the round. They go through the hashes `before` first, which
/// does not count.
pub(crate) fn together(
    threads: usize,
    round: u64,
    [before, hashes]: [&[u64]; 2],
    work: impl Fn(&[u64]) -> usize + Sync,
) -> f64 {
    let [next_before, next, ready] = [const { AtomicUsize::new(0) }; 3];
    let start = OnceLock::new();
    let all = |hashes: &[u64], next: &AtomicUsize| {
        let piece = || hashes.chunks(PIECE).nth(next.fetch_add(1, Ordering::Relaxed));
        while let Some(piece) = piece() {
            black_box(work(piece));
        }
    };
    let run = |at: usize| {
        clock::stay_on(at + round as usize);
        all(before, &next_before);
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            std::hint::spin_loop();
        }
        let start: &Instant = start.get_or_init(Instant::now);
        all(hashes, &next);
        start.elapsed().as_secs_f64() * 1e9
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|at| scope.spawn(move || run(at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold(0.0, f64::max)
    })
}

/// The least that any filter has to do for a batch: hash the key, fetch a random line ahead of its
/// turn, read a word of it.
pub(crate) fn touch_ahead<const N: usize>(words: &[u64], keys: &[[u8; N]], hasher: &Hasher) -> u64 {
    const AHEAD: usize = 64;
    let lines = words.len() / 8;
    let line = |key: &[u8; N]| ((u128::from(hasher.hash(key)) * lines as u128) >> 64) as usize * 8;
    let mut waiting = [0; AHEAD];
    let mut sum = 0;
    for at in 0..keys.len() + AHEAD {
        let turn = waiting[at % AHEAD];
        if let Some(key) = keys.get(at) {
            let place = line(key);
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch is a hint, whatever the address.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_add(place).cast());
            }
            waiting[at % AHEAD] = place;
        }
        if at >= AHEAD {
            sum ^= words[turn];
        }
    }
    sum
}

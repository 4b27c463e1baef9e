//! Keys, clocks and tables.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bloomfile::Hasher;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

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

/// Nanoseconds on a clock.
fn processor_time(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds that all threads of this process were at work.
pub(crate) fn work_nanoseconds(work: impl FnOnce()) -> f64 {
    let start = processor_time(ClockId::ProcessCPUTime);
    work();
    processor_time(ClockId::ProcessCPUTime) - start
}

/// Contenders that take turns; the best time of each counts.
pub(crate) struct Race {
    operations: usize,
    passes: usize,
    best: Vec<f64>,
}

impl Race {
    pub(crate) fn new(operations: usize) -> Self {
        Race { operations, passes: 1, best: Vec::new() }
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
        let now = || processor_time(ClockId::ThreadCPUTime);
        let start = now();
        for _ in 0..self.passes {
            black_box(once(&mut work));
        }
        self.take(contender, (now() - start) / self.passes as f64);
    }

    /// Takes a time that was measured elsewhere, in nanoseconds for all operations.
    pub(crate) fn take(&mut self, contender: usize, spent: f64) {
        if self.best.len() <= contender {
            self.best.resize(contender + 1, f64::MAX);
        }
        let best = &mut self.best[contender];
        *best = best.min(spent / self.operations as f64);
    }

    pub(crate) fn best(&self, contender: usize) -> f64 {
        self.best[contender]
    }

    /// A row of a table: the first contender's time, and for the others how many times it.
    pub(crate) fn row(&self, report: &mut String, what: &str) {
        write!(report, "| {what} | {:.1}", self.best[0]).unwrap();
        for time in &self.best[1..] {
            write!(report, " | {time:.1} ({:.2})", time / self.best[0]).unwrap();
        }
        report.push_str(" |\n");
    }
}

/// Nanoseconds until two threads that start at the same time have both done their part, each on a
/// core of its own: left to the system, two short-lived threads may share one for milliseconds.
pub(crate) fn together<T>(one: impl FnOnce() -> T, two: impl FnOnce() -> T + Send) -> f64 {
    let allowed = sched_getaffinity(None).unwrap();
    let cores: Vec<usize> =
        (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).take(2).collect();
    let pin = |at: usize| {
        let mut set = CpuSet::new();
        set.set(cores[at % cores.len()]);
        sched_setaffinity(None, &set).unwrap();
    };
    let (ready, go) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin(1);
            ready.store(true, Ordering::Release);
            wait(&go);
            black_box(two());
        });
        pin(0);
        wait(&ready);
        let spent = nanoseconds(|| {
            go.store(true, Ordering::Release);
            black_box(one());
            other.join().unwrap();
        });
        sched_setaffinity(None, &allowed).unwrap();
        spent
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

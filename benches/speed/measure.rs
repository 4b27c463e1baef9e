//! Keys, clocks and tables.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use bloomfile::Hasher;
use rustix::time::{ClockId, clock_gettime};

/// SplitMix64.
pub(crate) fn mix(x: u64) -> u64 {
    let mut x = x.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Random bytes that follow from a number.
pub(crate) fn key(number: u64, length: usize) -> Vec<u8> {
    let words = (0..length.div_ceil(8) as u64).flat_map(|at| mix(number ^ at << 56).to_le_bytes());
    words.take(length).collect()
}

pub(crate) fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e9
}

/// Contenders that take turns; the best time of each counts.
pub(crate) struct Race {
    operations: usize,
    best: Vec<f64>,
}

impl Race {
    pub(crate) fn new(operations: usize) -> Self {
        Race { operations, best: Vec::new() }
    }

    /// Enough rounds to find a quiet moment.
    pub(crate) fn rounds(&self) -> usize {
        (1 << 20) / self.operations.max(1 << 14) + 8
    }

    /// Times what one thread does, by its own clock: it stands still while others have the core.
    pub(crate) fn time(&mut self, contender: usize, work: impl FnOnce() -> usize) {
        let now = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
        };
        let start = now();
        black_box(work());
        self.take(contender, now() - start);
    }

    /// Times what several threads do.
    pub(crate) fn time_all(&mut self, contender: usize, work: impl FnOnce() -> usize) {
        let spent = nanoseconds(|| {
            black_box(work());
        });
        self.take(contender, spent);
    }

    fn take(&mut self, contender: usize, spent: f64) {
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

/// Runs over both halves of the hashes on two threads.
pub(crate) fn halves(hashes: &[u64], visit: impl Fn(u64) -> bool + Sync) -> usize {
    let (left, right) = hashes.split_at(hashes.len() / 2);
    let count = |half: &[u64]| half.iter().filter(|&&hash| visit(hash)).count();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| count(right));
        count(left) + other.join().unwrap()
    })
}

/// The least that any filter has to do for a batch: hash the key, fetch a random line ahead of its
/// turn, read a word of it.
pub(crate) fn touch_ahead(words: &[u64], lines: usize, keys: &[Vec<u8>], hasher: &Hasher) -> u64 {
    const AHEAD: usize = 32;
    let line = |key: &Vec<u8>| ((u128::from(hasher.hash(key)) * lines as u128) >> 64) as usize * 8;
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

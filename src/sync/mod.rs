//! The locks and counters of writers, exchanged for watched ones when interleavings are tested:
//! `RUSTFLAGS="--cfg shuttle" cargo test --lib --target-dir target/shuttle interleavings`.

mod stripes;
mod task;

use std::sync::atomic::Ordering;
use std::time::Instant;

pub(crate) use stripes::{AllStripes, Refused, StripeGuard, Stripes, wait_while};
pub(crate) use task::Task;

#[cfg(shuttle)]
use shuttle::thread::{sleep, yield_now};
#[cfg(not(shuttle))]
use std::thread::{sleep, yield_now};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64},
};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64},
};

/// Threads that can have a number of their own at the same time.
pub(crate) const THREADS: usize = 64;

/// The number of this thread, which no other thread has as long as it lives; `None` when all numbers
/// are given out.
///
/// A thread that gets the number of one that has ended sees all that the other did.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn thread_number() -> Option<usize> {
    /// One bit for each number that is taken.
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    const { assert!(THREADS == u64::BITS as usize) };

    struct Number(Option<usize>);

    impl Number {
        fn reserve() -> Self {
            let lowest = |taken: u64| (!taken).trailing_zeros();
            let free = |taken: u64| Some(taken | 1u64.checked_shl(lowest(taken))?);
            let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free);
            Number(taken.ok().map(|taken| lowest(taken) as usize))
        }
    }

    impl Drop for Number {
        fn drop(&mut self) {
            if let Some(number) = self.0 {
                TAKEN.fetch_and(!(1 << number), Ordering::Release);
            }
        }
    }

    thread_local! {
        static MINE: Number = Number::reserve();
    }
    #[cfg(test)]
    if let Some(number) = ASSUMED.get() {
        return Some(number);
    }
    // A thread that is about to end has given its number back.
    MINE.try_with(|number| number.0).unwrap_or(None)
}

#[cfg(shuttle)]
pub(crate) fn thread_number() -> Option<usize> {
    Some(usize::from(shuttle::thread::current().id())).filter(|&number| number < THREADS)
}

#[cfg(test)]
thread_local! {
    static ASSUMED: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Gives this thread another number, where threads are real: so one can play the part of several.
#[cfg(test)]
pub(crate) fn assume_thread_number(number: Option<usize>) {
    ASSUMED.set(number);
}

/// Locks a mutex whose owner cannot have left anything half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits on a condition until a time at most; true when that has come.
#[cfg(not(shuttle))]
pub(crate) fn wait_until<'a, T>(
    condition: &Condvar,
    _: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    time: Instant,
) -> (MutexGuard<'a, T>, bool) {
    let left = time.saturating_duration_since(Instant::now());
    let waited = condition.wait_timeout(guard, left);
    let (guard, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
    (guard, timeout.timed_out())
}

/// Where interleavings are tested the wait ends after any number of steps of other threads, because the
/// time has come or before it: for no reason, as waits on a condition may. It ends without being woken,
/// which the time would see to, so that no order of steps waits for ever.
#[cfg(shuttle)]
pub(crate) fn wait_until<'a, T>(
    _: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _: Instant,
) -> (MutexGuard<'a, T>, bool) {
    use shuttle::rand::Rng as _;

    drop(guard);
    let mut choices = shuttle::rand::thread_rng();
    (0..choices.gen_range(0..1000)).for_each(|_| yield_now());
    (lock(mutex), choices.gen_bool(0.5))
}

/// The stripe of this thread.
pub(crate) fn stripe_of_thread() -> u64 {
    thread_number().unwrap_or(THREADS) as u64
}

/// A place where another thread may come in between: before mapped memory is changed or flushed.
#[cfg(test)]
pub(crate) fn step() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_live_at_the_same_time_have_different_numbers() {
        const MORE: usize = THREADS + 10;
        // Twice, so that numbers are given back.
        for _ in 0..2 {
            let barrier = Barrier::new(MORE);
            let number = || {
                let number = thread_number();
                assert_eq!(thread_number(), number);
                barrier.wait();
                number
            };
            let numbers: Vec<Option<usize>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..MORE).map(|_| scope.spawn(number)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or(None)).collect()
            });
            let given: Vec<usize> = numbers.iter().copied().flatten().collect();
            assert!(!given.is_empty() && given.len() <= THREADS, "{numbers:?}");
            assert!(given.iter().all(|&number| number < THREADS), "{numbers:?}");
            assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len(), "{numbers:?}");
        }
    }
}

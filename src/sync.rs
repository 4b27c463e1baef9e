//! The locks and counters of the engine, exchanged for watched ones when interleavings are tested:
//! `RUSTFLAGS="--cfg shuttle" cargo test --lib --target-dir target/shuttle interleavings`.

use std::sync::atomic::Ordering;
use std::time::Duration;

#[cfg(shuttle)]
use shuttle::thread::{sleep, yield_now};
#[cfg(not(shuttle))]
use std::thread::{sleep, yield_now};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

/// Guards that adds share: so many that two threads hardly ever want the same one, so few that
/// taking them all is nothing beside a sync.
pub(crate) const STRIPES: usize = if cfg!(shuttle) { 4 } else { 128 };

/// The stripe of this thread.
#[cfg(not(shuttle))]
pub(crate) fn stripe_of_thread() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    MINE.with(|mine| *mine)
}

#[cfg(shuttle)]
pub(crate) fn stripe_of_thread() -> usize {
    usize::from(shuttle::thread::current().id()) % STRIPES
}

/// What an add holds while it changes bits, and counts in. Alone on its cache lines: stripes are
/// taken by different threads at the same time.
///
/// A mutex would do, but letting go of one is as costly as taking it: both are atomic steps that
/// wait for every store before them, and an add of a key whose memory is in the cache does little
/// else. A stripe is let go of with a plain store; whoever finds it taken asks again and again,
/// which is right for something that is held for some nanoseconds by adds and, rarely, for as long
/// as a sync takes.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Stripe {
    held: AtomicBool,
    /// Adds that changed the newest segment since the last slot was written.
    adds: AtomicU64,
}

impl Stripe {
    /// Takes the stripe, when it is free.
    #[inline]
    pub(crate) fn hold(&self) -> StripeGuard<'_> {
        while self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            self.wait();
        }
        StripeGuard(self)
    }

    /// The adds that were counted in it.
    pub(crate) fn adds(&self) -> u64 {
        self.adds.load(Ordering::Relaxed)
    }

    #[cold]
    fn wait(&self) {
        const SPINS: u32 = 64;
        const YIELDS: u32 = 128;
        let mut turn = 0;
        while self.held.load(Ordering::Relaxed) {
            turn += 1;
            if cfg!(not(shuttle)) && turn < SPINS {
                std::hint::spin_loop();
            } else if turn < YIELDS {
                yield_now();
            } else {
                sleep(Duration::from_micros(50));
            }
        }
    }
}

/// A stripe, held.
pub(crate) struct StripeGuard<'a>(&'a Stripe);

impl StripeGuard<'_> {
    /// Counts adds.
    #[inline]
    pub(crate) fn count(&self, adds: u64) {
        // Two steps: nobody else counts while the stripe is held.
        self.0.adds.store(self.adds() + adds, Ordering::Relaxed);
    }

    /// The adds that were counted.
    #[inline]
    pub(crate) fn adds(&self) -> u64 {
        self.0.adds()
    }

    /// Starts to count anew.
    pub(crate) fn reset(&self) {
        self.0.adds.store(0, Ordering::Relaxed);
    }
}

impl Drop for StripeGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

/// A place where another thread may come in between: before a change of mapped memory.
#[cfg(test)]
pub(crate) fn step() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

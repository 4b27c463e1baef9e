//! The locks and counters of the engine, exchanged for watched ones when interleavings are tested:
//! `RUSTFLAGS="--cfg shuttle" cargo test --lib --target-dir target/shuttle interleavings`.

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
    use std::sync::atomic::{AtomicUsize, Ordering};
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

/// A place where another thread may come in between: before a change of mapped memory.
#[cfg(test)]
pub(crate) fn step() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

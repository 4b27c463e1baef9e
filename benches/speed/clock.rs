//! Clocks of the processor, and threads on cores of their own: where the system has them.

#[cfg(target_os = "linux")]
mod system {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use rustix::time::{ClockId, clock_gettime};

    fn nanoseconds(clock: ClockId) -> f64 {
        let time = clock_gettime(clock);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }

    /// Nanoseconds that all threads of this process were at work.
    pub(crate) fn of_process() -> f64 {
        nanoseconds(ClockId::ProcessCPUTime)
    }

    /// Nanoseconds that this thread was at work.
    pub(crate) fn of_thread() -> f64 {
        nanoseconds(ClockId::ThreadCPUTime)
    }

    /// Keeps this thread on one of the first two cores that the process may use.
    pub(crate) fn stay_on(core: usize) {
        let allowed = sched_getaffinity(None).unwrap();
        let cores: Vec<usize> =
            (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).take(2).collect();
        let mut only = CpuSet::new();
        only.set(cores[core % cores.len()]);
        sched_setaffinity(None, &only).unwrap();
    }
}

/// The clock on the wall, and threads where the system puts them.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    pub(crate) fn of_process() -> f64 {
        START.elapsed().as_secs_f64() * 1e9
    }

    pub(crate) fn of_thread() -> f64 {
        of_process()
    }

    pub(crate) fn stay_on(_core: usize) {}
}

pub(crate) use system::*;

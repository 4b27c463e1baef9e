//! Lock striping: the guards that adds share, and the gate in front of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{AtomicBool, AtomicU8, AtomicU64, sleep, yield_now};
use crate::storage::prefetch_to_write;

/// Most stripes: enough that two threads hardly ever want the same one, or one that the other's core
/// has just had, and few enough that looking at them all is nothing beside a sync.
pub(crate) const MOST_STRIPES: usize = if cfg!(shuttle) { 4 } else { 1024 };

/// What an add holds while it changes cells, and counts in. Alone on its cache lines: stripes are
/// taken by different threads at the same time.
///
/// A mutex would do, but letting go of one is as costly as taking it: both are atomic steps that
/// wait for every store before them, and an add of a key whose memory is in the cache does little
/// else. A stripe is let go of with a plain store; a thread that finds it taken asks again and again,
/// which is right for something that is held for some nanoseconds.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    held: AtomicBool,
    /// Adds that changed the newest segment since the last boundary.
    adds: AtomicU64,
}

/// A stripe, held.
pub(crate) struct StripeGuard<'a>(&'a Stripe);

impl StripeGuard<'_> {
    /// Counts adds.
    #[inline]
    pub(crate) fn count(&self, adds: u64) {
        // Two steps: no other thread counts while the stripe is held.
        let before = self.0.adds.load(Ordering::Relaxed);
        self.0.adds.store(before.saturating_add(adds), Ordering::Relaxed);
    }
}

impl Drop for StripeGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

/// The stripes of a writer, and the gate in front of them: a thread that needs them all, as a sync
/// does, closes it and waits for those that are inside. That only looks at each stripe, which takes
/// a tenth of the time of taking it.
///
/// An adder takes its stripe, then looks at the gate; a thread that closes the gate looks at the
/// stripes after that. Both in the one order that all sequentially consistent steps have: so at
/// least one of the two sees the other.
pub(crate) struct Stripes {
    stripes: Box<[Stripe]>,
    /// Of a number, the bits that choose its stripe.
    mask: usize,
    gate: AtomicU8,
}

/// States of the gate.
const OPEN: u8 = 0;
/// For a moment.
const CLOSED: u8 = 1;
/// For good.
const SHUT: u8 = 2;
/// Until the file is marked as open.
const LOCKED: u8 = 3;

/// Why a stripe could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The handle does not write any more.
    Shut,
    /// The file is not marked as open yet.
    Locked,
}

impl Stripes {
    /// Stripes for about `data_bytes` of data, behind a gate that is locked.
    pub(crate) fn new(data_bytes: u64) -> Self {
        const BYTES_EACH: u64 = 256;
        const FEWEST: usize = if cfg!(shuttle) { 4 } else { 16 };
        let wanted = usize::try_from(data_bytes / BYTES_EACH).unwrap_or(usize::MAX);
        let count = wanted.min(MOST_STRIPES).next_power_of_two().max(FEWEST);
        Stripes {
            stripes: (0..count).map(|_| Stripe::default()).collect(),
            mask: count - 1,
            gate: AtomicU8::new(LOCKED),
        }
    }

    #[inline(always)]
    fn stripe(&self, number: u64) -> &Stripe {
        &self.stripes[number as usize & self.mask]
    }

    /// Takes the stripe of a number.
    #[inline(always)]
    pub(crate) fn hold(&self, number: u64) -> Result<StripeGuard<'_>, Refused> {
        let stripe = self.stripe(number);
        loop {
            let taken =
                stripe.held.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed);
            if taken.is_err() {
                wait_while(|| stripe.held.load(Ordering::Relaxed));
                continue;
            }
            let guard = StripeGuard(stripe);
            match self.gate.load(Ordering::SeqCst) {
                OPEN => return Ok(guard),
                SHUT => return Err(Refused::Shut),
                LOCKED => return Err(Refused::Locked),
                _ => drop(guard),
            }
            wait_while(|| self.gate.load(Ordering::Relaxed) == CLOSED);
        }
    }

    /// Asks for the cache line of a stripe ahead of [`hold`](Self::hold).
    #[inline(always)]
    pub(crate) fn prefetch(&self, number: u64) {
        prefetch_to_write(std::ptr::from_ref(self.stripe(number)).cast());
    }

    /// Takes all stripes.
    pub(crate) fn hold_all(&self) -> Result<AllStripes<'_>, Refused> {
        let close =
            || self.gate.compare_exchange(OPEN, CLOSED, Ordering::SeqCst, Ordering::Relaxed);
        while let Err(state) = close() {
            match state {
                SHUT => return Err(Refused::Shut),
                LOCKED => return Err(Refused::Locked),
                _ => wait_while(|| self.gate.load(Ordering::Relaxed) == CLOSED),
            }
        }
        for stripe in &self.stripes[..] {
            wait_while(|| stripe.held.load(Ordering::SeqCst));
        }
        Ok(AllStripes(self))
    }

    /// Opens a gate that is locked; from now on adds may come in.
    pub(crate) fn unlock(&self) {
        let gate = &self.gate;
        // When it fails, the gate is shut, or open already.
        let _ = gate.compare_exchange(LOCKED, OPEN, Ordering::Release, Ordering::Relaxed);
    }

    /// Lets no thread take a stripe any more.
    pub(crate) fn shut(&self) {
        self.gate.store(SHUT, Ordering::SeqCst);
    }

    /// Whether they are shut.
    #[inline(always)]
    pub(crate) fn are_shut(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == SHUT
    }

    /// Whether the file is not marked as open yet.
    pub(crate) fn are_locked(&self) -> bool {
        self.gate.load(Ordering::Acquire) == LOCKED
    }

    /// The adds that were counted in them.
    pub(crate) fn adds(&self) -> u64 {
        let adds = self.stripes.iter().map(|stripe| stripe.adds.load(Ordering::Relaxed));
        adds.fold(0, u64::saturating_add)
    }
}

/// All stripes, held.
pub(crate) struct AllStripes<'a>(&'a Stripes);

impl AllStripes<'_> {
    /// The adds that were counted in them; counting starts over.
    pub(crate) fn drain_adds(&self) -> u64 {
        let adds = self.0.adds();
        self.0.stripes.iter().for_each(|stripe| stripe.adds.store(0, Ordering::Relaxed));
        adds
    }

    /// Opens the gate again, unless it was shut in between.
    pub(crate) fn open(&self) {
        let gate = &self.0.gate;
        // When it fails, the gate is shut.
        let _ = gate.compare_exchange(CLOSED, OPEN, Ordering::Release, Ordering::Relaxed);
    }
}

impl Drop for AllStripes<'_> {
    fn drop(&mut self) {
        self.open();
    }
}

/// Waits as long as something is so: some nanoseconds for an add, rarely as long as a sync takes to
/// append a record.
#[inline]
pub(crate) fn wait_while(so: impl Fn() -> bool) {
    if so() {
        wait_longer(so);
    }
}

#[cold]
fn wait_longer(so: impl Fn() -> bool) {
    const SPINS: u32 = 64;
    const YIELDS: u32 = 128;
    let mut turn = 0;
    while so() {
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn open_stripes() -> Stripes {
        let stripes = Stripes::new(1 << 20);
        stripes.unlock();
        stripes
    }

    #[test]
    fn a_thread_that_has_all_stripes_is_alone() {
        let (stripes, stop) = (open_stripes(), AtomicBool::new(false));
        let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let add = |thread: u64| {
            for at in (thread..).step_by(7) {
                let stripe = stripes.hold(at).unwrap();
                begun.fetch_add(1, Ordering::Relaxed);
                stripe.count(1);
                done.fetch_add(1, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        };
        let (mut disturbed, mut sum) = (0, 0);
        std::thread::scope(|scope| {
            (0..3).for_each(|thread| drop(scope.spawn(move || add(thread))));
            for _ in 0..1_000 {
                let all = stripes.hold_all().unwrap();
                sum += all.drain_adds();
                (0..200).for_each(|_| std::hint::spin_loop());
                let seen = [&begun, &done].map(|count| count.load(Ordering::Relaxed));
                disturbed += u32::from(seen != [sum; 2]);
                drop(all);
                // The others get their turn.
                sleep(Duration::from_micros(20));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(disturbed == 0 && sum > 3, "disturbed {disturbed} times");
    }

    #[test]
    fn stripes_that_are_shut_stay_shut() {
        let stripes = open_stripes();
        let all = stripes.hold_all().unwrap();
        assert!(!stripes.are_shut());
        stripes.shut();
        drop(all);
        assert!(stripes.are_shut());
        // No thread was left holding anything.
        for _ in 0..2 {
            assert_eq!(stripes.hold(0).err(), Some(Refused::Shut));
            assert_eq!(stripes.hold_all().err(), Some(Refused::Shut));
        }
        stripes.unlock();
        assert!(stripes.are_shut());
    }

    #[test]
    fn a_locked_gate_lets_no_add_in() {
        let stripes = Stripes::new(4096);
        assert_eq!(stripes.hold(7).err(), Some(Refused::Locked));
        assert_eq!(stripes.hold_all().err(), Some(Refused::Locked));
        stripes.unlock();
        assert!(stripes.hold(7).is_ok() && stripes.hold_all().is_ok());
        assert_eq!(stripes.stripes.len(), 16);
        assert_eq!(Stripes::new(1 << 40).stripes.len(), MOST_STRIPES);
    }
}

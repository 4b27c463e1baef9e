//! The guards that adds share.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{AtomicBool, AtomicU8, AtomicU64, sleep, yield_now};
use crate::storage::prefetch_to_write;

/// So many that two threads hardly ever want the same one, or one that the other's core has just
/// had, and so few that looking at them all is nothing beside a sync.
const STRIPES: usize = if cfg!(shuttle) { 4 } else { 1024 };

/// What an add holds while it changes bits, and counts in. Alone on its cache lines: stripes are
/// taken by different threads at the same time.
///
/// A mutex would do, but letting go of one is as costly as taking it: both are atomic steps that
/// wait for every store before them, and an add of a key whose memory is in the cache does little
/// else. A stripe is let go of with a plain store; whoever finds it taken asks again and again,
/// which is right for something that is held for some nanoseconds.
#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    held: AtomicBool,
    /// Adds that changed the newest segment since the last slot was written.
    adds: AtomicU64,
}

/// A stripe, held.
pub(crate) struct StripeGuard<'a>(&'a Stripe);

impl StripeGuard<'_> {
    /// Counts adds.
    #[inline]
    pub(crate) fn count(&self, adds: u64) {
        // Two steps: nobody else counts while the stripe is held.
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

/// The stripes of an engine, and the gate in front of them: whoever needs them all, as a sync does,
/// closes it and waits for those who are inside. That only looks at each stripe, which takes a tenth
/// of the time of taking it.
///
/// An adder takes its stripe, then looks at the gate; whoever closes the gate looks at the stripes
/// after that. Both in the one order that all sequentially consistent steps have: so at least one of
/// the two sees the other.
pub(crate) struct Stripes {
    stripes: Box<[Stripe; STRIPES]>,
    gate: AtomicU8,
}

/// States of the gate.
const OPEN: u8 = 0;
const CLOSED: u8 = 1;
/// For good.
const SHUT: u8 = 2;

impl Default for Stripes {
    fn default() -> Self {
        let stripes: Vec<Stripe> = (0..STRIPES).map(|_| Stripe::default()).collect();
        let Ok(stripes) = stripes.try_into() else { unreachable!("one for each number") };
        Stripes { stripes, gate: AtomicU8::new(OPEN) }
    }
}

impl Stripes {
    #[inline(always)]
    fn stripe(&self, number: u64) -> &Stripe {
        &self.stripes[(number % STRIPES as u64) as usize]
    }

    /// Takes the stripe of a number; `None` when they are shut.
    #[inline(always)]
    pub(crate) fn hold(&self, number: u64) -> Option<StripeGuard<'_>> {
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
                OPEN => return Some(guard),
                SHUT => return None,
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

    /// Takes all stripes; `None` when they are shut.
    pub(crate) fn hold_all(&self) -> Option<AllStripes<'_>> {
        let close =
            || self.gate.compare_exchange(OPEN, CLOSED, Ordering::SeqCst, Ordering::Relaxed);
        while let Err(state) = close() {
            if state == SHUT {
                return None;
            }
            wait_while(|| self.gate.load(Ordering::Relaxed) == CLOSED);
        }
        for stripe in &self.stripes[..] {
            wait_while(|| stripe.held.load(Ordering::SeqCst));
        }
        Some(AllStripes(self))
    }

    /// Lets nobody take a stripe any more.
    pub(crate) fn shut(&self) {
        self.gate.store(SHUT, Ordering::SeqCst);
    }

    /// Whether they are shut.
    #[inline(always)]
    pub(crate) fn are_shut(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == SHUT
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
    /// The adds that were counted in them.
    pub(crate) fn adds(&self) -> u64 {
        self.0.adds()
    }

    /// Starts to count anew.
    pub(crate) fn reset(&self) {
        self.0.stripes.iter().for_each(|stripe| stripe.adds.store(0, Ordering::Relaxed));
    }

    /// Opens the gate again, unless it was shut meanwhile.
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

/// Waits as long as something is so: some nanoseconds for an add, rarely as long as a sync takes.
#[inline]
fn wait_while(so: impl Fn() -> bool) {
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

    #[test]
    fn whoever_has_all_stripes_is_alone() {
        let (stripes, stop) = (Stripes::default(), AtomicBool::new(false));
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
        let mut disturbed = 0;
        std::thread::scope(|scope| {
            (0..3).for_each(|thread| drop(scope.spawn(move || add(thread))));
            for _ in 0..1_000 {
                let all = stripes.hold_all().unwrap();
                let adds = all.adds();
                (0..200).for_each(|_| std::hint::spin_loop());
                let seen = [&begun, &done].map(|count| count.load(Ordering::Relaxed));
                disturbed += u32::from(seen != [adds; 2]);
                drop(all);
                // The others get their turn.
                sleep(Duration::from_micros(20));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(disturbed == 0 && stripes.adds() > 3, "disturbed {disturbed} times");
        stripes.hold_all().unwrap().reset();
        assert_eq!(stripes.adds(), 0);
    }

    #[test]
    fn stripes_that_are_shut_stay_shut() {
        let stripes = Stripes::default();
        let all = stripes.hold_all().unwrap();
        assert!(!stripes.are_shut());
        stripes.shut();
        drop(all);
        assert!(stripes.are_shut());
        assert!(stripes.hold(0).is_none() && stripes.hold_all().is_none());
        // Nobody was left holding anything.
        assert!(stripes.hold(0).is_none());
    }
}

//! The segments of a file that grows or rotates, read without a lock while they change.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

use crate::format::Slot;
use crate::sync::AtomicU64;

/// Which regions count: a number of them, up to and with the newest, in the order in which they were taken
/// into use (F-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) newest: usize,
    pub(crate) count: usize,
}

impl Active {
    /// What a slot lists.
    pub(crate) fn of(slot: &Slot) -> Self {
        Active { newest: slot.newest().region, count: slot.segments.len() }
    }

    /// In one word, with a number that tells this choice from an equal one before it.
    fn pack(self, turn: u64) -> u64 {
        turn << 16 | (self.newest as u64) << 8 | self.count as u64
    }

    fn unpack(word: u64) -> Self {
        Active { newest: (word >> 8 & 0xff) as usize, count: (word & 0xff) as usize }
    }
}

/// How often a look-up in the segments starts over because others came to count in between, before
/// it says "maybe".
const LOOK_UPS: u32 = 100;

/// One `S` for each region in use, the newest first for look-ups.
pub(crate) struct SegmentSet<S> {
    /// Region 0, apart from the others: most files have no other, and a look-up in it should not
    /// have to follow a pointer.
    pub(crate) first: S,
    others: Box<[OnceLock<S>]>,
    active: AtomicU64,
}

impl<S> SegmentSet<S> {
    /// A set with room for that number of regions, of which the first is there.
    pub(crate) fn new(first: S, regions: usize, active: Active) -> Self {
        SegmentSet {
            first,
            others: (1..regions).map(|_| OnceLock::new()).collect(),
            active: AtomicU64::new(active.pack(0)),
        }
    }

    pub(crate) fn active(&self) -> Active {
        Active::unpack(self.active.load(Ordering::Acquire))
    }

    /// A region that is known to be there.
    #[inline]
    pub(crate) fn get(&self, region: usize) -> &S {
        match self.region(region) {
            Some(segment) => segment,
            None => panic!("region {region} is listed and not mapped"),
        }
    }

    /// A region, if it is there.
    pub(crate) fn region(&self, region: usize) -> Option<&S> {
        match region {
            0 => Some(&self.first),
            _ => self.others.get(region - 1)?.get(),
        }
    }

    /// Brings a region in; one that is there stays as it is.
    pub(crate) fn add(&self, region: usize, segment: S) {
        if let Some(place) = region.checked_sub(1).and_then(|at| self.others.get(at)) {
            let _ = place.set(segment);
        }
    }

    /// Makes other regions count from now on: all of them are there. One thread at a time does.
    pub(crate) fn activate(&self, active: Active) {
        let turn = (self.active.load(Ordering::Relaxed) >> 16) + 1;
        self.active.store(active.pack(turn), Ordering::Release);
    }

    /// The numbers of the regions that count, newest first.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> + use<S> {
        self.order_of(self.active())
    }

    fn order_of(&self, active: Active) -> impl Iterator<Item = usize> + use<S> {
        let Active { newest, count } = active;
        let regions = self.others.len() + 1;
        (0..count).map(move |back| match newest.checked_sub(back) {
            Some(region) => region,
            None => newest + regions - back,
        })
    }

    /// The segments that count, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &S> {
        self.order().map(|region| self.get(region))
    }

    /// Whether one of the segments that count holds what is asked for. A "no" takes the same
    /// segments from the start to the end of the look-up: a region that is dropped under it may be
    /// cleared, and what was in there added to the newest, which was asked before (F-106).
    pub(crate) fn any(&self, holds: impl Fn(&S) -> bool) -> bool {
        for _ in 0..LOOK_UPS {
            let active = self.active.load(Ordering::Acquire);
            let mut order = self.order_of(Active::unpack(active));
            if order.any(|region| holds(self.get(region))) {
                return true;
            }
            // Who has seen a word of a region that was cleared sees that it was dropped before.
            fence(Ordering::Acquire);
            if self.active.load(Ordering::Relaxed) == active {
                return false;
            }
        }
        true
    }

    /// Shows the segments that count, newest first; whether the same count afterwards, so that what
    /// was seen together says what is not there ([`any`](Self::any)).
    pub(crate) fn while_same(&self, mut see: impl FnMut(&S)) -> bool {
        let active = self.active.load(Ordering::Acquire);
        self.order_of(Active::unpack(active)).for_each(|region| see(self.get(region)));
        fence(Ordering::Acquire);
        self.active.load(Ordering::Relaxed) == active
    }

    /// The segment that takes the adds.
    pub(crate) fn newest(&self) -> &S {
        self.get(self.active().newest)
    }

    /// All regions that are there, whether they count or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.first).chain(self.others.iter().filter_map(OnceLock::get))
    }
}

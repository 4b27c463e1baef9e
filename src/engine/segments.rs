//! The segments of a file that grows or rotates, read without a lock while they change.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::format::{MAX_SEGMENTS, Shape, Slot, Superblock, region_of};
use crate::sync::AtomicU64;

/// Which regions count: so many, up to and with the newest, in the order in which they were taken
/// into use (F-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) newest: usize,
    pub(crate) count: usize,
}

impl Active {
    /// What a slot lists.
    pub(crate) fn of(superblock: &Superblock, slot: &Slot) -> Self {
        let count = slot.segments.len();
        let newest = region_of(superblock, slot, count - 1).unwrap_or(0) as usize;
        Active { newest, count }
    }

    fn pack(self) -> u64 {
        (self.newest as u64) << 32 | self.count as u64
    }

    fn unpack(word: u64) -> Self {
        Active { newest: (word >> 32) as usize, count: word as u32 as usize }
    }
}

/// Regions a file may ever have.
pub(crate) fn regions(superblock: &Superblock) -> usize {
    match superblock.shape() {
        Shape::Fixed => 1,
        Shape::Growing => MAX_SEGMENTS,
        Shape::Rotating(generations) => generations as usize + 1,
    }
}

/// One `S` for each region in use, the newest first for whoever asks.
pub(crate) struct SegmentSet<S> {
    /// Region 0, apart from the others: most files have no other, and a look-up in it should not
    /// have to follow a pointer.
    pub(crate) first: S,
    others: Box<[OnceLock<S>]>,
    active: AtomicU64,
}

impl<S> SegmentSet<S> {
    /// A set with room for so many regions, of which the first is there.
    pub(crate) fn new(first: S, regions: usize, active: Active) -> Self {
        SegmentSet {
            first,
            others: (1..regions).map(|_| OnceLock::new()).collect(),
            active: AtomicU64::new(active.pack()),
        }
    }

    pub(crate) fn active(&self) -> Active {
        Active::unpack(self.active.load(Ordering::Acquire))
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

    /// Makes other regions count from now on: all of them are there.
    pub(crate) fn activate(&self, active: Active) {
        self.active.store(active.pack(), Ordering::Release);
    }

    /// The numbers of the regions that count, newest first.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> + use<S> {
        let Active { newest, count } = self.active();
        let regions = self.others.len() + 1;
        (0..count).map(move |back| match newest.checked_sub(back) {
            Some(region) => region,
            None => newest + regions - back,
        })
    }

    /// The segments that count, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &S> {
        self.order().filter_map(|region| self.region(region))
    }

    /// The segment that takes the adds.
    pub(crate) fn newest(&self) -> &S {
        self.region(self.active().newest).unwrap_or(&self.first)
    }

    /// All regions that are there, whether they count or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.first).chain(self.others.iter().filter_map(OnceLock::get))
    }
}

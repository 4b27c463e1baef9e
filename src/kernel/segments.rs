//! The segments of a file that grows or rotates, read without a lock while they change.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64 as Word, Ordering, fence};

use super::choice::Kernel;
use super::{Cells, LINE_WORDS, line_offset, simd, wide};
use crate::format::Slot;
use crate::storage::Map;
use crate::sync::AtomicU64;

/// Which regions count: a number of them, up to and with the newest, in the order in which they were
/// taken into use (F-28).
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

    #[inline(always)]
    fn unpack(word: u64) -> Self {
        Active { newest: (word >> 8 & 0xff) as usize, count: (word & 0xff) as usize }
    }
}

/// How often a look-up in the segments starts over because others came to count in between, before
/// it says "maybe".
const LOOK_UPS: u32 = 100;

/// What a set of segments looks keys up in.
pub(crate) trait HasCells {
    type Map: Map;

    /// The cells that hold all keys of the segment.
    fn cells(&self) -> &Cells<Self::Map>;
}

impl<Q: Map> HasCells for Cells<Q> {
    type Map = Q;

    #[inline(always)]
    fn cells(&self) -> &Cells<Q> {
        self
    }
}

/// The lines of a region: all that a look-up needs to know of it, so that one in several segments takes
/// few instructions for each, and the memory of several keys is under way at once.
pub(super) struct Lines {
    start: AtomicPtr<Word>,
    bytes: Word,
}

/// What a region that is not there is taken for: every key may be in it.
static FULL_LINE: [Word; LINE_WORDS] = [const { Word::new(u64::MAX) }; LINE_WORDS];

impl Lines {
    fn none() -> Self {
        Lines { start: AtomicPtr::new(FULL_LINE.as_ptr().cast_mut()), bytes: Word::new(0) }
    }

    fn set(&self, cells: &Cells<impl Map>) {
        self.start.store(cells.words.as_ptr().cast_mut(), Ordering::Release);
        self.bytes.store(cells.line_bytes, Ordering::Release);
    }

    /// The line of a hash. With the bytes of a region comes its start, so that the line is within the
    /// region; without them it is the first one of whatever start is seen.
    #[cfg_attr(
        not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
        expect(dead_code, reason = "only SIMD modules look at lines themselves")
    )]
    #[inline(always)]
    pub(super) fn of(&self, hash: u64) -> *const Word {
        let bytes = self.bytes.load(Ordering::Acquire);
        self.start.load(Ordering::Relaxed).wrapping_byte_add(line_offset(hash, bytes))
    }
}

/// One `S` for each region in use, the newest first for look-ups.
pub(crate) struct SegmentSet<S> {
    /// Region 0, apart from the others: most files have no other, and a look-up in it should not
    /// have to follow a pointer.
    pub(crate) first: S,
    others: Box<[OnceLock<S>]>,
    active: AtomicU64,
    /// The lines of each region. Regions stay as they are once they are there, so that their words
    /// live as long as this set.
    lines: Box<[Lines]>,
    /// A region has another kernel than the first.
    mixed: AtomicBool,
}

impl<S: HasCells> SegmentSet<S> {
    /// A set with room for that number of regions, of which the first is there.
    pub(crate) fn new(first: S, regions: usize, active: Active) -> Self {
        let lines: Box<[Lines]> = (0..regions).map(|_| Lines::none()).collect();
        lines[0].set(first.cells());
        SegmentSet {
            first,
            others: (1..regions).map(|_| OnceLock::new()).collect(),
            active: AtomicU64::new(active.pack(0)),
            lines,
            mixed: AtomicBool::new(false),
        }
    }

    pub(crate) fn active(&self) -> Active {
        Active::unpack(self.turn())
    }

    /// Which regions count, as a word that is never the same again once others do.
    #[inline(always)]
    pub(crate) fn turn(&self) -> u64 {
        self.active.load(Ordering::Acquire)
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
        let Some(place) = region.checked_sub(1).and_then(|at| self.others.get(at)) else { return };
        let cells = place.get_or_init(|| segment).cells();
        if cells.kernel != self.first.cells().kernel {
            self.mixed.store(true, Ordering::Release);
        }
        self.lines[region].set(cells);
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

    /// Whether one of the segments that count holds a hash. A "no" takes the same segments from the
    /// start to the end of the look-up: a region that is dropped under it may be cleared, and what was
    /// in there added to the newest, which was asked before (F-106).
    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        for _ in 0..LOOK_UPS {
            let turn = self.turn();
            if self.contains_at(turn, hash) {
                return true;
            }
            // Who has seen a word of a region that was cleared sees that it was dropped before.
            fence(Ordering::Acquire);
            if self.turn() == turn {
                return false;
            }
        }
        true
    }

    /// Whether one of the segments that counted at a [turn](Self::turn) holds a hash.
    #[inline(always)]
    pub(crate) fn contains_at(&self, turn: u64, hash: u64) -> bool {
        let active = Active::unpack(turn);
        let kernel = self.first.cells().kernel;
        if !self.mixed.load(Ordering::Relaxed)
            && matches!(kernel, Kernel::WideLine8 | Kernel::SimdLine8)
        {
            let end = active.newest + 1;
            // Those before region 0 are the last ones.
            let (oldest, wrapped) = match end.checked_sub(active.count) {
                Some(oldest) => (oldest, self.lines.len()),
                None => (0, self.lines.len() + end - active.count),
            };
            let (newer, older) = (&self.lines[oldest..end], &self.lines[wrapped..]);
            // SAFETY: the choice of the kernel found its instructions, and all of these regions have
            // lines of 8 rows.
            return unsafe {
                if kernel == Kernel::WideLine8 {
                    wide::contains_in_any(newer, older, hash)
                } else {
                    simd::contains_in_any(newer, older, hash)
                }
            };
        }
        self.contains_general(active, hash)
    }

    #[inline(never)]
    fn contains_general(&self, active: Active, hash: u64) -> bool {
        let segments = || self.order_of(active).map(|region| self.get(region).cells());
        // All at once: several segments take little longer than the slowest of them.
        if active.count > 1 {
            segments().for_each(|cells| cells.prefetch(hash));
        }
        segments().any(|cells| cells.contains(hash))
    }

    /// Shows the segments that count, newest first; whether the same count afterwards, so that what
    /// was seen together says what is not there ([`contains`](Self::contains)).
    pub(crate) fn while_same(&self, mut see: impl FnMut(&S)) -> bool {
        let turn = self.turn();
        self.order_of(Active::unpack(turn)).for_each(|region| see(self.get(region)));
        fence(Ordering::Acquire);
        self.turn() == turn
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

//! Sees a writer write slots.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::answer::are_same;
use crate::error::{Error, Result};
use crate::file::{Loaded, SIGNATURE_WORDS, SlotSignature};
use crate::format::{JOURNAL_OFFSET, Slot};
use crate::storage::{FileMap, FileMedium, Map, Mapping, Medium};

/// Sees a writer write slots.
pub(super) struct Watch {
    /// The file up to the journal.
    headers: FileMap,
    /// The slots' signature at opening.
    pub(super) opened: SlotSignature,
    /// The slots' signature when they were last read.
    seen: [[AtomicU64; 2]; 2],
    /// The sequence number of the slot that counted then.
    sequence: AtomicU64,
    /// Held while they are read again; the signature of slots that could not be.
    pub(super) refresh: Mutex<Option<SlotSignature>>,
}

impl Watch {
    /// Watches the slots of a file that was just opened.
    pub(super) fn new(medium: &FileMedium, loaded: &Loaded) -> Result<Self> {
        let opened = loaded.signature;
        let headers =
            medium.map(0..JOURNAL_OFFSET, Mapping::ReadOnly).map_err(Error::io("map the file"))?;
        let seen = opened.map(|slot| slot.map(AtomicU64::new));
        let sequence = AtomicU64::new(loaded.slot.sequence);
        Ok(Watch { headers, opened, seen, sequence, refresh: Mutex::new(None) })
    }

    /// The slots' signature now.
    ///
    /// Word by word, as all of this is on the way of a look-up: arrays that are mapped or compared as
    /// a whole go through memory, which took 60 ns.
    #[inline(always)]
    pub(super) fn signature(&self) -> SlotSignature {
        let [[a, b], [c, d]] = SIGNATURE_WORDS;
        let [a, b, c, d] = self.headers.words().load_each([a, b, c, d]);
        [[a, b], [c, d]]
    }

    /// Whether slots with this signature are those that were last read.
    #[inline(always)]
    pub(super) fn is_seen(&self, signature: SlotSignature) -> bool {
        let [[a, b], [c, d]] = &self.seen;
        let seen = |word: &AtomicU64| word.load(Ordering::Acquire);
        are_same(signature, [[seen(a), seen(b)], [seen(c), seen(d)]])
    }

    pub(super) fn seen(&self) -> SlotSignature {
        [0, 1].map(|slot| [0, 1].map(|word| self.seen[slot][word].load(Ordering::Acquire)))
    }

    /// The slots were read.
    pub(super) fn see(&self, loaded: &Loaded) {
        self.sequence.store(loaded.slot.sequence, Ordering::Relaxed);
        for (seen, signature) in self.seen.iter().flatten().zip(loaded.signature.iter().flatten()) {
            seen.store(*signature, Ordering::Release);
        }
    }

    /// Whether generations with the same numbers as before may be other ones: after as many rotations
    /// as there are regions, each of which wrote a slot, the list is the same again.
    pub(super) fn may_have_come_round(&self, slot: &Slot, generations: u64) -> bool {
        let slots = slot.sequence.checked_sub(self.sequence.load(Ordering::Relaxed));
        slots.is_none_or(|slots| slots > generations)
    }
}

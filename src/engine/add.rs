//! Adding and asking.

use std::sync::atomic::Ordering;

use super::{Engine, Segment};
use crate::error::{Error, Result};
use crate::format::{Record, Shape, WhenFull};
use crate::hash::Hasher;
use crate::storage::{Medium, Sabotage};
use crate::sync::{STRIPES, StripeGuard, stripe_of_thread};

/// What became of an add to the newest segment.
pub(super) enum Added {
    /// Cells changed.
    New,
    /// All cells were on.
    Known,
    /// The segment has as many keys as it takes.
    Full,
    /// Another segment has become the newest meanwhile.
    Moved,
}

/// Hashes of a batch that are added together: some for each stripe.
const TOGETHER: usize = 8 * STRIPES;

/// Hashes of a batch that were not in when their adder looked.
struct Absent {
    hashes: [u64; TOGETHER],
    count: usize,
}

impl Default for Absent {
    fn default() -> Self {
        Absent { hashes: [0; TOGETHER], count: 0 }
    }
}

impl<M: Medium> Engine<M> {
    /// Adds a hash; true when the key was new, as far as the filter can tell.
    #[inline]
    pub(crate) fn add_hash(&self, hash: u64) -> Result<bool> {
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(Error::Poisoned);
        }
        if !self.simple {
            return self.add_otherwise(hash);
        }
        // A key that is in leaves no trace and takes no lock.
        if self.contains_hash(hash) {
            return Ok(false);
        }
        Ok(matches!(self.add_new(hash)?, Added::New))
    }

    /// The way of a key into a filter with limits, several segments or counters.
    #[inline(never)]
    fn add_otherwise(&self, hash: u64) -> Result<bool> {
        if self.overlay.is_some() {
            return self.add_counting(hash);
        }
        let known = self.contains_hash(hash);
        loop {
            // A rotating filter forgets: a key that only an older generation holds is added to
            // the newest, so that it is remembered from now on.
            let rotating = matches!(self.superblock.shape(), Shape::Rotating(_));
            if known && (!rotating || self.segments.newest().data.contains(hash)) {
                return Ok(false);
            }
            match self.add_new(hash)? {
                Added::New => return Ok(!known),
                Added::Known => return Ok(false),
                Added::Full => self.make_way()?,
                Added::Moved => {}
            }
        }
    }

    /// What the newest segment being full leads to.
    pub(super) fn make_way(&self) -> Result<()> {
        match self.superblock.shape() {
            Shape::Growing => self.grow(),
            Shape::Rotating(_) if self.superblock.rotate_after > 0 => self.rotate_when_full(),
            _ => {
                debug_assert_eq!(self.superblock.when_full, WhenFull::Refuse);
                Err(Error::Full {
                    capacity: self.superblock.capacity,
                    reason: "it was made to refuse more",
                })
            }
        }
    }

    /// Takes a place in the newest segment; false when there is none.
    pub(super) fn take_place(&self) -> bool {
        let Some(mut limit) = self.limit else { return true };
        if self.superblock.when_full == WhenFull::Grow {
            limit = self.growth_limit();
        }
        let taken = self.filled.fetch_add(1, Ordering::Relaxed) < limit;
        if !taken {
            self.filled.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    /// Adds many hashes, each given by `hash`; how many of them were new.
    #[inline]
    pub(crate) fn add_batch(
        &self,
        count: usize,
        mut hash: impl FnMut(usize) -> u64,
    ) -> Result<u64> {
        if !self.simple {
            return (0..count).try_fold(0, |new, at| {
                self.add_hash(hash(at)).map(|changed| new + u64::from(changed))
            });
        }
        let data = &self.segments.first.data;
        let (mut new, mut failed) = (0, None);
        let mut take = |result: Result<u64>| match result {
            Ok(more) => new += more,
            Err(error) => failed = Some(error),
        };
        // Sorting a few would cost more than it saves.
        if count < STRIPES || data.own_block(0).is_none() {
            data.visit_batch(count, hash, |hash| take(self.add_hash(hash).map(u64::from)));
        } else {
            let mut absent = Absent::default();
            data.visit_batch(count, hash, |hash| {
                absent.hashes[absent.count] = hash;
                absent.count += usize::from(!data.contains(hash));
                if absent.count == absent.hashes.len() {
                    take(self.add_absent(&mut absent));
                }
            });
            take(self.add_absent(&mut absent));
        }
        failed.map_or(Ok(new), Err)
    }

    /// Adds hashes that were not in when their adder looked: stripe by stripe, so that a stripe is
    /// taken once for several of them. Those of one block keep their order, and others do not
    /// matter to each other: the outcome is that of adding them one by one.
    fn add_absent(&self, absent: &mut Absent) -> Result<u64> {
        // Whether or not there is anything to add.
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(Error::Poisoned);
        }
        let segment = &self.segments.first;
        let stripe_of = |hash| segment.data.geometry().block(hash) as usize % STRIPES;
        let hashes = &absent.hashes[..std::mem::take(&mut absent.count)];
        let mut ends = [0u16; STRIPES];
        hashes.iter().for_each(|&hash| ends[stripe_of(hash)] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        // From the last to the first, so that each goes in front of those that come after it: what
        // was the end of a stripe's hashes then is their start.
        let mut starts = ends;
        let mut sorted = [0; TOGETHER];
        for &hash in hashes.iter().rev() {
            let start = &mut starts[stripe_of(hash)];
            *start -= 1;
            sorted[usize::from(*start)] = hash;
        }
        let mut new = 0;
        for (stripe, (&start, &end)) in self.stripes.iter().zip(starts.iter().zip(&ends)) {
            let hashes = &sorted[usize::from(start)..usize::from(end)];
            if hashes.is_empty() {
                continue;
            }
            let stripe = stripe.hold();
            if self.poisoned.load(Ordering::Relaxed) {
                return Err(Error::Poisoned);
            }
            for &hash in hashes {
                new += u64::from(self.add_held(segment, &stripe, hash));
            }
        }
        Ok(new)
    }

    /// The way of a key that was not in when its adder looked.
    #[inline]
    fn add_new(&self, hash: u64) -> Result<Added> {
        // Whoever holds the stripe of a block is the only one to change that block.
        let newest = match self.simple {
            true => &self.segments.first,
            false => self.segments.newest(),
        };
        let stripe = match newest.data.own_block(hash) {
            Some(block) => block as usize % STRIPES,
            None => stripe_of_thread(),
        };
        let stripe = self.stripes[stripe].hold();
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(Error::Poisoned);
        }
        if !self.simple {
            // Between the choice of the stripe and its lock another segment may have come.
            if !std::ptr::eq(newest, self.segments.newest()) {
                return Ok(Added::Moved);
            }
            if newest.data.missing(hash) == 0 {
                return Ok(Added::Known);
            }
            if !self.take_place() {
                return Ok(Added::Full);
            }
        }
        match self.add_held(newest, &stripe, hash) {
            true => Ok(Added::New),
            false => Ok(Added::Known),
        }
    }

    /// Adds a hash to a segment under a stripe; true when that changed it.
    #[inline]
    fn add_held(&self, segment: &Segment<M>, stripe: &StripeGuard<'_>, hash: u64) -> bool {
        // The record comes before the bits: a process killed in between leaves a record too many,
        // which is harmless, and never bits that nothing explains.
        let late = self.medium.sabotaged(Sabotage::BitsBeforeRecord);
        let log = |mask| self.journal.log(Record::Key { hash, mask });
        let early = |mask| {
            if !late && !self.medium.sabotaged(Sabotage::NoJournal) {
                log(mask);
            }
        };
        let mask = segment.data.turn_on(hash, early, |word| segment.touch(word));
        if mask != 0 {
            if late {
                log(mask);
            }
            stripe.count(1);
        }
        mask != 0
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, hasher: &Hasher, key: &[u8]) -> u64 {
        match self.segments.first.data.shortcut() {
            Some(shortcut) => shortcut.hash(hasher, key),
            None => hasher.hash_elsewhere(key),
        }
    }

    /// Whether a hash may be in.
    #[inline]
    pub(crate) fn contains_hash(&self, hash: u64) -> bool {
        match self.segments.first.data.shortcut() {
            Some(shortcut) => shortcut.contains(hash),
            None => self.contains_otherwise(hash),
        }
    }

    #[inline(never)]
    fn contains_otherwise(&self, hash: u64) -> bool {
        if self.simple {
            return self.segments.first.data.contains(hash);
        }
        if let Some(overlay) = self.overlay.as_ref().filter(|overlay| overlay.is_pending()) {
            return self.contains_counting(&overlay.read(), hash);
        }
        self.segments.newest_first().any(|segment| segment.data.contains(hash))
    }

    /// Whether many hashes may be in.
    #[inline]
    pub(crate) fn contains_batch(&self, mut hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        if self.simple {
            return self.segments.first.data.contains_batch(hash, found);
        }
        for (at, found) in found.iter_mut().enumerate() {
            *found = self.contains_hash(hash(at));
        }
    }
}

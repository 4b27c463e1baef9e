//! Adding and asking.

use std::sync::atomic::Ordering;

use super::{Engine, Segment};
use crate::error::Result;
use crate::format::{Shape, WhenFull};
use crate::geometry::CellKind;
use crate::hash::Hasher;
use crate::kernel::{Cells, FastPath, hash_fast};
use crate::storage::{Map, Medium, sabotage};
use crate::sync::{Refused, StripeGuard, stripe_of_thread};

/// What became of an add to the newest segment.
pub(super) enum Added {
    /// Cells changed.
    New,
    /// All cells were on.
    Known,
    /// The segment has as many keys as it takes.
    Full,
    /// Another segment has become the newest in between.
    Moved,
}

/// Hashes of a batch that were not in when their adder looked. They wait until their lines and
/// stripes have come over from another core that changed them last: several at a time, where adds
/// one by one wait for each.
#[derive(Default)]
struct Absent {
    hashes: [u64; 2 * Self::STEP],
    count: usize,
}

impl Absent {
    /// How many are added in one go, while as many others wait.
    const STEP: usize = 8;
}

/// The number of the stripe of a hash: the thread that holds it is the only one to change the block of
/// the hash, if it has a block of its own.
#[inline(always)]
fn stripe_number(data: &Cells<impl Map>, hash: u64) -> u64 {
    data.own_block(hash).unwrap_or_else(stripe_of_thread)
}

impl<M: Medium> Engine<M> {
    /// Adds a hash; true when the key was new, as far as the filter can tell.
    #[inline]
    pub(crate) fn add_hash(&self, hash: u64) -> Result<bool> {
        if self.simple {
            // A key that is in leaves no trace and takes no lock.
            let added = if self.contains_hash(hash) {
                (!self.is_dead()).then_some(false)
            } else {
                self.add_absent(hash)
            };
            return match added {
                Some(new) => Ok(new),
                None => Err(self.refusal()),
            };
        }
        self.add_slow(hash)
    }

    /// The way of a key into a filter with limits, several segments or counters.
    #[inline(never)]
    fn add_slow(&self, hash: u64) -> Result<bool> {
        self.refuse_if_dead()?;
        if self.superblock.cells == CellKind::Counting {
            return self.add_counting(hash);
        }
        self.add_as(hash, self.contains_hash(hash))
    }

    /// Adds a hash of which is known whether it was in.
    pub(super) fn add_as(&self, hash: u64, known: bool) -> Result<bool> {
        loop {
            // A rotating filter forgets: a key that only an older generation holds is added to
            // the newest, so that it is remembered from now on.
            let rotating = matches!(self.superblock.shape(), Shape::Rotating(_));
            if known && (!rotating || self.segments.newest().data.contains(hash)) {
                return Ok(false);
            }
            match self.add_to_newest(hash)? {
                Added::New => return Ok(!known),
                Added::Known => return Ok(false),
                Added::Full => self.handle_full()?,
                Added::Moved => {}
            }
        }
    }

    /// What the newest segment being full leads to.
    pub(super) fn handle_full(&self) -> Result<()> {
        match self.superblock.shape() {
            Shape::Growing => self.roll_over_when_full(),
            Shape::Rotating(_) if self.superblock.rotate_after > 0 => self.roll_over_when_full(),
            _ => {
                debug_assert_eq!(self.superblock.when_full, WhenFull::Refuse);
                self.refuse_full()
            }
        }
    }

    /// Reserves a place in the newest segment; false when there is none.
    pub(super) fn reserve_place(&self) -> bool {
        let Some(limit) = &self.limit else { return true };
        if self.cells_left.are_none() {
            return false;
        }
        let limit = limit.load(Ordering::Relaxed);
        let before = self.filled.fetch_add(1, Ordering::Relaxed);
        if before >= limit {
            self.filled.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        // Ahead of need, so that the next segment is there when this one is full.
        if before >= limit - limit / 4 && !self.announced.load(Ordering::Relaxed) {
            self.announced.store(self.journal.ring(), Ordering::Relaxed);
        }
        true
    }

    /// Adds many hashes, each given by `hash`; how many of them were new.
    #[inline]
    pub(crate) fn add_batch(&self, count: usize, hash: impl FnMut(usize) -> u64) -> Result<u64> {
        if !self.simple {
            return self.add_batch_slow(count, hash);
        }
        let data = &self.segments.first.data;
        let (mut new, mut absent) = (0, Absent::default());
        data.visit_batch(count, hash, |hash| {
            if data.contains(hash) {
                return;
            }
            data.prefetch_to_write(hash);
            self.stripes.prefetch(stripe_number(data, hash));
            absent.hashes[absent.count] = hash;
            absent.count += 1;
            if absent.count == absent.hashes.len() {
                new += self.add_all_absent(&absent.hashes[..Absent::STEP]);
                absent.hashes.copy_within(Absent::STEP.., 0);
                absent.count = Absent::STEP;
            }
        });
        new += self.add_all_absent(&absent.hashes[..absent.count]);
        self.refuse_if_dead()?;
        Ok(new)
    }

    /// Adds hashes that were not in when their adder looked; how many were still not in.
    #[inline(never)]
    fn add_all_absent(&self, hashes: &[u64]) -> u64 {
        // No thread is another process between two of them.
        if self.medium.is_forked() {
            return 0;
        }
        hashes.iter().map(|&hash| u64::from(self.add_absent_here(hash) == Some(true))).sum()
    }

    /// Adds a hash that was not in when its adder looked to the only segment; true when it was still
    /// not in, nothing when this handle must not write any more.
    #[inline(always)]
    fn add_absent(&self, hash: u64) -> Option<bool> {
        if self.medium.is_forked() { None } else { self.add_absent_here(hash) }
    }

    /// [`add_absent`](Self::add_absent), in the process that opened the file.
    #[inline(always)]
    fn add_absent_here(&self, hash: u64) -> Option<bool> {
        let segment = &self.segments.first;
        match self.stripes.hold(stripe_number(&segment.data, hash)) {
            Ok(stripe) => Some(self.add_held(segment, &stripe, hash) != 0),
            Err(refused) => self.add_refused(refused, hash),
        }
    }

    /// An add that found the gate locked, or shut: the first of a session marks the file as open.
    #[cold]
    #[inline(never)]
    fn add_refused(&self, refused: Refused, hash: u64) -> Option<bool> {
        if refused == Refused::Shut {
            return None;
        }
        // What goes wrong poisons the handle, or leaves the file as it is.
        match self.begin() {
            Ok(()) => self.add_absent(hash),
            Err(error) => {
                self.poison_with(error);
                None
            }
        }
    }

    /// Adds a hash to the newest segment if there is a place for it.
    fn add_to_newest(&self, hash: u64) -> Result<Added> {
        let newest = self.segments.newest();
        let number = stripe_number(&newest.data, hash);
        let stripe = match self.stripes.hold(number) {
            Ok(stripe) => stripe,
            Err(Refused::Shut) => return Err(self.refusal()),
            Err(Refused::Locked) => {
                self.begin()?;
                return Ok(Added::Moved);
            }
        };
        // Between the choice of the stripe and its lock another segment may have come.
        if !std::ptr::eq(newest, self.segments.newest()) {
            return Ok(Added::Moved);
        }
        if newest.data.missing(hash) == 0 {
            return Ok(Added::Known);
        }
        if !self.reserve_place() {
            return Ok(Added::Full);
        }
        let mask = self.add_held(newest, &stripe, hash);
        self.cells_left.use_up(mask.count_ones());
        Ok(if mask != 0 { Added::New } else { Added::Known })
    }

    /// Adds a hash to a segment under a stripe; one bit for each row that this changed.
    #[inline(always)]
    fn add_held(&self, segment: &Segment<M>, stripe: &StripeGuard<'_>, hash: u64) -> u32 {
        // The record comes before the bits: a process killed in between leaves a record too many,
        // which is harmless, and never bits that nothing explains.
        let late = sabotage!(self.medium, BitsBeforeRecord);
        let log = move |mask| self.log_key(hash, mask);
        let mask = if late {
            segment.data.turn_on(hash, |_| {}, |word| segment.prepare(word))
        } else {
            segment.data.turn_on(hash, log, |word| segment.prepare(word))
        };
        if mask != 0 {
            if late {
                log(mask);
            }
            stripe.count(1);
        }
        mask
    }

    /// Writes the record of a key.
    #[inline(always)]
    fn log_key(&self, hash: u64, mask: u32) {
        if !sabotage!(self.medium, NoJournal) {
            self.journal.log(hash, mask);
        }
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, hasher: &Hasher, key: &[u8]) -> u64 {
        if self.fast_unkeyed == FastPath::None {
            hasher.hash_by_call(key)
        } else {
            hash_fast(hasher, key)
        }
    }

    /// Whether a key may be in.
    #[inline]
    pub(crate) fn contains_key(&self, hasher: &Hasher, key: &[u8]) -> bool {
        if self.fast_unkeyed == FastPath::None {
            return self.contains_by_call(hasher, key);
        }
        self.segments.first.data.contains_fast(self.fast_unkeyed, hash_fast(hasher, key))
    }

    /// The way of keys of a keyed file, and of those that have no fast one.
    #[inline(never)]
    fn contains_by_call(&self, hasher: &Hasher, key: &[u8]) -> bool {
        if self.fast_keyed == FastPath::None {
            return self.contains_key_slow(hasher, key);
        }
        self.segments.first.data.contains_keyed(hasher, key)
    }

    // By itself, so that the other way saves no registers for it.
    #[inline(never)]
    fn contains_key_slow(&self, hasher: &Hasher, key: &[u8]) -> bool {
        if hasher.is_keyed() {
            self.contains_hash(hasher.hash_keyed(key))
        } else {
            self.contains_slow(hasher.hash_unkeyed(key))
        }
    }

    /// Whether a hash may be in.
    #[inline]
    pub(crate) fn contains_hash(&self, hash: u64) -> bool {
        if self.fast == FastPath::None {
            self.contains_slow(hash)
        } else {
            self.segments.first.data.contains_fast(self.fast, hash)
        }
    }

    #[inline(never)]
    fn contains_slow(&self, hash: u64) -> bool {
        if self.simple {
            return self.segments.first.data.contains(hash);
        }
        self.segments.contains(hash)
    }

    /// Whether many hashes may be in.
    #[inline]
    pub(crate) fn contains_batch(&self, hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        if self.simple {
            return self.segments.first.data.contains_batch(hash, found);
        }
        self.contains_batch_slow(hash, found);
    }
}

//! The journal of a live writer: a mapped array of records, taken in order by one counter.

use std::io;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::format::{Epoch, JOURNAL_OFFSET, RECORD_BYTES, RECORD_WORDS, Record, Slot, Superblock};
use crate::storage::{Map, Mapping, Medium, Sabotage};
use crate::sync::AtomicU64;

/// Epoch of all records when a test asks for journals without salt.
const UNSALTED: (u64, u64) = (0, 0);

/// The mapped journal.
pub(super) struct Journal<M: Medium> {
    /// `None` when the file has no journal.
    map: Option<M::Map>,
    /// Records it has room for.
    capacity: u64,
    /// The next free record. Runs on beyond the capacity: then adds go unlogged.
    next: AtomicU64,
    /// Records before this one are durable.
    synced: AtomicU64,
    /// The epoch's key, changed only while every stripe is held.
    epoch: EpochCell,
}

/// An [`Epoch`] that checkpoints replace while no add is under way: the stripes order the
/// accesses, so relaxed ones do.
struct EpochCell {
    number: AtomicU64,
    salt: AtomicU64,
    mask_bits: u32,
}

impl EpochCell {
    #[inline(always)]
    fn get(&self) -> Epoch {
        Epoch::new(
            self.number.load(Ordering::Relaxed),
            self.salt.load(Ordering::Relaxed),
            self.mask_bits,
        )
    }
}

/// The epoch that the records of a slot belong to.
pub(super) fn epoch_of<M: Medium>(medium: &M, slot: &Slot) -> Epoch {
    let (number, salt) = match medium.sabotaged(Sabotage::NoSalt) {
        true => UNSALTED,
        false => (slot.epoch, slot.salt),
    };
    Epoch::new(number, salt, mask_bits(slot))
}

/// Bits of a record's mask: one for each row of the segment that takes the adds (F-71).
fn mask_bits(slot: &Slot) -> u32 {
    slot.segments.last().map_or(1, |segment| segment.geometry.row_count())
}

impl<M: Medium> Journal<M> {
    pub(super) fn open(medium: &M, superblock: &Superblock, slot: &Slot) -> Result<Self> {
        let length = superblock.journal_bytes;
        let map = match length {
            0 => None,
            _ => {
                let range = JOURNAL_OFFSET..JOURNAL_OFFSET + length;
                let map =
                    medium.map(range, Mapping::Shared).map_err(Error::io("map the journal"))?;
                Some(map)
            }
        };
        let journal = Journal {
            map,
            capacity: length / RECORD_BYTES as u64,
            next: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            epoch: EpochCell {
                number: AtomicU64::new(0),
                salt: AtomicU64::new(0),
                mask_bits: mask_bits(slot),
            },
        };
        journal.restart(medium, slot);
        Ok(journal)
    }

    /// Starts over in the epoch of a slot. Nobody else uses the journal meanwhile.
    pub(super) fn restart(&self, medium: &M, slot: &Slot) {
        let (number, salt) = match medium.sabotaged(Sabotage::NoSalt) {
            true => UNSALTED,
            false => (slot.epoch, slot.salt),
        };
        self.epoch.number.store(number, Ordering::Relaxed);
        self.epoch.salt.store(salt, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.synced.store(0, Ordering::Relaxed);
    }

    /// Writes a record if there is room for one.
    #[inline]
    pub(super) fn append(&self, record: Record) {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.capacity {
            return;
        }
        if let Some(map) = &self.map {
            let words = self.epoch.get().encode(index as u32, record);
            let at = index as usize * RECORD_WORDS;
            map.store(at, words[0]);
            map.store(at + 1, words[1]);
        }
    }

    /// Whether anything was written in this epoch.
    pub(super) fn has_records(&self) -> bool {
        self.next.load(Ordering::Relaxed) != 0
    }

    /// Whether anything was added since the last sync, logged or not.
    pub(super) fn has_news(&self) -> bool {
        self.next.load(Ordering::Relaxed) != self.synced.load(Ordering::Relaxed)
    }

    /// Whether all adds of this epoch are logged and a sync record can follow them.
    pub(super) fn has_room(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.capacity
    }

    /// Makes the records since the last flush durable. Called with all stripes held.
    pub(super) fn flush(&self, medium: &M) -> io::Result<()> {
        let next = self.next.load(Ordering::Relaxed);
        let synced = self.synced.load(Ordering::Relaxed);
        if let Some(map) = &self.map
            && !medium.sabotaged(Sabotage::NoFlush)
        {
            map.flush(synced as usize * RECORD_WORDS..next as usize * RECORD_WORDS)?;
        }
        self.synced.store(next, Ordering::Relaxed);
        Ok(())
    }
}

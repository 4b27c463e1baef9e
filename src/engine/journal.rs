//! The journal of a live writer: a mapped array of records, taken in order by one counter.

use std::io;
use std::sync::atomic::Ordering;

use super::PAGE_WORDS;
use crate::error::{Error, Result};
use crate::format::{
    COUNTER_MASK_BITS, CellKind, Epoch, JOURNAL_OFFSET, RECORD_BYTES, RECORD_WORDS, Record, Slot,
    Superblock,
};
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
    /// The next free record. Goes beyond the capacity by one or a few: then adds go unlogged.
    next: Alone<AtomicU64>,
    /// Records before this one are durable.
    synced: AtomicU64,
    /// Key of the [`Epoch`]. Checkpoints replace it while no add is under way: the stripes order
    /// the accesses, so relaxed ones do.
    epoch_key: AtomicU64,
    /// Changes with the epoch: a new segment may have another number of rows.
    mask_bits: AtomicU64,
}

/// Alone on its cache lines: what all adds write must not share one with what all adds read.
#[repr(align(128))]
struct Alone<T>(T);

/// The epoch that the records of a slot belong to.
pub(super) fn epoch_of<M: Medium>(medium: &M, superblock: &Superblock, slot: &Slot) -> Epoch {
    let (number, salt) = match medium.sabotaged(Sabotage::NoSalt) {
        true => UNSALTED,
        false => (slot.epoch, slot.salt),
    };
    Epoch::new(number, salt, mask_bits(superblock, slot))
}

/// Bits of a record's mask: one for each row of the segment that takes the adds, or what a change
/// of a counter takes (F-71).
fn mask_bits(superblock: &Superblock, slot: &Slot) -> u32 {
    match superblock.cells {
        CellKind::Plain => slot.segments.last().map_or(1, |segment| segment.geometry.row_count()),
        CellKind::Counting => COUNTER_MASK_BITS,
    }
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
            next: Alone(AtomicU64::new(0)),
            synced: AtomicU64::new(0),
            epoch_key: AtomicU64::new(0),
            mask_bits: AtomicU64::new(0),
        };
        journal.restart(medium, superblock, slot);
        Ok(journal)
    }

    /// Starts over in the epoch of a slot. Nobody else uses the journal meanwhile.
    pub(super) fn restart(&self, medium: &M, superblock: &Superblock, slot: &Slot) {
        self.epoch_key.store(epoch_of(medium, superblock, slot).key(), Ordering::Relaxed);
        self.mask_bits.store(mask_bits(superblock, slot).into(), Ordering::Relaxed);
        self.next.0.store(0, Ordering::Relaxed);
        self.synced.store(0, Ordering::Relaxed);
    }

    /// Writes a record if there is room for one.
    #[inline]
    pub(super) fn append(&self, record: Record) {
        // Once it is known that adds go unlogged, the counter is only read, so that threads do
        // not wait for its cache line. One step beyond the capacity: a full journal whose last
        // record is a synced one must still show that there is news.
        if self.next.0.load(Ordering::Relaxed) > self.capacity {
            return;
        }
        let index = self.next.0.fetch_add(1, Ordering::Relaxed);
        if index >= self.capacity {
            return;
        }
        if let Some(map) = &self.map {
            let key = self.epoch_key.load(Ordering::Relaxed);
            let mask_bits = self.mask_bits.load(Ordering::Relaxed) as u32;
            let words = Epoch::from_key(key, mask_bits).encode(index as u32, record);
            let at = index as usize * RECORD_WORDS;
            map.store(at, words[0]);
            map.store(at + 1, words[1]);
        }
    }

    /// Lets the rest of this epoch go unlogged: the next sync is a checkpoint. Called with all
    /// stripes held.
    pub(super) fn exhaust(&self) {
        self.next.0.store(self.capacity + 1, Ordering::Relaxed);
    }

    /// Makes the first `records` durable although nothing in them changed: after a sync that failed
    /// the cache may hold what the disk does not.
    pub(super) fn rewrite(&self, records: u64) -> io::Result<()> {
        let Some(map) = self.map.as_ref().filter(|_| records > 0) else { return Ok(()) };
        let words = records as usize * RECORD_WORDS;
        for word in (0..words).step_by(PAGE_WORDS) {
            map.store(word, map.words().load(word));
        }
        map.flush(0..words)
    }

    /// Whether anything was written in this epoch.
    pub(super) fn has_records(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) != 0
    }

    /// Whether anything was added since the last sync, logged or not.
    pub(super) fn has_news(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) != self.synced.load(Ordering::Relaxed)
    }

    /// Whether all changes of this epoch are logged and so many records can follow them.
    pub(super) fn has_room(&self, records: u64) -> bool {
        self.next.0.load(Ordering::Relaxed) + records <= self.capacity
    }

    /// Makes the records since the last flush durable. Called with all stripes held.
    pub(super) fn flush(&self, medium: &M) -> io::Result<()> {
        let next = self.next.0.load(Ordering::Relaxed);
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

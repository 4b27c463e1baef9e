//! The journal of a live writer: a mapped array of records, given out in order by one counter.
//!
//! A counter that every add went to would be what threads wait for, together with the cache lines
//! that neighbouring records share. So a thread is given several records at a time, first a few,
//! then more, and fills them by itself. What it has not filled when a sync comes goes back if
//! nothing stands behind it, and repeats the last record before it otherwise (F-77).
//!
//! Adds that find no room leave one trace: the last record, which is given to no thread, says that
//! there were some (F-78).

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::file::{PAGE_WORDS, epoch_of, mask_bits};
use crate::format::{
    Epoch, FULL_RECORD, JOURNAL_OFFSET, RECORD_BYTES, RECORD_WORDS, Record, Slot, State, Superblock,
};
use crate::geometry::PAGE_BYTES;
use crate::storage::{Map, Mapping, Medium, Sabotage};
use crate::sync::{AtomicBool, AtomicU64, THREADS, thread_number};

/// The mapped journal.
pub(super) struct Journal<M: Medium> {
    /// `None` when the file has no journal.
    map: Option<M::Map>,
    /// Records it has room for, without the one that says that it is full.
    capacity: u64,
    /// The number of that record, if the journal has one.
    full_record: Option<u64>,
    /// The next record that was given to nobody; one more than the capacity once adds go unlogged.
    next: CachePadded<AtomicU64>,
    /// What threads were given, by their number.
    reservations: Box<[CachePadded<Reservation>]>,
    /// Most records that a thread is given at a time.
    most: u64,
    /// Records before this one are durable.
    synced: AtomicU64,
    /// Key of the [`Epoch`]. Checkpoints replace it while no add is under way: the stripes order
    /// the accesses, so relaxed ones do.
    epoch_key: AtomicU64,
    /// Changes with the epoch: a new segment may have another number of rows.
    mask_bits: AtomicU64,
    /// The number of the next group of a counting file (F-75). Used with all stripes held.
    group: AtomicU64,
    /// Records from here on, up to the full record, are zeros. Used with all stripes held, as is the
    /// next.
    used: AtomicU64,
    /// The full record may not be zeros.
    used_full: AtomicBool,
}

/// CachePadded on its cache lines: what one thread writes must not share one with what others read.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// Records that were given to a thread. It alone uses them, and only while it holds a stripe; others
/// do while they hold all stripes. So the stripes order the accesses, and relaxed ones do.
#[derive(Default)]
struct Reservation {
    /// The first record that it has not filled.
    next: AtomicU64,
    /// The record behind the last one that it was given.
    end: AtomicU64,
    /// How many it is given the next time, at most.
    size: AtomicU64,
}

impl Reservation {
    fn rest(&self) -> Range<u64> {
        self.next.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    fn set_rest(&self, rest: Range<u64>) {
        self.next.store(rest.start, Ordering::Relaxed);
        self.end.store(rest.end, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.set_rest(0..0);
        self.size.store(FIRST_RESERVATION, Ordering::Relaxed);
    }
}

/// Records that a thread is given at first: a cache line of them. It gets twice as many each time,
/// so that there are never more unfilled ones than filled ones but for these.
const FIRST_RESERVATION: u64 = 64 / RECORD_BYTES as u64;

/// Records that a thread is given at most: a page of them.
const LARGEST_RESERVATION: u64 = PAGE_BYTES / RECORD_BYTES as u64;

/// Reservations that even a small journal has room for: or else some threads would find it full while
/// others have plenty.
const LEAST_RESERVATIONS: u64 = 64;

/// How many words ahead of a record memory is asked for: four cache lines. Or else an add would wait
/// for the line that the one before it began.
const AHEAD: usize = 32;

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
        let records = length / RECORD_BYTES as u64;
        let full_record = superblock.full_record();
        let capacity = full_record.unwrap_or(records);
        let journal = Journal {
            map,
            capacity,
            full_record: full_record.filter(|_| !medium.sabotaged(Sabotage::NoFullRecord)),
            next: CachePadded(AtomicU64::new(0)),
            reservations: (0..THREADS).map(|_| CachePadded::default()).collect(),
            most: (capacity / LEAST_RESERVATIONS).clamp(FIRST_RESERVATION, LARGEST_RESERVATION),
            synced: AtomicU64::new(0),
            epoch_key: AtomicU64::new(0),
            mask_bits: AtomicU64::new(0),
            group: AtomicU64::new(0),
            // A writer that did not close the file may have left anything in it (F-88).
            used: AtomicU64::new(if slot.state == State::Open { capacity } else { 0 }),
            used_full: AtomicBool::new(slot.state == State::Open),
        };
        journal.restart(medium, superblock, slot);
        Ok(journal)
    }

    /// Starts over in the epoch of a slot. Nobody else uses the journal meanwhile.
    pub(super) fn restart(&self, medium: &M, superblock: &Superblock, slot: &Slot) {
        self.note_used();
        self.epoch_key.store(epoch_of(medium, superblock, slot).key(), Ordering::Relaxed);
        self.mask_bits.store(mask_bits(superblock, slot).into(), Ordering::Relaxed);
        self.next.0.store(0, Ordering::Relaxed);
        self.synced.store(0, Ordering::Relaxed);
        self.group.store(0, Ordering::Relaxed);
        self.reservations.iter().for_each(|reservation| reservation.0.clear());
    }

    /// Remembers what this epoch has written.
    fn note_used(&self) {
        self.used.fetch_max(self.records(), Ordering::Relaxed);
        self.used_full.fetch_or(self.is_overflowed(), Ordering::Relaxed);
    }

    /// Whether changes of this epoch went unlogged.
    pub(super) fn is_overflowed(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) > self.capacity
    }

    /// Whether all of it is zeros.
    pub(super) fn is_clear(&self) -> bool {
        self.note_used();
        let full = self.used_full.load(Ordering::Relaxed);
        self.map.is_none() || (self.used.load(Ordering::Relaxed) == 0 && !full)
    }

    /// Writes zeros over all that was written since it was last all zeros. Page by page, because what
    /// is written at once may stay together in the system's cache.
    pub(super) fn clear(&self, medium: &M) -> io::Result<()> {
        self.note_used();
        let Some(map) = &self.map else { return Ok(()) };
        let pages = map.words().len() / PAGE_WORDS;
        let used = (self.used.load(Ordering::Relaxed) * RECORD_BYTES as u64).div_ceil(PAGE_BYTES);
        let last = self.used_full.load(Ordering::Relaxed).then_some(pages as u64 - 1);
        for page in (0..used).chain(last.filter(|&last| last >= used)) {
            medium.write_at(&[0; PAGE_BYTES as usize], JOURNAL_OFFSET + page * PAGE_BYTES)?;
        }
        // Where the system keeps what is mapped apart from what is written (F-112).
        if !cfg!(target_os = "linux") {
            map.flush(0..map.words().len())?;
        }
        self.used.store(0, Ordering::Relaxed);
        self.used_full.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// A record of this epoch, if there is one at a place.
    pub(super) fn read(&self, index: u64) -> Option<Record> {
        let words = self.map.as_ref()?.words();
        let at = index as usize * RECORD_WORDS;
        self.epoch().decode(index as u32, [words.load(at), words.load(at + 1)])
    }

    /// The number of a counting file's next group.
    pub(super) fn group(&self) -> u32 {
        self.group.load(Ordering::Relaxed) as u32
    }

    /// The group is in the journal.
    pub(super) fn end_group(&self) {
        self.group.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that there is room for.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Records that were given out in this epoch.
    pub(super) fn records(&self) -> u64 {
        self.next.0.load(Ordering::Relaxed).min(self.capacity)
    }

    /// The words of a record of this epoch.
    pub(super) fn encode(&self, index: u32, record: Record) -> [u64; RECORD_WORDS] {
        self.epoch().encode(index, record)
    }

    /// Writes the record of a key if there is room for one. Called with a stripe held.
    #[inline(always)]
    pub(super) fn log(&self, hash: u64, mask: u32) {
        // Once it is known that adds go unlogged, nothing is written that threads share. The cells
        // come behind the full record that another thread wrote, so this load is an acquire.
        if self.next.0.load(Ordering::Acquire) <= self.capacity {
            self.log_in_room(hash, mask);
        }
    }

    /// The rest of [`log`](Self::log), apart from it: a journal is full most of the time while many
    /// keys are added.
    #[inline(never)]
    fn log_in_room(&self, hash: u64, mask: u32) {
        let record = Record::Key { hash, mask };
        let Some(thread) = thread_number() else { return self.append(record) };
        let reservation = &self.reservations[thread].0;
        let mut rest = reservation.rest();
        if rest.is_empty() {
            let Some(more) = self.reserve_more(reservation) else { return };
            rest = more;
        }
        reservation.next.store(rest.start + 1, Ordering::Relaxed);
        self.write(rest.start, record);
    }

    /// Gives a thread further records.
    #[cold]
    fn reserve_more(&self, reservation: &Reservation) -> Option<Range<u64>> {
        let size = reservation.size.load(Ordering::Relaxed);
        let more = self.reserve(size)?;
        reservation.set_rest(more.clone());
        reservation.size.store((2 * size).min(self.most), Ordering::Relaxed);
        Some(more)
    }

    /// Writes a record behind all others if there is room for one.
    pub(super) fn append(&self, record: Record) {
        if let Some(taken) = self.reserve(1) {
            self.write(taken.start, record);
        }
    }

    /// Takes records up to the next multiple of `size`; `None` when there are no more.
    fn reserve(&self, size: u64) -> Option<Range<u64>> {
        let mut next = self.next.0.load(Ordering::Acquire);
        while next < self.capacity {
            let end = (next + size - next % size).min(self.capacity);
            let orders = (Ordering::Relaxed, Ordering::Acquire);
            match self.next.0.compare_exchange_weak(next, end, orders.0, orders.1) {
                Ok(_) => return Some(next..end),
                Err(now) => next = now,
            }
        }
        // One step beyond the capacity, so that a full journal whose last record is a synced one
        // still shows that there is news. Once it is there, it is only read.
        if next == self.capacity {
            self.overflow();
        }
        None
    }

    /// Lets the rest of this epoch go unlogged, and says so before a cell is set without a record.
    /// Several threads may do this at a time: they all write the same.
    fn overflow(&self) {
        if let Some(index) = self.full_record {
            self.write(index, FULL_RECORD);
        }
        self.next.0.store(self.capacity + 1, Ordering::Release);
    }

    #[inline]
    fn write(&self, index: u64, record: Record) {
        if let Some(map) = &self.map {
            let words = self.epoch().encode(index as u32, record);
            let at = index as usize * RECORD_WORDS;
            map.words().prefetch(at + AHEAD);
            map.store(at, words[0]);
            map.store(at + 1, words[1]);
        }
    }

    #[inline]
    fn epoch(&self) -> Epoch {
        let mask_bits = self.mask_bits.load(Ordering::Relaxed) as u32;
        Epoch::from_key(self.epoch_key.load(Ordering::Relaxed), mask_bits)
    }

    /// Leaves nothing unfilled in front of the next record, unless adds went unlogged anyway. Called
    /// with all stripes held.
    pub(super) fn fill_gaps(&self, medium: &M) {
        let mut end = self.next.0.load(Ordering::Relaxed);
        let Some(map) = self.map.as_ref().filter(|_| end <= self.capacity) else { return };
        if medium.sabotaged(Sabotage::NoSettling) {
            return;
        }
        let mut rests: Vec<_> =
            self.reservations.iter().map(|reservation| reservation.0.rest()).collect();
        rests.retain(|rest| !rest.is_empty());
        rests.sort_unstable_by_key(|rest| std::cmp::Reverse(rest.end));
        for rest in rests {
            if rest.end == end {
                end = rest.start;
                continue;
            }
            // The thread filled at least one record of what it was given.
            let last = [0, 1]
                .map(|word| map.words().load((rest.start as usize - 1) * RECORD_WORDS + word));
            let repeated = Record::Key { hash: last[0], mask: self.epoch().mask(last) };
            rest.for_each(|index| self.write(index, repeated));
        }
        self.next.0.store(end, Ordering::Relaxed);
        self.reservations.iter().for_each(|reservation| reservation.0.clear());
    }

    /// Lets the rest of this epoch go unlogged: the next sync is a checkpoint. Called with all
    /// stripes held.
    pub(super) fn stop_logging(&self) {
        self.overflow();
    }

    /// Makes the first `records` durable although nothing in them changed: after a sync that failed
    /// the cache may hold what the disk does not.
    pub(super) fn rewrite(&self, records: u64) -> io::Result<()> {
        let Some(map) = self.map.as_ref().filter(|_| records > 0) else { return Ok(()) };
        let words = records.min(self.capacity) as usize * RECORD_WORDS;
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
    pub(super) fn has_unsynced(&self) -> bool {
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

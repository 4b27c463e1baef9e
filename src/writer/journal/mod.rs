//! The journal of a live writer: two mapped halves, which epochs take in turn (F-70).
//!
//! Records are given out in order by one counter. A counter that every add went to would be what
//! threads wait for, together with the cache lines that neighbouring records share. So a thread
//! reserves several records at a time, first a few, then more, and fills them by itself. What it has
//! not filled when a sync comes goes back if nothing stands behind it, and repeats the last record
//! before it otherwise (F-77). Counters are logged in the order of their changes, without
//! reservations.
//!
//! Adds that find no room leave one trace: the last record of the half, which is given to no thread,
//! says that there were some (F-78).

mod reservations;

use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use reservations::{Reservation, SMALL, most_reserved};

use crate::error::{Error, Result};
use crate::file::PAGE_WORDS;
use crate::format::{
    Epoch, JOURNAL_OFFSET, JournalLayout, MOST_RECORD_WORDS, Record, Slot, State, Superblock,
};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::storage::{Map, Mapping, Medium, sabotage};
use crate::sync::{AtomicBool, AtomicU64, THREADS};

/// The mapped journal.
pub(super) struct Journal<M: Medium> {
    /// `None` when the file has no journal.
    map: Option<M::Map>,
    layout: JournalLayout,
    cells: CellKind,
    /// Records of a half, without the one that says that it is full.
    capacity: u64,
    full_record: Option<u64>,
    /// The next record of the epoch that is not given out; one more than the capacity once adds go
    /// unlogged.
    next: CachePadded<AtomicU64>,
    /// What threads reserved, by their number; none in a small journal.
    reservations: Box<[CachePadded<Reservation>]>,
    /// Most records that a thread reserves at a time.
    most: u64,
    /// The half of the epoch: 0 or 1. Like all that follows it is changed while no add is under way:
    /// the stripes order the accesses, so relaxed ones do.
    half: AtomicU64,
    epoch_key: AtomicU64,
    /// Changes with the epoch: a new segment may have another number of rows.
    mask_bits: AtomicU64,
    /// Records of the epoch before this one are durable.
    durable: AtomicU64,
    /// Records up to this one hold no change that is not durable.
    quiet: AtomicU64,
    /// Changes of counters in front of this record are in the data.
    applied: AtomicU64,
    /// Syncs of this epoch, and of the one before.
    syncs: [AtomicU64; 2],
    /// A checkpoint was asked for in this epoch.
    asked: AtomicBool,
    /// Of each half: records from here on, up to the full record, are zeros.
    used: [AtomicU64; 2],
    /// Of each half: the full record may not be zeros.
    used_full: [AtomicBool; 2],
    /// Wakes the background; there may be none.
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The background is to be left alone.
    is_silent: AtomicBool,
}

/// Alone on its cache lines: what one thread writes must not share one with what others read.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// Records of one half, to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) half: u64,
    pub(super) records: Range<u64>,
}

impl<M: Medium> Journal<M> {
    pub(super) fn open(medium: &M, superblock: &Superblock, slot: &Slot) -> Result<Self> {
        let layout = superblock.journal();
        let mut map = None;
        if superblock.journal_bytes > 0 {
            let range = JOURNAL_OFFSET..superblock.base();
            let mapped =
                medium.map(range, Mapping::Shared).map_err(Error::io("map the journal"))?;
            map = Some(mapped);
        }
        let capacity = layout.capacity();
        let reserving = superblock.cells == CellKind::Plain && capacity > SMALL;
        let threads = if reserving { THREADS } else { 0 };
        // A writer that did not close the file may have left anything in it (F-88).
        let open = slot.state == State::Open;
        let used = if open { capacity } else { 0 };
        Ok(Journal {
            map,
            layout,
            cells: superblock.cells,
            capacity,
            full_record: layout.full_record().filter(|_| !sabotage!(medium, NoFullRecord)),
            next: CachePadded(AtomicU64::new(0)),
            reservations: (0..threads).map(|_| CachePadded::default()).collect(),
            most: most_reserved(capacity),
            half: AtomicU64::new(0),
            epoch_key: AtomicU64::new(0),
            mask_bits: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            quiet: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            syncs: [0; 2].map(AtomicU64::new),
            asked: AtomicBool::new(false),
            used: [used; 2].map(AtomicU64::new),
            used_full: [open; 2].map(AtomicBool::new),
            bell: OnceLock::new(),
            is_silent: AtomicBool::new(false),
        })
    }

    /// Starts an epoch, in its half. `link` says how many records the epoch before it has, if that
    /// counts as well. Nothing else uses the journal at the same time.
    pub(super) fn begin(&self, epoch: Epoch, mask_bits: u32, number: u64, link: u64) {
        self.note_used();
        self.half.store(number % 2, Ordering::Relaxed);
        self.epoch_key.store(epoch.key(), Ordering::Relaxed);
        self.mask_bits.store(mask_bits.into(), Ordering::Relaxed);
        let mut first = 0;
        if self.capacity > 0 {
            self.write(0, Record::Note { count: link });
            first = 1;
        }
        self.next.0.store(first, Ordering::Relaxed);
        self.durable.store(0, Ordering::Relaxed);
        self.quiet.store(first, Ordering::Relaxed);
        self.applied.store(first, Ordering::Relaxed);
        let [syncs, before] = &self.syncs;
        before.store(syncs.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.asked.store(false, Ordering::Relaxed);
        self.reservations.iter().for_each(|reservation| reservation.0.clear());
    }

    /// Remembers what this epoch has written.
    fn note_used(&self) {
        let half = self.half.load(Ordering::Relaxed) as usize;
        self.used[half].fetch_max(self.records(), Ordering::Relaxed);
        self.used_full[half].fetch_or(self.is_unlogged(), Ordering::Relaxed);
    }

    /// Whether changes of this epoch went unlogged.
    pub(super) fn is_unlogged(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) > self.capacity
    }

    /// Whether all of it is zeros.
    pub(super) fn is_clear(&self) -> bool {
        self.note_used();
        let clear = |half: usize| {
            self.used[half].load(Ordering::Relaxed) == 0
                && !self.used_full[half].load(Ordering::Relaxed)
        };
        self.map.is_none() || (clear(0) && clear(1))
    }

    /// Writes zeros over all that was written since it was last all zeros. Page by page, because what
    /// is written at once may stay together in the system's cache.
    pub(super) fn clear(&self, medium: &M) -> io::Result<()> {
        self.note_used();
        if self.map.is_none() {
            return Ok(());
        }
        let pages = self.layout.half_bytes() / PAGE_BYTES;
        for half in 0..2 {
            let used = self.used[half].swap(0, Ordering::Relaxed);
            let used = (used * self.layout.record_bytes()).div_ceil(PAGE_BYTES);
            let full = self.used_full[half].swap(false, Ordering::Relaxed);
            let last = full.then_some(pages - 1).filter(|&last| last >= used);
            for page in (0..used).chain(last) {
                let offset = self.layout.half_offset(half as u64) + page * PAGE_BYTES;
                medium.write_at(&[0; PAGE_BYTES as usize], offset)?;
            }
        }
        self.next.0.store(0, Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn record_words(&self) -> usize {
        (self.layout.record_bytes() / 8) as usize
    }

    /// The first word of a record.
    fn word(&self, half: u64, index: u64) -> usize {
        (half * self.layout.half_bytes() / 8) as usize + index as usize * self.record_words()
    }

    /// A record of this epoch, if there is one at a place.
    pub(super) fn read(&self, index: u64) -> Option<Record> {
        self.read_of(self.half.load(Ordering::Relaxed), self.epoch(), index)
    }

    /// A record of an epoch that had a half, if there is one at a place.
    pub(super) fn read_of(&self, half: u64, epoch: Epoch, index: u64) -> Option<Record> {
        let words = self.map.as_ref()?.words();
        let at = self.word(half, index);
        let mut found = [0; MOST_RECORD_WORDS];
        for (word, found) in found.iter_mut().take(self.record_words()).enumerate() {
            *found = words.load(at + word);
        }
        epoch.decode(index as u32, &found)
    }

    /// The epoch.
    #[inline]
    pub(super) fn epoch(&self) -> Epoch {
        let mask_bits = self.mask_bits.load(Ordering::Relaxed) as u32;
        Epoch::from_key(self.epoch_key.load(Ordering::Relaxed), mask_bits, self.cells)
    }

    /// Records of a half.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Records that were given out in this epoch.
    pub(super) fn records(&self) -> u64 {
        self.next.0.load(Ordering::Relaxed).min(self.capacity)
    }

    /// What wakes the background from now on.
    pub(super) fn set_bell(&self, bell: Box<dyn Fn() + Send + Sync>) {
        let _ = self.bell.set(bell);
    }

    /// Whether the background is left alone from now on.
    pub(super) fn set_silent(&self, silent: bool) {
        self.is_silent.store(silent, Ordering::Relaxed);
    }

    /// Wakes the background; false if there is none.
    pub(super) fn ring(&self) -> bool {
        match self.bell.get() {
            Some(bell) if !self.is_silent.load(Ordering::Relaxed) => {
                bell();
                true
            }
            _ => false,
        }
    }

    fn write(&self, index: u64, record: Record) {
        if let Some(map) = &self.map {
            let words = self.epoch().encode(index as u32, record);
            let at = self.word(self.half.load(Ordering::Relaxed), index);
            for (word, &value) in words.iter().take(self.record_words()).enumerate() {
                map.store(at + word, value);
            }
        }
    }

    /// Ends a group with a sync record, which there has to be [room](Self::has_room) for: what is to
    /// be made durable now. Called with all stripes held, after [`fill_gaps`](Self::fill_gaps).
    pub(super) fn end_group(&self, mark: u64) -> Span {
        let index = self.next.0.load(Ordering::Relaxed);
        self.write(index, Record::Sync { mark });
        self.next.0.store(index + 1, Ordering::Relaxed);
        self.quiet.store(index + 1, Ordering::Relaxed);
        self.syncs[0].fetch_add(1, Ordering::Relaxed);
        let from = self.durable.load(Ordering::Relaxed);
        Span { half: self.half.load(Ordering::Relaxed), records: from..index + 1 }
    }

    /// Puts the first of records that found no room into the place that is left for a sync record: what
    /// of the half is to be made durable with the others. Called with all stripes held.
    pub(super) fn use_last_place(&self, records: &mut Vec<Record>) -> Span {
        let mut next = self.next.0.load(Ordering::Relaxed);
        while next < self.capacity && !records.is_empty() {
            self.write(next, records.remove(0));
            next += 1;
        }
        self.next.0.store(next, Ordering::Relaxed);
        let from = self.durable.load(Ordering::Relaxed);
        Span { half: self.half.load(Ordering::Relaxed), records: from..next }
    }

    /// Whether the half is so full that the epoch should go on in the other.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) >= self.capacity - self.capacity / 4
    }

    /// Whether all changes of this epoch are logged and this many records can follow them.
    pub(super) fn has_room(&self, records: u64) -> bool {
        self.next.0.load(Ordering::Relaxed) + records <= self.capacity
    }

    /// Makes records durable.
    pub(super) fn flush(&self, medium: &M, span: &Span) -> io::Result<()> {
        if let Some(map) = &self.map
            && !sabotage!(medium, NoFlush)
        {
            let word = |index| self.word(span.half, index);
            map.flush(word(span.records.start)..word(span.records.end))?;
        }
        if span.half == self.half.load(Ordering::Relaxed) {
            self.durable.fetch_max(span.records.end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes down that records became durable, for a reader that finds some of them missing later
    /// (F-91). Not flushed: the next sync does that. No add that comes at the same time is held up.
    pub(super) fn confirm(&self, span: &Span) {
        // All of the other half, if a boundary came in between.
        let same = span.half == self.half.load(Ordering::Relaxed);
        let count = if same { span.records.end } else { 0 };
        let Some(range) = self.reserve(1) else { return };
        self.write(range.start, Record::Note { count });
        // If nothing was added since, there is still nothing to be synced.
        let orders = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.quiet.compare_exchange(range.start, range.end, orders.0, orders.1);
    }

    /// Whether anything was added since the last sync, logged or not.
    pub(super) fn has_unsynced(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) != self.quiet.load(Ordering::Relaxed)
    }

    /// Records since the last sync.
    #[cfg(test)]
    pub(super) fn unsynced(&self) -> u64 {
        self.records().saturating_sub(self.quiet.load(Ordering::Relaxed))
    }

    /// Whether any change was logged in this epoch, or went unlogged.
    pub(super) fn has_records(&self) -> bool {
        self.next.0.load(Ordering::Relaxed) > self.capacity.min(1)
    }

    /// True once in an epoch: when its half is so full that a checkpoint should begin, and the file is
    /// synced at all. A file that is only added to is not worth a checkpoint.
    #[inline]
    pub(super) fn asks_for_checkpoint(&self) -> bool {
        self.is_due() && !self.asked.swap(true, Ordering::Relaxed)
    }

    /// Whether a checkpoint should be written in the background. Not of counters: a boundary would make
    /// changes durable whose mark is not known.
    pub(super) fn is_due(&self) -> bool {
        self.cells == CellKind::Plain
            && self.capacity > 0
            && self.is_nearly_full()
            && self.syncs.iter().any(|syncs| syncs.load(Ordering::Relaxed) > 0)
    }

    /// The changes of counters that are in the journal and not in the data, in front of `end`; from
    /// now on they count as applied.
    pub(super) fn drain_unapplied(&self, end: u64) -> Span {
        let from = self.applied.swap(end, Ordering::Relaxed);
        Span { half: self.half.load(Ordering::Relaxed), records: from..end }
    }

    /// Makes the first records of both halves durable although nothing in them changed: after a sync
    /// that failed the cache may hold what the disk does not.
    pub(super) fn rewrite(&self, slot_epoch: u64, extents: [u64; 2]) -> io::Result<()> {
        let Some(map) = &self.map else { return Ok(()) };
        for (at, extent) in extents.into_iter().enumerate().filter(|(_, extent)| *extent > 0) {
            let half = (slot_epoch.wrapping_add(at as u64)) % 2;
            let words = self.word(half, 0)..self.word(half, extent.min(self.layout.records()));
            for word in words.clone().step_by(PAGE_WORDS) {
                map.store(word, map.words().load(word));
            }
            map.flush(words)?;
        }
        Ok(())
    }
}

//! How an add finds the record that is its own.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Journal;
use crate::format::{FULL_RECORD, Record};
use crate::storage::{Map, Medium, sabotage};
use crate::sync::{AtomicU64, thread_number};

/// Records that a thread has reserved. It alone uses them, and only while it holds a stripe; others
/// do while they hold all stripes. So the stripes order the accesses, and relaxed ones do.
#[derive(Default)]
pub(super) struct Reservation {
    /// The first record that it has not filled.
    next: AtomicU64,
    /// The record behind the last one.
    end: AtomicU64,
    /// How many are reserved the next time, at most.
    size: AtomicU64,
}

/// Most records that a thread reserves at a time, where a half has this many.
pub(super) fn most_reserved(capacity: u64) -> u64 {
    (capacity / LEAST_RESERVATIONS).clamp(FIRST_RESERVATION, LARGEST_RESERVATION)
}

impl Reservation {
    fn rest(&self) -> Range<u64> {
        self.next.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    fn set_rest(&self, rest: Range<u64>) {
        self.next.store(rest.start, Ordering::Relaxed);
        self.end.store(rest.end, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.set_rest(0..0);
        self.size.store(FIRST_RESERVATION, Ordering::Relaxed);
    }
}

/// Records that a thread reserves at first: a cache line of them. It gets twice as many each time,
/// so that there are never more unfilled ones than filled ones but for these.
const FIRST_RESERVATION: u64 = 4;

/// Records that a thread reserves at most: a page of them.
const LARGEST_RESERVATION: u64 = 256;

/// Reservations that a journal has room for: or else some threads would find it full while others
/// have plenty.
const LEAST_RESERVATIONS: u64 = 64;

/// Records of a half up to which threads reserve none: the memory would be more than the journal.
pub(super) const SMALL: u64 = if cfg!(any(test, shuttle)) { 0 } else { 4096 };

/// How many words ahead of a record memory is asked for: four cache lines. Or else an add would wait
/// for the line that the one before it began.
const AHEAD: usize = 32;

impl<M: Medium> Journal<M> {
    /// Writes the record of a key if there is room for one. Called with a stripe held.
    #[inline(always)]
    pub(in crate::writer) fn log(&self, hash: u64, mask: u32) {
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
        let index = match thread_number().and_then(|thread| self.reservations.get(thread)) {
            Some(reservation) => self.reserved(&reservation.0),
            None => self.reserved_alone(),
        };
        match (index, &self.map) {
            (Some(index), Some(map)) => {
                let words = self.epoch().encode_key(index as u32, hash, mask);
                let at = self.word(self.half.load(Ordering::Relaxed), index);
                map.words().prefetch(at + AHEAD);
                map.store(at, words[0]);
                map.store(at + 1, words[1]);
            }
            _ => self.stop_logging(),
        }
    }

    /// A record that this thread has reserved.
    #[inline]
    fn reserved(&self, reservation: &Reservation) -> Option<u64> {
        let mut rest = reservation.rest();
        if rest.is_empty() {
            rest = self.reserve_more(reservation)?;
        }
        reservation.next.store(rest.start + 1, Ordering::Relaxed);
        Some(rest.start)
    }

    /// A record for a thread that has no reservation.
    fn reserved_alone(&self) -> Option<u64> {
        let range = self.reserve(1);
        if self.asks_for_checkpoint() {
            self.ring();
        }
        range.map(|range| range.start)
    }

    /// Reserves further records for a thread.
    #[cold]
    fn reserve_more(&self, reservation: &Reservation) -> Option<Range<u64>> {
        let size = reservation.size.load(Ordering::Relaxed);
        let more = self.reserve(size);
        if self.asks_for_checkpoint() {
            self.ring();
        }
        let more = more?;
        reservation.set_rest(more.clone());
        reservation.size.store((2 * size).min(self.most), Ordering::Relaxed);
        Some(more)
    }

    /// Writes a change of counters if there is room for it. Called with a stripe held.
    pub(in crate::writer) fn log_change(&self, record: Record) -> bool {
        match self.reserve(1) {
            Some(range) => {
                self.write(range.start, record);
                true
            }
            None => false,
        }
    }

    /// Reserves records up to the next multiple of `size`; `None` when there are no more. The last
    /// one is kept for the sync record that ends the epoch.
    pub(super) fn reserve(&self, size: u64) -> Option<Range<u64>> {
        let limit = self.capacity.saturating_sub(1);
        let mut next = self.next.0.load(Ordering::Acquire);
        while next < limit {
            let end = (next + size - next % size).min(limit);
            let orders = (Ordering::Relaxed, Ordering::Acquire);
            match self.next.0.compare_exchange_weak(next, end, orders.0, orders.1) {
                Ok(_) => return Some(next..end),
                Err(now) => next = now,
            }
        }
        None
    }

    /// Lets the rest of this epoch go unlogged, and says so before a cell is set without a record:
    /// the next sync is a checkpoint. Several threads may do this at a time: they all write the same.
    pub(in crate::writer) fn stop_logging(&self) {
        if let Some(index) = self.full_record {
            self.write(index, FULL_RECORD);
        }
        self.next.0.store(self.capacity + 1, Ordering::Release);
    }

    /// Leaves nothing unfilled in front of the next record, unless adds went unlogged anyway. Called
    /// with all stripes held.
    pub(in crate::writer) fn fill_gaps(&self, medium: &M) {
        let mut end = self.next.0.load(Ordering::Relaxed);
        if end > self.capacity || sabotage!(medium, NoGapsFilled) {
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
            // The thread filled at least one record of what it reserved.
            if let Some(last) = self.read(rest.start - 1) {
                rest.for_each(|index| self.write(index, last));
            }
        }
        self.next.0.store(end, Ordering::Relaxed);
        self.reservations.iter().for_each(|reservation| reservation.0.clear());
    }
}

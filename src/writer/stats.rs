//! What a writer did, in counters that a program can export as metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Engine, lock};
use crate::file::Blocks;
use crate::format::Slot;
use crate::storage::{Map, Medium};

/// What a writer did since the file was opened; told by [`Filter::stats`](crate::Filter::stats).
///
/// Adds and look-ups are not counted one by one: they take nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FilterStats {
    /// Calls of `sync` that had something to make durable.
    pub syncs: u64,
    /// Flushes of the journal that served them: fewer than syncs, where several shared one.
    pub flushes: u64,
    /// The longest that a call of `sync` took.
    pub longest_sync: Duration,
    /// Checkpoints.
    pub checkpoints: u64,
    /// What the last checkpoint took, from its boundary to its slot.
    pub last_checkpoint: Duration,
    /// The longest that one took.
    pub longest_checkpoint: Duration,
    /// Syncs that had to wait for a checkpoint, because the journal had no room for what was added.
    pub stalls: u64,
    /// Records in the journal since the last boundary.
    pub journal_records: u64,
    /// Records that the journal has room for between two boundaries; 0 without a journal.
    pub journal_capacity: u64,
    /// Changes since the last boundary went unlogged, because the journal is full or there is none:
    /// the next sync is a checkpoint.
    pub journal_full: bool,
    /// Pages whose checksums were replaced without proof that they are what was written: see
    /// [`Filter::pages_unverified`](crate::Filter::pages_unverified).
    pub pages_unverified: u64,
    /// Recoveries that the file went through, ever.
    pub recoveries: u64,
    /// Blocks of the newest segment that hold more keys than chance brings together in any, as keys do
    /// that were chosen to fill them, or a repair: of its 1,024 pages that were the fullest at the last
    /// checkpoint. While a checkpoint is being written this is what was found before.
    /// [`report::block_loads`](crate::report::block_loads) looks at all.
    pub crowded_blocks: u64,
}

/// Pages that are looked at for crowded blocks: few enough that a program may ask every second.
const MOST_PAGES: u64 = 1 << 10;

/// The counters behind [`FilterStats`].
#[derive(Default)]
pub(super) struct Counters {
    syncs: AtomicU64,
    flushes: AtomicU64,
    longest_sync: AtomicU64,
    checkpoints: AtomicU64,
    last_checkpoint: AtomicU64,
    longest_checkpoint: AtomicU64,
    stalls: AtomicU64,
    crowded: AtomicU64,
    recoveries: AtomicU64,
}

/// Durations are kept in nanoseconds: 584 years of them.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Counters {
    /// Those of a writer that opens a file with this slot.
    pub(super) fn of(slot: &Slot) -> Self {
        Counters { recoveries: AtomicU64::new(slot.recoveries), ..Counters::default() }
    }

    /// The file has gone through this many recoveries.
    pub(super) fn recovered(&self, times: u64) {
        self.recoveries.store(times, Ordering::Relaxed);
    }

    pub(super) fn synced(&self, took: Duration) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.longest_sync.fetch_max(nanoseconds(took), Ordering::Relaxed);
    }

    pub(super) fn flushed(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stalled(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn checkpointed(&self, took: Duration) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.last_checkpoint.store(nanoseconds(took), Ordering::Relaxed);
        self.longest_checkpoint.fetch_max(nanoseconds(took), Ordering::Relaxed);
    }
}

impl<M: Medium> Engine<M> {
    /// Waits for no lock: a program asks for this every second, perhaps in a child that was forked.
    pub(crate) fn stats(&self) -> FilterStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let duration = |counter: &AtomicU64| Duration::from_nanos(count(counter));
        let Counters { syncs, flushes, checkpoints, stalls, .. } = &self.counters;
        let crowded_blocks = self.crowded_blocks();
        FilterStats {
            syncs: count(syncs),
            flushes: count(flushes),
            longest_sync: duration(&self.counters.longest_sync),
            checkpoints: count(checkpoints),
            last_checkpoint: duration(&self.counters.last_checkpoint),
            longest_checkpoint: duration(&self.counters.longest_checkpoint),
            stalls: count(stalls),
            journal_records: self.journal.records(),
            journal_capacity: self.journal.capacity(),
            journal_full: self.journal.is_unlogged(),
            pages_unverified: self.pages_unverified(),
            recoveries: count(&self.counters.recoveries),
            crowded_blocks,
        }
    }

    /// Looks for crowded blocks, unless a checkpoint is under way.
    fn crowded_blocks(&self) -> u64 {
        let counter = &self.counters.crowded;
        // In a forked child a lock may be held by a thread that is not there.
        let tables = if self.medium.is_forked() { None } else { self.tables.try_lock().ok() };
        let Some(tables) = tables else { return counter.load(Ordering::Relaxed) };
        let segment = self.segments.newest();
        let blocks = Blocks::new(segment.data.geometry());
        let Some(table) = tables.tables.last() else { return 0 };
        let fullest = blocks.fullest(|page| table[page as usize].ones, MOST_PAGES);
        drop(tables);
        let newest = lock(&self.committed).slot.newest().adds;
        let adds = newest.saturating_add(self.stripes.adds());
        let found = blocks.find_crowded(segment.data.words(), fullest, adds);
        if let Ok(found) = found {
            counter.store(found.crowded, Ordering::Relaxed);
        }
        counter.load(Ordering::Relaxed)
    }
}

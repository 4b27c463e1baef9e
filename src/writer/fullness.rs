//! When a filter that refuses is full: by its adds, and by what its cells say (F-156).

use std::sync::atomic::{AtomicI64, Ordering};

use super::Engine;
use crate::error::{Error, Result};
use crate::format::{Change, PageEntry, Shape, Slot, Superblock, WhenFull};
use crate::plan::Occupancy;
use crate::storage::Medium;

/// Cells that may still be turned on before they stand for more keys than the filter is for. Keys that
/// are chosen so that no two of them share a cell fill it with fewer adds than others.
pub(super) struct CellsLeft(Option<AtomicI64>);

impl CellsLeft {
    /// Counted where new keys are refused, and nowhere else.
    pub(super) fn new(superblock: &Superblock, slot: &Slot, table: &[PageEntry]) -> Self {
        let refuses = superblock.when_full == WhenFull::Refuse
            && (superblock.shape() == Shape::Fixed || superblock.rotate_after == 0);
        CellsLeft(refuses.then(|| AtomicI64::new(room(superblock, slot, table))))
    }

    /// Counts again, from a page table that came to count.
    pub(super) fn reset(&self, superblock: &Superblock, slot: &Slot, table: &[PageEntry]) {
        if let CellsLeft(Some(left)) = self {
            left.store(room(superblock, slot, table), Ordering::Relaxed);
        }
    }

    /// Whether there are none.
    pub(super) fn are_none(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) <= 0)
    }

    /// Cells were turned on.
    pub(super) fn use_up(&self, cells: u32) {
        if let CellsLeft(Some(left)) = self {
            left.fetch_sub(cells.into(), Ordering::Relaxed);
        }
    }

    /// Counters became zero.
    pub(super) fn give_back(&self, cells: u32) {
        if let CellsLeft(Some(left)) = self {
            left.fetch_add(cells.into(), Ordering::Relaxed);
        }
    }
}

fn room(superblock: &Superblock, slot: &Slot, table: &[PageEntry]) -> i64 {
    let geometry = &slot.newest().geometry;
    let mut occupancy = Occupancy::new(geometry);
    for (page, entry) in (0..).zip(table) {
        occupancy.add(geometry, page, entry.ones);
    }
    // Pages that are full tell nothing of the keys if a repair filled them; keys may have as well.
    occupancy.room(geometry, superblock.capacity, slot.repaired_pages > 0)
}

impl<M: Medium> Engine<M> {
    /// Counts the counters that a change makes or ends.
    pub(super) fn count_cells(&self, change: &Change, rows: u32) {
        let counters = |old: u8| (0..rows).filter(|&row| change.old(row) == old).count() as u32;
        if change.removal {
            self.cells_left.give_back(counters(1));
        } else {
            self.cells_left.use_up(counters(0));
        }
    }

    /// Says why a filter takes no more keys.
    pub(super) fn refuse_full<T>(&self) -> Result<T> {
        let reason = if self.cells_left.are_none() {
            "its cells stand for as many keys as it was made for, though fewer were counted"
        } else {
            "it was made to refuse more"
        };
        Err(Error::Full { capacity: self.superblock.capacity, reason })
    }
}

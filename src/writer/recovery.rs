//! After a crash: whether pages and journal agree, and making the file whole (F-92 to F-96).

use std::sync::atomic::Ordering;

use super::proof::Proof;
use super::{Engine, lock, restore_slots};
use crate::error::{Error, Result};
use crate::file::{JournalContents, PAGE_WORDS};
use crate::format::{Slot, State};
use crate::geometry::CellKind;
use crate::storage::{Map, Medium, sabotage};

/// What recovery found and did when a crashed file was opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Recovery {
    /// Records found in the journal: an add each, in a counting file an add or a removal.
    pub records_replayed: u64,
    /// Records lost from the end of the journal, none of which had been synced.
    pub records_missing: u64,
    /// Pages that were exactly what checksums and journal said.
    pub pages_exact: u64,
    /// Pages that hold more than checksums and journal explain, so that they could not be verified:
    /// after a power cut, or because the journal was full. They were kept; most likely what they hold
    /// are keys that were added and not synced, but damage cannot be told from that.
    pub pages_unverifiable: u64,
    /// The mark that was last synced.
    pub mark: u64,
}

impl<M: Medium> Engine<M> {
    /// Recovers a file that was not closed, and checkpoints before anything new is written.
    pub(super) fn recover(&mut self) -> Result<()> {
        let slot = lock(&self.committed).slot.clone();
        let journal = JournalContents::read(&self.medium, &self.superblock, &slot)?;
        if !sabotage!(self.medium, IgnoreHoles) {
            journal.refuse_hole()?;
        }
        sabotage!(self.medium, ReplayBeforeCheck => self.replay(&slot, &journal));
        let (mut exact, mut unverifiable) = (0, Vec::new());
        for index in 0..slot.segments.len() {
            let check = self.check_listed(&slot, index, Some(&journal))?;
            check.refuse_damage(index)?;
            exact += check.exact;
            unverifiable.push(check.unverifiable);
        }
        self.medium.fill_holes().map_err(Error::io("allocate space for the file"))?;
        if !sabotage!(self.medium, LeaveCachedSlots) {
            restore_slots(&self.medium)?;
        }
        // Counters may only change in the data once the disk holds what explains that (F-98).
        if self.superblock.cells == CellKind::Counting
            && !sabotage!(self.medium, TrustCachedJournal)
        {
            self.journal
                .rewrite(slot.epoch, journal.extents)
                .and_then(|()| self.rewrite_spill(&slot, journal.extents[0]))
                .map_err(Error::io("sync the journal"))?;
        }
        self.replay(&slot, &journal);
        for (segment, pages) in self.listed(&slot).into_iter().zip(&unverifiable) {
            pages.iter().for_each(|&page| segment.prepare(page as usize * PAGE_WORDS));
        }
        if !sabotage!(self.medium, NoRewriteInRecovery) {
            self.rewrite_dirty_pages(&slot);
        }
        let report = Recovery {
            records_replayed: journal.keys,
            records_missing: journal.missing,
            pages_exact: exact,
            pages_unverifiable: unverifiable.iter().map(|pages| pages.len() as u64).sum(),
            mark: journal.mark.unwrap_or(slot.mark),
        };
        let mut committed = lock(&self.committed);
        let kept = &mut committed.slot;
        kept.recoveries = kept.recoveries.saturating_add(1);
        self.counters.recovered(kept.recoveries);
        kept.unverifiable_pages = kept.unverifiable_pages.saturating_add(report.pages_unverifiable);
        self.count_replayed(kept, &journal);
        drop(committed);
        self.mark.store(report.mark, Ordering::Release);
        self.stripes.unlock();
        let stripes = self.all_stripes()?;
        if sabotage!(self.medium, NoCheckpointAfterRecovery) {
            self.begin_epoch(&slot, slot.epoch, 0);
        } else {
            self.commit(&mut lock(&self.tables), &stripes, State::Open, Proof::Done)?;
        }
        drop(stripes);
        for segment in self.segments.all() {
            segment.forget_changes()?;
        }
        let (tables, committed) = (lock(&self.tables), lock(&self.committed));
        if let Some(table) = tables.tables.last() {
            self.cells_left.reset(&self.superblock, &committed.slot, table);
        }
        drop((tables, committed));
        self.recovery = Some(report);
        Ok(())
    }

    /// Counts the adds of a replayed journal.
    pub(super) fn count_replayed(&self, slot: &mut Slot, journal: &JournalContents) {
        let counting = self.superblock.cells == CellKind::Counting;
        if !(counting && sabotage!(self.medium, ForgetReplayedKeys)) {
            journal.count_adds(slot);
        }
        self.filled.store(slot.newest().adds, Ordering::Relaxed);
    }

    /// Writes what the journal says into the data.
    pub(super) fn replay(&self, slot: &Slot, journal: &JournalContents) {
        for (segment, changes) in self.listed(slot).into_iter().zip(&journal.changes) {
            changes.apply(&segment.data, |word| segment.prepare(word));
        }
    }

    /// Stores a word of every changed page again: after a failed write-back the page cache may
    /// hold what the disk does not, and a page that is clean in the cache would never be written.
    pub(super) fn rewrite_dirty_pages(&self, slot: &Slot) {
        for segment in self.listed(slot) {
            for page in segment.pages.dirty() {
                let start = page * PAGE_WORDS;
                // One word dirties its page; the write-back is of whole pages.
                segment.data.store(start, segment.data.words().load(start));
            }
        }
    }
}

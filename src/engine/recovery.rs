//! After a crash: whether pages and journal agree, and making the file whole (F-92 to F-96).

use std::sync::atomic::Ordering;

use super::scan::Checked;
use super::{Engine, Journalled, PAGE_WORDS, Segment, check_pages, lock};
use crate::error::{Error, Result};
use crate::format::{Slot, State};
use crate::report::Recovery;
use crate::storage::{Map, Medium, Sabotage};

impl<M: Medium> Engine<M> {
    /// Recovers a file that was not closed, and checkpoints before anything new is written.
    pub(super) fn recover(&mut self) -> Result<()> {
        let slot = lock(&self.committed).slot.clone();
        let journalled = Journalled::read(&self.medium, &self.superblock, &slot)?;
        if !self.medium.sabotaged(Sabotage::IgnoreHoles) {
            journalled.refuse_hole()?;
        }
        if self.medium.sabotaged(Sabotage::ReplayBeforeCheck) {
            self.replay(&journalled);
        }
        let (mut exact, mut unsynced) = (0, 0);
        let mut unexplained = Vec::new();
        for (index, segment) in self.listed().into_iter().enumerate() {
            let committed = lock(&self.committed);
            let check = check_pages(Checked {
                words: segment.data.words(),
                geometry: segment.data.geometry(),
                cell_bits: self.superblock.cells.bits(),
                table: &committed.tables[index],
                before: &journalled.changes[index].before,
            });
            check.refuse_damage(index)?;
            // Only the newest segment is ever added to.
            if index + 1 < slot.segments.len() {
                check.refuse_unless_exact(index)?;
            }
            exact += check.exact;
            unsynced += check.unexplained.len() as u64;
            unexplained.push(check.unexplained);
        }
        // Counters may only change in the data once the disk holds what explains that (F-98).
        if self.overlay.is_some() && !self.medium.sabotaged(Sabotage::TrustCachedJournal) {
            self.journal.rewrite(journalled.extent).map_err(Error::io("sync the journal"))?;
        }
        self.replay(&journalled);
        for (segment, pages) in self.listed().into_iter().zip(unexplained) {
            pages.iter().for_each(|&page| segment.touch(page as usize * PAGE_WORDS));
        }
        if !self.medium.sabotaged(Sabotage::NoRewriteInRecovery) {
            self.rewrite_dirty_pages();
        }
        let report = Recovery {
            records_replayed: journalled.keys,
            records_missing: journalled.missing,
            pages_exact: exact,
            pages_unsynced: unsynced,
            mark: journalled.mark.unwrap_or(slot.mark),
        };
        let mut committed = lock(&self.committed);
        committed.slot.mark = report.mark;
        committed.slot.recoveries = committed.slot.recoveries.saturating_add(1);
        committed.slot.unsynced_pages =
            committed.slot.unsynced_pages.saturating_add(report.pages_unsynced);
        self.count_replayed(&mut committed.slot, journalled.keys);
        if self.medium.sabotaged(Sabotage::NoCheckpointAfterRecovery) {
            self.journal.restart(&self.medium, &self.superblock, &committed.slot);
        } else {
            let stripes = self.all_stripes()?;
            self.commit(&mut committed, &stripes, State::Open)?;
        }
        drop(committed);
        self.recovery = Some(report);
        Ok(())
    }

    /// Counts the adds of a replayed journal. Changes of counters tell nothing of keys.
    pub(super) fn count_replayed(&self, slot: &mut Slot, records: u64) {
        if self.overlay.is_none()
            && let Some(newest) = slot.segments.last_mut()
        {
            newest.adds = newest.adds.saturating_add(records);
            self.filled.store(newest.adds, Ordering::Relaxed);
        }
    }

    /// Writes what the journal says into the data.
    pub(super) fn replay(&self, journalled: &Journalled) {
        for (segment, changes) in self.listed().into_iter().zip(&journalled.changes) {
            changes.apply(&segment.data, |word| segment.touch(word));
        }
    }

    /// Stores a word of every changed page again: after a failed write-back the page cache may
    /// hold what the disk does not, and a page that is clean in the cache would never be written.
    pub(super) fn rewrite_dirty_pages(&self) {
        for Segment { data, dirty, .. } in self.listed() {
            for page in dirty.pages() {
                let start = page * PAGE_WORDS;
                // One word dirties its page; the write-back is of whole pages.
                data.store(start, data.words().load(start));
            }
        }
    }
}

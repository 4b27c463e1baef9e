//! After a crash: whether pages and journal agree, and making the file whole (F-92 to F-96).

use std::sync::atomic::Ordering;

use super::proof::Proof;
use super::{Engine, Segment, lock};
use crate::error::{Error, Result};
use crate::file::{JournalContents, PAGE_WORDS};
use crate::format::{Slot, State};
use crate::storage::{Map, Medium, Sabotage};

/// What recovery found and did when a crashed file was opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Recovery {
    /// Records found in the journal: an add each, or in a counting file the change of one counter.
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
        if !self.medium.sabotaged(Sabotage::IgnoreHoles) {
            journal.refuse_hole()?;
        }
        if self.medium.sabotaged(Sabotage::ReplayBeforeCheck) {
            self.replay(&journal);
        }
        let (mut exact, mut unverifiable) = (0, Vec::new());
        for index in 0..slot.segments.len() {
            let check = self.check_listed(&lock(&self.committed), index, Some(&journal))?;
            check.refuse_damage(index)?;
            exact += check.exact;
            unverifiable.push(check.unverifiable);
        }
        self.fill_holes()?;
        // Counters may only change in the data once the disk holds what explains that (F-98).
        if self.overlay.is_some() && !self.medium.sabotaged(Sabotage::TrustCachedJournal) {
            let rewritten = self.journal.rewrite(journal.extent);
            rewritten
                .and_then(|()| self.rewrite_beyond(&slot, journal.extent))
                .map_err(Error::io("sync the journal"))?;
        }
        self.replay(&journal);
        for (segment, pages) in self.listed().into_iter().zip(&unverifiable) {
            pages.iter().for_each(|&page| segment.mark_dirty(page as usize * PAGE_WORDS));
        }
        if !self.medium.sabotaged(Sabotage::NoRewriteInRecovery) {
            self.rewrite_dirty_pages();
        }
        let report = Recovery {
            records_replayed: journal.keys,
            records_missing: journal.missing,
            pages_exact: exact,
            pages_unverifiable: unverifiable.iter().map(|pages| pages.len() as u64).sum(),
            mark: journal.mark.unwrap_or(slot.mark),
        };
        let mut committed = lock(&self.committed);
        committed.slot.mark = report.mark;
        committed.slot.recoveries = committed.slot.recoveries.saturating_add(1);
        committed.slot.unverifiable_pages =
            committed.slot.unverifiable_pages.saturating_add(report.pages_unverifiable);
        self.count_replayed(&mut committed.slot, journal.keys);
        if self.medium.sabotaged(Sabotage::NoCheckpointAfterRecovery) {
            self.journal.restart(&self.medium, &self.superblock, &committed.slot);
        } else {
            let stripes = self.all_stripes()?;
            self.commit(&mut committed, &stripes, State::Open, Proof::Done)?;
        }
        drop(committed);
        self.recovery = Some(report);
        Ok(())
    }

    /// Counts the adds of a replayed journal. Changes of counters tell nothing of keys.
    pub(super) fn count_replayed(&self, slot: &mut Slot, records: u64) {
        if self.overlay.is_none() {
            let newest = slot.newest_mut();
            newest.count(records);
            self.filled.store(newest.adds, Ordering::Relaxed);
        }
    }

    /// Writes what the journal says into the data.
    pub(super) fn replay(&self, journal: &JournalContents) {
        for (segment, changes) in self.listed().into_iter().zip(&journal.changes) {
            changes.apply(&segment.data, |word| segment.mark_dirty(word));
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

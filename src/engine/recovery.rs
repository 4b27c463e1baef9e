//! After a crash: what the journal says, what the pages hold, and whether the two agree
//! (F-90 to F-97).

use super::journal::epoch_of;
use super::scan::WordBits;
use super::{Engine, PAGE_WORDS, check_pages, lock};
use crate::error::{Error, Result};
use crate::format::{
    Epoch, JOURNAL_OFFSET, RECORD_BYTES, RECORD_WORDS, Record, Slot, State, Superblock,
};
use crate::geometry::Geometry;
use crate::kernel;
use crate::report::Recovery;
use crate::storage::{Map, Medium, Sabotage};

/// What the journal of a crashed file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Journalled {
    /// Key records of the epoch.
    pub(crate) keys: u64,
    /// The mark of the last sync record with nothing missing in front of it, if there is one.
    pub(crate) mark: Option<u64>,
    /// The bits of all key records, sorted by word.
    pub(crate) news: Vec<WordBits>,
    /// The first record that had been synced and cannot be read.
    pub(crate) hole: Option<u64>,
    /// Records missing among those that had not been synced.
    pub(crate) missing: u64,
    /// Records from the first to the last that can be read.
    pub(crate) extent: u64,
    /// No record is free, so that adds may have gone unlogged.
    pub(crate) full: bool,
}

impl Journalled {
    /// Reads the journal's records of the epoch of `slot` (F-91).
    pub(crate) fn read<M: Medium>(
        medium: &M,
        superblock: &Superblock,
        slot: &Slot,
    ) -> Result<Self> {
        Self::read_mending(medium, superblock, slot, |_, _, _| None)
    }

    /// As [`read`](Self::read); words that are no record are shown to `mend`, which may know the
    /// record they were.
    pub(super) fn read_mending<M: Medium>(
        medium: &M,
        superblock: &Superblock,
        slot: &Slot,
        mut mend: impl FnMut(Epoch, u32, [u64; RECORD_WORDS]) -> Option<Record>,
    ) -> Result<Self> {
        const CHUNK: usize = 1 << 20;
        let epoch = epoch_of(medium, slot);
        let geometry = &slot.segments[slot.segments.len() - 1].geometry;
        let length = superblock.journal_bytes as usize;
        let mut groups = Groups::default();
        let mut news = Vec::new();
        let mut bytes = vec![0; CHUNK.min(length)];
        let mut index = 0;
        let mut full = true;
        for start in (0..length).step_by(CHUNK) {
            let chunk = &mut bytes[..CHUNK.min(length - start)];
            medium
                .read_at(chunk, JOURNAL_OFFSET + start as u64)
                .map_err(Error::io("read the journal"))?;
            for record in chunk.chunks_exact(RECORD_BYTES) {
                let words = [0, 8].map(|at| {
                    u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default())
                });
                let record = epoch.decode(index, words).or_else(|| mend(epoch, index, words));
                groups.take(u64::from(index), record);
                full = record.is_some();
                if let Some(Record::Key { hash, mask }) = record {
                    add_bits(geometry, hash, mask, &mut news);
                }
                index += 1;
            }
        }
        merge(&mut news);
        Ok(Journalled {
            keys: groups.keys,
            mark: groups.mark,
            news,
            hole: groups.hole,
            missing: groups.missing_before_last,
            extent: groups.extent,
            full,
        })
    }

    /// The error that a hole in the synced part of the journal is.
    pub(crate) fn refuse_hole(&self) -> Result<()> {
        match self.hole {
            Some(index) => Err(Error::Journal { index }),
            None => Ok(()),
        }
    }
}

/// The order of records: which of the missing ones must have been durable (F-91).
#[derive(Default)]
struct Groups {
    keys: u64,
    mark: Option<u64>,
    /// First missing record, and how many are missing, so far.
    first_missing: Option<u64>,
    missing: u64,
    /// How many were missing when the last valid record was met: what is missing behind it is free
    /// space.
    missing_before_last: u64,
    /// Records up to and with the last valid one.
    extent: u64,
    /// First missing record in front of the last sync record.
    open_hole: Option<u64>,
    /// First missing record in a group whose sync had returned.
    hole: Option<u64>,
}

impl Groups {
    fn take(&mut self, index: u64, record: Option<Record>) {
        let Some(record) = record else {
            self.first_missing.get_or_insert(index);
            self.missing += 1;
            return;
        };
        // A record stands behind the last sync record, so that sync had returned: nothing in
        // front of it may be missing.
        if self.hole.is_none() {
            self.hole = self.open_hole;
        }
        self.missing_before_last = self.missing;
        self.extent = index + 1;
        match record {
            Record::Key { .. } => self.keys += 1,
            Record::Sync { mark } => {
                // A mark without all of its keys would promise what was lost (F-96).
                if self.first_missing.is_none() {
                    self.mark = Some(mark);
                }
                self.open_hole = self.first_missing;
            }
        }
    }
}

/// The bits that a record says were turned on.
fn add_bits(geometry: &Geometry, hash: u64, mask: u32, news: &mut Vec<WordBits>) {
    news.extend(
        (0..geometry.row_count())
            .filter(|row| mask >> row & 1 == 1)
            .map(|row| kernel::place(geometry, hash, row)),
    );
}

/// Sorts bits by word and joins those of one word.
fn merge(news: &mut Vec<WordBits>) {
    news.sort_unstable_by_key(|&(word, _)| word);
    news.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 |= later.1;
        }
        same
    });
}

/// Sets the journal's bits in a private copy of the data: how a crashed file is read (F-97).
pub(crate) fn replay_private<Q: Map>(data: &Q, journalled: &Journalled) {
    for &(word, bits) in &journalled.news {
        // Reading first leaves pages that hold the bits already shared with the file.
        if data.words().load(word) & bits != bits {
            data.fetch_or(word, bits);
        }
    }
}

impl<M: Medium> Engine<M> {
    /// Recovers a file that was not closed, and checkpoints before anything new is written.
    pub(super) fn recover(&mut self) -> Result<()> {
        let slot = lock(&self.committed).slot.clone();
        let journalled = Journalled::read(&self.medium, &self.superblock, &slot)?;
        if !self.medium.sabotaged(Sabotage::IgnoreHoles) {
            journalled.refuse_hole()?;
        }
        let data = &self.segment.data;
        if self.medium.sabotaged(Sabotage::ReplayBeforeCheck) {
            self.set_bits(&journalled.news);
        }
        let check = {
            let committed = lock(&self.committed);
            check_pages(data.geometry(), data.words(), &committed.tables[0], &journalled.news)
        };
        check.refuse_damage()?;
        self.set_bits(&journalled.news);
        for &page in &check.unexplained {
            self.segment.touch(page as usize * PAGE_WORDS);
        }
        if !self.medium.sabotaged(Sabotage::NoRewriteInRecovery) {
            self.rewrite_dirty_pages();
        }
        let report = Recovery {
            records_replayed: journalled.keys,
            records_missing: journalled.missing,
            pages_exact: check.exact,
            pages_unsynced: check.unexplained.len() as u64,
            mark: journalled.mark.unwrap_or(slot.mark),
        };
        let mut committed = lock(&self.committed);
        committed.slot.mark = report.mark;
        committed.slot.recoveries = committed.slot.recoveries.saturating_add(1);
        committed.slot.unsynced_pages =
            committed.slot.unsynced_pages.saturating_add(report.pages_unsynced);
        committed.slot.segments[0].adds = self.adds_before + journalled.keys;
        self.adds_before = committed.slot.segments[0].adds;
        if self.medium.sabotaged(Sabotage::NoCheckpointAfterRecovery) {
            self.journal.restart(&self.medium, &committed.slot);
        } else {
            let stripes = self.all_stripes()?;
            let dirty = self.dirty_pages();
            self.commit(&mut committed, &stripes, State::Open, &dirty)?;
        }
        drop(committed);
        self.recovery = Some(report);
        Ok(())
    }

    /// Sets bits and marks their pages as changed.
    pub(super) fn set_bits(&self, news: &[WordBits]) {
        for &(word, bits) in news {
            self.segment.data.fetch_or(word, bits);
            self.segment.touch(word);
        }
    }

    /// Stores every word of the changed pages again: after a failed write-back the page cache may
    /// hold what the disk does not, and a page that is clean in the cache would never be written.
    pub(super) fn rewrite_dirty_pages(&self) {
        let data = &self.segment.data;
        for page in self.dirty_pages() {
            let start = page * PAGE_WORDS;
            // One word dirties its page; the write-back is of whole pages.
            data.store(start, data.words().load(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Option<Record> = Some(Record::Key { hash: 1, mask: 1 });

    fn sync(mark: u64) -> Option<Record> {
        Some(Record::Sync { mark })
    }

    fn groups(records: &[Option<Record>]) -> Groups {
        let mut groups = Groups::default();
        for (index, &record) in records.iter().enumerate() {
            groups.take(index as u64, record);
        }
        groups
    }

    #[test]
    fn f96_a_mark_counts_only_with_all_of_its_keys() {
        assert_eq!(groups(&[KEY, sync(5), KEY, KEY, sync(6), None]).mark, Some(6));
        let torn = groups(&[KEY, sync(5), KEY, None, sync(6), None]);
        assert_eq!((torn.mark, torn.hole), (Some(5), None));
    }

    #[test]
    fn f91_a_hole_in_front_of_a_sync_that_returned_is_damage() {
        assert_eq!(groups(&[KEY, None, sync(5), KEY]).hole, Some(1));
        assert_eq!(groups(&[KEY, None, sync(5)]).hole, None);
        assert_eq!(groups(&[KEY, sync(5), None, KEY]).hole, None);
    }
}

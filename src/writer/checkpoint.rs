//! The checkpoint: data, page table, then the slot that makes them count (F-85 to F-88).

use super::proof::Proof;
use super::{Committed, Engine, Segment, lock};
use crate::error::{Error, Result};
use crate::file::PAGE_WORDS;
use crate::format::{
    BootId, PageEntry, SLOT_OFFSETS, SLOTS_TO_CLOSE, SegmentRecord, Slot, State, encode_table,
};
use crate::geometry::PAGE_BYTES;
use crate::storage::{Map, Medium, Sabotage};
use crate::sync::AllStripes;

impl<M: Medium> Engine<M> {
    /// A checkpoint, with every stripe held: adds wait, so that data, table and epoch agree.
    /// Changes of counters are in the data already.
    pub(super) fn checkpoint_held(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        state: State,
    ) -> Result<()> {
        let nothing_to_do = self.segments.all().all(|segment| segment.dirty.is_empty())
            && !self.journal.has_records()
            && !committed.changed
            && committed.slot.state == state;
        if nothing_to_do {
            return Ok(());
        }
        if state == State::Open {
            committed.slot.expect_numbers(1 + SLOTS_TO_CLOSE)?;
        }
        self.commit(committed, stripes, state, Proof::Needed)
    }

    /// Closes the file in good order, with every stripe held (F-88): first an epoch without records,
    /// then a journal without any, then the slot that says so.
    pub(super) fn close_held(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        proof: Proof,
    ) -> Result<()> {
        let dirty = self.segments.all().any(|segment| !segment.dirty.is_empty());
        if self.journal.is_clear() {
            let done = !dirty && !committed.changed && committed.slot.state == State::Clean;
            return if done {
                Ok(())
            } else {
                self.commit(committed, stripes, State::Clean, proof)
            };
        }
        let early = self.medium.sabotaged(Sabotage::ClearJournalEarly);
        if early {
            self.clear_journal()?;
        }
        if dirty || self.journal.has_records() {
            self.commit(committed, stripes, State::Open, proof)?;
        }
        if !early {
            self.clear_journal()?;
        }
        self.commit(committed, stripes, State::Clean, Proof::Done)
    }

    /// Leaves no record in the journal, durably: they tell the hashes of keys, and so perhaps the
    /// keys, to programs that are handed the file.
    fn clear_journal(&self) -> Result<()> {
        let clear = || {
            self.journal.clear(&self.medium)?;
            let skipped = self.medium.sabotaged(Sabotage::NoSyncOfClearJournal);
            if skipped { Ok(()) } else { self.medium.sync() }
        };
        clear().map_err(|error| self.poison_with(Error::Io { action: "clear the journal", error }))
    }

    /// A checkpoint, whether or not there is anything to write.
    pub(super) fn commit(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        state: State,
        proof: Proof,
    ) -> Result<()> {
        committed.slot.expect_numbers(1)?;
        committed.slot.newest_mut().count(stripes.adds());
        self.write_tables(committed, proof)
            .and_then(|()| self.write_slot(&mut committed.slot, state))
            .map_err(|error| self.poison_with(error))?;
        self.segments.all().for_each(|segment| segment.dirty.clear());
        lock(&self.effects).clear();
        stripes.reset();
        committed.changed = false;
        self.journal.restart(&self.medium, &self.superblock, &committed.slot);
        self.drop_extension(&committed.slot).map_err(|error| self.poison_with(error))?;
        Ok(())
    }

    /// Writes a slot that changes the state alone; no add has happened yet.
    pub(super) fn commit_state(&self, state: State) -> Result<()> {
        let mut committed = lock(&self.committed);
        self.write_slot(&mut committed.slot, state).map_err(|error| self.poison_with(error))?;
        self.journal.restart(&self.medium, &self.superblock, &committed.slot);
        Ok(())
    }

    /// Brings the inactive page tables of changed segments up to date and makes them durable with
    /// the data (F-86). Nothing is written before all pages are known to be what they should be.
    fn write_tables(&self, committed: &mut Committed, proof: Proof) -> Result<()> {
        let mut any = false;
        let listed = self.listed_of(&committed.slot);
        let fresh: Vec<_> = listed.iter().map(|segment| self.fresh_entries(segment)).collect();
        if proof == Proof::Needed {
            self.prove_pages(committed, &fresh)?;
        }
        let records = committed.slot.segments.iter_mut().zip(&mut committed.tables);
        for ((segment, fresh), (record, table)) in listed.into_iter().zip(fresh).zip(records) {
            if !fresh.is_empty() {
                self.write_table(segment, record, table, &fresh)?;
                any = true;
            }
        }
        let skipped = self.medium.sabotaged(Sabotage::TableAndSlotInOneSync)
            || self.medium.sabotaged(Sabotage::NoDataSync);
        if any && !skipped {
            self.medium.sync().map_err(Error::io("sync data and page table"))?;
        }
        Ok(())
    }

    /// The dirty pages of a segment, with the entries they get.
    fn fresh_entries(&self, segment: &Segment<M>) -> Vec<(usize, PageEntry)> {
        let words = segment.data.words();
        let mut bytes = [0; PAGE_BYTES as usize];
        let mut entry = |page| {
            words.copy(page * PAGE_WORDS, &mut bytes);
            (page, PageEntry::of(&bytes, self.superblock.cells))
        };
        segment.dirty.pages().into_iter().map(&mut entry).collect()
    }

    fn write_table(
        &self,
        segment: &Segment<M>,
        record: &mut SegmentRecord,
        table: &mut [PageEntry],
        fresh: &[(usize, PageEntry)],
    ) -> Result<()> {
        let words = segment.data.words();
        if !self.medium.sabotaged(Sabotage::ForgetDirtyPages) {
            fresh.iter().for_each(|&(page, entry)| table[page] = entry);
        }
        let (bytes, crc, ones) = encode_table(table);
        if !self.medium.sabotaged(Sabotage::TableInPlace) {
            record.table = 1 - record.table;
        }
        record.table_crc = crc;
        record.ones = ones;
        self.medium
            .write_at(&bytes, record.extent().table(record.table))
            .map_err(Error::io("write the page table"))?;
        // Linux keeps mapped and written pages in one cache, so that `sync` covers both.
        if !cfg!(target_os = "linux") {
            segment.data.flush(0..words.len()).map_err(Error::io("sync the data"))?;
        }
        Ok(())
    }

    /// Writes the other slot: once it is durable, it counts (F-87).
    pub(super) fn write_slot(&self, slot: &mut Slot, state: State) -> Result<()> {
        slot.sequence += 1;
        slot.epoch += 1;
        slot.salt = slot.next_salt;
        slot.next_salt = self.medium.salt();
        slot.state = state;
        slot.boot_id = match state {
            State::Clean => BootId::default(),
            State::Open => self.medium.boot_id(),
        };
        let bytes = slot.encode()?;
        self.medium
            .write_at(&bytes, SLOT_OFFSETS[slot.place()])
            .map_err(Error::io("write the state slot"))?;
        if self.medium.sabotaged(Sabotage::NoDataSync) {
            return Ok(());
        }
        self.medium.sync().map_err(Error::io("sync the state slot"))
    }
}

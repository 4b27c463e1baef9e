//! The checkpoint: data, page table, then the slot that makes them count (F-85 to F-88).

use super::{Committed, Engine, PAGE_WORDS, Segment};
use crate::error::{Error, Result};
use crate::format::{
    ENTRY_BYTES, PageEntry, SLOT_OFFSETS, SegmentRecord, Slot, State, table_bytes,
};
use crate::geometry::PAGE_BYTES;
use crate::storage::{Map, Medium, Sabotage};
use crate::sync::AllStripes;

/// A page table as bytes, its CRC and the sum of its ones.
pub(crate) fn encode_table(table: &[PageEntry]) -> (Vec<u8>, u32, u64) {
    let mut bytes = vec![0; table_bytes(table.len() as u64) as usize];
    let mut ones = 0;
    for (entry, bytes) in table.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
        bytes.copy_from_slice(&entry.encode());
        ones += u64::from(entry.ones);
    }
    let crc = crc32fast::hash(&bytes);
    (bytes, crc, ones)
}

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
        match nothing_to_do {
            true => Ok(()),
            false => self.commit(committed, stripes, state),
        }
    }

    /// A checkpoint, whether or not there is anything to write.
    pub(super) fn commit(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        state: State,
    ) -> Result<()> {
        let adds: u64 = stripes.adds();
        if let Some(newest) = committed.slot.segments.last_mut() {
            newest.adds = newest.adds.saturating_add(adds);
        }
        self.write_tables(committed)
            .and_then(|()| self.write_slot(&mut committed.slot, state))
            .map_err(|error| self.poison_with(error))?;
        self.segments.all().for_each(|segment| segment.dirty.clear());
        stripes.reset();
        committed.changed = false;
        self.journal.restart(&self.medium, &self.superblock, &committed.slot);
        Ok(())
    }

    /// Writes a slot that changes the state alone; no add has happened yet.
    pub(super) fn commit_state(&self, state: State) -> Result<()> {
        let mut committed = super::lock(&self.committed);
        self.write_slot(&mut committed.slot, state).map_err(|error| self.poison_with(error))?;
        self.journal.restart(&self.medium, &self.superblock, &committed.slot);
        Ok(())
    }

    /// Brings the inactive page tables of changed segments up to date and makes them durable with
    /// the data (F-86).
    fn write_tables(&self, committed: &mut Committed) -> Result<()> {
        let mut any = false;
        let listed = self.listed_of(&committed.slot);
        let records = committed.slot.segments.iter_mut().zip(&mut committed.tables);
        for (segment, (record, table)) in listed.into_iter().zip(records) {
            let dirty = segment.dirty.pages();
            if !dirty.is_empty() {
                self.write_table(segment, record, table, &dirty)?;
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

    fn write_table(
        &self,
        segment: &Segment<M>,
        record: &mut SegmentRecord,
        table: &mut [PageEntry],
        dirty: &[usize],
    ) -> Result<()> {
        let words = segment.data.words();
        let cell_bits = self.superblock.cells.bits();
        if !self.medium.sabotaged(Sabotage::ForgetDirtyPages) {
            let mut bytes = [0; PAGE_BYTES as usize];
            for &page in dirty {
                words.copy(page * PAGE_WORDS, &mut bytes);
                table[page] = PageEntry::of(&bytes, cell_bits);
            }
        }
        let (bytes, crc, ones) = encode_table(table);
        if !self.medium.sabotaged(Sabotage::TableInPlace) {
            record.table = 1 - record.table;
        }
        record.table_crc = crc;
        record.ones = ones;
        self.medium
            .write_at(&bytes, record.extent(cell_bits).table(record.table))
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

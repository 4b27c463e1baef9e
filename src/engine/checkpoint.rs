//! The checkpoint: data, page table, then the slot that makes them count (F-85 to F-88).

use std::sync::atomic::Ordering;

use super::{AllStripes, Committed, Engine, PAGE_WORDS};
use crate::error::{Error, Result};
use crate::format::{ENTRY_BYTES, PageEntry, SLOT_OFFSETS, Slot, State, table_bytes};
use crate::geometry::PAGE_BYTES;
use crate::storage::{Map, Medium, Sabotage};

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
    pub(super) fn checkpoint_held(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        state: State,
    ) -> Result<()> {
        let dirty = self.dirty_pages();
        let nothing_to_do = dirty.is_empty()
            && !self.journal.has_records()
            && !committed.changed
            && committed.slot.state == state;
        if nothing_to_do {
            return Ok(());
        }
        self.commit(committed, stripes, state, &dirty)
    }

    /// A checkpoint, whether or not there is anything to write.
    pub(super) fn commit(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        state: State,
        dirty: &[usize],
    ) -> Result<()> {
        let adds = self.adds_before + stripes.iter().map(|stripe| stripe.adds).sum::<u64>();
        committed.slot.segments[0].adds = adds;
        self.write_table(committed, dirty)
            .and_then(|()| self.write_slot(&mut committed.slot, state))
            .map_err(|error| self.poison_with(error))?;
        for word in &self.segment.dirty {
            word.store(0, Ordering::Relaxed);
        }
        committed.changed = false;
        self.journal.restart(&self.medium, &committed.slot);
        Ok(())
    }

    /// Writes a slot that changes the state alone; no add has happened yet.
    pub(super) fn commit_state(&self, state: State) -> Result<()> {
        let mut committed = super::lock(&self.committed);
        self.write_slot(&mut committed.slot, state).map_err(|error| self.poison_with(error))?;
        self.journal.restart(&self.medium, &committed.slot);
        Ok(())
    }

    fn poison_with(&self, error: Error) -> Error {
        self.poisoned.store(true, Ordering::Relaxed);
        error
    }

    /// Pages changed since the last checkpoint.
    pub(super) fn dirty_pages(&self) -> Vec<usize> {
        let mut pages = Vec::new();
        for (at, word) in self.segment.dirty.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                pages.push(at * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        pages
    }

    /// Brings the inactive page table up to date and makes it durable with the data (F-86).
    fn write_table(&self, committed: &mut Committed, dirty: &[usize]) -> Result<()> {
        if dirty.is_empty() {
            return Ok(());
        }
        let (record, table) = (&mut committed.slot.segments[0], &mut committed.tables[0]);
        let words = self.segment.data.words();
        if !self.medium.sabotaged(Sabotage::ForgetDirtyPages) {
            let mut bytes = [0; PAGE_BYTES as usize];
            for &page in dirty {
                words.copy(page * PAGE_WORDS, &mut bytes);
                table[page] = PageEntry::of(&bytes);
            }
        }
        let (bytes, crc, ones) = encode_table(table);
        if !self.medium.sabotaged(Sabotage::TableInPlace) {
            record.table = 1 - record.table;
        }
        record.table_crc = crc;
        record.ones = ones;
        let extent = record.extent(self.superblock.cells.bits());
        self.medium
            .write_at(&bytes, extent.table(record.table))
            .map_err(Error::io("write the page table"))?;
        // Linux keeps mapped and written pages in one cache, so that `sync` covers both.
        if !cfg!(target_os = "linux") {
            self.segment.data.flush(0..words.len()).map_err(Error::io("sync the data"))?;
        }
        let skipped = self.medium.sabotaged(Sabotage::TableAndSlotInOneSync)
            || self.medium.sabotaged(Sabotage::NoDataSync);
        if !skipped {
            self.medium.sync().map_err(Error::io("sync data and page table"))?;
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

//! The checkpoint: data, page table, then the slot that makes them count (F-86 to F-88).
//!
//! In two steps. The *boundary*, with no add under way: the old half of the journal ends with a sync
//! record, the epoch goes on in the other half, and the pages that changed are frozen. Then, with adds
//! going on, the rest: the entries of the frozen pages as they were at the boundary, the table, a
//! sync, the slot, a sync.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::commit::Lead;
use super::proof::Proof;
use super::{Committed, Engine, Segment, Tables, lock};
use crate::error::{Error, Result};
use crate::file::epochs_of;
use crate::format::{
    BootId, COUNTING_MASK_BITS, Epoch, PageEntry, SLOT_OFFSETS, SLOTS_TO_CLOSE, SegmentRecord,
    Slot, State, encode_table,
};
use crate::geometry::CellKind;
use crate::storage::{Map, Medium, sabotage};
use crate::sync::{AllStripes, MutexGuard};

/// What a boundary froze.
pub(super) struct Frozen {
    /// The epoch that it ended, its half, and how many records it has there.
    pub(super) epoch: Epoch,
    pub(super) half: u64,
    pub(super) records: u64,
    /// Changes of the epoch went unlogged.
    pub(super) unlogged: bool,
    /// The gate stays closed until the checkpoint is done.
    pub(super) held: bool,
    adds: u64,
    mark: u64,
}

impl<M: Medium> Engine<M> {
    /// Brings page tables and slot up to date with the data, durably.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.refuse_if_dead()?;
        if self.stripes.are_locked() && !lock(&self.committed).changed {
            return Ok(());
        }
        self.ensure_begun()?;
        loop {
            // One that is under way is finished first: what came after its boundary is left for this
            // one. Syncs go on in the meantime.
            self.finish_frozen(&mut lock(&self.tables))?;
            let lead = self.lead()?;
            if let Ok(tables) = self.tables.try_lock()
                && tables.frozen.is_none()
            {
                return self.checkpoint_with(lead, tables);
            }
        }
    }

    fn checkpoint_with(
        &self,
        mut lead: Lead<'_>,
        mut tables: MutexGuard<'_, Tables>,
    ) -> Result<()> {
        if self.has_nothing_to_write() && !lead.has_mark() {
            return Ok(());
        }
        self.boundary_round(&mut lead, &mut tables)?;
        // Syncs go on.
        drop(lead);
        self.finish_frozen(&mut tables)
    }

    /// A round that draws a boundary. No checkpoint is under way.
    pub(super) fn boundary_round(&self, lead: &mut Lead<'_>, tables: &mut Tables) -> Result<()> {
        let mark = lead.begin_round().unwrap_or(self.mark());
        if !self.draw_boundary(tables, mark)? {
            self.counters.stalled();
            self.finish_frozen(tables)?;
        }
        self.mark.store(mark, Ordering::Release);
        lead.finish_round();
        Ok(())
    }

    /// A checkpoint as a part of a round that this thread leads.
    pub(super) fn checkpoint_led(&self, mark: u64) -> Result<()> {
        let mut tables = lock(&self.tables);
        self.finish_frozen(&mut tables)?;
        self.draw_boundary(&mut tables, mark)?;
        self.finish_frozen(&mut tables)
    }

    /// Whether nothing changed since the last slot.
    fn has_nothing_to_write(&self) -> bool {
        !self.journal.has_records()
            && !self.has_unsynced()
            && !lock(&self.committed).changed
            && self.segments.all().all(|segment| segment.pages.is_clean())
    }

    /// Draws a boundary and makes the records in front of it durable, as a part of a round. False where
    /// the records do not tell all: then the round lasts until the slot is durable.
    fn draw_boundary(&self, tables: &mut Tables, mark: u64) -> Result<bool> {
        lock(&self.committed).slot.expect_numbers(1 + SLOTS_TO_CLOSE)?;
        if self.superblock.cells == CellKind::Counting {
            return self.freeze_counters(tables, mark).map(|()| true);
        }
        let stripes = self.all_stripes()?;
        self.journal.fill_gaps(&self.medium);
        let span = self.journal.has_room(1).then(|| self.journal.end_group(mark));
        self.freeze(tables, &stripes, mark);
        drop(stripes);
        let Some(span) = span else { return Ok(false) };
        if !sabotage!(self.medium, NoFlushAtBoundary) {
            self.flush_group(&span)?;
        }
        Ok(true)
    }

    /// Draws a boundary behind a sync record that has just been written, unless a checkpoint is under
    /// way.
    pub(super) fn try_freeze(
        &self,
        stripes: &AllStripes<'_>,
        mark: u64,
    ) -> Option<MutexGuard<'_, Tables>> {
        let mut tables = self.tables.try_lock().ok().filter(|tables| tables.frozen.is_none())?;
        lock(&self.committed).slot.expect_numbers(1 + SLOTS_TO_CLOSE).ok()?;
        self.freeze(&mut tables, stripes, mark);
        Some(tables)
    }

    /// The boundary, with no add under way: what changed is frozen, and the epoch goes on in the other
    /// half of the journal.
    fn freeze(&self, tables: &mut Tables, stripes: &AllStripes<'_>, mark: u64) {
        self.switch_half(tables, stripes, mark);
        self.segments.all().for_each(Segment::freeze);
    }

    /// The part of a boundary that concerns the journal.
    pub(super) fn switch_half(&self, tables: &mut Tables, stripes: &AllStripes<'_>, mark: u64) {
        let mut committed = lock(&self.committed);
        let slot = &committed.slot;
        let frozen = Frozen {
            epoch: self.journal.epoch(),
            half: slot.epoch % 2,
            records: self.journal.records(),
            unlogged: self.journal.is_unlogged(),
            held: false,
            adds: stripes.drain_adds(),
            mark,
        };
        // What went unlogged may have left gaps: then nothing is said of the records.
        let link = if frozen.unlogged { 0 } else { frozen.records };
        self.begin_epoch(slot, slot.epoch + 1, link);
        committed.frozen_adds = frozen.adds;
        tables.frozen = Some(frozen);
    }

    /// Starts an epoch in its half of the journal.
    pub(super) fn begin_epoch(&self, slot: &Slot, number: u64, link: u64) {
        let [current, next] = epochs_of(&self.medium, &self.superblock, slot);
        let epoch = if number == slot.epoch { current } else { next };
        let mask_bits = match self.superblock.cells {
            CellKind::Plain => slot.newest().geometry.row_count(),
            CellKind::Counting => COUNTING_MASK_BITS,
            CellKind::Sealed => unreachable!("no writer opens a sealed file"),
        };
        let early = number != slot.epoch && sabotage!(self.medium, ReuseHalfEarly);
        let half = if early { slot.epoch } else { number };
        self.journal.begin(epoch, mask_bits, half, link);
    }

    /// Leaves what remains of a checkpoint to the background; where there is none, to the next call of
    /// [`checkpoint`](Self::checkpoint), or to the first that finds the other half full as well.
    pub(super) fn finish_later(&self, tables: MutexGuard<'_, Tables>) {
        drop(tables);
        self.journal.ring();
    }

    /// What remains of a checkpoint after its boundary, with adds going on.
    pub(super) fn finish_frozen(&self, tables: &mut Tables) -> Result<()> {
        let Some(frozen) = tables.frozen.take() else { return Ok(()) };
        self.refuse_if_dead()?;
        let start = Instant::now();
        let mut slot = lock(&self.committed).slot.clone();
        slot.newest_mut().count(frozen.adds);
        self.count_frozen_keys(&mut slot);
        slot.mark = frozen.mark;
        let begun = !sabotage!(self.medium, SaltOfOtherEpoch);
        self.write_tables(tables, &mut slot, &frozen, Proof::Needed)
            .and_then(|()| self.write_slot(&mut slot, State::Open, begun))
            .map_err(|error| self.poison_with(error))?;
        self.keep(&slot);
        self.drop_spill(&slot).map_err(|error| self.poison_with(error))?;
        self.counters.checkpointed(start.elapsed());
        Ok(())
    }

    /// Takes a slot that was written for the committed one; metadata and the numbers of doubtful pages
    /// may have been set since.
    pub(super) fn keep(&self, slot: &Slot) {
        let mut committed = lock(&self.committed);
        let metadata = std::mem::take(&mut committed.slot.metadata);
        let doubts = committed.slot.doubts();
        let changed = metadata != slot.metadata || doubts != slot.doubts();
        let mut slot = Slot { metadata, ..slot.clone() };
        slot.set_doubts(doubts);
        *committed = Committed { slot, changed, frozen_adds: 0 };
        self.segments.all().for_each(|segment| segment.keys.forget_frozen());
    }

    /// A checkpoint with the gate closed, from its boundary to its slot, whether or not there is
    /// anything to write.
    pub(super) fn commit(
        &self,
        tables: &mut Tables,
        stripes: &AllStripes<'_>,
        state: State,
        proof: Proof,
    ) -> Result<()> {
        self.commit_as(tables, stripes, state, proof, |_, _| {})
    }

    /// As [`commit`](Self::commit), with a slot and tables that `change` may add to.
    pub(super) fn commit_as(
        &self,
        tables: &mut Tables,
        stripes: &AllStripes<'_>,
        state: State,
        proof: Proof,
        change: impl FnOnce(&mut Slot, &mut Vec<Vec<PageEntry>>),
    ) -> Result<()> {
        debug_assert!(tables.frozen.is_none(), "the checkpoint before has to be finished");
        let mut slot = lock(&self.committed).slot.clone();
        slot.expect_numbers(1)?;
        slot.mark = self.mark();
        slot.newest_mut().count(stripes.drain_adds());
        self.segments.all().for_each(Segment::freeze);
        self.count_frozen_keys(&mut slot);
        let frozen = Frozen {
            epoch: self.journal.epoch(),
            half: slot.epoch % 2,
            records: self.journal.records(),
            unlogged: self.journal.is_unlogged(),
            held: true,
            adds: 0,
            mark: slot.mark,
        };
        self.write_tables(tables, &mut slot, &frozen, proof)
            .and_then(|()| {
                change(&mut slot, &mut tables.tables);
                self.write_slot(&mut slot, state, false)
            })
            .map_err(|error| self.poison_with(error))?;
        self.keep(&slot);
        if state == State::Open {
            self.begin_epoch(&slot, slot.epoch, 0);
        }
        self.drop_spill(&slot).map_err(|error| self.poison_with(error))
    }

    /// Closes the file in good order (F-88): first an epoch without records, then a journal without
    /// any, then the slot that says so. A file that was not changed is left as it is.
    pub(crate) fn close(&self) -> Result<()> {
        self.refuse_if_dead()?;
        if self.stripes.are_locked() && !lock(&self.committed).changed {
            self.stripes.shut();
            return Ok(());
        }
        self.ensure_begun()?;
        let mut lead = self.lead()?;
        if self.superblock.cells == CellKind::Counting {
            let mark = lead.begin_round();
            self.sync_round(mark)?;
            lead.finish_round();
        }
        let mut tables = lock(&self.tables);
        self.finish_frozen(&mut tables)?;
        let stripes = self.all_stripes()?;
        self.close_held(&mut tables, &stripes, Proof::Needed)?;
        self.stripes.shut();
        Ok(())
    }

    pub(super) fn close_held(
        &self,
        tables: &mut Tables,
        stripes: &AllStripes<'_>,
        proof: Proof,
    ) -> Result<()> {
        let dirty = self.segments.all().any(|segment| !segment.pages.is_clean());
        let early = sabotage!(self.medium, ClearJournalEarly);
        if early {
            self.clear_journal()?;
        }
        if dirty || self.journal.has_records() {
            self.commit(tables, stripes, State::Open, proof)?;
        }
        if !early && !self.journal.is_clear() {
            self.clear_journal()?;
        }
        self.commit(tables, stripes, State::Clean, Proof::Done)
    }

    /// Leaves no record in the journal, durably: they tell the hashes of keys, and so perhaps the
    /// keys, to programs that are handed the file.
    fn clear_journal(&self) -> Result<()> {
        let clear = || {
            self.journal.clear(&self.medium)?;
            let skipped = sabotage!(self.medium, NoSyncOfClearJournal);
            if skipped { Ok(()) } else { self.medium.sync() }
        };
        clear().map_err(|error| self.poison_with(Error::Io { action: "clear the journal", error }))
    }

    /// Brings the inactive page tables of changed segments up to date and makes them durable with
    /// the data (F-86). Nothing is written before all pages are known to be what they should be.
    fn write_tables(
        &self,
        tables: &mut Tables,
        slot: &mut Slot,
        frozen: &Frozen,
        proof: Proof,
    ) -> Result<()> {
        let listed = self.listed(slot);
        for segment in &listed {
            segment.pages.compute_all(segment.data.words());
            sabotage!(self.medium, LateEntries => segment.pages.recompute(segment.data.words()));
        }
        let fresh: Vec<_> =
            listed.iter().map(|segment| segment.pages.frozen()).collect::<Result<_>>()?;
        if proof == Proof::Needed {
            self.prove_pages(&tables.tables, slot, frozen, &fresh)?;
        }
        let mut any = false;
        let records = slot.segments.iter_mut().zip(&mut tables.tables);
        for (fresh, (record, table)) in fresh.into_iter().zip(records) {
            if !fresh.is_empty() {
                self.write_table(record, table, &fresh)?;
                any = true;
            }
        }
        sabotage!(self.medium, TableAndSlotInOneSync => return Ok(()));
        sabotage!(self.medium, NoDataSync => return Ok(()));
        if any {
            self.medium.sync().map_err(Error::io("sync data and page table"))?;
        }
        Ok(())
    }

    fn write_table(
        &self,
        record: &mut SegmentRecord,
        table: &mut [PageEntry],
        fresh: &[(usize, PageEntry)],
    ) -> Result<()> {
        if !sabotage!(self.medium, ForgetDirtyPages) {
            fresh.iter().for_each(|&(page, entry)| table[page] = entry);
        }
        let (bytes, crc, ones) = encode_table(table)?;
        if !sabotage!(self.medium, TableInPlace) {
            record.table = 1 - record.table;
        }
        record.table_crc = crc;
        record.ones = ones;
        sabotage!(self.medium, SharedTablePage => {
            let both = bytes.repeat(2);
            return self.medium.write_at(&both, record.offset).map_err(Error::io("write the page table"));
        });
        self.medium
            .write_at(&bytes, record.extent().table(record.table))
            .map_err(Error::io("write the page table"))
    }

    /// Writes the other slot: once it is durable, it counts (F-87). `begun` if a boundary has begun
    /// its epoch.
    pub(super) fn write_slot(&self, slot: &mut Slot, state: State, begun: bool) -> Result<()> {
        slot.advance(begun, self.medium.salt());
        slot.state = state;
        slot.boot_id = match state {
            State::Clean => BootId::default(),
            State::Open => self.medium.boot_id(),
        };
        let bytes = slot.encode()?;
        self.medium
            .write_at(&bytes, SLOT_OFFSETS[slot.place()])
            .map_err(Error::io("write the state slot"))?;
        sabotage!(self.medium, NoDataSync => return Ok(()));
        self.medium.sync().map_err(Error::io("sync the state slot"))
    }
}

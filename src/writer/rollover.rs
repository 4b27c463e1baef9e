//! New segments: a growing filter appends one, a rotating one puts one in the place of its oldest.

use std::sync::atomic::Ordering;

use super::{Committed, Engine, Overlay, Segment, lock};
use crate::error::{Error, Result};
use crate::file::{Active, SegmentSet};
use crate::format::{
    Extent, MAX_SEGMENTS, PageEntry, SLOTS_TO_CLOSE, SegmentRecord, Shape, Slot, State, Superblock,
    encode_table, region_count, region_extent, region_places,
};
use crate::geometry::{Geometry, Layout, PAGE_BYTES};
use crate::plan::{self, Plan};
use crate::storage::{Medium, Sabotage};
use crate::sync::AllStripes;

impl<M: Medium> Engine<M> {
    /// Maps every region of the file that may be used.
    pub(super) fn map_segments(
        medium: &M,
        superblock: &Superblock,
        slot: &Slot,
    ) -> Result<SegmentSet<Segment<M>>> {
        let places = region_places(superblock, slot);
        let map = |&(geometry, offset): &(Geometry, u64)| {
            Segment::map(medium, geometry, Extent::of(&geometry, offset))
        };
        let set = SegmentSet::new(map(&places[0])?, region_count(superblock), Active::of(slot));
        for (region, place) in places.iter().enumerate().skip(1) {
            set.add(region, map(place)?);
        }
        Ok(set)
    }

    /// Adds that the newest segment of a growing filter takes.
    pub(super) fn growth_limit(&self) -> u64 {
        let newest = self.segments.active().newest as u32;
        plan::growth_capacity(self.superblock.capacity, newest)
    }

    /// Appends a segment if the newest one is full.
    pub(super) fn grow(&self) -> Result<()> {
        self.refuse_if_dead()?;
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        // Changes of counters that were not synced stay so: the mark that goes with them is not known.
        let _overlay = self.overlay.as_ref().map(Overlay::lock);
        if self.filled.load(Ordering::Relaxed) < self.growth_limit() {
            return Ok(());
        }
        let index = committed.slot.segments.len();
        if index == MAX_SEGMENTS {
            return Err(Error::Full {
                capacity: self.superblock.capacity,
                reason: "a file has at most 32 segments; build one for more keys",
            });
        }
        // One that ends the epoch, and the one that lists the new segment.
        committed.slot.expect_numbers(2 + SLOTS_TO_CLOSE)?;
        let plan = next_plan(&self.superblock, &committed.slot)?;
        let geometry = plan.geometry().with_cells(self.superblock.cells);
        let extent = Extent::of(&geometry, committed.slot.file_bytes);
        self.checkpoint_held(&mut committed, &stripes, State::Open)?;
        // Nothing of the file counts yet that this changes: without space it stays as it is.
        self.medium
            .extend(extent.offset, extent.end())
            .map_err(Error::io("extend the file for a further segment"))?;
        let record = SegmentRecord {
            geometry,
            capacity: plan.capacity().unwrap_or(0),
            adds: 0,
            offset: extent.offset,
            region: index,
            table: 0,
            table_crc: 0,
            ones: 0,
        };
        let segment = Segment::map(&self.medium, geometry, extent)?;
        self.segments.add(index, segment);
        let slot = committed.slot.clone();
        let slot = Slot { file_bytes: extent.end(), ..slot };
        let active = Active { newest: index, count: index + 1 };
        self.roll_over(&mut committed, &stripes, slot, record, active)
    }

    /// Drops the oldest generation, if there are as many as there may be, and starts a new one.
    pub(crate) fn rotate(&self) -> Result<()> {
        self.refuse_if_dead()?;
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        self.rotate_held(&mut committed, stripes, true)
    }

    /// Rotates if the newest generation has as many adds as it takes.
    pub(super) fn rotate_when_full(&self) -> Result<()> {
        self.refuse_if_dead()?;
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        if self.filled.load(Ordering::Relaxed) < self.superblock.rotate_after {
            return Ok(());
        }
        self.rotate_held(&mut committed, stripes, false)
    }

    /// Rotates, after a sync if `sync` says so: a rotation that comes by itself must not make changes
    /// of counters durable whose mark is not known.
    fn rotate_held(
        &self,
        committed: &mut Committed,
        stripes: AllStripes<'_>,
        sync: bool,
    ) -> Result<()> {
        let Shape::Rotating(generations) = self.superblock.shape() else {
            let reason = "only a filter made with generations rotates";
            return Err(Error::parameter("rotate", "done on this file", reason));
        };
        committed.slot.expect_numbers(2 + SLOTS_TO_CLOSE)?;
        let mut overlay = self.overlay.as_ref().map(Overlay::lock);
        if let Some(overlay) = overlay.as_mut().filter(|_| sync) {
            self.log_counters(committed, overlay)?;
        }
        self.checkpoint_held(committed, &stripes, State::Open)?;
        let mut slot = committed.slot.clone();
        let spare = (slot.newest().region + 1) % (generations as usize + 1);
        let extent = region_extent(&self.superblock, &slot, spare);
        if !self.medium.sabotaged(Sabotage::SpareNotZeroed) {
            self.write_zeros(extent.data(), extent.end())
                .map_err(|error| self.poison_with(error))?;
        }
        let record = SegmentRecord {
            adds: 0,
            offset: extent.offset,
            region: spare,
            table: 0,
            ones: 0,
            ..slot.newest().clone()
        };
        if slot.segments.len() as u64 == generations {
            let dropped = slot.segments.remove(0);
            if let Some(overlay) = &mut overlay {
                self.forget_region(overlay, dropped.region);
            }
            committed.tables.remove(0);
        }
        let active = Active { newest: spare, count: slot.segments.len() + 1 };
        self.roll_over(committed, &stripes, slot, record, active)
    }

    /// Makes an empty segment durable, then the slot that lists it as the newest.
    fn roll_over(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        mut slot: Slot,
        mut record: SegmentRecord,
        active: Active,
    ) -> Result<()> {
        let extent = record.extent();
        let table = vec![PageEntry::empty(); extent.pages as usize];
        let (bytes, crc, _) = encode_table(&table);
        record.table_crc = crc;
        let in_one_sync = self.medium.sabotaged(Sabotage::SegmentAndSlotInOneSync);
        let prepare = || {
            self.medium.write_at(&bytes, extent.table(0))?;
            if in_one_sync { Ok(()) } else { self.medium.sync() }
        };
        prepare().map_err(|error| {
            self.poison_with(Error::Io { action: "prepare a further segment", error })
        })?;
        slot.segments.push(record);
        committed.tables.push(table);
        committed.slot = slot;
        self.write_slot(&mut committed.slot, State::Open)
            .map_err(|error| self.poison_with(error))?;
        self.segments.activate(active);
        self.filled.store(0, Ordering::Relaxed);
        stripes.reset();
        self.journal.restart(&self.medium, &self.superblock, &committed.slot);
        Ok(())
    }

    /// Writes zeros over a range of the file.
    fn write_zeros(&self, start: u64, end: u64) -> Result<()> {
        const CHUNK: u64 = 256 * PAGE_BYTES;
        let zeros = vec![0; CHUNK.min(end - start) as usize];
        for at in (start..end).step_by(CHUNK as usize) {
            let length = CHUNK.min(end - at) as usize;
            self.medium
                .write_at(&zeros[..length], at)
                .map_err(Error::io("clear the oldest generation"))?;
        }
        Ok(())
    }
}

/// What the next segment of a growing file shall be.
fn next_plan(superblock: &Superblock, slot: &Slot) -> Result<Plan> {
    let index = slot.segments.len() as u32;
    let layout = match slot.newest().geometry.layout() {
        // Lines and pages are chosen by the rate, which gets tighter.
        Layout::Line | Layout::Page => None,
        layout => Some(layout),
    };
    plan::growth_plan(superblock.capacity, superblock.target_rate, index, layout)
}

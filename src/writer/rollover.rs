//! New segments: a growing filter appends one, a rotating one puts one in the place of its oldest
//! (F-131, F-132).
//!
//! The next segment is allocated and zeroed ahead of need, in the background. Then a rollover is a
//! checkpoint of what little changed since the last, and a slot: adds wait for that.

use std::sync::atomic::Ordering;

use super::proof::Proof;
use super::{Engine, Segment, Tables, lock};
use crate::error::{Error, Result, memory};
use crate::file::write_empty_table;
use crate::format::{
    Extent, MAX_SEGMENTS, PageEntry, Record, SLOTS_TO_CLOSE, SegmentRecord, Shape, Slot, State,
    Superblock, WhenFull, region_count, region_extent, region_places,
};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};
use crate::kernel::{Active, SegmentSet};
use crate::plan::{self, Plan};
use crate::storage::{Medium, sabotage};
use crate::sync::MutexGuard;

/// A segment that is empty, durably, and that no slot lists.
pub(super) struct Prepared {
    record: SegmentRecord,
    table: Vec<PageEntry>,
    /// Length of the file with it.
    file_bytes: u64,
}

/// Dirty pages from which on a checkpoint with adds going on comes before the one that they wait for.
const MANY_PAGES: usize = 16;

/// Adds of a segment below which preparing the next one ahead is not worth it.
const FEW_ADDS: u64 = 4096;

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

    /// Whether the newest segment has as many adds as it takes before another becomes the newest.
    fn is_full(&self) -> bool {
        let limit = self.limit.as_ref().map(|limit| limit.load(Ordering::Relaxed));
        limit.is_some_and(|limit| self.filled.load(Ordering::Relaxed) >= limit)
    }

    /// Whether the next segment should be prepared.
    pub(super) fn wants_segment(&self) -> bool {
        lock(&self.prepared).is_none() && self.nears_rollover()
    }

    /// Whether the newest segment will soon be full, and is large enough to prepare the next one ahead.
    pub(super) fn nears_rollover(&self) -> bool {
        let rolls = match self.superblock.shape() {
            Shape::Growing => self.segments.active().count < MAX_SEGMENTS,
            Shape::Rotating(_) => self.superblock.rotate_after > 0,
            Shape::Fixed => false,
        };
        let Some(limit) = self.limit.as_ref().map(|limit| limit.load(Ordering::Relaxed)) else {
            return false;
        };
        rolls && limit >= FEW_ADDS && self.filled.load(Ordering::Relaxed) >= limit - limit / 4
    }

    /// Prepares the next segment ahead of need, if it is called for. In a counting file a checkpoint
    /// keeps out of the way: the changes of a large sync stand where the segment will be, until the
    /// slot behind them is written. Others go on with theirs.
    pub(super) fn prepare_segment_ahead(&self, called_for: impl Fn(&Self) -> bool) -> Result<()> {
        let counting = self.superblock.cells == CellKind::Counting;
        let _tables = counting.then(|| lock(&self.tables));
        if self.has_spilled() { Ok(()) } else { self.prepare_segment(called_for) }
    }

    /// Allocates and zeroes the next segment, if it is called for and not there. In a counting file
    /// with the tables locked.
    pub(super) fn prepare_segment(&self, called_for: impl Fn(&Self) -> bool) -> Result<()> {
        let mut prepared = lock(&self.prepared);
        // Another segment may have come to be the newest while this waited.
        if prepared.is_none() && called_for(self) {
            let slot = lock(&self.committed).slot.clone();
            *prepared = Some(self.prepare_after(&slot)?);
        }
        Ok(())
    }

    /// Prepares the segment that comes after those of a slot.
    fn prepare_after(&self, slot: &Slot) -> Result<Prepared> {
        let record = match self.superblock.shape() {
            Shape::Rotating(generations) => {
                let spare = (slot.newest().region + 1) % (generations as usize + 1);
                let extent = region_extent(&self.superblock, slot, spare);
                if !sabotage!(self.medium, SpareNotZeroed) {
                    self.write_zeros(extent.data(), extent.end())
                        .map_err(|error| self.poison_with(error))?;
                }
                SegmentRecord {
                    adds: 0,
                    offset: extent.offset,
                    region: spare,
                    table: 0,
                    ones: 0,
                    ..slot.newest().clone()
                }
            }
            _ => self.extend_for_segment(slot)?,
        };
        let extent = record.extent();
        let mut table = Vec::new();
        memory::reserve(&mut table, extent.pages, "keep the page table of a further segment")?;
        table.resize(extent.pages as usize, PageEntry::empty());
        let in_one_sync = sabotage!(self.medium, SegmentAndSlotInOneSync);
        let prepare = || {
            let table_crc = write_empty_table(&self.medium, &extent)?;
            if !in_one_sync {
                self.medium.sync()?;
            }
            Ok(table_crc)
        };
        let table_crc = prepare().map_err(|error| {
            self.poison_with(Error::Io { action: "prepare a further segment", error })
        })?;
        let file_bytes = slot.file_bytes.max(extent.end());
        Ok(Prepared { record: SegmentRecord { table_crc, ..record }, table, file_bytes })
    }

    /// Extends a growing file for its next segment.
    fn extend_for_segment(&self, slot: &Slot) -> Result<SegmentRecord> {
        let index = slot.segments.len();
        if index == MAX_SEGMENTS {
            return Err(Error::Full {
                capacity: self.superblock.capacity,
                reason: "a file has at most 32 segments; build one for more keys",
            });
        }
        let plan = next_plan(&self.superblock, slot)?;
        let Some(capacity) = plan.capacity() else {
            unreachable!("a growth plan is made for a number of keys")
        };
        let geometry = plan.geometry().with_cells(self.superblock.cells);
        let extent = Extent::of(&geometry, slot.file_bytes);
        // Nothing of the file counts yet that this changes: without space it stays as it is.
        self.medium
            .extend(extent.offset, extent.end())
            .map_err(Error::io("extend the file for a further segment"))?;
        Ok(SegmentRecord {
            geometry,
            capacity,
            adds: 0,
            offset: extent.offset,
            region: index,
            table: 0,
            table_crc: 0,
            ones: 0,
        })
    }

    /// What the newest segment being full leads to, in a filter that grows or rotates by itself.
    pub(super) fn roll_over_when_full(&self) -> Result<()> {
        self.roll_over(Self::is_full, false)
    }

    /// Drops the oldest generation, if there are as many as there may be, and starts a new one.
    pub(crate) fn rotate(&self) -> Result<()> {
        self.refuse_if_dead()?;
        let Shape::Rotating(_) = self.superblock.shape() else {
            let reason = "only a filter made with generations rotates";
            return Err(Error::parameter("rotate", "done on this file", reason));
        };
        self.roll_over(|_| true, true)
    }

    /// Makes another segment the newest, if that is still called for; after a sync if `sync` says so:
    /// a rollover that comes by itself must not make changes of counters durable whose mark is not
    /// known.
    fn roll_over(&self, called_for: impl Fn(&Self) -> bool, sync: bool) -> Result<()> {
        self.ensure_begun()?;
        // Syncs go on while the segment is made, if the background has not made it.
        lock(&self.committed).slot.expect_numbers(2 + SLOTS_TO_CLOSE)?;
        self.prepare_segment_ahead(&called_for)?;
        let mut lead = self.lead()?;
        if !called_for(self) {
            return Ok(());
        }
        let counting = self.superblock.cells == CellKind::Counting;
        if counting && sync {
            let mark = lead.begin_round();
            self.sync_round(mark)?;
            lead.finish_round();
        }
        let mut tables = lock(&self.tables);
        self.finish_frozen(&mut tables)?;
        // One that ends the epoch, and perhaps one before it.
        lock(&self.committed).slot.expect_numbers(2 + SLOTS_TO_CLOSE)?;
        self.prepare_segment(|_| true)?;
        let dirty = self.segments.all().map(|segment| segment.pages.dirty().count()).sum::<usize>();
        if !counting && dirty >= MANY_PAGES {
            self.boundary_round(&mut lead, &mut tables)?;
            self.finish_frozen(&mut tables)?;
        }
        let prepared = lock(&self.prepared);
        self.activate(&mut tables, prepared)
    }

    /// Lists the prepared segment as the newest.
    fn activate(
        &self,
        tables: &mut Tables,
        mut prepared: MutexGuard<'_, Option<Prepared>>,
    ) -> Result<()> {
        // A spill may have taken its place.
        let slot = lock(&self.committed).slot.clone();
        let Prepared { record, table, file_bytes } = match prepared.take() {
            Some(prepared) => prepared,
            None => self.prepare_after(&slot)?,
        };
        if self.superblock.shape() == Shape::Growing {
            let segment = Segment::map(&self.medium, record.geometry, record.extent())?;
            self.segments.add(record.region, segment);
        } else {
            self.segments.get(record.region).forget_changes()?;
        }
        let dropped = match self.superblock.shape() {
            Shape::Rotating(generations) if slot.segments.len() as u64 == generations => {
                Some(slot.segments[0].region)
            }
            _ => None,
        };
        let room = room(&record);
        let stripes = self.all_stripes()?;
        // Changes of counters that are not synced stay so: the mark that goes with them is not known.
        let mut unsynced = self.unsynced_changes();
        unsynced.retain(|record| match record {
            Record::Change(change) => Some(change.region as usize) != dropped,
            _ => false,
        });
        let active = Active {
            newest: record.region,
            count: slot.segments.len() + usize::from(dropped.is_none()),
        };
        self.commit_as(tables, &stripes, State::Open, Proof::Needed, |slot, tables| {
            if dropped.is_some() {
                slot.segments.remove(0);
                tables.remove(0);
            }
            slot.segments.push(record);
            slot.file_bytes = file_bytes;
            tables.push(table);
        })?;
        if let Some(region) = dropped {
            self.segments.get(region).keys.clear();
        }
        self.segments.activate(active);
        if self.superblock.when_full == WhenFull::Grow
            && let Some(limit) = &self.limit
        {
            limit.store(room, Ordering::Relaxed);
        }
        self.filled.store(0, Ordering::Relaxed);
        self.announced.store(false, Ordering::Relaxed);
        if let Some(table) = tables.tables.last() {
            let committed = lock(&self.committed);
            self.cells_left.reset(&self.superblock, &committed.slot, table);
        }
        self.log_again(unsynced);
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

/// Adds that a segment of a growing file takes: as many as it is for (F-16).
pub(super) fn room(record: &SegmentRecord) -> u64 {
    if record.capacity == 0 { u64::MAX } else { record.capacity }
}

/// What the next segment of a growing file shall be.
fn next_plan(superblock: &Superblock, slot: &Slot) -> Result<Plan> {
    let index = slot.segments.len() as u32;
    let layout = slot.newest().geometry.layout();
    plan::growth_plan(superblock.capacity, superblock.target_rate, index, Some(layout))
}

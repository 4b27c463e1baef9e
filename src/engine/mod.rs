//! The durability protocol: journal, checkpoint, recovery (F-80 to F-99).
//!
//! An [`Engine`] is one writer on one medium. Adds run under one of many stripes; sync and checkpoint
//! hold them all, so that a record's mask always belongs to the epoch that logs it, and no record is
//! written behind a sync before that is durable.
//! Counters are not idempotent and go another way: see [`counting`].

mod add;
mod checkpoint;
mod counting;
mod create;
mod journal;
mod load;
mod recovery;
mod repair;
mod replay;
mod scan;
mod segment;
mod segments;
#[cfg(test)]
mod tests;
mod turnover;
mod union;

use std::sync::PoisonError;

pub(crate) use create::{
    create_file, describe_pages, file_bytes, finish_file, finish_slot, new_slot, write_table_part,
};
pub(crate) use load::{
    Loaded, SIGNATURE_WORDS, SlotSignature, load, load_durable, read_table, read_table_part,
    visit_table,
};
pub(crate) use replay::Journalled;
pub(crate) use scan::{
    Checked, PageCheck, Patches, Verdict, WINDOW, check_pages, judge, page_patches, recheck_pages,
    settle_pages, split_on_all_cores,
};
pub(crate) use segment::Segment;
pub(crate) use segments::{Active, SegmentSet, regions};
pub(crate) use turnover::region_extents;

use crate::error::{Error, Result};
use crate::format::{
    CellKind, Metadata, PageEntry, Record, Shape, Slot, State, Superblock, WhenFull, region_of,
};
use crate::geometry::PAGE_BYTES;
use crate::report::Recovery;
use crate::storage::{Map, Medium, Sabotage, Use};
use crate::sync::{AllStripes, AtomicU64, Mutex, MutexGuard, Stripes};

use counting::Overlay;
use journal::Journal;

/// Words of a page.
pub(crate) const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// What the last slot said, and the page tables that go with it.
pub(crate) struct Committed {
    pub(crate) slot: Slot,
    /// For each segment, what its current table says.
    tables: Vec<Vec<PageEntry>>,
    /// Mark or metadata differ from those of the last slot written.
    changed: bool,
}

/// One writer on one medium.
pub(crate) struct Engine<M: Medium> {
    medium: M,
    pub(crate) superblock: Superblock,
    pub(crate) segments: SegmentSet<Segment<M>>,
    /// One segment of bits for good, without a limit: adds and look-ups take the shortest way.
    simple: bool,
    journal: Journal<M>,
    /// Shut once this handle must not write any more.
    stripes: Stripes,
    /// Changes of counters that are not durable yet; `None` in a plain file.
    overlay: Option<Overlay>,
    /// Taken before any stripe, and before the overlay: syncs and checkpoints come one after the
    /// other.
    committed: Mutex<Committed>,
    /// Adds that the newest segment takes before something has to happen, and how many it has.
    limit: Option<u64>,
    filled: AtomicU64,
    recovery: Option<Recovery>,
}

/// Locks a mutex whose owner cannot have left anything half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Medium> Engine<M> {
    /// Opens a medium for writing: recovers what a crash left, then marks it open.
    ///
    /// The caller holds the lock that keeps other writers away.
    pub(crate) fn open(medium: M) -> Result<Self> {
        Self::open_with(medium, true)
    }

    /// As [`open`](Self::open), for a file just created by this process: its pages are known.
    pub(crate) fn open_new(medium: M) -> Result<Self> {
        Self::open_with(medium, false)
    }

    fn open_with(medium: M, verify: bool) -> Result<Self> {
        let (mut engine, loaded, table) = Self::prepare(medium)?;
        table?;
        engine.start(&loaded, verify)?;
        Ok(engine)
    }

    /// Everything that opening does before it looks at data or journal. Whether the page tables are
    /// sound comes with it: a repair goes on without.
    fn prepare(medium: M) -> Result<(Self, Loaded, Result<()>)> {
        let loaded = load_durable(&medium)?;
        loaded.superblock.check_writable()?;
        medium.fill_holes().map_err(Error::io("allocate space for the file"))?;
        let Loaded { superblock, slot, .. } = &loaded;
        let cell_bits = superblock.cells.bits();
        let mut tables = Vec::new();
        let mut sound = Ok(());
        for record in &slot.segments {
            let mut table = Vec::with_capacity(record.extent(cell_bits).pages as usize);
            match visit_table(&medium, record, cell_bits, |entry| table.push(entry)) {
                Err(error @ Error::Io { .. }) => return Err(error),
                result => sound = sound.and(result),
            }
            tables.push(table);
        }
        let mut segments = Self::map_segments(&medium, superblock, slot)?;
        let journal = Journal::open(&medium, superblock, slot)?;
        let limit = match (superblock.when_full, superblock.shape()) {
            (WhenFull::Grow, _) => slot.segments.last().map(|segment| segment.capacity),
            (_, Shape::Rotating(_)) if superblock.rotate_after > 0 => Some(superblock.rotate_after),
            (WhenFull::Refuse, _) => Some(superblock.capacity),
            _ => None,
        };
        let simple = superblock.shape() == Shape::Fixed
            && superblock.cells == CellKind::Plain
            && limit.is_none();
        if simple {
            segments.first.data.open_shortcut();
        }
        let engine = Engine {
            simple,
            filled: AtomicU64::new(slot.segments.last().map_or(0, |segment| segment.adds)),
            overlay: (superblock.cells == CellKind::Counting).then(Overlay::default),
            committed: Mutex::new(Committed { slot: slot.clone(), tables, changed: false }),
            superblock: superblock.clone(),
            segments,
            journal,
            stripes: Stripes::default(),
            limit,
            recovery: None,
            medium,
        };
        Ok((engine, loaded, sound))
    }

    /// Brings the file into the state that adds may start from.
    fn start(&mut self, loaded: &Loaded, verify: bool) -> Result<()> {
        if loaded.slot.state == State::Open {
            return self.recover();
        }
        if verify {
            let committed = lock(&self.committed);
            for (index, segment) in self.listed_of(&committed.slot).into_iter().enumerate() {
                segment.data.expect(Use::Scan);
                let check = check_pages(Checked {
                    words: segment.data.words(),
                    geometry: segment.data.geometry(),
                    cell_bits: self.superblock.cells.bits(),
                    table: &committed.tables[index],
                    before: &[],
                });
                segment.data.expect(Use::LookUps);
                check.refuse_unless_exact(index)?;
            }
        }
        if self.medium.sabotaged(Sabotage::NoOpenState) {
            return Ok(());
        }
        self.commit_state(State::Open)
    }

    /// The segments of the last slot, in its order: oldest first.
    fn listed(&self) -> Vec<&Segment<M>> {
        self.listed_of(&lock(&self.committed).slot)
    }

    /// The segments of a slot, in its order.
    fn listed_of(&self, slot: &Slot) -> Vec<&Segment<M>> {
        (0..slot.segments.len())
            .filter_map(|index| region_of(&self.superblock, slot, index))
            .filter_map(|region| self.segments.region(region as usize))
            .collect()
    }

    /// Makes every add that returned before this call durable.
    ///
    /// `mark` becomes the user's own position; without one the last is kept.
    pub(crate) fn sync(&self, mark: Option<u64>) -> Result<()> {
        let mut committed = lock(&self.committed);
        if self.is_poisoned() {
            return Err(Error::Poisoned);
        }
        let mark = mark.unwrap_or(committed.slot.mark);
        if let Some(overlay) = &self.overlay {
            let stripes = self.all_stripes()?;
            return self.sync_counters(&mut committed, &stripes, &mut overlay.lock(), mark);
        }
        // Who adds at the same time need not wait for a sync that has nothing to do.
        if !self.journal.has_news() && mark == committed.slot.mark {
            return Ok(());
        }
        let stripes = self.all_stripes()?;
        self.journal.settle(&self.medium);
        if !self.journal.has_room(1) {
            return self.checkpoint_with_mark(&mut committed, &stripes, mark);
        }
        self.journal.append(Record::Sync { mark });
        // With the stripes held: nobody may write a record behind this one before it is durable, or
        // a hole in front of it would look like damage (F-91).
        self.flush_journal()?;
        committed.slot.mark = mark;
        Ok(())
    }

    /// Makes the journal's new records durable, or ends this handle's life.
    fn flush_journal(&self) -> Result<()> {
        let mut flushed = self.journal.flush(&self.medium);
        if flushed.is_err() && self.medium.sabotaged(Sabotage::RetryFailedSync) {
            flushed = self.journal.flush(&self.medium);
        }
        flushed.map_err(|source| self.poison_with(Error::Io { action: "sync the journal", source }))
    }

    /// A checkpoint that carries a new mark.
    fn checkpoint_with_mark(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        mark: u64,
    ) -> Result<()> {
        let before = std::mem::replace(&mut committed.slot.mark, mark);
        committed.changed |= mark != before;
        self.checkpoint_held(committed, stripes, State::Open)
            .inspect_err(|_| committed.slot.mark = before)
    }

    /// Brings page tables and slot up to date with the data, durably.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.checkpoint_to(State::Open)
    }

    /// A checkpoint after which the file counts as closed in good order.
    pub(crate) fn close(&self) -> Result<()> {
        self.checkpoint_to(State::Clean)
    }

    fn checkpoint_to(&self, state: State) -> Result<()> {
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        // Held until the checkpoint is done: counters do not change meanwhile.
        let mut overlay = self.overlay.as_ref().map(Overlay::lock);
        if let Some(overlay) = &mut overlay {
            self.log_counters(&mut committed, overlay)?;
        }
        self.checkpoint_held(&mut committed, &stripes, state)
    }

    /// Every stripe, so that no add is under way.
    fn all_stripes(&self) -> Result<AllStripes<'_>> {
        let stripes = self.stripes.hold_all().ok_or(Error::Poisoned)?;
        if self.medium.sabotaged(Sabotage::CheckpointWithoutStripes) {
            stripes.open();
        }
        Ok(stripes)
    }

    /// Ends this handle's life as a writer: what the disk holds is no longer known.
    fn poison_with(&self, error: Error) -> Error {
        self.stripes.shut();
        error
    }

    /// Whether a write or sync failed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.stripes.are_shut()
    }

    /// Adds that changed the segments in use, less the keys taken out of them.
    pub(crate) fn adds(&self) -> u64 {
        let committed = lock(&self.committed);
        let counted: u64 = committed.slot.segments.iter().map(|segment| segment.adds).sum();
        counted + self.stripes.adds()
    }

    /// The slot as it was last written, with the mark as it was last synced.
    pub(crate) fn committed(&self) -> MutexGuard<'_, Committed> {
        lock(&self.committed)
    }

    /// Replaces the metadata; durable with the next checkpoint.
    pub(crate) fn set_metadata(&self, metadata: Metadata) {
        let mut committed = lock(&self.committed);
        if committed.slot.metadata != metadata {
            committed.slot.metadata = metadata;
            committed.changed = true;
        }
    }

    /// Whether adds of this epoch are not in the journal, or the next may not be.
    #[cfg(test)]
    fn journal_is_full(&self) -> bool {
        !self.journal.has_room(0)
    }

    #[cfg(test)]
    fn journal_is_nearly_full(&self) -> bool {
        !self.journal.has_room(1)
    }

    /// What recovery found when the file was opened.
    pub(crate) fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }
}

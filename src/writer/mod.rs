//! The durability protocol: journal, checkpoint, recovery (F-80 to F-99).
//!
//! An [`Engine`] is one writer on one medium. Adds run under one of many stripes; sync and checkpoint
//! hold them all, so that a record's mask always belongs to the epoch that logs it, and no record is
//! written behind a sync before that is durable.
//! Counters are not idempotent and go another way: see [`counting`].

mod add;
mod checkpoint;
mod counting;
mod extension;
mod journal;
mod proof;
mod recovery;
mod repair;
mod rollover;
mod segment;
#[cfg(test)]
mod tests;
mod union;

use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::sync::{OnceLock, PoisonError};

pub use recovery::Recovery;
pub(crate) use segment::Segment;

use crate::error::{Error, Result};
use crate::file::{
    FilePages, JournalContents, Loaded, PageCheck, PageJudge, SegmentSet, check_pages, load,
    load_with, read_table,
};
use crate::format::{
    BootId, PageEntry, Record, SLOTS_TO_CLOSE, SegmentRecord, Shape, Slot, State, Superblock,
    WhenFull, encode_metadata,
};
use crate::geometry::CellKind;
use crate::kernel::FastPath;
use crate::storage::{Medium, Sabotage};
use crate::sync::{AllStripes, AtomicBool, AtomicU64, Mutex, MutexGuard, Stripes};

use counting::Overlay;
use journal::Journal;
use proof::{CounterEffects, Proof};

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
    /// One segment of bits for good, without a limit.
    simple: bool,
    /// The way of look-ups, if they have a fast one.
    fast: FastPath,
    journal: Journal<M>,
    /// Shut once this handle must not write any more.
    stripes: Stripes,
    /// Changes of counters that are not durable yet; `None` in a plain file.
    overlay: Option<Overlay>,
    /// Something stands behind the end of the file, until the next checkpoint (F-79).
    extended: AtomicBool,
    /// What counters that changed in this epoch did to their pages.
    effects: Mutex<CounterEffects>,
    /// Pages whose entries were replaced although no records tell how they came to be what they are.
    pages_unverified: AtomicU64,
    /// Taken before any stripe, and before the overlay: syncs and checkpoints come one after the
    /// other.
    committed: Mutex<Committed>,
    /// Adds that the newest segment takes before something has to happen, and how many it has.
    limit: Option<u64>,
    filled: AtomicU64,
    recovery: Option<Recovery>,
    /// What made this handle stop, and what kind of failure the system called it.
    first_error: OnceLock<(String, Option<std::io::ErrorKind>)>,
}

/// The page table of a segment, if it is sound.
fn read_sound_table<M: Medium>(
    medium: &M,
    record: &SegmentRecord,
) -> Result<(Vec<PageEntry>, Result<()>)> {
    Ok((read_table(medium, record)?, Ok(())))
}

/// The headers of a file that is to be written, with the slots that are sure to survive a power cut
/// (F-89).
///
/// The next slot written takes the place of the older of the two. If the newer one were in the
/// cache alone, as after a sync that failed or that never came, a power cut could then leave no
/// slot at all.
fn load_durable<M: Medium>(medium: &M) -> Result<Loaded> {
    if medium.sabotaged(Sabotage::TrustCachedSlots) {
        return load(medium);
    }
    medium.sync().map_err(Error::io("sync the file"))?;
    load_with(medium, |bytes, offset| medium.read_past_cache(bytes, offset))
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
        let (mut engine, loaded, _) = Self::prepare(medium, 1 + SLOTS_TO_CLOSE, read_sound_table)?;
        engine.start(&loaded, verify)?;
        Ok(engine)
    }

    /// Everything that opening does before it looks at data or journal. Whether the page tables are
    /// sound comes with it: a repair goes on without. The caller is going to write so many slots at
    /// least.
    ///
    /// Nothing is allocated on the disk here: a file of a few blocks may say that it is terabytes
    /// long, and has to be held against its checksums first (F-82).
    fn prepare(
        medium: M,
        slots: u64,
        read_table: impl Fn(&M, &SegmentRecord) -> Result<(Vec<PageEntry>, Result<()>)>,
    ) -> Result<(Self, Loaded, Result<()>)> {
        let loaded = load_durable(&medium)?;
        loaded.superblock.check_writable()?;
        loaded.slot.expect_numbers(slots)?;
        let Loaded { superblock, slot, .. } = &loaded;
        let mut tables = Vec::new();
        let mut sound = Ok(());
        for record in &slot.segments {
            let (table, result) = read_table(&medium, record)?;
            sound = sound.and(result);
            tables.push(table);
        }
        let segments = Self::map_segments(&medium, superblock, slot)?;
        let journal = Journal::open(&medium, superblock, slot)?;
        let length = medium.length().map_err(Error::io("tell the length of the file"))?;
        let limit = match (superblock.when_full, superblock.shape()) {
            (WhenFull::Grow, _) => Some(slot.newest().capacity),
            (_, Shape::Rotating(_)) if superblock.rotate_after > 0 => Some(superblock.rotate_after),
            (WhenFull::Refuse, _) => Some(superblock.capacity),
            _ => None,
        };
        let simple = superblock.shape() == Shape::Fixed
            && superblock.cells == CellKind::Plain
            && limit.is_none();
        let engine = Engine {
            simple,
            fast: if simple { segments.first.data.fast_path() } else { FastPath::None },
            filled: AtomicU64::new(slot.newest().adds),
            overlay: (superblock.cells == CellKind::Counting).then(Overlay::default),
            extended: AtomicBool::new(
                superblock.cells == CellKind::Counting && length > slot.file_bytes,
            ),
            effects: Mutex::default(),
            pages_unverified: AtomicU64::new(0),
            committed: Mutex::new(Committed { slot: slot.clone(), tables, changed: false }),
            superblock: superblock.clone(),
            segments,
            journal,
            stripes: Stripes::default(),
            limit,
            recovery: None,
            first_error: OnceLock::new(),
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
            for index in 0..committed.slot.segments.len() {
                self.check_listed(&committed, index, None)?.refuse_damage(index)?;
            }
        }
        self.fill_holes()?;
        if self.medium.sabotaged(Sabotage::NoOpenState) {
            return Ok(());
        }
        self.commit_state(State::Open)
    }

    /// Makes sure that there is space for every byte, once the file is known to be sound.
    fn fill_holes(&self) -> Result<()> {
        self.medium.fill_holes().map_err(Error::io("allocate space for the file"))
    }

    /// Checks the pages of a segment of the slot that the file was opened with. The tables are as
    /// they were read then, damaged or not.
    fn check_listed(
        &self,
        committed: &Committed,
        index: usize,
        journal: Option<&JournalContents>,
    ) -> Result<PageCheck> {
        let (slot, table) = (&committed.slot, &committed.tables[index]);
        let extent = slot.segments[index].extent();
        let pages = FilePages::new(&self.medium, index, extent);
        let entries =
            |pages: Range<u64>| Ok(table[pages.start as usize..pages.end as usize].to_vec());
        check_pages(&pages, extent.pages, entries, self.judge(slot, index, journal))
    }

    /// What may be believed of a segment of the slot that the file was opened with.
    fn judge<'a>(
        &self,
        slot: &Slot,
        index: usize,
        journal: Option<&'a JournalContents>,
    ) -> PageJudge<'a> {
        let now = if self.medium.sabotaged(Sabotage::IgnoreBootId) {
            BootId::default()
        } else {
            self.medium.boot_id()
        };
        PageJudge::of(&self.superblock, slot, index, journal, now)
    }

    /// The segments of the last slot, in its order: oldest first.
    fn listed(&self) -> Vec<&Segment<M>> {
        self.listed_of(&lock(&self.committed).slot)
    }

    /// The segments of a slot, in its order.
    fn listed_of(&self, slot: &Slot) -> Vec<&Segment<M>> {
        slot.segments.iter().map(|segment| self.segments.get(segment.region)).collect()
    }

    /// Makes every add that returned before this call durable.
    ///
    /// `mark` becomes the user's own position; without one the last is kept.
    pub(crate) fn sync(&self, mark: Option<u64>) -> Result<()> {
        self.refuse_if_dead()?;
        let mut committed = lock(&self.committed);
        self.refuse_if_dead()?;
        let mark = mark.unwrap_or(committed.slot.mark);
        if let Some(overlay) = &self.overlay {
            let stripes = self.all_stripes()?;
            return self.sync_counters(&mut committed, &stripes, &mut overlay.lock(), mark);
        }
        // Threads that add need not wait for a sync that has nothing to do. What may have been added
        // before this call is seen here without a stripe:
        // - by this thread, or by one that it has heard of: what happened before is seen.
        // - by a thread whose cells this one found set when it added the same key, and so wrote no
        //   record: that thread took its record, or found the journal full, before it stored the
        //   cells with release (`Words::store`, and the fences in front of wider stores). The fence
        //   here makes those stores, seen by a relaxed load, order what comes before them.
        fence(Ordering::Acquire);
        if !self.journal.has_unsynced() && mark == committed.slot.mark {
            return Ok(());
        }
        let stripes = self.all_stripes()?;
        self.journal.fill_gaps(&self.medium);
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
        flushed.map_err(|error| self.poison_with(Error::Io { action: "sync the journal", error }))
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
        self.refuse_if_dead()?;
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        if state == State::Open {
            committed.slot.expect_numbers(1 + SLOTS_TO_CLOSE)?;
        }
        // Held until the checkpoint is done: counters do not change before that.
        let mut overlay = self.overlay.as_ref().map(Overlay::lock);
        if let Some(overlay) = &mut overlay {
            self.log_counters(&mut committed, overlay)?;
        }
        match state {
            State::Open => self.checkpoint_held(&mut committed, &stripes, state),
            State::Clean => self.close_held(&mut committed, &stripes, Proof::Needed),
        }
    }

    /// Every stripe, so that no add is under way.
    fn all_stripes(&self) -> Result<AllStripes<'_>> {
        if self.medium.is_forked() {
            return Err(Error::Forked);
        }
        let stripes = self.stripes.hold_all().ok_or_else(|| self.refusal())?;
        if self.medium.sabotaged(Sabotage::CheckpointWithoutStripes) {
            stripes.open();
        }
        Ok(stripes)
    }

    /// Ends this handle's life as a writer: what the disk holds is no longer known.
    fn poison_with(&self, error: Error) -> Error {
        // Before the gate is shut: a call that finds it so can tell why. The first error stays.
        let kind = match &error {
            Error::Io { error, .. } => Some(error.kind()),
            _ => None,
        };
        let _ = self.first_error.set((error.to_string(), kind));
        self.stripes.shut();
        error
    }

    /// Whether this handle must not write: it is poisoned, or another process's.
    #[inline(always)]
    fn is_dead(&self) -> bool {
        self.is_poisoned() || self.medium.is_forked()
    }

    /// An error if this handle must not write. Asked before any lock is taken: in a forked child a
    /// lock may be held by a thread that is not there.
    #[inline]
    pub(crate) fn refuse_if_dead(&self) -> Result<()> {
        if self.is_dead() { Err(self.refusal()) } else { Ok(()) }
    }

    /// Why this handle does not write any more.
    #[cold]
    fn refusal(&self) -> Error {
        if self.medium.is_forked() {
            return Error::Forked;
        }
        let (first, kind) = self.first_error.get().cloned().unwrap_or_default();
        Error::Poisoned { first, kind }
    }

    /// Whether a write or sync failed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.stripes.are_shut()
    }

    /// Adds that changed the segments in use, less the keys taken out of them.
    pub(crate) fn adds(&self) -> u64 {
        let committed = lock(&self.committed);
        committed.slot.adds().saturating_add(self.stripes.adds())
    }

    /// The slot as it was last written, with the mark as it was last synced.
    pub(crate) fn committed(&self) -> MutexGuard<'_, Committed> {
        lock(&self.committed)
    }

    /// Sets a pair of the metadata, or removes it; durable with the next checkpoint.
    pub(crate) fn set_metadata(&self, key: &str, value: Option<&str>) -> Result<()> {
        self.refuse_if_dead()?;
        // Read and replaced under one lock, or pairs that other threads set would be lost.
        let mut committed = lock(&self.committed);
        let mut metadata = committed.slot.metadata.clone();
        match value {
            Some(value) => metadata.insert(key.to_owned(), value.to_owned()),
            None => metadata.remove(key),
        };
        encode_metadata(&metadata)?;
        committed.changed |= committed.slot.metadata != metadata;
        committed.slot.metadata = metadata;
        Ok(())
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

//! The durability protocol: journal, sync, checkpoint, recovery (F-80 to F-99, F-130 to F-133).
//!
//! An [`Engine`] is one writer on one medium. Adds run under one of many stripes and wait for no disk.
//! A sync closes the gate in front of the stripes for the moment in which it ends a group of records,
//! and flushes with the gate open ([`commit`]). A checkpoint closes it for the moment of a *boundary*:
//! the epoch goes on in the other half of the journal, and what had changed before is described and
//! written while adds go on ([`checkpoint`], [`pages`]).
//!
//! Counters are not idempotent and go another way: see [`counting`].
//!
//! Locks, in their order (ARCHITECTURE.md has all, and the exceptions): the lead of a round ([`commit`]),
//! the page tables, for a checkpoint, the prepared segment ([`rollover`]), the gate, the committed state.

mod add;
mod batch;
mod checkpoint;
mod commit;
mod counting;
mod figures;
mod fullness;
mod journal;
mod metadata;
mod pages;
mod proof;
mod recovery;
mod repair;
mod rollover;
mod sealed;
mod segment;
mod spill;
mod stats;
#[cfg(test)]
mod tests;
mod union;
mod worker;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

pub use recovery::Recovery;
pub(crate) use segment::Segment;
pub use stats::FilterStats;
pub(crate) use worker::Background;

use crate::error::{Error, Result};
use crate::file::{
    FilePages, JournalContents, Loaded, PageCheck, PageJudge, check_pages, load_with, read_table,
};
use crate::format::{
    BootId, PageEntry, Record, SLOT_BYTES, SLOT_OFFSETS, SLOTS_TO_CLOSE, SegmentRecord, Shape,
    Slot, State, Superblock, WhenFull,
};
use crate::geometry::CellKind;
use crate::kernel::{Cells, FastPath, SegmentSet};
use crate::storage::{Map, Medium, sabotage};
use crate::sync::{AllStripes, AtomicBool, AtomicU64, Mutex, Refused, Stripes, lock};

use checkpoint::Frozen;
use commit::Rounds;
use fullness::CellsLeft;
use journal::Journal;
use rollover::Prepared;
use stats::Counters;

/// What the last slot said.
pub(crate) struct Committed {
    pub(crate) slot: Slot,
    /// Metadata or doubts differ from those of the last slot written.
    changed: bool,
    /// Adds before the boundary of a checkpoint that is under way.
    frozen_adds: u64,
}

/// The page tables that go with the last slot, and the checkpoint under way. Locked for as long as
/// data, table and slot are written.
pub(super) struct Tables {
    /// For each segment, what its current table says.
    tables: Vec<Vec<PageEntry>>,
    /// A boundary was drawn, and what it froze is not written yet.
    frozen: Option<Frozen>,
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
    /// The same for keys; none in a keyed file, whose hash takes another way.
    fast_unkeyed: FastPath,
    /// The same for keys of a keyed file.
    fast_keyed: FastPath,
    journal: Journal<M>,
    /// Shut once this handle must not write any more; locked until the file is marked as open.
    stripes: Stripes,
    rounds: Rounds,
    tables: Mutex<Tables>,
    committed: Mutex<Committed>,
    /// The mark that was last synced.
    mark: AtomicU64,
    /// Changes of counters that the journal has no room for, in their order.
    spill: Mutex<Vec<Record>>,
    /// Something stands behind the end of the file, until the next checkpoint (F-79).
    spilled: AtomicBool,
    /// A segment that is ready to become the newest.
    prepared: Mutex<Option<Prepared>>,
    /// Pages whose entries were replaced although no records tell how they came to be what they are.
    pages_unverified: AtomicU64,
    /// Adds that the newest segment takes before something has to happen, and how many it has.
    limit: Option<AtomicU64>,
    filled: AtomicU64,
    /// The background was told that the next segment should be prepared.
    announced: AtomicBool,
    cells_left: CellsLeft,
    recovery: Option<Recovery>,
    counters: Counters,
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
    sabotage!(medium, TrustCachedSlots => return crate::file::load(medium));
    medium.sync().map_err(Error::io("sync the file"))?;
    load_with(medium, |bytes, offset| medium.read_past_cache(bytes, offset))
}

/// Makes the cache show the slots that are on the disk, durably: after a sync that failed it may show
/// a newer one, and a program that reads after a kill would take that for the one that counts, while
/// the page table that it names is being written over (F-89).
fn restore_slots<M: Medium>(medium: &M) -> Result<()> {
    let mut differed = false;
    for offset in SLOT_OFFSETS {
        let (mut shown, mut held) = (vec![0; SLOT_BYTES], vec![0; SLOT_BYTES]);
        medium.read_at(&mut shown, offset).map_err(Error::io("read a state slot"))?;
        medium.read_past_cache(&mut held, offset).map_err(Error::io("read a state slot"))?;
        if shown != held {
            medium.write_at(&held, offset).map_err(Error::io("write the state slot"))?;
            differed = true;
        }
    }
    if differed { medium.sync().map_err(Error::io("sync the state slot")) } else { Ok(()) }
}

impl<M: Medium> Engine<M> {
    /// What the file is in.
    pub(crate) fn medium(&self) -> &M {
        &self.medium
    }

    /// Opens a medium for writing: recovers what a crash left. A file that was closed in good order
    /// is left as it is until the first change.
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
        if loaded.slot.state == State::Open {
            engine.recover()?;
        } else if verify {
            let slot = &loaded.slot;
            for index in 0..slot.segments.len() {
                engine.check_listed(slot, index, None)?.refuse_damage(index)?;
            }
            // Some systems allocate a page of a hole as soon as a look-up reads it through the map.
            engine.medium.fill_holes().map_err(Error::io("allocate space for the file"))?;
        }
        Ok(engine)
    }

    /// Everything that opening does before it looks at data or journal. Whether the page tables are
    /// sound comes with it: a repair goes on without. The caller is going to write at least this many
    /// slots.
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
            (WhenFull::Grow, _) => Some(rollover::room(slot.newest())),
            (_, Shape::Rotating(_)) if superblock.rotate_after > 0 => Some(superblock.rotate_after),
            (WhenFull::Refuse, _) => Some(superblock.capacity),
            _ => None,
        };
        let counting = superblock.cells == CellKind::Counting;
        let simple = superblock.shape() == Shape::Fixed && !counting && limit.is_none();
        let data_bytes: u64 =
            segments.all().map(|segment| 8 * segment.data.words().len() as u64).sum();
        let cells = Some(&segments.first.data).filter(|_| simple);
        let fast = cells.map_or(FastPath::None, Cells::fast_path);
        let unkeyed = cells.filter(|_| superblock.key_check.is_none());
        let keyed = cells.filter(|_| superblock.key_check.is_some());
        let engine = Engine {
            simple,
            fast,
            fast_unkeyed: unkeyed.map_or(FastPath::None, Cells::fast_path),
            fast_keyed: keyed.map_or(FastPath::None, Cells::fast_path_keyed),
            filled: AtomicU64::new(slot.newest().adds),
            cells_left: CellsLeft::new(superblock, slot, &tables[tables.len() - 1]),
            mark: AtomicU64::new(slot.mark),
            spill: Mutex::default(),
            spilled: AtomicBool::new(counting && length > slot.file_bytes),
            prepared: Mutex::new(None),
            pages_unverified: AtomicU64::new(0),
            tables: Mutex::new(Tables { tables, frozen: None }),
            committed: Mutex::new(Committed { slot: slot.clone(), changed: false, frozen_adds: 0 }),
            superblock: superblock.clone(),
            segments,
            journal,
            stripes: Stripes::new(data_bytes),
            rounds: Rounds::default(),
            limit: limit.map(AtomicU64::new),
            announced: AtomicBool::new(false),
            recovery: None,
            counters: Counters::of(slot),
            first_error: OnceLock::new(),
            medium,
        };
        Ok((engine, loaded, sound))
    }

    /// Marks the file as open, before the first change of a session: from here on a crash leaves
    /// something to recover (F-84).
    #[cold]
    fn begin(&self) -> Result<()> {
        self.refuse_if_dead()?;
        let mut lead = self.lead()?;
        if sabotage!(self.medium, AbandonedRoundCounts) {
            lead.begin_round();
            lead.finish_round();
        }
        let tables = lock(&self.tables);
        if !self.stripes.are_locked() {
            return Ok(());
        }
        // Not locked while it is written: what tells figures waits for no disk.
        let mut slot = lock(&self.committed).slot.clone();
        if sabotage!(self.medium, NoOpenState) {
            slot.state = State::Open;
        } else {
            self.write_slot(&mut slot, State::Open, false)
                .map_err(|error| self.poison_with(error))?;
        }
        self.keep(&slot);
        self.start_session(&slot)?;
        drop(tables);
        Ok(())
    }

    /// Lets adds in: the slot of this epoch is durable.
    fn start_session(&self, slot: &Slot) -> Result<()> {
        for segment in self.segments.all() {
            segment.forget_changes()?;
        }
        self.begin_epoch(slot, slot.epoch, 0);
        self.stripes.unlock();
        Ok(())
    }

    /// Checks the pages of a segment of the slot that the file was opened with. The tables are as
    /// they were read then, damaged or not.
    fn check_listed(
        &self,
        slot: &Slot,
        index: usize,
        journal: Option<&JournalContents>,
    ) -> Result<PageCheck> {
        let tables = lock(&self.tables);
        let table = &tables.tables[index];
        let extent = slot.segments[index].extent();
        let pages = FilePages::new(&self.medium, index, extent);
        let entries =
            |pages: Range<u64>| Ok(table[pages.start as usize..pages.end as usize].to_vec());
        check_pages(&pages, extent.pages, entries, self.judge(slot, index, journal))
    }

    /// What may be believed of a segment of a slot.
    fn judge<'a>(
        &self,
        slot: &Slot,
        index: usize,
        journal: Option<&'a JournalContents>,
    ) -> PageJudge<'a> {
        let now = if sabotage!(self.medium, IgnoreBootId) {
            BootId::default()
        } else {
            self.medium.boot_id()
        };
        PageJudge::of(&self.superblock, slot, index, journal, now)
    }

    /// The segments of a slot, in its order.
    fn listed(&self, slot: &Slot) -> Vec<&Segment<M>> {
        slot.segments.iter().map(|segment| self.segments.get(segment.region)).collect()
    }

    /// Every stripe, so that no add is under way.
    fn all_stripes(&self) -> Result<AllStripes<'_>> {
        if self.medium.is_forked() {
            return Err(Error::Forked);
        }
        match self.stripes.hold_all() {
            Ok(stripes) => {
                sabotage!(self.medium, CheckpointWithoutStripes => stripes.open());
                Ok(stripes)
            }
            Err(Refused::Shut) => Err(self.refusal()),
            Err(Refused::Locked) => Err(self.locked()),
        }
    }

    /// What the caller did not see to: it [begins](Self::begin) a session first.
    fn locked(&self) -> Error {
        unreachable!("a session begins before its first change")
    }

    /// Begins a session if there is none.
    fn ensure_begun(&self) -> Result<()> {
        if self.stripes.are_locked() { self.begin() } else { Ok(()) }
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

    /// Whether a write or sync failed, or the file was closed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.stripes.are_shut()
    }

    /// Adds that changed the segments in use, less the keys taken out of them.
    pub(crate) fn adds(&self) -> u64 {
        let committed = lock(&self.committed);
        let plain = committed.frozen_adds.saturating_add(self.stripes.adds());
        let counted = self.segments.all().map(|segment| segment.keys.synced()).sum();
        committed.slot.adds().saturating_add(plain).saturating_add_signed(counted)
    }

    /// The mark that was last synced.
    pub(crate) fn mark(&self) -> u64 {
        self.mark.load(Ordering::Acquire)
    }

    /// What recovery found when the file was opened.
    pub(crate) fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }
}

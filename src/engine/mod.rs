//! The durability protocol: journal, checkpoint, recovery (F-80 to F-99).
//!
//! An [`Engine`] is one writer on one medium. Adds run under one of several stripes; sync and
//! checkpoint hold them all, so that a record's mask always belongs to the epoch that logs it.

mod checkpoint;
mod create;
mod journal;
mod load;
mod recovery;
mod repair;
mod scan;
#[cfg(test)]
mod tests;
mod union;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

pub(crate) use create::{create_file, describe_pages, finish_file, write_table_part};
pub(crate) use load::{
    Loaded, SIGNATURE_WORDS, SlotSignature, load, load_durable, read_table, read_table_part,
    visit_table,
};
pub(crate) use recovery::{Journalled, replay_private};
pub(crate) use scan::{
    PageCheck, Verdict, WINDOW, WordBits, check_pages, clear_bits, page_news, recheck_pages,
    settle_pages, split_on_all_cores,
};

use crate::error::{Error, Result};
use crate::format::{PageEntry, Record, Slot, State, Superblock};
use crate::geometry::PAGE_BYTES;
use crate::kernel::Cells;
use crate::report::Recovery;
use crate::storage::{Map, Mapping, Medium, Sabotage, Use};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, STRIPES, stripe_of_thread};

use journal::Journal;

/// Words of a page.
pub(crate) const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// What an add holds while it changes bits. Alone on its cache lines: stripes are taken by
/// different threads at the same time.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(Mutex<StripeCount>);

/// Counted under a stripe, so that counting costs no shared cache line.
#[derive(Default)]
struct StripeCount {
    /// Adds that changed the filter since the handle was opened.
    adds: u64,
}

/// The data of one segment, mapped for writing.
pub(crate) struct Segment<M: Medium> {
    pub(crate) data: Cells<M::Map>,
    /// One bit for each page that changed since the last checkpoint.
    dirty: Vec<AtomicU64>,
}

impl<M: Medium> Segment<M> {
    fn touch(&self, word: usize) {
        let page = word / PAGE_WORDS;
        let (at, bit) = (page / 64, 1 << (page % 64));
        // Most adds find their page dirty already: look before writing a line others share.
        if self.dirty[at].load(Ordering::Relaxed) & bit == 0 {
            self.dirty[at].fetch_or(bit, Ordering::Relaxed);
        }
    }
}

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
    pub(crate) segment: Segment<M>,
    journal: Journal<M>,
    stripes: Box<[Stripe]>,
    /// Taken before any stripe: syncs and checkpoints come one after the other.
    committed: Mutex<Committed>,
    poisoned: AtomicBool,
    /// Adds the last slot counts: what the stripes count comes on top.
    adds_before: u64,
    recovery: Option<Recovery>,
}

/// All stripes, held.
type AllStripes<'a> = Vec<MutexGuard<'a, StripeCount>>;

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

    /// Everything that opening does before it looks at data or journal. Whether the page table is
    /// sound comes with it: a repair goes on without.
    fn prepare(medium: M) -> Result<(Self, Loaded, Result<()>)> {
        let loaded = load_durable(&medium)?;
        loaded.superblock.check_writable()?;
        medium.fill_holes().map_err(Error::io("allocate space for the file"))?;
        let Loaded { superblock, slot, .. } = &loaded;
        let record = &slot.segments[0];
        let extent = record.extent(superblock.cells.bits());
        let mut table = Vec::with_capacity(extent.pages as usize);
        let sound =
            visit_table(&medium, record, superblock.cells.bits(), |entry| table.push(entry));
        if let Err(error @ Error::Io { .. }) = sound {
            return Err(error);
        }
        let data = medium
            .map(extent.data()..extent.end(), Mapping::Shared)
            .map_err(Error::io("map the data"))?;
        let segment: Segment<M> = Segment {
            data: Cells::new(record.geometry, data)?,
            dirty: (0..extent.pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        };
        let journal = Journal::open(&medium, superblock, slot)?;
        let engine = Engine {
            adds_before: record.adds,
            committed: Mutex::new(Committed {
                slot: slot.clone(),
                tables: vec![table],
                changed: false,
            }),
            superblock: superblock.clone(),
            segment,
            journal,
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            poisoned: AtomicBool::new(false),
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
            self.segment.data.expect(Use::Scan);
            let check = check_pages(
                self.segment.data.geometry(),
                self.segment.data.words(),
                &committed.tables[0],
                &[],
            );
            self.segment.data.expect(Use::LookUps);
            drop(committed);
            check.refuse_unless_exact()?;
        }
        if self.medium.sabotaged(Sabotage::NoOpenState) {
            return Ok(());
        }
        self.commit_state(State::Open)
    }

    /// Adds a hash; true when that changed the filter.
    #[inline]
    pub(crate) fn add_hash(&self, hash: u64) -> Result<bool> {
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(Error::Poisoned);
        }
        // A key that is in leaves no trace and takes no lock.
        if self.segment.data.contains(hash) {
            return Ok(false);
        }
        self.add_new(hash)
    }

    /// Adds many hashes, each given by `hash`; how many of them changed the filter.
    #[inline]
    pub(crate) fn add_batch(&self, count: usize, hash: impl FnMut(usize) -> u64) -> Result<u64> {
        let mut new = Ok(0);
        self.segment.data.visit_batch(count, hash, |hash| {
            if let Ok(so_far) = new {
                new = self.add_hash(hash).map(|changed| so_far + u64::from(changed));
            }
        });
        new
    }

    /// The way of a key that was not in when its adder looked.
    #[inline]
    fn add_new(&self, hash: u64) -> Result<bool> {
        // Whoever holds the stripe of a block is the only one to change that block.
        let stripe = match self.segment.data.own_block(hash) {
            Some(block) => block as usize % STRIPES,
            None => stripe_of_thread(),
        };
        let mut stripe = lock(&self.stripes[stripe].0);
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(Error::Poisoned);
        }
        Ok(self.add_held(&mut stripe, hash))
    }

    /// Adds a hash under a stripe; true when that changed the filter.
    #[inline]
    fn add_held(&self, stripe: &mut StripeCount, hash: u64) -> bool {
        let data = &self.segment.data;
        let mask = data.missing(hash);
        if mask == 0 {
            return false;
        }
        // The record comes before the bits: a process killed in between leaves a record too many,
        // which is harmless, and never bits that nothing explains.
        let late = self.medium.sabotaged(Sabotage::BitsBeforeRecord);
        if !late && !self.medium.sabotaged(Sabotage::NoJournal) {
            self.journal.append(Record::Key { hash, mask });
        }
        data.set(hash, mask, |word| self.segment.touch(word));
        if late {
            self.journal.append(Record::Key { hash, mask });
        }
        stripe.adds += 1;
        true
    }

    /// Whether a hash may be in.
    #[inline]
    pub(crate) fn contains_hash(&self, hash: u64) -> bool {
        self.segment.data.contains(hash)
    }

    /// Makes every add that returned before this call durable.
    ///
    /// `mark` becomes the user's own position; without one the last is kept.
    pub(crate) fn sync(&self, mark: Option<u64>) -> Result<()> {
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        let mark = mark.unwrap_or(committed.slot.mark);
        if !self.journal.has_news() && mark == committed.slot.mark {
            return Ok(());
        }
        if !self.journal.has_room() {
            let before = std::mem::replace(&mut committed.slot.mark, mark);
            committed.changed |= mark != before;
            return self
                .checkpoint_held(&mut committed, &stripes, State::Open)
                .inspect_err(|_| committed.slot.mark = before);
        }
        self.journal.append(Record::Sync { mark });
        let mut flushed = self.journal.flush(&self.medium);
        if flushed.is_err() && self.medium.sabotaged(Sabotage::RetryFailedSync) {
            flushed = self.journal.flush(&self.medium);
        }
        flushed.map_err(|source| self.poison("sync the journal", source))?;
        committed.slot.mark = mark;
        Ok(())
    }

    /// Brings page tables and slot up to date with the data, durably.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        self.checkpoint_held(&mut committed, &stripes, State::Open)
    }

    /// A checkpoint after which the file counts as closed in good order.
    pub(crate) fn close(&self) -> Result<()> {
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        self.checkpoint_held(&mut committed, &stripes, State::Clean)
    }

    /// Every stripe, so that no add is under way.
    fn all_stripes(&self) -> Result<AllStripes<'_>> {
        let all = match self.medium.sabotaged(Sabotage::CheckpointWithoutStripes) {
            true => &[],
            false => &self.stripes[..],
        };
        let stripes: AllStripes<'_> = all.iter().map(|stripe| lock(&stripe.0)).collect();
        match self.poisoned.load(Ordering::Relaxed) {
            true => Err(Error::Poisoned),
            false => Ok(stripes),
        }
    }

    /// Ends this handle's life as a writer: what the disk holds is no longer known.
    fn poison(&self, action: &'static str, source: std::io::Error) -> Error {
        self.poisoned.store(true, Ordering::Relaxed);
        Error::Io { action, source }
    }

    /// Whether a write or sync failed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
    }

    /// Adds that changed the filter, ever.
    pub(crate) fn adds(&self) -> u64 {
        self.adds_before + self.stripes.iter().map(|stripe| lock(&stripe.0).adds).sum::<u64>()
    }

    /// The slot as it was last written, with the mark as it was last synced.
    pub(crate) fn committed(&self) -> MutexGuard<'_, Committed> {
        lock(&self.committed)
    }

    /// Replaces the metadata; durable with the next checkpoint.
    pub(crate) fn set_metadata(&self, metadata: crate::format::Metadata) {
        let mut committed = lock(&self.committed);
        if committed.slot.metadata != metadata {
            committed.slot.metadata = metadata;
            committed.changed = true;
        }
    }

    /// What recovery found when the file was opened.
    pub(crate) fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }
}

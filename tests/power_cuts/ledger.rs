//! What a working process tells, on a page of memory that it shares with the campaign: a page, and no
//! pipe, so that the disk can read it in the moment in which the power is cut.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Threads that add in the working process.
pub(crate) const THREADS: usize = 4;

/// How far a process has come with its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub(crate) enum Phase {
    #[default]
    Booting,
    /// Mounted.
    Booted,
    /// Making a new file.
    Creating,
    /// Opening the file that the last power cut left.
    Recovering,
    /// Holding it against what had been told, closing and opening it again.
    Examining,
    Working,
    /// Done with a file that was only to be examined.
    Done,
    /// Something is not as it was promised.
    Failed,
    /// The file system could not be mounted.
    NotMounted,
}

const PHASES: [Phase; 9] = [
    Phase::Booting,
    Phase::Booted,
    Phase::Creating,
    Phase::Recovering,
    Phase::Examining,
    Phase::Working,
    Phase::Done,
    Phase::Failed,
    Phase::NotMounted,
];

/// What a process had told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) phase: Phase,
    /// The file was made, or found.
    pub(crate) exists: bool,
    /// Mark of a sync that has returned.
    pub(crate) mark: u64,
    /// Mark of one that was begun.
    pub(crate) mark_begun: u64,
    /// Operations of each thread that a sync has made durable.
    pub(crate) synced: [u64; THREADS],
    /// Those that were begun.
    pub(crate) begun: [u64; THREADS],
    /// Records that recovery replayed, and pages that it could not verify (F-94).
    pub(crate) replayed: u64,
    pub(crate) unverifiable: u64,
}

/// Places of the words.
const PHASE: usize = 0;
const EXISTS: usize = 1;
const MARK: usize = 2;
const MARK_BEGUN: usize = 3;
const REPLAYED: usize = 4;
const UNVERIFIABLE: usize = 5;
const DEVICE: usize = 6;
const SYNCED: usize = 8;
const BEGUN: usize = SYNCED + THREADS;
const EXTENTS: usize = BEGUN + THREADS;
const MOST_EXTENTS: usize = 64;
const WORDS: usize = EXTENTS + 2 * MOST_EXTENTS;

/// The shared page.
pub(crate) struct Ledger {
    map: MmapRaw,
}

impl Ledger {
    /// Maps the page in a file, which is made longer if need be.
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.unwrap();
        file.set_len(4096).unwrap();
        Ledger { map: MmapOptions::new().len(4096).map_raw(&file).unwrap() }
    }

    /// A page that is shared with no process.
    pub(crate) fn alone() -> Self {
        Ledger { map: memmap2::MmapMut::map_anon(4096).unwrap().into() }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < WORDS);
        // SAFETY: within the page, which starts on a page and stays mapped as long as `self`; every
        // process uses it as atomics only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(at)) }
    }

    /// Release: a process that sees this sees also what was told before it.
    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Back to the state before a process has started.
    pub(crate) fn clear(&self) {
        (0..WORDS).for_each(|at| self.set(at, 0));
    }

    pub(crate) fn told(&self) -> Told {
        // What was synced before what was begun: the other way round, a thread that is fast enough
        // would seem to have synced more than it had begun.
        let mark = self.get(MARK);
        let synced = std::array::from_fn(|thread| self.get(SYNCED + thread));
        Told {
            phase: self.phase(),
            exists: self.get(EXISTS) != 0,
            mark,
            mark_begun: self.get(MARK_BEGUN),
            synced,
            begun: std::array::from_fn(|thread| self.get(BEGUN + thread)),
            replayed: self.get(REPLAYED),
            unverifiable: self.get(UNVERIFIABLE),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        PHASES[self.get(PHASE) as usize]
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.set(PHASE, phase as u64);
    }

    pub(crate) fn file_exists(&self) {
        self.set(EXISTS, 1);
    }

    pub(crate) fn begin(&self, thread: usize, operations: u64) {
        self.set(BEGUN + thread, operations);
    }

    pub(crate) fn synced(&self, thread: usize, operations: u64) {
        self.set(SYNCED + thread, operations);
    }

    pub(crate) fn begin_mark(&self, mark: u64) {
        self.set(MARK_BEGUN, mark);
    }

    pub(crate) fn synced_mark(&self, mark: u64) {
        self.set(MARK, mark);
    }

    /// Tells the number of the loop device.
    pub(crate) fn set_device(&self, number: u64) {
        self.set(DEVICE, number);
    }

    pub(crate) fn device(&self) -> u64 {
        self.get(DEVICE)
    }

    /// Tells where the file is on the disk.
    pub(crate) fn set_extents(&self, extents: &[Range<u64>]) {
        for (at, extent) in extents.iter().take(MOST_EXTENTS).enumerate() {
            self.set(EXTENTS + 2 * at, extent.start);
            self.set(EXTENTS + 2 * at + 1, extent.end);
        }
    }

    pub(crate) fn extents(&self) -> Vec<Range<u64>> {
        let extent = |at| self.get(EXTENTS + 2 * at)..self.get(EXTENTS + 2 * at + 1);
        (0..MOST_EXTENTS).map(extent).filter(|extent| !extent.is_empty()).collect()
    }

    pub(crate) fn recovered(&self, replayed: u64, unverifiable: u64) {
        self.set(REPLAYED, replayed);
        self.set(UNVERIFIABLE, unverifiable);
    }
}

//! An input: its pages, each verified as it is read.

use std::ops::Range;
#[cfg(feature = "files")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::fold::Folding;
use super::stream::{Rule, combine};
use crate::error::{Error, Result};
use crate::file::{
    FilePages, Health, PAGES_AT_ONCE, PageJudge, Pages, Snapshot, Verdict, check_segment,
    read_table_part, recheck_pages, signature,
};
#[cfg(feature = "files")]
use crate::format::{Doubts, Metadata};
use crate::format::{PageEntry, SegmentRecord, Shape, Superblock};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};
use crate::plan::Occupancy;
use crate::random::uuid_text;
use crate::storage::{Bytes, ReadMedium, unpoisoned};
#[cfg(feature = "files")]
use crate::{reader::Reader, storage::open_to_read};

/// Bytes of a page, as the length of an array.
pub(super) const PAGE: usize = PAGE_BYTES as usize;

/// One segment of a file, read page by page.
///
/// The file is looked at again when the source is made, and every bit that is set then is in what
/// is read, whatever a writer does at the same time.
pub(crate) struct Source<'a> {
    /// The file's name, for errors.
    path: Option<PathBuf>,
    medium: Arc<dyn ReadMedium + 'a>,
    snapshot: Arc<Snapshot>,
    /// Which of the file's segments, oldest first.
    index: usize,
    /// Pages of a live or crashed file that hold more than its checksums and journal explain.
    unverified: AtomicU64,
    /// Pages that a writer is changing are judged by one thread at a time: each needs the journal.
    settling: Mutex<()>,
}

#[cfg(feature = "files")]
impl Source<'static> {
    /// Opens a file as an input.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut sources = Self::open_all(path)?;
        let source = sources.swap_remove(0);
        source.refuse_uncombinable().map_err(|error| source.blame(error))?;
        Ok(source)
    }

    /// Opens a file as inputs, one for each of its segments.
    pub(super) fn open_all(path: &Path) -> Result<Vec<Self>> {
        let open = || Self::all_of(Arc::new(open_to_read(path)?), Some(path.to_owned()));
        open().map_err(|error: Error| error.at(path))
    }

    /// The file of a reader, as it is now.
    pub(crate) fn of_reader(reader: &Reader) -> Result<Self> {
        let Some(medium) = reader.medium() else {
            let reason = "its bytes came from elsewhere, and are not kept; open a file";
            return Err(Error::parameter("reader", "made from bytes", reason));
        };
        let open = || {
            let path = reader.path().map(Path::to_owned);
            let source = Self::all_of(Arc::new(medium.clone()), path)?.swap_remove(0);
            source.refuse_uncombinable()?;
            Ok(source)
        };
        open().map_err(|error| reader.blame(error))
    }
}

impl<'a> Source<'a> {
    /// Bytes in memory as an input.
    pub(super) fn of_medium(medium: Arc<dyn ReadMedium + 'a>) -> Result<Self> {
        let source = Self::all_of(medium, None)?.swap_remove(0);
        source.refuse_uncombinable()?;
        Ok(source)
    }

    /// An input for each segment of a file.
    pub(super) fn all_of(
        medium: Arc<dyn ReadMedium + 'a>,
        path: Option<PathBuf>,
    ) -> Result<Vec<Self>> {
        let snapshot = Arc::new(Snapshot::read(&*medium)?);
        let source = |index| Source {
            path: path.clone(),
            medium: Arc::clone(&medium),
            snapshot: Arc::clone(&snapshot),
            index,
            unverified: AtomicU64::new(0),
            settling: Mutex::new(()),
        };
        Ok((0..snapshot.loaded.slot.segments.len()).map(source).collect())
    }

    /// What headers and page tables say of a file whose pages are read by others.
    pub(super) fn of_snapshot(snapshot: Snapshot) -> Result<Self> {
        let source = Source {
            path: None,
            medium: Arc::new(Bytes(&[])),
            snapshot: Arc::new(snapshot),
            index: 0,
            unverified: AtomicU64::new(0),
            settling: Mutex::new(()),
        };
        source.refuse_uncombinable()?;
        Ok(source)
    }

    /// Counts a page that holds more than is explained.
    pub(super) fn note_unverified(&self) {
        self.unverified.fetch_add(1, Ordering::Relaxed);
    }

    /// Refuses what cannot be combined with others: solutions have no bits that could be joined, and
    /// which bits of several segments belong together cannot be told from the bits.
    pub(super) fn refuse_uncombinable(&self) -> Result<()> {
        if self.cells() == CellKind::Sealed {
            let action = "merged, intersected, made smaller or compared";
            return Err(Error::Sealed { action });
        }
        let shape = match self.superblock().shape() {
            Shape::Fixed => return Ok(()),
            Shape::Growing => "a growing filter",
            Shape::Rotating(_) => "a rotating filter",
        };
        let reason = "this takes filters of one segment; build one from the keys";
        Err(Error::parameter("input", shape, reason))
    }

    /// Says which input an error is about.
    pub(super) fn blame(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.at(path),
            None => error,
        }
    }

    pub(super) fn superblock(&self) -> &Superblock {
        &self.snapshot.loaded.superblock
    }

    /// The state of the file, as of when the source was made.
    #[cfg(feature = "digest")]
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.superblock().key_check.is_some()
    }

    pub(super) fn record(&self) -> &SegmentRecord {
        &self.snapshot.loaded.slot.segments[self.index]
    }

    /// Keys that the segment is for, where that is known.
    #[cfg(feature = "files")]
    pub(super) fn capacity(&self) -> Option<u64> {
        let capacity = match self.superblock().shape() {
            Shape::Growing => self.record().capacity,
            Shape::Fixed | Shape::Rotating(_) => self.superblock().capacity,
        };
        Some(capacity).filter(|&capacity| capacity != 0)
    }

    pub(super) fn segments(&self) -> usize {
        self.snapshot.loaded.slot.segments.len()
    }

    #[cfg(feature = "files")]
    pub(super) fn metadata(&self) -> &Metadata {
        &self.snapshot.loaded.slot.metadata
    }

    pub(super) fn cells(&self) -> CellKind {
        self.superblock().cells
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.record().geometry
    }

    pub(super) fn pages(&self) -> u64 {
        self.geometry().pages()
    }

    pub(super) fn health(&self) -> Health {
        self.snapshot.health
    }

    pub(super) fn uuid(&self) -> String {
        uuid_text(&self.superblock().uuid)
    }

    /// Adds that changed the file; for a live one, as of its last checkpoint.
    pub(crate) fn adds(&self) -> u64 {
        let journal = self.snapshot.journal.as_ref();
        let replayed = journal.and_then(|journal| journal.adds.get(self.index).copied());
        self.record().adds.saturating_add_signed(replayed.unwrap_or(0))
    }

    /// Whether [`adds`](Self::adds) counts all there were when the source was made.
    pub(super) fn adds_are_known(&self) -> bool {
        self.health() != Health::Live
    }

    pub(super) fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::Relaxed)
    }

    /// Pages in doubt: those that the file's slot counts, told by its first segment, and those that
    /// were found in this one since the source was made.
    #[cfg(feature = "files")]
    pub(super) fn doubts(&self) -> Doubts {
        let counted = match self.index {
            0 => self.snapshot.loaded.slot.doubts(),
            _ => Doubts::default(),
        };
        counted.with(Doubts { unverifiable: self.found_in_doubt(), repaired: 0 })
    }

    /// Pages that a crash left and nothing explained. What a live writer added without a record, its
    /// checkpoint takes as well, and counts nothing.
    pub(super) fn found_in_doubt(&self) -> u64 {
        if self.health() == Health::Live { 0 } else { self.unverified() }
    }

    /// What may be believed of the pages, by the headers that were read when the source was made.
    fn judge(&self) -> PageJudge<'_> {
        let Snapshot { loaded, journal, .. } = &*self.snapshot;
        let now = self.medium.boot_id();
        PageJudge::of(&loaded.superblock, &loaded.slot, self.index, journal.as_ref(), now)
    }

    /// What the page table says of some pages.
    pub(super) fn entries(&self, pages: Range<u64>) -> Result<Vec<PageEntry>> {
        read_table_part(&*self.medium, self.record(), pages).map_err(|error| self.blame(error))
    }

    /// How full the file was at its last checkpoint, from its page table.
    pub(super) fn tabled(&self) -> &Occupancy {
        &self.snapshot.occupancy[self.index]
    }

    /// How full the file is now: from the page table of one that was closed, and from the data of
    /// any other.
    pub(super) fn counted(&self) -> Result<Occupancy> {
        if self.health() == Health::Clean {
            return Ok(self.tabled().clone());
        }
        let sources = std::slice::from_ref(self);
        let found = self.unverified();
        let counted = combine(self.geometry(), sources, Rule::Union, None, |_, _, _| Ok(()));
        // The pages will be read once more, and found again.
        self.unverified.store(found, Ordering::Relaxed);
        counted
    }

    /// The pages, as the file has them.
    fn file_pages(&self) -> FilePages<'_> {
        FilePages::new(&*self.medium, self.index, self.record().extent())
    }

    /// Shows some pages, verified and with what the journal says in them, each once and in no
    /// certain order.
    pub(super) fn read(&self, pages: Range<u64>, mut take: impl FnMut(u64, &[u8])) -> Result<()> {
        let (judge, file) = (self.judge(), self.file_pages());
        let mut bytes = vec![0; PAGES_AT_ONCE.min(pages.end - pages.start) as usize * PAGE];
        for first in pages.clone().step_by(PAGES_AT_ONCE as usize) {
            let few = first..(first + PAGES_AT_ONCE).min(pages.end);
            let bytes = &mut bytes[..(few.end - few.start) as usize * PAGE];
            file.read(first, bytes).map_err(|error| self.blame(error))?;
            let table = self.entries(few.clone())?;
            let mut doubtful = Vec::new();
            for ((page, bytes), expected) in few.zip(bytes.chunks_exact_mut(PAGE)).zip(table) {
                if judge.judge(page, bytes, expected) == Verdict::Exact {
                    judge.complete(page, bytes);
                    take(page, bytes);
                } else {
                    doubtful.push(page);
                }
            }
            self.recheck(&doubtful, &mut take)?;
        }
        Ok(())
    }

    /// As [`read`](Self::read), into memory for all of these pages, with the entries that they have as
    /// they are there; those of sealed pages are the table's.
    #[cfg(feature = "digest")]
    pub(super) fn read_into(&self, pages: Range<u64>, into: &mut [u8]) -> Result<Vec<PageEntry>> {
        let (judge, file, cells) = (self.judge(), self.file_pages(), self.cells());
        // What a journal adds is not in the table.
        let tabled = self.snapshot.journal.is_none() || cells == CellKind::Sealed;
        let mut entries = Vec::with_capacity((pages.end - pages.start) as usize);
        let mut doubtful = Vec::new();
        let pieces = into.chunks_mut(PAGES_AT_ONCE as usize * PAGE);
        for (first, bytes) in pages.clone().step_by(PAGES_AT_ONCE as usize).zip(pieces) {
            file.read(first, bytes).map_err(|error| self.blame(error))?;
            let few = first..(first + PAGES_AT_ONCE).min(pages.end);
            let table = self.entries(few.clone())?;
            for ((page, bytes), expected) in few.zip(bytes.chunks_exact_mut(PAGE)).zip(table) {
                if judge.judge(page, bytes, expected) != Verdict::Exact {
                    doubtful.push(page);
                }
                judge.complete(page, bytes);
                entries.push(if tabled { expected } else { PageEntry::of(bytes, cells) });
            }
        }
        self.recheck(&doubtful, &mut |page: u64, read: &[u8]| {
            let at = (page - pages.start) as usize;
            into[at * PAGE..][..PAGE].copy_from_slice(read);
            if cells != CellKind::Sealed {
                entries[at] = PageEntry::of(read, cells);
            }
        })?;
        Ok(entries)
    }

    /// Shows pages that are not what the headers said: changed by a writer, or damaged.
    fn recheck(&self, pages: &[u64], take: &mut impl FnMut(u64, &[u8])) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let _alone = unpoisoned(&self.settling);
        let (mut damaged, mut busy) = (None, false);
        let mut show = |page: u64, bytes: &[u8], verdict: Option<Verdict>| {
            match verdict {
                Some(Verdict::Exact) => {}
                Some(Verdict::Damaged { lost }) => damaged = damaged.or(Some((page, lost))),
                Some(Verdict::Unverifiable) => {
                    self.note_unverified();
                }
                // What the journal said when the page was read is not known: it may lack keys.
                None => busy = true,
            }
            take(page, bytes);
        };
        let judged = self.judge_as_loaded(pages, &mut show)?;
        let left = &pages[judged..];
        recheck_pages(&*self.medium, self.record().offset, left, show)
            .map_err(|error| self.blame(error))?;
        let Some((page, lost)) = damaged else {
            return if busy { Err(self.blame(Error::Busy)) } else { Ok(()) };
        };
        // The whole extent of the damage is worth a second look: it is what the user has to know.
        let one = Error::Damaged { count: 1, segment: self.index as u32, page, lost };
        Err(self.verify().err().unwrap_or_else(|| self.blame(one)))
    }

    /// Judges pages by the headers and the journal that were read when the source was made, as long as
    /// these hold: until a slot is written, of a file that no writer had then. How many pages that
    /// were; the journal need not be read for them.
    fn judge_as_loaded(
        &self,
        pages: &[u64],
        show: &mut impl FnMut(u64, &[u8], Option<Verdict>),
    ) -> Result<usize> {
        if self.health() == Health::Live {
            return Ok(0);
        }
        let (judge, file) = (self.judge(), self.file_pages());
        let mut bytes = [0; PAGE];
        for (judged, &page) in pages.iter().enumerate() {
            let expected = self.entries(page..page + 1)?[0];
            file.read(page, &mut bytes).map_err(|error| self.blame(error))?;
            let now = signature(&*self.medium).map_err(|error| self.blame(error))?;
            if now != self.snapshot.loaded.signature {
                return Ok(judged);
            }
            let verdict = judge.judge(page, &bytes, expected);
            judge.complete(page, &mut bytes);
            show(page, &bytes, Some(verdict));
        }
        Ok(pages.len())
    }

    /// Reads every page; one that is damaged is an error.
    pub(super) fn verify(&self) -> Result<()> {
        let Snapshot { loaded, journal, .. } = &*self.snapshot;
        let (place, live) = ((&**loaded, self.index), self.health() == Health::Live);
        check_segment(&*self.medium, place, journal.as_ref(), live, &self.file_pages())
            .and_then(|check| check.refuse_damage(self.index))
            .map_err(|error| self.blame(error))
    }

    /// ORs into `into` what the input has for pages of `target`, to which it folds.
    pub(crate) fn read_folded(
        &self,
        target: &Geometry,
        pages: Range<u64>,
        into: &mut [u8],
    ) -> Result<()> {
        let folding = Folding::new(self.geometry(), target);
        for sources in folding.sources(pages.clone()) {
            self.read(sources, |page, bytes| folding.fold(page, bytes, pages.start, into))?;
        }
        Ok(())
    }
}

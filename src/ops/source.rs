//! An input: its pages, each verified as it is read.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::fold;
use super::stream::{Rule, combine};
use crate::engine::{
    PAGE_WORDS, Patches, Verdict, WINDOW, judge, page_patches, read_table_part, recheck_pages,
    settle_pages,
};
use crate::error::{Error, Result};
use crate::format::{CellKind, Metadata, PageEntry, SegmentRecord, Shape, Superblock};
use crate::geometry::{Geometry, PAGE_BYTES};
use crate::reader::Reader;
use crate::report::{Counted, Health, uuid_text};

/// Bytes of a page, as the length of an array.
pub(super) const PAGE: usize = PAGE_BYTES as usize;

/// One segment of a file, read page by page.
///
/// The file is looked at anew when the source is made, and every bit that is set then is in what
/// is read, whatever a writer does meanwhile.
pub(crate) struct Source {
    /// The file's name, for errors.
    path: Option<PathBuf>,
    reader: Arc<Reader>,
    /// Which of the file's segments, oldest first.
    index: usize,
    /// Pages of a live or crashed file that hold more than its checksums and journal explain.
    unverified: AtomicU64,
    /// Pages that a writer is changing are judged by one thread at a time: each needs the journal.
    settling: Mutex<()>,
}

impl Source {
    /// Opens a file as an input.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut sources = Self::open_all(path)?;
        let source = sources.swap_remove(0);
        source.refuse_several_segments().map_err(|error| source.blame(error))?;
        Ok(source)
    }

    /// Opens a file as inputs, one for each of its segments.
    pub(super) fn open_all(path: &Path) -> Result<Vec<Self>> {
        let reader = Arc::new(Reader::open(path).map_err(|error| error.of_input(path))?);
        let segments = reader.examined().loaded.slot.segments.len();
        let path = Some(path.to_owned());
        Ok((0..segments).map(|at| Self::new(Arc::clone(&reader), at, path.clone())).collect())
    }

    /// The file of a reader, as it is now.
    pub(crate) fn of_reader(reader: &Reader) -> Result<Self> {
        let source = Self::new(Arc::new(reader.reopen()?), 0, None);
        source.refuse_several_segments()?;
        Ok(source)
    }

    fn new(reader: Arc<Reader>, index: usize, path: Option<PathBuf>) -> Self {
        let (unverified, settling) = (AtomicU64::new(0), Mutex::new(()));
        Source { path, reader, index, unverified, settling }
    }

    /// Which bits of several segments belong together cannot be told from the bits.
    pub(super) fn refuse_several_segments(&self) -> Result<()> {
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
            Some(path) => error.of_input(path),
            None => error,
        }
    }

    pub(super) fn superblock(&self) -> &Superblock {
        &self.reader.examined().loaded.superblock
    }

    pub(super) fn record(&self) -> &SegmentRecord {
        &self.reader.examined().loaded.slot.segments[self.index]
    }

    pub(super) fn segments(&self) -> usize {
        self.reader.examined().loaded.slot.segments.len()
    }

    pub(super) fn metadata(&self) -> &Metadata {
        self.reader.metadata()
    }

    pub(super) fn cells(&self) -> CellKind {
        self.superblock().cells
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.record().geometry
    }

    pub(super) fn pages(&self) -> u64 {
        self.geometry().pages(self.cells().bits())
    }

    pub(super) fn health(&self) -> Health {
        self.reader.health()
    }

    pub(super) fn uuid(&self) -> String {
        uuid_text(&self.reader.uuid())
    }

    /// Adds that changed the file; for a live one, as of its last checkpoint.
    pub(crate) fn adds(&self) -> u64 {
        let journalled = self.reader.examined().journalled.as_ref();
        // The records of a counting file are changes of counters, not adds.
        let newest = self.index + 1 == self.segments();
        let journalled = journalled.filter(|_| newest && self.cells() == CellKind::Plain);
        self.record().adds.saturating_add(journalled.map_or(0, |journalled| journalled.keys))
    }

    /// Whether [`adds`](Self::adds) counts all there were when the source was made.
    pub(super) fn adds_are_known(&self) -> bool {
        self.health() != Health::Live
    }

    pub(super) fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::Relaxed)
    }

    /// What turns the data back into what the page table describes.
    fn before(&self) -> &Patches {
        let journalled = self.reader.examined().journalled.as_ref();
        journalled.map_or(&[], |journalled| &journalled.changes[self.index].before)
    }

    /// What the page table says of some pages.
    pub(super) fn entries(&self, pages: Range<u64>) -> Result<Vec<PageEntry>> {
        read_table_part(self.reader.medium(), self.record(), self.cells().bits(), pages)
            .map_err(|error| self.blame(error))
    }

    /// How full the file was at its last checkpoint, from its page table.
    pub(super) fn tabled(&self) -> &Counted {
        &self.reader.examined().counted[self.index]
    }

    /// How full the file is now: from the page table of one that was closed, and from the data of
    /// any other.
    pub(super) fn counted(&self) -> Result<Counted> {
        if self.health() == Health::Clean {
            return Ok(self.tabled().clone());
        }
        let sources = std::slice::from_ref(self);
        combine(self.geometry(), sources, Rule::Union, None, |_, _, _| Ok(()))
    }

    /// Shows some pages, verified, each once and in no certain order.
    pub(super) fn read(&self, pages: Range<u64>, mut take: impl FnMut(u64, &[u8])) -> Result<()> {
        let mut doubtful = Vec::new();
        let mut start = pages.start;
        while start < pages.end {
            let window = start..(start + WINDOW).min(pages.end);
            start = window.end;
            let table = self.entries(window.clone())?;
            let mut bytes = [0; PAGE];
            for (page, expected) in window.zip(table) {
                self.reader.words_of(self.index).copy(page as usize * PAGE_WORDS, &mut bytes);
                match self.matches(page, &bytes, expected) {
                    true => take(page, &bytes),
                    false => doubtful.push(page),
                }
            }
            self.settle(&doubtful, &mut take)?;
            doubtful.clear();
        }
        Ok(())
    }

    /// Whether a page is what the headers said when the source was made.
    fn matches(&self, page: u64, bytes: &[u8; PAGE], expected: PageEntry) -> bool {
        let patches = page_patches(self.before(), page);
        if patches.is_empty() && crc32fast::hash(bytes) == expected.crc {
            return true;
        }
        let mut restored = *bytes;
        let verdict = judge(&mut restored, page, patches, expected, self.cells().bits());
        // Keys that had been added but not synced before a power cut: recovery keeps them too.
        let unsynced = self.health() == Health::Crashed && verdict == Verdict::Unexplained;
        if unsynced {
            self.unverified.fetch_add(1, Ordering::Relaxed);
        }
        verdict == Verdict::Exact || unsynced
    }

    /// Shows pages that are not what the headers said: changed by a writer, or damaged.
    fn settle(&self, pages: &[u64], take: &mut impl FnMut(u64, &[u8])) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let _alone = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let (medium, words) = (self.reader.medium(), self.reader.words_of(self.index));
        let mut damaged = None;
        let offset = self.record().offset;
        settle_pages(medium, words, offset, pages, |page, bytes, verdict| {
            match verdict {
                Verdict::Exact => {}
                Verdict::Unexplained => {
                    self.unverified.fetch_add(1, Ordering::Relaxed);
                }
                Verdict::Damaged { lost } => damaged = damaged.or(Some((page, lost))),
            }
            take(page, bytes);
        })
        .map_err(|error| self.blame(error))?;
        let Some((page, lost)) = damaged else { return Ok(()) };
        // The whole extent of the damage is worth a second look: it is what the user has to know.
        let one = Error::Damaged { count: 1, segment: self.index as u32, page, lost };
        let all =
            recheck_pages(medium, words, offset).and_then(|check| check.refuse_damage(self.index));
        Err(self.blame(all.err().unwrap_or(one)))
    }

    /// ORs into `into` what the input has for pages of `target`, to which it folds.
    pub(crate) fn read_folded(
        &self,
        target: &Geometry,
        pages: Range<u64>,
        into: &mut [u8],
    ) -> Result<()> {
        let (cells, geometry) = (self.cells(), self.geometry());
        let factor = geometry.foldable() / target.foldable();
        let [row_pages, target_row_pages] =
            [geometry, target].map(|geometry| geometry.row_pages(cells.bits()));
        let mut start = pages.start;
        while start < pages.end {
            // Within a row, the pages of the input that fold into neighbours are neighbours.
            let row = start / target_row_pages;
            let end = pages.end.min((row + 1) * target_row_pages);
            let within = |page: u64| {
                row * row_pages + ((page - row * target_row_pages) * factor).min(row_pages)
            };
            self.read(within(start)..within(end), |page, bytes| {
                let place = page - row * row_pages;
                let at = (row * target_row_pages + place / factor - pages.start) as usize * PAGE;
                let into = &mut into[at..at + PAGE];
                fold::fold_page(cells, geometry.layout(), factor, place % factor, bytes, into);
            })?;
            start = end;
        }
        Ok(())
    }
}

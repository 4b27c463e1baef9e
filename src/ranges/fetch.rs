//! Pages that are read and held against the page table.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::Step;
use super::cache::{Judged, PageNumber};
use super::file::Shared;
use super::opening::header_bytes;
use super::pieces::Pieces;
use crate::error::{Error, Result};
use crate::file::{Headers, JournalContents, PageJudge, Verdict};
use crate::format::{BootId, ENTRY_BYTES, JOURNAL_OFFSET, PageEntry, State};
use crate::geometry::PAGE_BYTES;
use crate::hash::crc_of;
use crate::kernel::loose::LoosePage;

/// Entries in a page of a page table.
const ENTRIES: u64 = PAGE_BYTES / ENTRY_BYTES as u64;

/// A page that was read, and what was found out about it.
pub(super) struct Fetched {
    pub(super) number: PageNumber,
    pub(super) verdict: Verdict,
    pub(super) page: Arc<Judged>,
}

/// Pages that are being read and judged.
pub(super) struct Fetch {
    shared: Arc<Shared>,
    wanted: Vec<PageNumber>,
    pieces: Pieces,
    stage: Stage,
    judged: Vec<Fetched>,
}

enum Stage {
    /// All pages and their entries are read.
    Pages,
    /// Those that are not what they should be are read once more (F-108).
    Again(Vec<PageNumber>),
    /// Then the headers, and the journal of a file that was not closed.
    Headers(Vec<PageNumber>, Pieces),
}

impl Fetch {
    /// The pages of a file with these numbers, each once.
    pub(super) fn new(shared: Arc<Shared>, wanted: impl IntoIterator<Item = PageNumber>) -> Self {
        let pieces = Pieces::new(shared.length);
        let wanted = wanted.into_iter().collect();
        Fetch { shared, wanted, pieces, stage: Stage::Pages, judged: Vec::new() }
    }

    /// The pages, in any order.
    pub(super) fn step(&mut self) -> Result<Step<Vec<Fetched>>> {
        loop {
            match &mut self.stage {
                Stage::Pages => {
                    let wanted = std::mem::take(&mut self.wanted);
                    let needed = self.need(&wanted);
                    if !needed.is_empty() {
                        self.wanted = wanted;
                        return Ok(Step::Need(needed));
                    }
                    let (exact, doubtful) = self.judge(&wanted, self.shared.journal())?;
                    self.judged.extend(exact);
                    self.pieces.clear();
                    if doubtful.is_empty() {
                        return Ok(Step::Done(std::mem::take(&mut self.judged)));
                    }
                    let doubtful = doubtful.into_iter().map(|found| found.number).collect();
                    self.stage = Stage::Again(doubtful);
                }
                Stage::Again(doubtful) => {
                    let doubtful = doubtful.clone();
                    let needed = self.need(&doubtful);
                    if !needed.is_empty() {
                        return Ok(Step::Need(needed));
                    }
                    self.stage = Stage::Headers(doubtful, Pieces::new(self.shared.length));
                }
                Stage::Headers(doubtful, pieces) => {
                    let needed = pieces.need_one(0..JOURNAL_OFFSET);
                    if !needed.is_empty() {
                        return Ok(Step::Need(needed));
                    }
                    if header_bytes(pieces) != self.shared.headers {
                        return Err(Error::Changed);
                    }
                    let mut journal = None;
                    if self.shared.snapshot.loaded.slot.state == State::Open {
                        match pieces.run(|pieces| Headers::read(pieces))? {
                            Step::Need(ranges) => return Ok(Step::Need(ranges)),
                            Step::Done(headers) => journal = headers.journal,
                        }
                    }
                    let doubtful = std::mem::take(doubtful);
                    let (exact, others) = self.judge(&doubtful, journal.as_ref())?;
                    self.judged.extend(exact.into_iter().chain(others));
                    return Ok(Step::Done(std::mem::take(&mut self.judged)));
                }
            }
        }
    }

    pub(super) fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        match &mut self.stage {
            Stage::Headers(_, pieces) => pieces.give(start, bytes),
            Stage::Pages | Stage::Again(_) => self.pieces.give(start, bytes),
        }
    }

    /// What has to be read for pages and their entries.
    fn need(&mut self, pages: &[PageNumber]) -> Vec<Range<u64>> {
        let shared = &self.shared;
        let cache = shared.cache();
        let mut tables = BTreeSet::new();
        tables.extend(pages.iter().map(|&it| table_page(it)));
        let tables = tables.into_iter().filter(|&table| cache.table(table).is_none());
        let tables = tables.map(|table| table_range(shared, table));
        let data = pages.iter().map(|&page| data_range(shared, page));
        let ranges: Vec<Range<u64>> = tables.chain(data).collect();
        drop(cache);
        self.pieces.need(ranges)
    }

    /// Judges pages that are at hand: those that are right, and the others.
    fn judge(
        &self,
        pages: &[PageNumber],
        journal: Option<&JournalContents>,
    ) -> Result<(Vec<Fetched>, Vec<Fetched>)> {
        let Shared { snapshot, .. } = &*self.shared;
        let (superblock, slot) = (&snapshot.loaded.superblock, &snapshot.loaded.slot);
        let mut tables = BTreeMap::new();
        let (mut exact, mut others) = (Vec::new(), Vec::new());
        for &number in pages {
            let (segment, page) = number;
            let table = match tables.entry(table_page(number)) {
                std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(self.table(table_page(number))?)
                }
            };
            let at = (page % ENTRIES) as usize * ENTRY_BYTES;
            let entry = PageEntry::decode(&table[at..at + ENTRY_BYTES]);
            let Some(mut bytes) = self.pieces.get(data_range(&self.shared, number)) else {
                unreachable!("all pages were read")
            };
            let judge = PageJudge::of(superblock, slot, segment, journal, BootId::default());
            let verdict = judge.judge(page, &bytes, entry);
            let judged = match verdict {
                Verdict::Damaged { lost } => Judged::Damaged { lost },
                Verdict::Exact | Verdict::Unverifiable => {
                    judge.complete(page, &mut bytes);
                    Judged::Sound(LoosePage::new(&bytes))
                }
            };
            let found = Fetched { number, verdict, page: Arc::new(judged) };
            if verdict == Verdict::Exact { exact.push(found) } else { others.push(found) }
        }
        Ok((exact, others))
    }

    /// A page of a page table, which is the one that was there at opening.
    fn table(&self, number: PageNumber) -> Result<Arc<Vec<u8>>> {
        if let Some(table) = self.shared.cache().table(number) {
            return Ok(table);
        }
        let Some(bytes) = self.pieces.get(table_range(&self.shared, number)) else {
            unreachable!("all entries were read")
        };
        let (segment, page) = number;
        // Of a file that was opened to be asked, each entry that counts is held against its page.
        let opened = self.shared.tables.get(segment);
        if opened.is_some_and(|crcs| crc_of(&bytes) != crcs[page as usize]) {
            return Err(Error::Changed);
        }
        let bytes = Arc::new(bytes);
        self.shared.cache().keep_table(number, Arc::clone(&bytes));
        Ok(bytes)
    }
}

/// The page of the page table that holds the entry of a page.
fn table_page((segment, page): PageNumber) -> PageNumber {
    (segment, page / ENTRIES)
}

fn table_range(shared: &Shared, (segment, page): PageNumber) -> Range<u64> {
    let segment = &shared.segments()[segment];
    let table = segment.extent().table_range(segment.table);
    let start = table.start + page * PAGE_BYTES;
    // A small table is half a page (F-5).
    start..table.end.min(start + PAGE_BYTES)
}

fn data_range(shared: &Shared, (segment, page): PageNumber) -> Range<u64> {
    let start = shared.segments()[segment].extent().data() + page * PAGE_BYTES;
    start..start + PAGE_BYTES
}

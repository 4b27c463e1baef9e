//! Page tables and data.

use std::collections::BTreeMap;
use std::ops::Range;

use super::headers::Parameters;
use super::{CHANGES, DataPages, Detail, Explainer, Verification, Walk, span};
use crate::error::Error;
use crate::file::{Health, JournalContents, PageJudge, Verdict, is_locked};
use crate::format::{
    ENTRY_BYTES, ENTRY_FIELDS, Extent, PageEntry, SegmentRecord, Slot, State, validate_extents,
};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::hash::Crc;
use crate::sealed::Header;
use crate::sealed::header::HEADER_BYTES;

/// Pages that are read at once.
const CHUNK_PAGES: u64 = 64;

/// What is said of a table that is no more the one of the slot.
const OVERTAKEN: &str = "written again since the slot was read (F-62)";

/// What a data page is, held against its table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// As the table says.
    Exact,
    /// As table and journal say.
    Journalled,
    Unverifiable,
    Damaged,
    /// Damaged in a way in which no writer changes a page under the same slots.
    Lost,
    /// Something else, which a writer may have changed.
    Changed,
    /// The table that would tell is damaged itself.
    Unchecked,
    /// The table that would tell was written again since the slot that describes it was read.
    Overtaken,
    /// It was not read.
    Unread,
}

impl Explainer<'_> {
    /// All segments, in the order of their places; tells where the file should end.
    pub(super) fn segments(&mut self, slot: &Slot, parameters: &Parameters) -> Walk<u64> {
        let mut segments: Vec<(usize, &SegmentRecord)> = slot.segments.iter().enumerate().collect();
        segments.sort_unstable_by_key(|(index, segment)| (segment.offset, *index));
        let open = slot.state == State::Open;
        let superblock = parameters.superblock.as_ref().filter(|_| open);
        // Records name the regions of their segments.
        let mut placed = slot.clone();
        let journal = superblock
            .filter(|it| validate_extents(it, &mut placed, self.length).is_ok())
            .and_then(|it| JournalContents::read(self.medium, it, &placed).ok());
        let mut end = super::first_offset(slot);
        for (index, segment) in segments {
            let extent = segment.extent();
            self.spare(end, extent.offset)?;
            self.tables(index, segment, extent)?;
            let judge = parameters.superblock.as_ref().filter(|_| !open || journal.is_some());
            let judge = judge.map(|superblock| {
                let now = self.medium.boot_id();
                PageJudge::of(superblock, &placed, index, journal.as_ref(), now)
            });
            let expected = Expected { judge, open, cells: parameters.cells };
            match self.data {
                DataPages::Read => self.data(index, segment, extent, expected)?,
                DataPages::Known(known) => {
                    let listed = slot.segments[..index].iter();
                    let first = listed.map(|segment| segment.geometry.pages()).sum();
                    self.known(index, segment, extent, known, first)?;
                }
            }
            end = extent.end();
        }
        // The spare region of a rotating file may be the last one.
        let spare = slot.file_bytes.clamp(end, end.max(self.length));
        self.spare(end, spare)?;
        Ok(spare.max(slot.file_bytes))
    }

    fn spare(&mut self, start: u64, end: u64) -> Walk {
        let note = "not listed by the slot: what it holds means nothing (F-28)";
        self.tell(start..end, "spare region", "all", "anything", note)
    }

    fn tables(&mut self, index: usize, segment: &SegmentRecord, extent: Extent) -> Walk {
        let used = extent.pages * ENTRY_BYTES as u64;
        for which in [0, 1] {
            let Range { start, end } = extent.table_range(which);
            let (role, note) = if which == segment.table {
                ("counts", self.table_verdict(segment, extent)?.1)
            } else {
                ("scratch", "scratch: it may hold anything (F-62)".into())
            };
            let name = format!("segment {index}, page table {which} ({role})");
            let entries = start..start.saturating_add(used);
            match self.detail {
                Detail::Summary => {
                    let field = format!("entries {}", span(0, extent.pages));
                    let value = "CRC-32 and ones of each page";
                    self.tell(entries.clone(), &name, field, value, note)?;
                }
                Detail::Everything => self.entries(&name, start, extent.pages)?,
            }
            let half = end.saturating_sub(start) < PAGE_BYTES;
            let note = if half { "up to half a page (F-5)" } else { "up to whole pages (F-5)" };
            self.tell(entries.end..end, name, "padding", "zeros", note)?;
        }
        Ok(())
    }

    /// Whether a segment's table is the one that the slot describes, and what is to be said of it.
    ///
    /// Ends at the first entry that no page can have: a table may be a hole of any length (F-39).
    fn table_verdict(&self, segment: &SegmentRecord, extent: Extent) -> Walk<(bool, String)> {
        let Range { start, end } = extent.table_range(segment.table);
        let length = end - start;
        let mut crc = Crc::new();
        let mut bytes = vec![0; (CHUNK_PAGES * PAGE_BYTES).min(length) as usize];
        let mut pages = 0..extent.pages;
        let mut at = 0;
        while at < length {
            let wanted = (bytes.len() as u64).min(length - at) as usize;
            let there = self.read_into(&mut bytes[..wanted], start.saturating_add(at))?;
            crc.update(&bytes[..there]);
            for (entry, page) in bytes[..there].chunks_exact(ENTRY_BYTES).zip(&mut pages) {
                let entry = PageEntry::decode(entry);
                if !entry.is_possible(&segment.geometry, page) {
                    if self.is_overtaken() {
                        return Ok((false, OVERTAKEN.into()));
                    }
                    let note = format!("wrong: no page can have what entry {page} says (F-64)");
                    return Ok((false, note));
                }
            }
            if there < wanted {
                break;
            }
            at += wanted as u64;
        }
        Ok(match crc.finalize() {
            crc if crc == segment.table_crc => (true, "table_crc is right".into()),
            // The table that counts is written again after the next slot only.
            _ if self.is_overtaken() => (false, OVERTAKEN.into()),
            crc => {
                let note =
                    format!("wrong: the slot's table_crc is another, the bytes give {crc:#010x}");
                (false, note)
            }
        })
    }

    fn entries(&mut self, name: &str, start: u64, pages: u64) -> Walk {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let per_read = PAGE_BYTES / ENTRY_BYTES as u64;
        let pages = pages.min(self.there(start, ENTRY_BYTES as u64));
        let mut first = 0;
        while first < pages {
            let offset = start + first * ENTRY_BYTES as u64;
            let data = self.medium.data_from(offset).map_err(Error::io("read the file"))?;
            let hole = ((data - offset) / ENTRY_BYTES as u64).min(pages - first);
            if hole > 0 {
                let end = offset + hole * ENTRY_BYTES as u64;
                let field = format!("entries {}", span(first, hole));
                let note = "a hole in the file: nothing was ever written here";
                self.tell(offset..end, name, field, "zeros", note)?;
                first += hole;
                continue;
            }
            bytes.fill(0);
            self.read_into(&mut bytes, offset)?;
            let entries = bytes.chunks_exact(ENTRY_BYTES).take((pages - first) as usize);
            for (page, entry) in (first..).zip(entries) {
                let PageEntry { crc, ones } = PageEntry::decode(entry);
                let at = start + page * ENTRY_BYTES as u64;
                let value = format!("crc {crc:#010x}, ones {ones}");
                let note = ENTRY_FIELDS.map(|field| field.meaning).join("; ");
                let field = format!("entry {page}");
                self.tell(at..at + ENTRY_BYTES as u64, name, field, value, note)?;
            }
            first += per_read;
        }
        Ok(())
    }

    /// How many structures of this size from `start` the file holds, the last one cut short or not.
    fn there(&self, start: u64, size: u64) -> u64 {
        self.length.saturating_sub(start).div_ceil(size)
    }

    fn data(
        &mut self,
        index: usize,
        segment: &SegmentRecord,
        extent: Extent,
        expected: Expected<'_>,
    ) -> Walk {
        let table_start = extent.table(segment.table);
        let name = format!("segment {index}, data");
        // What the headers say may be more than the file has.
        let pages = extent.pages.min(self.there(extent.data(), PAGE_BYTES));
        if pages == 0 {
            return Ok(());
        }
        if !self.table_verdict(segment, extent)?.0 {
            let what = if self.is_overtaken() { Page::Overtaken } else { Page::Unchecked };
            return self.pages(&name, extent, expected.cells, (what, 0, pages));
        }
        let mut run: Option<(Page, u64, u64)> = None;
        let mut bytes = vec![0; (CHUNK_PAGES.min(pages) * PAGE_BYTES) as usize];
        let mut table = vec![0; CHUNK_PAGES as usize * ENTRY_BYTES];
        for first in (0..pages).step_by(CHUNK_PAGES as usize) {
            let count = CHUNK_PAGES.min(pages - first);
            let there = self
                .read_into(&mut bytes[..(count * PAGE_BYTES) as usize], page_at(extent, first))?;
            let entries = &mut table[..count as usize * ENTRY_BYTES];
            self.read_into(entries, table_start + first * ENTRY_BYTES as u64)?;
            let pages = bytes[..there].chunks(PAGE_BYTES as usize);
            let found = (first..).zip(pages.clone().zip(entries.chunks_exact(ENTRY_BYTES)));
            let judge = |(page, (bytes, entry)): (u64, (&[u8], &[u8]))| {
                expected.judge(page, bytes, PageEntry::decode(entry))
            };
            let mut judged: Vec<Page> = found.map(judge).collect();
            self.excuse(&mut judged)?;
            for (page, (bytes, judged)) in (first..).zip(pages.zip(judged)) {
                let single = self.detail == Detail::Everything;
                if single && expected.cells == CellKind::Sealed && judged == Page::Exact {
                    self.sealed_page(&name, extent, page, bytes)?;
                    continue;
                }
                match &mut run {
                    Some((state, _, count)) if *state == judged && !single => *count += 1,
                    _ => {
                        if let Some(run) = run.replace((judged, page, 1)) {
                            self.pages(&name, extent, expected.cells, run)?;
                        }
                    }
                }
            }
        }
        match run {
            Some(run) => self.pages(&name, extent, expected.cells, run),
            None => Ok(()),
        }
    }

    /// What a writer may have done to pages that were read just now is no damage.
    fn excuse(&self, pages: &mut [Page]) -> Walk {
        let in_doubt =
            |page: &Page| matches!(page, Page::Unverifiable | Page::Damaged | Page::Lost);
        if !CHANGES || !pages.iter().any(in_doubt) {
            return Ok(());
        }
        // In this order: a writer that let go of its lock before has written a slot before that.
        let live = is_locked(self.medium)?;
        let overtaken = self.is_overtaken();
        for page in pages {
            let excused = match page {
                // Since the journal was read, a writer may have gone on.
                Page::Unverifiable | Page::Damaged => live || overtaken,
                Page::Lost => overtaken,
                _ => false,
            };
            if excused {
                *page = Page::Changed;
            } else if *page == Page::Lost {
                *page = Page::Damaged;
            }
        }
        Ok(())
    }

    /// The pages of a segment that were checked before, as [`data`](Self::data) tells them. They are
    /// numbered through all segments, from `first` on.
    fn known(
        &mut self,
        index: usize,
        segment: &SegmentRecord,
        extent: Extent,
        known: Option<&Verification>,
        first: u64,
    ) -> Walk {
        let (name, cells) = (format!("segment {index}, data"), segment.geometry.cell_kind());
        let Some(known) = known else {
            return self.pages(&name, extent, cells, (Page::Unread, 0, extent.pages));
        };
        let mut doubtful = BTreeMap::new();
        for (pages, what) in [
            (&known.pages_damaged, Page::Damaged),
            (&known.pages_unverifiable, Page::Unverifiable),
            (&known.pages_busy, Page::Changed),
        ] {
            let here = pages.iter().filter_map(|page| page.checked_sub(first));
            doubtful.extend(here.filter(|page| *page < extent.pages).map(|page| (page, what)));
        }
        let doubtful: Vec<(u64, Page)> = doubtful.into_iter().collect();
        let sound = if known.health == Health::Clean { Page::Exact } else { Page::Journalled };
        let mut next = 0;
        for same in doubtful.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 == b.1) {
            let (page, what) = same[0];
            if next < page {
                self.pages(&name, extent, cells, (sound, next, page - next))?;
            }
            self.pages(&name, extent, cells, (what, page, same.len() as u64))?;
            next = page + same.len() as u64;
        }
        if next < extent.pages {
            self.pages(&name, extent, cells, (sound, next, extent.pages - next))?;
        }
        Ok(())
    }

    /// A sealed page by itself: its header and the words behind it.
    fn sealed_page(&mut self, name: &str, extent: Extent, page: u64, bytes: &[u8]) -> Walk {
        let (start, end) = (page_at(extent, page), page_at(extent, page + 1));
        let words = start + HEADER_BYTES as u64;
        let Some(header) = bytes.try_into().ok().and_then(|page| Header::decode(page).ok()) else {
            unreachable!("a page that is as its entry says has a header (F-148)")
        };
        let (what, note) = describe(&header);
        self.tell(start..words, name, format!("page {page}, header"), what, note)?;
        let note = "the solution of its keys' equations, as its entry says (F-60, F-146)";
        self.tell(words..end, name, format!("page {page}, words"), "solution", note)
    }

    fn pages(
        &mut self,
        name: &str,
        extent: Extent,
        cells: CellKind,
        (page, first, count): (Page, u64, u64),
    ) -> Walk {
        let range = page_at(extent, first)..page_at(extent, first + count);
        let note = match page {
            Page::Exact => "as their entries say (F-60)",
            Page::Journalled => "as entries and journal say (F-92, F-98)",
            Page::Unverifiable => "not verifiable: more than entries and journal explain (F-94)",
            Page::Changed => "not what their entries say: changed since the slot (F-92, F-98)",
            Page::Damaged | Page::Lost => "wrong: damaged, not what was written (F-83, F-93)",
            Page::Overtaken => "not checked: their page table was written again since",
            Page::Unchecked => "not checked: their page table is damaged",
            Page::Unread => "not read here: a check of the whole file tells",
        };
        let value = match cells {
            CellKind::Plain | CellKind::Counting => "cells",
            CellKind::Sealed => "solutions",
        };
        self.tell(range, name, format!("pages {}", span(first, count)), value, note)
    }
}

/// What a sealed page says in its header, and what follows from it (F-141, F-148).
fn describe(header: &Header) -> (String, String) {
    let what = match header {
        Header::Empty => "no key".into(),
        Header::Maybe => "no solution".into(),
        Header::Solved(solved) => {
            let (blocks, columns) = (solved.blocks(), solved.columns());
            let bends = solved.bends().map(|bend| bend.to_string()).join(" ");
            format!("{blocks} blocks of {columns} columns or one more, bends {bends}")
        }
    };
    (what, format!("answers \"maybe\" for {:.3e} of absent keys (F-148)", header.rate()))
}

fn page_at(extent: Extent, page: u64) -> u64 {
    extent.data().saturating_add(page * PAGE_BYTES)
}

/// What pages may be like.
#[derive(Clone, Copy)]
struct Expected<'a> {
    /// What may be believed of the segment; `None` where superblock or journal do not tell.
    judge: Option<PageJudge<'a>>,
    /// The slot is open.
    open: bool,
    cells: CellKind,
}

impl Expected<'_> {
    fn judge(self, page: u64, bytes: &[u8], expected: PageEntry) -> Page {
        if bytes.len() < PAGE_BYTES as usize {
            return Page::Lost;
        }
        let Some(judge) = self.judge else {
            return if expected.is_of(bytes, self.cells) {
                Page::Exact
            } else if self.open {
                Page::Changed
            } else {
                Page::Damaged
            };
        };
        let as_tabled = || expected.is_of(bytes, self.cells);
        match judge.judge(page, bytes, expected) {
            Verdict::Exact if self.open && !as_tabled() => Page::Journalled,
            Verdict::Exact => Page::Exact,
            Verdict::Unverifiable => Page::Unverifiable,
            // Bits are only ever turned on; counters go down as well.
            Verdict::Damaged { lost: true } if self.cells == CellKind::Plain => Page::Lost,
            Verdict::Damaged { .. } => Page::Damaged,
        }
    }
}

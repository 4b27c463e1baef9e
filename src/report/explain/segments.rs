//! Page tables and data.

use super::headers::Parameters;
use super::{Detail, Explainer, Walk, span};
use crate::format::{
    ENTRY_BYTES, ENTRY_FIELDS, Extent, PageEntry, SegmentRecord, Slot, State, table_bytes,
};
use crate::geometry::PAGE_BYTES;
use crate::storage::Medium;

/// Pages that are read at once.
const CHUNK_PAGES: u64 = 64;

/// What a data page is, held against its table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Exact,
    More,
    Damaged,
    /// The table that would tell is damaged itself.
    Unchecked,
}

impl<M: Medium> Explainer<'_, M> {
    /// All segments, in the order of their places; tells where the file should end.
    pub(super) fn segments(&mut self, slot: &Slot, parameters: &Parameters) -> Walk<u64> {
        let mut segments: Vec<(usize, &SegmentRecord)> = slot.segments.iter().enumerate().collect();
        segments.sort_by_key(|(_, segment)| segment.offset);
        let mut end = super::first_offset(slot);
        for (index, segment) in segments {
            let extent = segment.extent(parameters.cell_bits);
            self.spare(end, extent.offset)?;
            self.tables(index, segment, extent)?;
            let expected =
                Expected { open: slot.state == State::Open, cell_bits: parameters.cell_bits };
            self.data(index, segment, extent, expected)?;
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
        let length = table_bytes(extent.pages);
        let used = extent.pages * ENTRY_BYTES as u64;
        for which in [0, 1] {
            let start = extent.table(which);
            let (role, note) = if which == segment.table {
                ("counts", self.table_verdict(segment, start, length)?)
            } else {
                ("scratch", "scratch: it may hold anything (F-62)".into())
            };
            let name = format!("segment {index}, page table {which} ({role})");
            let entries = start..start + used;
            match self.detail {
                Detail::Summary => {
                    let field = format!("entries {}", span(0, extent.pages));
                    let value = "CRC-32 and ones of each page";
                    self.tell(entries, &name, field, value, note)?;
                }
                Detail::Everything => self.entries(&name, start, extent.pages)?,
            }
            let padding = start + used..start + length;
            self.tell(padding, name, "padding", "zeros", "up to whole pages (F-5)")?;
        }
        Ok(())
    }

    /// Whether a table is the one that the slot describes.
    fn table_verdict(&self, segment: &SegmentRecord, start: u64, length: u64) -> Walk<String> {
        let mut crc = crc32fast::Hasher::new();
        let mut bytes = vec![0; (CHUNK_PAGES * PAGE_BYTES).min(length) as usize];
        let mut at = 0;
        while at < length {
            let wanted = (bytes.len() as u64).min(length - at) as usize;
            let there = self.read_into(&mut bytes[..wanted], start + at)?;
            crc.update(&bytes[..there]);
            if there < wanted {
                break;
            }
            at += wanted as u64;
        }
        Ok(match crc.finalize() {
            crc if crc == segment.table_crc => "table_crc is right".into(),
            crc => format!("wrong: the slot's table_crc is another, the bytes give {crc:#010x}"),
        })
    }

    fn entries(&mut self, name: &str, start: u64, pages: u64) -> Walk {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let per_read = PAGE_BYTES / ENTRY_BYTES as u64;
        for first in (0..pages).step_by(per_read as usize) {
            let offset = start + first * ENTRY_BYTES as u64;
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
        }
        Ok(())
    }

    fn data(
        &mut self,
        index: usize,
        segment: &SegmentRecord,
        extent: Extent,
        expected: Expected,
    ) -> Walk {
        let table_start = extent.table(segment.table);
        let table_length = table_bytes(extent.pages);
        let verdict = self.table_verdict(segment, table_start, table_length)?;
        let trusted = !verdict.starts_with("wrong");
        let name = format!("segment {index}, data");
        let mut run: Option<(Page, u64, u64)> = None;
        let mut bytes = vec![0; (CHUNK_PAGES.min(extent.pages) * PAGE_BYTES) as usize];
        let mut table = vec![0; CHUNK_PAGES as usize * ENTRY_BYTES];
        for first in (0..extent.pages).step_by(CHUNK_PAGES as usize) {
            let count = CHUNK_PAGES.min(extent.pages - first);
            let there = self
                .read_into(&mut bytes[..(count * PAGE_BYTES) as usize], page_at(extent, first))?;
            let entries = &mut table[..count as usize * ENTRY_BYTES];
            self.read_into(entries, table_start + first * ENTRY_BYTES as u64)?;
            let pages = bytes[..there].chunks(PAGE_BYTES as usize);
            for (page, (bytes, entry)) in
                (first..).zip(pages.zip(entries.chunks_exact(ENTRY_BYTES)))
            {
                let judged = match trusted {
                    true => expected.judge(bytes, PageEntry::decode(entry)),
                    false => Page::Unchecked,
                };
                let single = self.detail == Detail::Everything;
                match &mut run {
                    Some((state, _, count)) if *state == judged && !single => *count += 1,
                    _ => {
                        if let Some(run) = run.replace((judged, page, 1)) {
                            self.pages(&name, extent, run)?;
                        }
                    }
                }
            }
        }
        match run {
            Some(run) => self.pages(&name, extent, run),
            None => Ok(()),
        }
    }

    fn pages(
        &mut self,
        name: &str,
        extent: Extent,
        (page, first, count): (Page, u64, u64),
    ) -> Walk {
        let range = page_at(extent, first)..page_at(extent, first + count);
        let (value, note) = match page {
            Page::Exact => ("cells", "as their entries say (F-60)"),
            Page::More => {
                ("cells", "not what their entries say: changed since the slot (F-92, F-98)")
            }
            Page::Damaged => ("cells", "wrong: not what was written (F-83, F-93)"),
            Page::Unchecked => ("cells", "not checked: their page table is damaged"),
        };
        self.tell(range, name, format!("pages {}", span(first, count)), value, note)
    }
}

fn page_at(extent: Extent, page: u64) -> u64 {
    extent.data() + page * PAGE_BYTES
}

/// What pages may be like.
#[derive(Clone, Copy)]
struct Expected {
    /// A writer may have changed them since the slot.
    open: bool,
    cell_bits: u32,
}

impl Expected {
    fn judge(self, bytes: &[u8], expected: PageEntry) -> Page {
        if bytes.len() < PAGE_BYTES as usize {
            return Page::Damaged;
        }
        let found = PageEntry::of(bytes, self.cell_bits);
        // Bits are only ever set, counters go both ways.
        let changed = found.ones > expected.ones || self.cell_bits > 1;
        match found {
            found if found == expected => Page::Exact,
            _ if self.open && changed => Page::More,
            _ => Page::Damaged,
        }
    }
}

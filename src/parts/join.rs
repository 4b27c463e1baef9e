//! Parts → the file.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::PartPlan;
use super::builder::{data_offset, summary_of_table};
use crate::builder::Built;
use crate::error::{Error, Result};
use crate::file::{finish_file, write_table_part};
use crate::format::{
    ENTRY_BYTES, Extent, MAX_COUNT, PART_TABLE_OFFSET, PageEntry, PartContents, PlanHeader,
    first_extent, part_table_bytes,
};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::hash::fingerprint;
use crate::sealed::MAYBE_PAGE_CRC;
use crate::storage::{FileMedium, PendingFile, ReadMedium, Target, WriteMedium, open_to_read};

/// Pages that are copied at once.
const PAGES_AT_ONCE: u64 = 256;

/// Puts the parts of a filter together.
///
/// The parts are given in any order, and all of them; those of different plans are refused. Each page
/// is checked as it is copied, and the file appears under its name when it is whole. The memory that
/// takes is the same for any size.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name: &str| folder.path().join(name);
/// use bloomfile::{Options, parts::Join};
///
/// let plan = Options::new().capacity(1000).false_positive_rate(0.01).plan_parts(2)?;
/// plan.part(1).start(at("1.part"))?.finish()?;
/// let error = Join::new().run(&[at("1.part")], at("all.bloom")).unwrap_err();
/// assert!(error.to_string().contains("part 2 of 2 is missing"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Join {
    replace: bool,
}

/// A part that was looked at.
struct Opened {
    path: PathBuf,
    header: PlanHeader,
    contents: PartContents,
}

impl Join {
    /// A join that replaces nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an existing file of the result's name is replaced; by default it is an error.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Makes the file `output` of all parts.
    pub fn run<P: AsRef<Path>>(&self, parts: &[P], output: impl AsRef<Path>) -> Result<Built> {
        let output = output.as_ref();
        let parts = open_all(parts)?;
        let join = || self.write(&parts, output);
        join().map_err(|error: Error| match error {
            error @ Error::File { .. } => error,
            error => error.at(output),
        })
    }

    fn write(&self, parts: &[Opened], output: &Path) -> Result<Built> {
        let PlanHeader { superblock, slot, identity_from_contents, .. } = parts[0].header.clone();
        let plan = PartPlan { header: parts[0].header.clone() }.plan();
        let extent = first_extent(&superblock, plan.geometry());
        let target = Target::new(output, self.replace)?;
        // Before the disk is asked for room: a small file may say that it is a part of any size.
        for part in parts {
            part.open_again()?;
        }
        let pending = PendingFile::new(target, extent.end())?;
        let medium = pending.medium()?;
        let mut maybe_pages = 0;
        for part in parts {
            maybe_pages += part.copy(&medium, &extent)?;
        }
        let adds = parts.iter().map(|part| part.contents.adds).fold(0, u64::saturating_add);
        let adds = adds.min(MAX_COUNT);
        let file_bytes = extent.end();
        finish_file(&medium, superblock, &plan, slot.metadata, adds, identity_from_contents)?;
        pending.publish()?;
        Ok(Built { plan, keys: adds, maybe_pages, file_bytes })
    }
}

/// Opens all parts of a filter, in their order.
fn open_all<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<Opened>> {
    let refuse =
        |value: String, reason: String| Err(Error::parameter("list of parts", value, reason));
    // Headers first, one file at a time: there may be more parts than files can be open.
    let mut parts: Vec<Opened> =
        paths.iter().map(|path| Ok(Opened::open(path.as_ref())?.0)).collect::<Result<_>>()?;
    parts.sort_by_key(|part| part.contents.part);
    let Some(first) = parts.first() else {
        return refuse("empty".into(), "give all parts of a filter".into());
    };
    let count = first.header.parts;
    for other in &parts[1..] {
        refuse_other_plan(first, other)?;
    }
    if let Some(pair) = parts.windows(2).find(|pair| pair[0].contents.part == pair[1].contents.part)
    {
        let shown = |part: &Opened| part.path.to_string_lossy().escape_debug().to_string();
        let [one, other] = [shown(&pair[0]), shown(&pair[1])];
        let reason = format!("part {} is there twice, as {one} and {other}", pair[0].contents.part);
        return refuse("with repetitions".into(), reason);
    }
    let missing = (1..=count)
        .find(|&part| parts.binary_search_by_key(&part, |opened| opened.contents.part).is_err());
    if let Some(part) = missing {
        let left = count - parts.len() as u64 - 1;
        let others = if left == 0 { String::new() } else { format!(", and {left} more") };
        return refuse("incomplete".into(), format!("part {part} of {count} is missing{others}"));
    }
    Ok(parts)
}

/// Refuses a part of another filter, and says what differs.
fn refuse_other_plan(one: &Opened, other: &Opened) -> Result<()> {
    if one.header == other.header {
        return Ok(());
    }
    let words = |part: &Opened| {
        let PlanHeader { superblock, slot, parts, .. } = &part.header;
        let secret = superblock.key_check.map_or_else(|| "none".into(), fingerprint);
        [
            ("number of parts", parts.to_string()),
            ("size", part.header.geometry().to_string()),
            ("seed", superblock.hash_seed.to_string()),
            ("secret key", secret),
            ("capacity", superblock.capacity.to_string()),
            ("false positive rate", superblock.target_rate.to_string()),
            ("journal size", superblock.journal_bytes.to_string()),
            ("metadata", format!("{:?}", slot.metadata)),
            ("identity", format!("{:02x?}", superblock.uuid)),
        ]
    };
    let pair = words(one).into_iter().zip(words(other)).find(|(one, other)| one.1 != other.1);
    let (parameter, left, right) = match pair {
        Some(((parameter, left), (_, right))) => (parameter, left, right),
        None => ("plan", "one".into(), "another".into()),
    };
    Err(Error::Incompatible { parameter, left, right }.at(&other.path))
}

impl Opened {
    /// Opens a part, and checks all that is in front of its page table.
    fn open(path: &Path) -> Result<(Self, FileMedium)> {
        let open = || {
            let medium = open_to_read(path)?;
            let length = medium.length().map_err(Error::io("tell the length of the file"))?;
            let mut bytes = vec![0; length.min(PART_TABLE_OFFSET) as usize];
            medium.read_at(&mut bytes, 0).map_err(Error::io("read the header of the part"))?;
            let (header, contents) = PlanHeader::decode(&bytes)?;
            if contents.part == 0 {
                let kind = "it is the plan of one".into();
                return Err(Error::NotAPart { kind });
            }
            let expected = header.part_bytes(contents.part);
            if length != expected {
                return Err(Error::Length { expected, found: length });
            }
            Ok((Opened { path: path.to_owned(), header, contents }, medium))
        };
        open().map_err(|error| error.at(path))
    }

    /// Opens a part that was looked at before, with a page table that is the one of its header.
    fn open_again(&self) -> Result<FileMedium> {
        let (again, medium) = Opened::open(&self.path)?;
        let pages = self.header.pages_of(self.contents.part);
        let check = || {
            if (&again.header, again.contents) != (&self.header, self.contents) {
                return Err(Error::Busy);
            }
            let (crc, ones) = summary_of_table(&medium, self.header.geometry(), &pages)?;
            if (crc, ones) != (self.contents.table_crc, self.contents.ones) {
                let expected = self.contents.table_crc;
                return Err(Error::PageTable { expected, found: crc });
            }
            check_padding(&medium, pages.end - pages.start)
        };
        check().map_err(|error| error.at(&self.path))?;
        Ok(medium)
    }

    /// Copies pages and entries to where they belong; how many pages answer "maybe" for every key.
    fn copy(&self, to: &FileMedium, extent: &Extent) -> Result<u64> {
        let medium = self.open_again()?;
        let blame = |error: Error| error.at(&self.path);
        let pages = self.header.pages_of(self.contents.part);
        let count = pages.end - pages.start;
        let mut maybe_pages = 0;
        for start in (0..count).step_by(PAGES_AT_ONCE as usize) {
            let some = PAGES_AT_ONCE.min(count - start);
            let (bytes, entries) = self.read(&medium, &pages, start, some).map_err(blame)?;
            if self.header.superblock.cells == CellKind::Sealed {
                maybe_pages +=
                    entries.iter().filter(|entry| entry.crc == MAYBE_PAGE_CRC).count() as u64;
            }
            let first = pages.start + start;
            to.write_at(&bytes, extent.data() + first * PAGE_BYTES)
                .map_err(Error::io("write the new file"))?;
            write_table_part(to, extent, first, &entries)?;
        }
        Ok(maybe_pages)
    }

    /// Some pages and their entries, as they were written.
    fn read(
        &self,
        medium: &FileMedium,
        pages: &Range<u64>,
        start: u64,
        count: u64,
    ) -> Result<(Vec<u8>, Vec<PageEntry>)> {
        let geometry = self.header.geometry();
        let mut table = vec![0; count as usize * ENTRY_BYTES];
        let at = PART_TABLE_OFFSET + start * ENTRY_BYTES as u64;
        medium.read_at(&mut table, at).map_err(Error::io("read the page table"))?;
        let mut bytes = vec![0; (count * PAGE_BYTES) as usize];
        let at = data_offset(pages) + start * PAGE_BYTES;
        medium.read_at(&mut bytes, at).map_err(Error::io("read the data"))?;
        let entries: Vec<PageEntry> =
            table.chunks_exact(ENTRY_BYTES).map(PageEntry::decode).collect();
        let found = bytes.chunks_exact(PAGE_BYTES as usize).zip(&entries);
        for (page, (bytes, entry)) in (pages.start + start..).zip(found) {
            if !entry.is_possible(geometry, page) {
                return Err(Error::PageEntry { page, crc: entry.crc, ones: entry.ones });
            }
            if !entry.is_of(bytes, geometry.cell_kind()) {
                return Err(Error::Damaged { count: 1, segment: 0, page, lost: false });
            }
        }
        Ok((bytes, entries))
    }
}

/// Refuses bytes other than zeros behind the entries of the table (F-182).
fn check_padding(medium: &FileMedium, count: u64) -> Result<()> {
    let used = count * ENTRY_BYTES as u64;
    let mut rest = vec![0; (part_table_bytes(count) - used) as usize];
    let read = medium.read_at(&mut rest, PART_TABLE_OFFSET + used);
    read.map_err(Error::io("read the page table"))?;
    match rest.iter().find(|&&byte| byte != 0) {
        None => Ok(()),
        Some(&byte) => {
            let reason = "the bytes behind its entries must be 0";
            Err(Error::field("the page table", "padding", byte, reason))
        }
    }
}

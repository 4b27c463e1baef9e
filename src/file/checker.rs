//! Pages of a file that others may be writing, judged one at a time (F-108).
//!
//! The journal is read once for each slot, and read on from where it was left for a page that it does
//! not explain yet: a reader that meets many changed pages must not read all of a large journal for
//! each.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::epoch::epoch_of;
use super::judge::{PageJudge, Verdict};
use super::load::{Loaded, SlotSignature, load, read_table_part};
use super::replay::JournalContents;
use crate::error::{Error, Result};
use crate::format::{JOURNAL_OFFSET, RECORD_BYTES, Record, State};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::storage::ReadMedium;

const PAGE: usize = PAGE_BYTES as usize;

/// How often a page is looked at again because a slot was written while it was judged.
const TRIES: u32 = 100;

/// How often slots that do not fit together are read again, and how long apart.
const SLOT_TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// Bits of a plain cell's address within its page.
const CELL_BITS_OF_PAGE: u32 = (8 * PAGE_BYTES).trailing_zeros();

/// Missing records in a row behind which the journal is taken to be free: more than the threads of a
/// writer can have been given and not have filled. If a page is still not explained, all of the
/// journal is read.
const FREE: u64 = 1 << 14;

/// Records that are read at once.
const RECORDS_AT_ONCE: u64 = 1 << 12;

/// What is known of slots and journal of a file that others may be writing.
pub(crate) struct PageChecker {
    loaded: Loaded,
    /// The journal of a counting file; of a plain one, whether it was full.
    journalled: JournalContents,
    keys: Keys,
    /// The journal was read under these slots.
    read: bool,
}

/// The records of a plain file's journal that were read so far.
#[derive(Default)]
struct Keys {
    /// The cells that they turn on, by page.
    cells: HashMap<u64, Vec<u16>>,
    /// Records in front of `extent` that were missing.
    missing: Vec<Range<u64>>,
    /// The last record that could be read, and one.
    extent: u64,
}

impl PageChecker {
    pub(crate) fn new(loaded: Loaded) -> Self {
        PageChecker {
            loaded,
            journalled: JournalContents::default(),
            keys: Keys::default(),
            read: false,
        }
    }

    /// The slots as they were last read.
    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Judges a page of the segment at `offset`, copied by `copy` as often as that takes; `bytes`
    /// then holds it as it was judged. `signature` tells the slots' signature now.
    ///
    /// The page is copied before the journal is read, so that the journal explains all that is in
    /// the copy, unless a slot came in between: then it is done again. No verdict means that one
    /// came every time, or that the segment is not listed any more.
    pub(crate) fn judge(
        &mut self,
        medium: &dyn ReadMedium,
        signature: impl Fn() -> Result<SlotSignature>,
        offset: u64,
        page: u64,
        bytes: &mut [u8; PAGE],
        mut copy: impl FnMut(&mut [u8; PAGE]) -> Result<()>,
    ) -> Result<Option<Verdict>> {
        let mut doubted = false;
        for _ in 0..TRIES {
            if signature()? != self.loaded.signature {
                self.reload(medium)?;
                doubted = false;
                continue;
            }
            let Loaded { slot, .. } = &self.loaded;
            let Some(index) = slot.segments.iter().position(|segment| segment.offset == offset)
            else {
                return Ok(None);
            };
            let entry = read_table_part(medium, &slot.segments[index], page..page + 1)?[0];
            copy(bytes)?;
            // A page that is right without the journal, and not with it, is not what was written.
            if !self.read && slot.state == State::Open {
                self.read_on(medium, false)?;
            }
            let mut verdict = self.judge_copy(medium, index, page, bytes, entry);
            if verdict != Verdict::Exact && self.loaded.slot.state == State::Open {
                self.read_on(medium, doubted)?;
                verdict = self.judge_copy(medium, index, page, bytes, entry);
            }
            // A page that was cleared, or explained by another table, comes with another slot.
            fence(Ordering::Acquire);
            if signature()? != self.loaded.signature {
                continue;
            }
            // Not at first sight: a record may be seen later than the cells that it explains, and
            // the second time all of the journal is read.
            if verdict == Verdict::Exact || doubted {
                return Ok(Some(verdict));
            }
            doubted = true;
        }
        Ok(None)
    }

    fn judge_copy(
        &self,
        medium: &dyn ReadMedium,
        index: usize,
        page: u64,
        bytes: &[u8; PAGE],
        entry: crate::format::PageEntry,
    ) -> Verdict {
        let Loaded { superblock, slot, .. } = &self.loaded;
        let judge =
            PageJudge::of(superblock, slot, index, Some(&self.journalled), medium.boot_id());
        let newest = index + 1 == slot.segments.len();
        let Some(cells) = self.keys.cells.get(&page).filter(|_| newest) else {
            return judge.judge(page, bytes, entry);
        };
        let mut before = *bytes;
        for &cell in cells {
            before[usize::from(cell) / 8] &= !(1 << (cell % 8));
        }
        judge.judge(page, &before, entry)
    }

    /// Reads the slots again after one was written.
    fn reload(&mut self, medium: &dyn ReadMedium) -> Result<()> {
        let mut tries = SLOT_TRIES;
        let loaded = loop {
            match load(medium) {
                // A slot in the middle of being written looks damaged.
                Ok(loaded) if !loaded.other_slot_damaged || tries == 0 => break loaded,
                Err(error) if tries == 0 => return Err(error),
                _ => {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
            }
        };
        *self = Self::new(loaded);
        Ok(())
    }

    /// Reads what came to the journal since it was last read; `all` of it, wherever it stands.
    fn read_on(&mut self, medium: &dyn ReadMedium, all: bool) -> Result<()> {
        let Loaded { superblock, slot, .. } = &self.loaded;
        let epoch = epoch_of(medium, superblock, slot);
        let mut last = [0; RECORD_BYTES];
        let mut decode = |index: u64| -> Result<bool> {
            medium
                .read_at(&mut last, JOURNAL_OFFSET + index * RECORD_BYTES as u64)
                .map_err(Error::io("read the journal"))?;
            Ok(epoch.decode(index as u32, words(&last)).is_some())
        };
        let records = superblock.journal_bytes / RECORD_BYTES as u64;
        if superblock.cells == CellKind::Counting {
            let next = self.journalled.extent;
            if !self.read || all || (next < records && decode(next)?) {
                self.journalled = JournalContents::read(medium, superblock, slot)?;
            }
            self.read = true;
            return Ok(());
        }
        let full_record = superblock.full_record();
        self.journalled.full = match full_record {
            Some(index) => decode(index)?,
            None => true,
        };
        let geometry = slot.segments[slot.segments.len() - 1].geometry;
        let keys = &mut self.keys;
        let mut bytes = vec![0; RECORDS_AT_ONCE as usize * RECORD_BYTES];
        let old = std::mem::take(&mut keys.missing);
        let end = full_record.unwrap_or(0);
        for range in old.into_iter().chain(std::iter::once(keys.extent..end)) {
            let mut free = range.start;
            for start in range.clone().step_by(RECORDS_AT_ONCE as usize) {
                if !all && start - free > FREE {
                    break;
                }
                let count = RECORDS_AT_ONCE.min(range.end - start);
                let bytes = &mut bytes[..count as usize * RECORD_BYTES];
                medium
                    .read_at(bytes, JOURNAL_OFFSET + start * RECORD_BYTES as u64)
                    .map_err(Error::io("read the journal"))?;
                for (index, record) in (start..).zip(bytes.chunks_exact(RECORD_BYTES)) {
                    let Some(record) = epoch.decode(index as u32, words(record)) else { continue };
                    if free < index {
                        keys.missing.push(free..index);
                    }
                    free = index + 1;
                    if let Record::Key { hash, mask } = record {
                        let rows = (0..geometry.row_count()).filter(|row| mask >> row & 1 == 1);
                        rows.for_each(|row| keys.turn_on(geometry.address(hash, row)));
                    }
                }
            }
            match range.end == end {
                true => keys.extent = free,
                false if free < range.end => keys.missing.push(free..range.end),
                false => {}
            }
        }
        self.read = true;
        Ok(())
    }
}

impl Keys {
    fn turn_on(&mut self, address: u64) {
        let cells = self.cells.entry(address >> CELL_BITS_OF_PAGE).or_default();
        if cells.len() == cells.capacity() {
            // Records that name the same cells again and again must not make this grow.
            cells.sort_unstable();
            cells.dedup();
            if cells.len() > cells.capacity() / 2 {
                cells.reserve(cells.len());
            }
        }
        cells.push((address % (8 * PAGE_BYTES)) as u16);
    }
}

/// The words of a record.
fn words(record: &[u8]) -> [u64; 2] {
    [0, 8].map(|at| u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default()))
}

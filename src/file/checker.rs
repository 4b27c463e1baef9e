//! Pages of a file that others may be writing, judged one at a time (F-108).
//!
//! The journal is read once for each slot, and read on from where it was left for a page that it does
//! not explain yet: a reader that meets many changed pages must not read all of a large journal for
//! each. Once all of it was read while no writer had the file, it is not read again before a newer
//! slot is there: a reader that meets many damaged pages must not do so either.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::epoch::epochs_of;
use super::judge::{PageJudge, Verdict};
use super::load::{Loaded, SlotSignature, load, read_table_part};
use super::replay::JournalContents;
use crate::error::{Error, Result};
use crate::format::{Epoch, MOST_RECORD_WORDS, Record, State};
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
    loaded: Arc<Loaded>,
    /// The journal of a counting file; of a plain one, whether it was full.
    journal: JournalContents,
    keys: Keys,
    /// The journal was read under these slots.
    read: bool,
    /// All of it was read after the writer of these slots had ended: nothing comes to it any more.
    read_unlocked: bool,
}

/// The records of a plain file's journal that were read so far.
#[derive(Default)]
struct Keys {
    /// The cells that they turn on, by page.
    cells: HashMap<u64, Vec<u16>>,
    /// How far the half of each epoch was read.
    halves: [HalfRead; 2],
}

/// How far a half was read.
#[derive(Default)]
struct HalfRead {
    /// Records in front of `extent` that were missing.
    missing: Vec<Range<u64>>,
    /// The last record that could be read, and one.
    extent: u64,
}

impl PageChecker {
    pub(crate) fn new(loaded: Arc<Loaded>) -> Self {
        PageChecker {
            loaded,
            journal: JournalContents::default(),
            keys: Keys::default(),
            read: false,
            read_unlocked: false,
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
            let Loaded { slot, .. } = &*self.loaded;
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
            let open = self.loaded.slot.state == State::Open;
            if verdict != Verdict::Exact && open && !self.read_unlocked {
                // The writer of these slots holds its lock until it ends (F-100), and another one
                // writes a newer slot before any record. The slots were looked at before this, and
                // are looked at once more below.
                let ended = doubted && matches!(medium.is_locked(), Ok(false));
                self.read_on(medium, doubted)?;
                self.read_unlocked = ended;
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
        let Loaded { superblock, slot, .. } = &*self.loaded;
        let judge = PageJudge::of(superblock, slot, index, Some(&self.journal), medium.boot_id());
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
        *self = Self::new(Arc::new(loaded));
        Ok(())
    }

    /// Reads what came to the journal since it was last read; `all` of it, wherever it stands.
    fn read_on(&mut self, medium: &dyn ReadMedium, all: bool) -> Result<()> {
        let Loaded { superblock, slot, .. } = &*self.loaded;
        if superblock.cells == CellKind::Counting {
            if !self.read || all || self.has_grown(medium)? {
                self.journal = JournalContents::read(medium, superblock, slot)?;
            }
            self.read = true;
            return Ok(());
        }
        let layout = superblock.journal();
        let mut full = layout.records() == 0;
        for (at, epoch) in epochs_of(medium, superblock, slot).into_iter().enumerate() {
            let reader =
                Records { medium, epoch, start: layout.half_offset(slot.epoch + at as u64) };
            if let Some(index) = layout.full_record() {
                full |= reader.at(index)?.is_some();
            }
            let geometry = slot.newest().geometry;
            let half = std::mem::take(&mut self.keys.halves[at]);
            let cells = &mut self.keys.cells;
            let half = reader.read_on(half, layout.capacity(), all, |hash, mask| {
                let rows = (0..geometry.row_count()).filter(|row| mask >> row & 1 == 1);
                rows.for_each(|row| turn_on(cells, geometry.address(hash, row)));
            })?;
            self.keys.halves[at] = half;
        }
        self.journal.full = full;
        self.read = true;
        Ok(())
    }

    /// Whether a record came to a counting file's journal since it was read.
    fn has_grown(&self, medium: &dyn ReadMedium) -> Result<bool> {
        let Loaded { superblock, slot, .. } = &*self.loaded;
        let layout = superblock.journal();
        for (at, epoch) in epochs_of(medium, superblock, slot).into_iter().enumerate() {
            let reader =
                Records { medium, epoch, start: layout.half_offset(slot.epoch + at as u64) };
            let next = self.journal.extents[at];
            if next < layout.records() && reader.at(next)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The records of one epoch.
struct Records<'a> {
    medium: &'a dyn ReadMedium,
    epoch: Epoch,
    /// Where its half starts in the file.
    start: u64,
}

impl Records<'_> {
    /// The record at a place, if there is one.
    fn at(&self, index: u64) -> Result<Option<Record>> {
        let mut bytes = [0; 8 * MOST_RECORD_WORDS];
        let bytes = &mut bytes[..8 * self.epoch.record_words()];
        let offset = self.start + index * bytes.len() as u64;
        self.medium.read_at(bytes, offset).map_err(Error::io("read the journal"))?;
        Ok(self.decode(index, bytes))
    }

    fn decode(&self, index: u64, bytes: &[u8]) -> Option<Record> {
        let mut words = [0; MOST_RECORD_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.epoch.decode(index as u32, &words)
    }

    /// Shows the key records that came to a half since it was read so far.
    fn read_on(
        &self,
        half: HalfRead,
        end: u64,
        all: bool,
        mut show: impl FnMut(u64, u32),
    ) -> Result<HalfRead> {
        let size = 8 * self.epoch.record_words();
        let mut bytes = vec![0; RECORDS_AT_ONCE as usize * size];
        let HalfRead { missing: old, mut extent } = half;
        let mut missing = Vec::new();
        for range in old.into_iter().chain(std::iter::once(extent..end)) {
            let mut free = range.start;
            for start in range.clone().step_by(RECORDS_AT_ONCE as usize) {
                if !all && start - free > FREE {
                    break;
                }
                let count = RECORDS_AT_ONCE.min(range.end - start);
                let bytes = &mut bytes[..count as usize * size];
                self.medium
                    .read_at(bytes, self.start + start * size as u64)
                    .map_err(Error::io("read the journal"))?;
                for (index, record) in (start..).zip(bytes.chunks_exact(size)) {
                    let Some(record) = self.decode(index, record) else { continue };
                    if free < index {
                        missing.push(free..index);
                    }
                    free = index + 1;
                    if let Record::Key { hash, mask } = record {
                        show(hash, mask);
                    }
                }
            }
            if range.end == end {
                extent = free;
            } else if free < range.end {
                missing.push(free..range.end);
            }
        }
        Ok(HalfRead { missing, extent })
    }
}

/// Notes a cell that a record turns on.
fn turn_on(pages: &mut HashMap<u64, Vec<u16>>, address: u64) {
    let cells = pages.entry(address >> CELL_BITS_OF_PAGE).or_default();
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

//! Making a damaged file usable again: never a wrong "no", at the price of more "maybe" (F-99).

use std::sync::atomic::Ordering;

use super::proof::Proof;
use super::{Engine, load_durable, lock, restore_slots, sealed};
use crate::error::{Error, Result, memory};
use crate::file::{JournalContents, PAGE_WORDS, epochs_of, read_table_as_it_is};
use crate::format::{Epoch, MOST_RECORD_WORDS, Record, SLOTS_TO_CLOSE, SegmentRecord, Slot, State};
use crate::geometry::{CellKind, Geometry};
use crate::storage::{Map, Medium};

/// What a repair found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repaired {
    /// Pages that were set to all ones, numbered through all segments.
    pub(crate) pages: Vec<u64>,
    /// The file was left open by a crash.
    pub(crate) crashed: bool,
    /// The slot that does not count was damaged in a file that had been closed.
    pub(crate) slot: bool,
    /// The page table was damaged and was made again.
    pub(crate) table: bool,
    /// Adds replayed from the journal.
    pub(crate) records_replayed: u64,
    /// Journal records with one flipped bit that was flipped back.
    pub(crate) records_corrected: u64,
    /// A synced journal record could not be read, so that no page can be trusted to be complete.
    pub(crate) records_lost: bool,
}

impl<M: Medium> Engine<M> {
    /// Opens a damaged medium, mends what can be mended and closes it in good order.
    pub(crate) fn repair(medium: M) -> Result<Repaired> {
        if load_durable(&medium)?.superblock.cells == CellKind::Sealed {
            return sealed::repair(&medium);
        }
        let (engine, loaded, table) = Self::prepare(medium, SLOTS_TO_CLOSE, |medium, record| {
            read_table_as_it_is(medium, record)
        })?;
        let open = loaded.slot.state == State::Open;
        let mut repaired = Repaired {
            crashed: open,
            // A crash may leave an open slot beside one that it tore.
            slot: !open && loaded.other_slot_damaged,
            table: table.is_err(),
            ..Repaired::default()
        };
        let slot = loaded.slot;
        let mut journal = JournalContents::default();
        if open {
            journal = engine.read_journal_mending(&slot, &mut repaired)?;
            engine.mark.store(journal.mark.unwrap_or(slot.mark), Ordering::Release);
            let mut committed = lock(&engine.committed);
            committed.slot.recoveries = committed.slot.recoveries.saturating_add(1);
            engine.count_replayed(&mut committed.slot, &journal);
        }
        // For each segment, the pages to be filled.
        let damaged = engine.damaged_pages(&slot, &journal, repaired.records_lost)?;
        let mut first = 0;
        for (segment, pages) in engine.listed(&slot).into_iter().zip(&damaged) {
            repaired.pages.extend(pages.iter().map(|page| first + page));
            first += (segment.data.words().len() / PAGE_WORDS) as u64;
        }
        let sound = !open && !repaired.slot && !repaired.table && repaired.pages.is_empty();
        if !sound {
            engine.mend(&slot, &journal, &damaged, repaired.table)?;
        }
        Ok(repaired)
    }

    /// The pages of each segment that are not exactly what table and journal say; all of them if
    /// nothing can be trusted to be complete.
    ///
    /// Recovery takes bits too many for adds that were not synced. Here damage is suspected, and a
    /// page that has lost bits may have gained others: only what is exact is kept.
    fn damaged_pages(
        &self,
        slot: &Slot,
        journal: &JournalContents,
        all: bool,
    ) -> Result<Vec<Vec<u64>>> {
        let damaged = |(index, segment): (usize, &SegmentRecord)| {
            if all {
                let pages = segment.geometry.pages();
                return memory::collect(0..pages, pages, "list all pages");
            }
            self.check_listed(slot, index, Some(journal)).map(|check| check.doubtful())
        };
        slot.segments.iter().enumerate().map(damaged).collect()
    }

    /// Fills the damaged pages, writes tables and slot, and closes.
    fn mend(
        &self,
        slot: &Slot,
        journal: &JournalContents,
        damaged: &[Vec<u64>],
        every_table: bool,
    ) -> Result<()> {
        self.medium.fill_holes().map_err(Error::io("allocate space for the file"))?;
        restore_slots(&self.medium)?;
        self.replay(slot, journal);
        for (segment, pages) in self.listed(slot).into_iter().zip(damaged) {
            for &page in pages {
                segment.prepare(page as usize * PAGE_WORDS);
                saturate_page(segment.data.geometry(), &segment.data, page);
            }
            if every_table {
                let words = segment.data.words().len();
                (0..words).step_by(PAGE_WORDS).for_each(|word| segment.prepare(word));
            }
        }
        self.rewrite_dirty_pages(slot);
        let pages: usize = damaged.iter().map(Vec::len).sum();
        let mut committed = lock(&self.committed);
        let kept = &mut committed.slot;
        kept.repaired_pages = kept.repaired_pages.saturating_add(pages as u64);
        drop(committed);
        self.stripes.unlock();
        let stripes = self.all_stripes()?;
        self.close_held(&mut lock(&self.tables), &stripes, Proof::Done)
    }

    /// Reads the journal, putting single flipped bits right.
    fn read_journal_mending(
        &self,
        slot: &Slot,
        repaired: &mut Repaired,
    ) -> Result<JournalContents> {
        let (superblock, medium) = (&self.superblock, &self.medium);
        let mut journal = match JournalContents::read(medium, superblock, slot) {
            // Records that contradict each other, or name what is not there: none can be trusted.
            Err(Error::Journal { .. }) => {
                repaired.records_lost = true;
                return Ok(JournalContents::default());
            }
            result => result?,
        };
        let epochs = epochs_of(medium, superblock, slot);
        let (mut halves, extents) = ([false; 2], journal.extents);
        // What is put right in one half may show what is missing in the other.
        while journal.holes.iter().zip(&halves).any(|(&hole, &mended)| hole && !mended) {
            (0..2).for_each(|at| halves[at] |= journal.holes[at]);
            let mut corrected = 0;
            journal =
                JournalContents::read_mending(medium, superblock, slot, |epoch, index, words| {
                    let at = epochs.iter().position(|&it| it == epoch)?;
                    // Behind the last record is free space: nothing there was a record of this epoch.
                    if !halves[at] || u64::from(index) >= extents[at] {
                        return None;
                    }
                    let record = correct(epoch, index, words);
                    corrected += u64::from(record.is_some());
                    record
                })?;
            repaired.records_corrected = corrected;
        }
        repaired.records_lost = journal.hole.is_some();
        repaired.records_replayed = journal.keys;
        Ok(journal)
    }
}

/// The record that differs from these words in one bit.
fn correct(epoch: Epoch, index: u32, words: &[u64]) -> Option<Record> {
    // A journal may be a hole of any length (F-39). A record has more ones than a single bit, but for
    // one of 2^32 or more: its check is not 0 (F-73).
    if words.iter().all(|&word| word == 0) {
        return None;
    }
    let mut flipped = [0; MOST_RECORD_WORDS];
    let flipped = &mut flipped[..words.len()];
    (0..64 * words.len()).find_map(|bit| {
        flipped.copy_from_slice(words);
        flipped[bit / 64] ^= 1 << (bit % 64);
        epoch.decode(index, flipped)
    })
}

/// Turns every cell of a page that a key can fall on to its highest value, and off what damage may
/// have left between the rows: bits there would count as ones that no cell explains.
fn saturate_page<Q: Map>(geometry: &Geometry, data: &Q, page: u64) {
    for word in page as usize * PAGE_WORDS..(page as usize + 1) * PAGE_WORDS {
        data.store(word, usable_bits(geometry, word as u64));
    }
}

/// The cells of a word that a key can fall on, as bits.
fn usable_bits(geometry: &Geometry, word: u64) -> u64 {
    match geometry.word_bits(word) {
        64 => u64::MAX,
        // Rows and blocks start on words, so that the cells in use come first.
        bits => (1 << bits) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;

    /// Exactly the cells that some hash takes are filled.
    #[test]
    fn usable_cells_are_those_that_keys_take() {
        for geometry in [
            Geometry::rows(3, 5).unwrap(),
            Geometry::rows(2, 40_000).unwrap(),
            Geometry::flat(3, 100).unwrap(),
            Geometry::flat(2, 32_768).unwrap(),
            Geometry::page(7, 2).unwrap(),
            Geometry::line(8, 3).unwrap(),
            Geometry::line(4, 70).unwrap(),
        ] {
            let words = geometry.pages() as usize * PAGE_WORDS;
            let mut taken = vec![0u64; words];
            for key in 0..4_000_000 {
                let hash = crate::hash::split_mix(9, key);
                for row in 0..geometry.row_count() {
                    let (word, bit) = kernel::place(&geometry, hash, row);
                    taken[word] |= bit;
                }
            }
            for (word, &taken) in taken.iter().enumerate() {
                assert_eq!(usable_bits(&geometry, word as u64), taken, "{geometry}, word {word}");
            }
            let usable: u64 = (0..words as u64)
                .map(|word| u64::from(usable_bits(&geometry, word).count_ones()))
                .sum();
            assert_eq!(usable, geometry.cells());
            let by_page: u64 = (0..geometry.pages()).map(|page| geometry.page_cells(page)).sum();
            assert_eq!(by_page, usable, "{geometry}");
        }
    }
}

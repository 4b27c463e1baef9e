//! Whether a page is what was written: the one place that decides it (F-92 to F-94).

use byteorder::{ByteOrder, LittleEndian};

use super::PAGE_WORDS;
use super::changes::{Changes, Patch};
use super::replay::JournalContents;
use crate::format::{BootId, PageEntry, Slot, State, Superblock};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};

/// What one page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Exactly what table and journal say.
    Exact,
    /// It has more ones than table and journal explain, where that is allowed. They may be adds
    /// that were never promised; whether others are missing cannot be told.
    Unverifiable,
    /// Something else than what was written.
    Damaged {
        /// It has fewer ones than it had.
        lost: bool,
    },
}

/// What may be believed of the pages of one segment.
///
/// Made from the headers and the journal as they were read *after* the pages, or while no writer
/// had the file; see [`recheck_pages`](super::recheck_pages) for pages that a writer may be changing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageJudge<'a> {
    geometry: Geometry,
    /// What was changed since the table was written.
    changes: &'a Changes,
    /// There may be cells that neither table nor journal explains.
    unexplained: bool,
}

impl<'a> PageJudge<'a> {
    /// For the segment with this place in the slot's list. `journalled` is the journal of an open
    /// slot; that of a clean one does not count. `now` is the boot in which the pages are read.
    pub(crate) fn of(
        superblock: &Superblock,
        slot: &Slot,
        index: usize,
        journalled: Option<&'a JournalContents>,
        now: BootId,
    ) -> Self {
        let open = slot.state == State::Open;
        let journalled = journalled.filter(|_| open);
        let changes = journalled.and_then(|journalled| journalled.changes.get(index));
        // Counters are logged before they change, and only the newest segment of a plain file is
        // ever added to. Its records are written before its cells, so that in the boot in which
        // they were written the cache shows both; only a power cut can keep cells and lose records.
        let unexplained = open
            && superblock.cells == CellKind::Plain
            && index + 1 == slot.segments.len()
            && (!slot.boot_id.is_same_boot(now) || journalled.is_some_and(|it| it.full));
        PageJudge {
            geometry: slot.segments[index].geometry,
            changes: changes.unwrap_or(Changes::NONE),
            unexplained,
        }
    }

    /// Judges one page of [`PAGE_BYTES`] by its entry in the table that counts.
    pub(crate) fn judge(&self, page: u64, bytes: &[u8], expected: PageEntry) -> Verdict {
        if self.geometry.cell_kind() == CellKind::Sealed {
            // Nothing explains a page but its entry.
            let exact = expected.is_of(bytes, CellKind::Sealed);
            return if exact { Verdict::Exact } else { Verdict::Damaged { lost: false } };
        }
        let changes = self.changes.page(page);
        let found = if changes.is_empty() {
            PageEntry::of(bytes, self.geometry.cell_kind())
        } else {
            let mut restored = [0; PAGE_BYTES as usize];
            restored.copy_from_slice(bytes);
            apply(changes.before(), &mut restored);
            PageEntry::of(&restored, self.geometry.cell_kind())
        };
        if has_stray_bits(&self.geometry, page, bytes) {
            Verdict::Damaged { lost: false }
        } else if found == expected {
            Verdict::Exact
        } else if self.unexplained && found.ones > expected.ones {
            // A page with as many ones as before is the page it was, or it was damaged: cells are
            // only ever turned on.
            Verdict::Unverifiable
        } else {
            Verdict::Damaged { lost: found.ones < expected.ones }
        }
    }

    /// Makes a page what the journal says that it has to be.
    pub(crate) fn complete(&self, page: u64, bytes: &mut [u8]) {
        apply(self.changes.page(page).after(), bytes);
    }
}

/// Whether a page holds ones where no key can fall, which is always behind its last cell. A sum with
/// them would come to more ones than cells in the end (F-56).
pub(crate) fn has_stray_bits(geometry: &Geometry, page: u64, bytes: &[u8]) -> bool {
    let first = page * PAGE_WORDS as u64;
    bytes
        .chunks_exact(8)
        .enumerate()
        .rev()
        .map(|(at, word)| (LittleEndian::read_u64(word), geometry.word_bits(first + at as u64)))
        .take_while(|&(_, bits)| bits < 64)
        .any(|(word, bits)| word >> bits != 0)
}

/// Applies patches of a page to its bytes.
fn apply(patches: impl Iterator<Item = Patch>, bytes: &mut [u8]) {
    for patch in patches {
        let word = &mut bytes[patch.word % PAGE_WORDS * 8..][..8];
        let value = patch.apply(LittleEndian::read_u64(word));
        LittleEndian::write_u64(word, value);
    }
}

//! Before an entry of a page table is replaced: whether the page is what the old entry and the records
//! of its epoch make of it (F-86). Without that, a checkpoint would give damage that came to a page
//! under an open file a checksum of its own.
//!
//! A CRC is linear: a bit that changes in a page changes the CRC of the page by what depends on the
//! place of the bit alone. So the records tell by how much the CRC of each page has changed, without
//! the page as it was.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use super::checkpoint::Frozen;
use super::{Engine, lock};
use crate::error::{Error, Result, memory};
use crate::file::{JournalContents, PAGE_WORDS, Verdict};
use crate::format::{PageEntry, Record, Slot, counters_in_use};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};
use crate::storage::{Map, Medium, sabotage};

/// Bits of a page.
const PAGE_BITS: u64 = 8 * PAGE_BYTES;

/// Whether the pages of a checkpoint have to be held against their old entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Needed,
    /// They have just been checked, or are to be what they are whatever they were.
    Done,
}

/// What records did to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    crc: u32,
    ones: i32,
}

impl Effect {
    fn flip(&mut self, bit: u64) {
        self.crc ^= crc_of_bits()[bit as usize];
    }

    fn explains(&self, old: PageEntry, new: PageEntry) -> bool {
        let ones = i64::from(old.ones) + i64::from(self.ones);
        old.crc ^ self.crc == new.crc && ones == i64::from(new.ones)
    }
}

/// What records did to the pages of a segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects(Vec<Effect>);

impl Effects {
    /// Makes room for all pages of a segment.
    pub(super) fn reserve(&mut self, pages: u64) -> Result<()> {
        memory::reserve(&mut self.0, pages, "note what changed in each page")
    }

    fn page(&mut self, pages: u64, page: usize) -> &mut Effect {
        if self.0.is_empty() {
            self.0.resize(pages as usize, Effect::default());
        }
        &mut self.0[page]
    }

    /// Adds what a word of counters that changes does.
    pub(super) fn add_word(&mut self, geometry: &Geometry, word: usize, before: u64, after: u64) {
        let effect = self.page(geometry.pages(), word / PAGE_WORDS);
        let first = (word % PAGE_WORDS) as u64 * 64;
        let mut changed = before ^ after;
        while changed != 0 {
            effect.flip(first + u64::from(changed.trailing_zeros()));
            changed &= changed - 1;
        }
        let in_use = |word: u64| counters_in_use(word).cast_signed();
        effect.ones += in_use(after) - in_use(before);
    }

    fn of(&self, page: usize) -> Effect {
        self.0.get(page).copied().unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(Effect::default());
    }
}

/// What each bit of a page, when it changes, changes in the CRC of the page (F-4).
fn crc_of_bits() -> &'static [u32] {
    static BITS: OnceLock<Vec<u32>> = OnceLock::new();
    BITS.get_or_init(|| {
        let step = |crc: u32| (0..8).fold(crc, |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320));
        let mut bits = vec![0; PAGE_BITS as usize];
        for bit in (0..PAGE_BITS as usize).rev() {
            // A bit of the last byte, or of one with another byte behind it.
            let behind = bits.get(bit + 8).copied();
            bits[bit] = step(behind.unwrap_or(1 << (bit % 8)));
        }
        bits
    })
}

impl<M: Medium> Engine<M> {
    /// Pages that checkpoints gave new checksums without records that explain them.
    pub(crate) fn pages_unverified(&self) -> u64 {
        self.pages_unverified.load(Ordering::Relaxed)
    }

    /// An error unless the new entries of pages, given for each segment, are what the old ones and
    /// the records of the epoch make of them. Where cells were set without a record, a page that
    /// has gained more than is explained is counted as not verified.
    pub(super) fn prove_pages(
        &self,
        tables: &[Vec<PageEntry>],
        slot: &Slot,
        frozen: &Frozen,
        fresh: &[Vec<(usize, PageEntry)>],
    ) -> Result<()> {
        if sabotage!(self.medium, NoProof) || fresh.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let plain = self.superblock.cells == CellKind::Plain;
        let newest = fresh.len() - 1;
        let logged = if plain { self.logged_effects(slot, frozen)? } else { Effects::default() };
        let (mut unverified, mut doubtful) = (0, Vec::new());
        for (index, pages) in fresh.iter().enumerate() {
            let segment = self.segments.get(slot.segments[index].region);
            let counted = lock(&segment.effects);
            for &(page, new) in pages {
                let effect = if !plain {
                    counted[1].of(page)
                } else if index == newest {
                    logged.of(page)
                } else {
                    Effect::default()
                };
                let old = tables[index][page];
                let explained = i64::from(old.ones) + i64::from(effect.ones);
                if effect.explains(old, new) {
                    continue;
                }
                let gained = i64::from(new.ones) > explained;
                if plain && frozen.unlogged && index == newest && gained {
                    unverified += 1;
                } else {
                    doubtful.push((index, page, new));
                }
            }
        }
        unverified += self.judge_doubtful(tables, slot, frozen, &doubtful)?;
        self.pages_unverified.fetch_add(unverified, Ordering::Relaxed);
        Ok(())
    }

    /// What the records of an epoch did to the pages of the newest segment of a plain file. Cells
    /// that two threads claimed at the same time count twice: pages that seem unexplained are looked
    /// at again.
    fn logged_effects(&self, slot: &Slot, frozen: &Frozen) -> Result<Effects> {
        let geometry = slot.newest().geometry;
        let mut effects = Effects::default();
        if frozen.records > 0 {
            effects.reserve(geometry.pages())?;
        }
        let mut last = None;
        for index in 0..frozen.records {
            let record = self.journal.read_of(frozen.half, frozen.epoch, index);
            let Some(record @ Record::Key { hash, mask }) = record else { continue };
            // It repeats the one before it (F-77).
            if last.replace(record) == Some(record) {
                continue;
            }
            for row in (0..geometry.row_count()).filter(|row| mask >> row & 1 == 1) {
                let address = geometry.address(hash, row);
                let effect = effects.page(geometry.pages(), (address / PAGE_BITS) as usize);
                effect.flip(address % PAGE_BITS);
                effect.ones += 1;
            }
        }
        Ok(effects)
    }

    /// Judges pages that the sum of their records' effects does not explain by each of the cells;
    /// how many of them cannot be verified.
    ///
    /// Adds may go on: the pages as they are now are held against the records of both halves. A page
    /// that is right now was right at the boundary.
    fn judge_doubtful(
        &self,
        tables: &[Vec<PageEntry>],
        slot: &Slot,
        frozen: &Frozen,
        doubtful: &[(usize, usize, PageEntry)],
    ) -> Result<u64> {
        if doubtful.is_empty() {
            return Ok(0);
        }
        let copy = |&(index, page, _): &(usize, usize, PageEntry)| {
            let words = self.segments.get(slot.segments[index].region).data.words();
            let mut bytes = vec![0; PAGE_BYTES as usize];
            words.copy(page * PAGE_WORDS, &mut bytes);
            bytes
        };
        // Copied before the journal is read, so that it explains every cell of the copies.
        let copies: Vec<Vec<u8>> = doubtful.iter().map(copy).collect();
        let mut journal = None;
        // What changes of counters did was summed up exactly.
        if self.superblock.cells == CellKind::Plain {
            journal = Some(JournalContents::read(&self.medium, &self.superblock, slot)?);
        }
        let (mut unverified, mut damaged) = (0, Vec::new());
        for (&(index, page, new), bytes) in doubtful.iter().zip(&copies) {
            let old = tables[index][page];
            let verdict = match &journal {
                None => Verdict::Damaged { lost: new.ones < old.ones },
                Some(journal) => {
                    let data = &self.segments.get(slot.segments[index].region).data;
                    // All that the records say is there as well, or is about to be.
                    let whole = journal.changes[index].page(page as u64).after().all(|patch| {
                        let word = data.words().load(patch.word);
                        patch.apply(word) == word
                            || (!frozen.held && self.is_under_way(data, patch))
                    });
                    if whole {
                        self.judge(slot, index, Some(journal)).judge(page as u64, bytes, old)
                    } else {
                        Verdict::Damaged { lost: true }
                    }
                }
            };
            match verdict {
                Verdict::Exact => {}
                Verdict::Unverifiable => unverified += 1,
                Verdict::Damaged { lost } => damaged.push((index, page, lost)),
            }
        }
        match damaged.first() {
            None => Ok(unverified),
            Some(&(segment, page, lost)) => Err(Error::Damaged {
                count: damaged.len() as u64,
                segment: segment as u32,
                page: page as u64,
                lost,
            }),
        }
    }

    /// Whether the cells of a record come yet: an add writes its record first.
    fn is_under_way(&self, data: &impl Map, patch: crate::file::Patch) -> bool {
        // No add is under way once the gate was closed.
        drop(self.stripes.hold_all());
        let word = data.words().load(patch.word);
        patch.apply(word) == word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_the_crc_of_each_bit_is_what_it_changes() {
        let mut page = vec![0x5a; PAGE_BYTES as usize];
        let before = crc32fast::hash(&page);
        for bit in (0..PAGE_BITS as usize).step_by(37).chain([0, 7, 8, 32_760, 32_767]) {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(crc32fast::hash(&page), before ^ crc_of_bits()[bit], "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

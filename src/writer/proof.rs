//! Before an entry of a page table is replaced: whether the page is what the old entry and the records
//! of this epoch make of it (F-86). Without that, a checkpoint would give damage that came to a page
//! under an open file a checksum of its own.
//!
//! A CRC is linear: a bit that changes in a page changes the CRC of the page by what depends on the
//! place of the bit alone. So the records tell by how much the CRC of each page has changed, without
//! the page as it was.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use super::{Committed, Engine, lock};
use crate::error::{Error, Result};
use crate::file::{JournalContents, PAGE_WORDS, Verdict};
use crate::format::{CounterChange, PageEntry, Record};
use crate::geometry::PAGE_BYTES;
use crate::storage::{Map, Medium, Sabotage};

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
    ones: i64,
}

/// The effects of changed counters, by region and page.
pub(super) type CounterEffects = HashMap<(usize, usize), Effect>;

impl Effect {
    fn flip(&mut self, bit: u64) {
        self.crc ^= crc_of_bits()[bit as usize];
    }

    /// Adds what a change of a counter does.
    pub(super) fn add_counter(&mut self, change: &CounterChange) {
        let first = change.address * 4 % PAGE_BITS;
        let changed = change.old ^ change.new;
        (0..4).filter(|bit| changed >> bit & 1 == 1).for_each(|bit| self.flip(first + bit));
        self.ones += i64::from(change.new != 0) - i64::from(change.old != 0);
    }

    fn explains(&self, old: PageEntry, new: PageEntry) -> bool {
        old.crc ^ self.crc == new.crc && i64::from(old.ones) + self.ones == i64::from(new.ones)
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
    /// the records of this epoch make of them. Where cells were set without a record, a page that
    /// has gained more than is explained is counted as not verified.
    pub(super) fn prove_pages(
        &self,
        committed: &Committed,
        fresh: &[Vec<(usize, PageEntry)>],
    ) -> Result<()> {
        if self.medium.sabotaged(Sabotage::NoProof) || fresh.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let newest = fresh.len() - 1;
        let counted = lock(&self.effects);
        let logged = match self.overlay {
            Some(_) => Vec::new(),
            None => self.logged_effects(committed.tables[newest].len()),
        };
        let unlogged = self.overlay.is_none() && self.journal.is_overflowed();
        let (mut unverified, mut doubtful) = (0, Vec::new());
        for (index, pages) in fresh.iter().enumerate() {
            let region = committed.slot.segments[index].region;
            for &(page, new) in pages {
                let effect = match self.overlay {
                    Some(_) => counted.get(&(region, page)).copied(),
                    None if index == newest => logged.get(page).copied(),
                    None => None,
                }
                .unwrap_or_default();
                let old = committed.tables[index][page];
                let gained = i64::from(new.ones) - effect.ones > i64::from(old.ones);
                if effect.explains(old, new) {
                    continue;
                }
                if unlogged && index == newest && gained {
                    unverified += 1;
                } else {
                    doubtful.push((index, page, new));
                }
            }
        }
        drop(counted);
        unverified += self.judge_doubtful(committed, &doubtful)?;
        self.pages_unverified.fetch_add(unverified, Ordering::Relaxed);
        Ok(())
    }

    /// What the records of this epoch did to the pages of the newest segment of a plain file. Cells
    /// that two threads claimed at the same time count twice: who finds a page unexplained looks
    /// again.
    fn logged_effects(&self, pages: usize) -> Vec<Effect> {
        let geometry = *self.segments.newest().data.geometry();
        let mut effects = vec![Effect::default(); pages];
        let mut last = None;
        for index in 0..self.journal.records() {
            let Some(record) = self.journal.read(index) else { continue };
            let Record::Key { hash, mask } = record else { continue };
            // It repeats the one before it (F-77).
            if last.replace(record) == Some(record) {
                continue;
            }
            for row in (0..geometry.row_count()).filter(|row| mask >> row & 1 == 1) {
                let address = geometry.address(hash, row);
                let effect = &mut effects[(address / PAGE_BITS) as usize];
                effect.flip(address % PAGE_BITS);
                effect.ones += 1;
            }
        }
        effects
    }

    /// Judges pages that the sum of their records' effects does not explain by each of the cells;
    /// how many of them cannot be verified.
    fn judge_doubtful(
        &self,
        committed: &Committed,
        doubtful: &[(usize, usize, PageEntry)],
    ) -> Result<u64> {
        if doubtful.is_empty() {
            return Ok(0);
        }
        // What counters are in a journal and behind it was summed up exactly.
        let journal = match self.overlay {
            Some(_) => None,
            None => Some(JournalContents::read(&self.medium, &self.superblock, &committed.slot)?),
        };
        let listed = self.listed_of(&committed.slot);
        let (mut unverified, mut damaged) = (0, Vec::new());
        let mut bytes = [0; PAGE_BYTES as usize];
        for &(index, page, new) in doubtful {
            let old = committed.tables[index][page];
            let verdict = match &journal {
                None => Verdict::Damaged { lost: new.ones < old.ones },
                Some(journal) => {
                    let words = listed[index].data.words();
                    words.copy(page * PAGE_WORDS, &mut bytes);
                    let judge = self.judge(&committed.slot, index, Some(journal));
                    // All that the records say is there as well.
                    let mut cells = journal.changes[index].page(page as u64).after();
                    let whole = cells.all(|patch| {
                        let word = words.load(patch.word);
                        patch.apply(word) == word
                    });
                    if whole {
                        judge.judge(page as u64, &bytes, old)
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

//! What a simulated disk holds, and what of it a power cut leaves.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Choices, Keep, PAGE_WORDS, SECTOR_WORDS};

#[derive(Default)]
pub(super) struct State {
    pub(super) disk: Vec<u64>,
    /// Words of the file as the system sees it.
    pub(super) length: usize,
    /// Lengths that the file may have after a power cut.
    pub(super) lengths: Vec<usize>,
    /// Values of words stored through maps since the last sync of their page.
    pub(super) words: BTreeMap<usize, Vec<u64>>,
    /// Versions of sectors written since the last sync of their page.
    pub(super) sectors: BTreeMap<usize, Vec<Vec<u64>>>,
    /// Calls of write, flush and sync so far.
    pub(super) calls: u64,
    /// The call that fails.
    pub(super) fail_at: Option<u64>,
    pub(super) choices: Option<Choices>,
    /// Calls that are to find no space behind the end of the file.
    pub(super) full: u64,
}

impl State {
    /// Pages with changes that are not durable.
    pub(super) fn dirty_pages(&self) -> Vec<usize> {
        let words = self.words.keys().map(|word| word / PAGE_WORDS);
        let sectors = self.sectors.keys().map(|sector| sector * SECTOR_WORDS / PAGE_WORDS);
        let mut pages: Vec<usize> = words.chain(sectors).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    pub(super) fn surviving(
        &self,
        cache: &[AtomicU64],
        keep: Keep,
        choices: &mut Choices,
    ) -> Vec<u64> {
        let mut image = self.disk.clone();
        for page in self.dirty_pages() {
            let range = page * PAGE_WORDS..(page + 1) * PAGE_WORDS;
            let new = |word: usize| cache[word].load(Ordering::Relaxed);
            match keep {
                Keep::Nothing => {}
                Keep::Everything => range.for_each(|word| image[word] = new(word)),
                Keep::Pages => {
                    if choices.once_in(2) {
                        range.for_each(|word| image[word] = new(word));
                    }
                }
                Keep::Any | Keep::Garbage => {
                    for sector in range.clone().step_by(SECTOR_WORDS) {
                        self.keep_sector(sector / SECTOR_WORDS, keep, choices, &mut image);
                    }
                    for word in range {
                        if let Some(values) = self.words.get(&word) {
                            let pick = choices.below(values.len() as u64 + 1) as usize;
                            if let Some(&value) = values.get(pick) {
                                image[word] = value;
                            }
                        } else if !self.sectors.contains_key(&(word / SECTOR_WORDS))
                            && choices.once_in(2)
                        {
                            // The cache alone has it, after a failed sync; its page is written.
                            image[word] = new(word);
                        }
                    }
                }
            }
        }
        image
    }

    fn keep_sector(&self, sector: usize, keep: Keep, choices: &mut Choices, image: &mut [u64]) {
        let Some(versions) = self.sectors.get(&sector) else { return };
        let start = sector * SECTOR_WORDS;
        let pick = choices.below(versions.len() as u64 + 1) as usize;
        if let Some(version) = versions.get(pick) {
            image[start..start + SECTOR_WORDS].copy_from_slice(version);
        } else if keep == Keep::Garbage && choices.once_in(3) {
            image[start..start + SECTOR_WORDS].fill_with(|| choices.word().to_le());
        }
    }

    /// Brings pages to the disk, or some of them if that fails.
    pub(super) fn write_back(&mut self, cache: &[AtomicU64], pages: Range<usize>, fail: bool) {
        if fail {
            let mut choices = self.choices.take().unwrap_or_else(|| Choices::new(self.calls));
            let keep = Keep::ALL[choices.below(4) as usize];
            let image = self.surviving(cache, keep, &mut choices);
            for page in self.dirty_pages().into_iter().filter(|page| pages.contains(page)) {
                let range = page * PAGE_WORDS..(page + 1) * PAGE_WORDS;
                self.disk[range.clone()].copy_from_slice(&image[range]);
            }
            self.choices = Some(choices);
        } else {
            for page in self.dirty_pages().into_iter().filter(|page| pages.contains(page)) {
                let range = page * PAGE_WORDS..(page + 1) * PAGE_WORDS;
                for (word, cached) in self.disk[range.clone()].iter_mut().zip(&cache[range]) {
                    *word = cached.load(Ordering::Relaxed);
                }
            }
        }
        self.words.retain(|word, _| !pages.contains(&(word / PAGE_WORDS)));
        self.sectors.retain(|sector, _| !pages.contains(&(sector * SECTOR_WORDS / PAGE_WORDS)));
    }

    /// Counts a call; true when it is the one that shall fail.
    pub(super) fn call(&mut self) -> bool {
        self.calls += 1;
        self.fail_at == Some(self.calls)
    }
}

//! Which pages are known to be what was written: a page is checked when an answer first rests on it
//! (F-108).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::error::{Error, Result};
use crate::file::{PAGE_WORDS, PageChecker, SlotSignature, Verdict};
use crate::geometry::PAGE_BYTES;
use crate::storage::{ReadMedium, Words, unpoisoned};

/// What became of the pages of a file that look-ups rested on; told by
/// [`Reader::stats`](crate::Reader::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReaderStats {
    /// Data pages in the segments in use.
    pub pages: u64,
    /// Pages that were found to be exactly what was written.
    pub pages_checked: u64,
    /// Pages that are something else than what was written: each key there is answered "maybe".
    pub pages_damaged: u64,
    /// Pages that hold more than checksums and journal explain, because a writer has no room in its
    /// journal or the power was cut: they are believed, and checked again after the next checkpoint.
    pub pages_unverifiable: u64,
    /// Pages that were such when a recovery took what they held, or that came from such a file, as of
    /// opening: [`Verification::pages_kept_unverified`](crate::report::Verification).
    pub pages_kept_unverified: u64,
}

/// One bit for each page of a region.
struct Bits(Box<[AtomicU64]>);

impl Bits {
    fn new(pages: u64) -> Self {
        Bits((0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline(always)]
    fn get(&self, page: u64) -> bool {
        self.0[page as usize / 64].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    /// Sets a bit and tells whether it was set.
    fn set(&self, page: u64) -> bool {
        let bit = 1 << (page % 64);
        self.0[page as usize / 64].fetch_or(bit, Ordering::Release) & bit != 0
    }

    fn clear(&self, page: u64) {
        self.0[page as usize / 64].fetch_and(!(1 << (page % 64)), Ordering::Release);
    }

    fn clear_all(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Release));
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

/// What is known of the pages of a region.
struct Pages {
    /// Where the region starts in the file.
    offset: u64,
    count: u64,
    /// Pages that are not checked yet.
    left: AtomicU64,
    /// Found to be what was written, once and for all.
    checked: Bits,
    /// Found to be something else, under the slots that were last seen.
    judged: Bits,
    damaged: Bits,
    unverifiable: Bits,
}

impl Pages {
    fn new(offset: u64, count: u64) -> Self {
        Pages {
            offset,
            count,
            left: AtomicU64::new(count),
            checked: Bits::new(count),
            judged: Bits::new(count),
            damaged: Bits::new(count),
            unverifiable: Bits::new(count),
        }
    }
}

/// What is known of the pages of a file.
pub(super) struct CheckedPages {
    checker: Mutex<PageChecker>,
    /// The slots under which pages were [judged](Pages::judged).
    stamp: [[AtomicU64; 2]; 2],
    /// Region 0, apart from the others, as in [`SegmentSet`](crate::kernel::SegmentSet).
    first: Pages,
    others: Box<[OnceLock<Pages>]>,
    /// Damaged pages by region and number, and whether they miss ones.
    damage: Mutex<BTreeMap<(usize, u64), bool>>,
}

impl CheckedPages {
    /// Nothing is known of any page; the first region starts at `offset` and has `count` pages.
    pub(super) fn new(checker: PageChecker, regions: usize, offset: u64, count: u64) -> Self {
        CheckedPages {
            stamp: checker.loaded().signature.map(|slot| slot.map(AtomicU64::new)),
            checker: Mutex::new(checker),
            first: Pages::new(offset, count),
            others: (1..regions).map(|_| OnceLock::new()).collect(),
            damage: Mutex::default(),
        }
    }

    /// Adds a region, if it is not there yet.
    pub(super) fn add(&self, region: usize, offset: u64, count: u64) {
        if let Some(place) = region.checked_sub(1).and_then(|at| self.others.get(at)) {
            place.get_or_init(|| Pages::new(offset, count));
        }
    }

    fn region(&self, region: usize) -> Option<&Pages> {
        match region {
            0 => Some(&self.first),
            _ => self.others.get(region - 1)?.get(),
        }
    }

    fn regions(&self) -> impl Iterator<Item = &Pages> {
        std::iter::once(&self.first).chain(self.others.iter().filter_map(OnceLock::get))
    }

    /// Whether a page of the first region is known to be what was written.
    #[inline(always)]
    pub(super) fn is_first_checked(&self, page: u64) -> bool {
        self.first.checked.get(page)
    }

    /// Whether all pages of a region were found to be what was written.
    pub(super) fn is_complete_in(&self, region: usize) -> bool {
        self.region(region).is_some_and(|pages| pages.left.load(Ordering::Acquire) == 0)
    }

    /// Whether every page of the only region is known to be what was written.
    pub(super) fn is_complete(&self) -> bool {
        self.others.is_empty() && self.first.left.load(Ordering::Acquire) == 0
    }

    /// The damaged pages found so far, by region.
    pub(super) fn damaged(&self) -> Vec<(usize, u64)> {
        unpoisoned(&self.damage).keys().copied().collect()
    }

    pub(super) fn is_damaged(&self) -> bool {
        !unpoisoned(&self.damage).is_empty()
    }

    /// An error if there are damaged pages in a region, which is the segment with this number.
    pub(super) fn refuse_damage(&self, region: usize, segment: usize) -> Result<()> {
        let damage = unpoisoned(&self.damage);
        let mut pages = damage.range((region, 0)..=(region, u64::MAX));
        let Some((&(_, page), &lost)) = pages.next() else { return Ok(()) };
        let count = 1 + pages.count() as u64;
        Err(Error::Damaged { count, segment: segment as u32, page, lost })
    }

    /// Whether a page is known to be what was written.
    #[inline(always)]
    pub(super) fn is_checked(&self, region: usize, page: u64) -> bool {
        self.region(region).is_some_and(|pages| pages.checked.get(page))
    }

    /// An error unless a "no" may rest on a page, which is checked if it was not yet.
    #[cold]
    pub(super) fn check(
        &self,
        medium: &dyn ReadMedium,
        signature: impl Fn() -> SlotSignature,
        words: &Words,
        region: usize,
        page: u64,
    ) -> Result<()> {
        let Some(pages) = self.region(region) else {
            return Err(Error::Busy);
        };
        // What was found under these slots holds until the next one.
        if self.stamp() == signature() && pages.judged.get(page) {
            return self.judged(pages, region, page);
        }
        let mut checker = unpoisoned(&self.checker);
        if pages.checked.get(page) {
            return Ok(());
        }
        let mut bytes = [0; PAGE_BYTES as usize];
        let verdict = checker.judge(
            medium,
            || Ok(signature()),
            pages.offset,
            page,
            &mut bytes,
            |bytes| {
                words.copy(page as usize * PAGE_WORDS, bytes);
                Ok(())
            },
        )?;
        self.see(checker.loaded().signature);
        match verdict {
            None => return Err(Error::Busy),
            Some(verdict) => self.mark(pages, region, page, verdict),
        }
        drop(checker);
        self.judged(pages, region, page)
    }

    /// An error if a page was found to be damaged.
    fn judged(&self, pages: &Pages, region: usize, page: u64) -> Result<()> {
        if !pages.damaged.get(page) {
            return Ok(());
        }
        let lost = unpoisoned(&self.damage).get(&(region, page)).copied().unwrap_or(false);
        Err(Error::Damaged { count: 1, segment: region as u32, page, lost })
    }

    /// An error if a page that is not mapped was found to be damaged.
    pub(super) fn known(&self, region: usize, page: u64) -> Result<()> {
        match self.region(region) {
            Some(pages) => self.judged(pages, region, page),
            None => Ok(()),
        }
    }

    fn mark(&self, pages: &Pages, region: usize, page: u64, verdict: Verdict) {
        match verdict {
            Verdict::Damaged { lost } => {
                unpoisoned(&self.damage).insert((region, page), lost);
                pages.damaged.set(page);
                pages.unverifiable.clear(page);
            }
            _ => {
                unpoisoned(&self.damage).remove(&(region, page));
                pages.damaged.clear(page);
                pages.unverifiable.clear(page);
            }
        }
        match verdict {
            Verdict::Exact => {
                if !pages.checked.set(page) {
                    pages.left.fetch_sub(1, Ordering::AcqRel);
                }
            }
            _ => {
                if verdict == Verdict::Unverifiable {
                    pages.unverifiable.set(page);
                }
                pages.judged.set(page);
            }
        }
    }

    /// Notes what was found out about a page that is not mapped.
    pub(super) fn note(&self, region: usize, page: u64, verdict: Verdict) {
        if let Some(pages) = self.region(region) {
            self.mark(pages, region, page, verdict);
        }
    }

    fn stamp(&self) -> SlotSignature {
        [0, 1].map(|slot| [0, 1].map(|word| self.stamp[slot][word].load(Ordering::Acquire)))
    }

    /// Pages that were not what was written are judged again under other slots.
    fn see(&self, signature: SlotSignature) {
        if signature == self.stamp() {
            return;
        }
        self.regions().for_each(|pages| pages.judged.clear_all());
        for (stamp, word) in self.stamp.iter().flatten().zip(signature.iter().flatten()) {
            stamp.store(*word, Ordering::Release);
        }
    }

    /// Forgets what is known of all pages: regions hold other generations from now on.
    pub(super) fn forget(&self) {
        let _checker = unpoisoned(&self.checker);
        for pages in self.regions() {
            for bits in [&pages.checked, &pages.judged, &pages.damaged, &pages.unverifiable] {
                bits.clear_all();
            }
            pages.left.store(pages.count, Ordering::Release);
        }
        unpoisoned(&self.damage).clear();
    }

    /// What is known of the pages of these regions.
    pub(super) fn stats(&self, regions: impl Iterator<Item = usize>) -> ReaderStats {
        let mut stats = ReaderStats::default();
        for pages in regions.filter_map(|region| self.region(region)) {
            stats.pages += pages.count;
            stats.pages_checked += pages.checked.count();
            stats.pages_damaged += pages.damaged.count();
            stats.pages_unverifiable += pages.unverifiable.count();
        }
        stats
    }
}

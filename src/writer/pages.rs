//! Which pages of a segment changed, and what their entries are at a boundary (F-86).
//!
//! A checkpoint describes every page as it was at the boundary, while adds go on. So a page that
//! changed before the boundary is *pending* until its entry is computed: by the checkpoint, or by
//! the add that is about to change it next. That add waits for no disk, but for the checksum of one
//! page; it is copy-on-write of checksums, not of data.

use std::sync::atomic::Ordering;

use crate::error::{Result, memory};
use crate::file::PAGE_WORDS;
use crate::format::PageEntry;
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::storage::Words;
use crate::sync::{AtomicU64, wait_while};

/// 64 pages, one bit each. Side by side, because an add looks at two of them.
#[derive(Default)]
struct Group {
    /// Changed since the last boundary.
    dirty: AtomicU64,
    /// Changed before the last boundary; the entry is not computed yet.
    pending: AtomicU64,
    /// A thread is computing the entry, or has done so.
    claimed: AtomicU64,
}

/// What is known of the pages of a segment.
pub(super) struct PageStates {
    groups: Box<[Group]>,
    /// The entries of pages at the last boundary, where they were computed.
    entries: Box<[AtomicU64]>,
    cells: CellKind,
}

impl PageStates {
    pub(super) fn new(pages: u64, cells: CellKind) -> Result<Self> {
        const ACTION: &str = "keep the state of each page";
        let groups = pages.div_ceil(64);
        let states = memory::collect((0..groups).map(|_| Group::default()), groups, ACTION)?;
        let entries = memory::collect((0..pages).map(|_| AtomicU64::new(0)), pages, ACTION)?;
        Ok(PageStates { groups: states.into(), entries: entries.into(), cells })
    }

    /// Called before a word of the segment changes: its page is dirty from now on, and the entry that
    /// it had at the boundary is kept.
    #[inline(always)]
    pub(super) fn prepare(&self, words: &Words, word: usize) {
        let page = word / PAGE_WORDS;
        let (group, bit) = (&self.groups[page / 64], 1 << (page % 64));
        if group.pending.load(Ordering::Acquire) & bit != 0 {
            self.compute(words, page);
        }
        // Most adds find their page dirty already: look before writing a line that others share.
        if group.dirty.load(Ordering::Relaxed) & bit == 0 {
            group.dirty.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Computes the entry of a pending page, or waits for the thread that does.
    #[cold]
    #[inline(never)]
    fn compute(&self, words: &Words, page: usize) {
        let (group, bit) = (&self.groups[page / 64], 1 << (page % 64));
        if group.claimed.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            wait_while(|| group.pending.load(Ordering::Acquire) & bit != 0);
            return;
        }
        let mut bytes = [0; PAGE_BYTES as usize];
        words.copy(page * PAGE_WORDS, &mut bytes);
        let entry = PageEntry::of(&bytes, self.cells);
        self.entries[page].store(u64::from_le_bytes(entry.encode()), Ordering::Relaxed);
        // Release: a thread that goes on to change the page does so after it was read.
        group.pending.fetch_and(!bit, Ordering::Release);
    }

    /// A boundary: what was dirty is pending from now on. No add is under way.
    pub(super) fn freeze(&self) {
        for group in &self.groups {
            let dirty = group.dirty.load(Ordering::Relaxed);
            group.dirty.store(0, Ordering::Relaxed);
            group.claimed.store(0, Ordering::Relaxed);
            group.pending.store(dirty, Ordering::Release);
        }
    }

    /// What a test wants to see noticed: entries that are computed when the checkpoint gets to them,
    /// of pages that adds have changed since the boundary.
    #[cfg(test)]
    pub(super) fn recompute(&self, words: &Words) {
        for (page, _) in self.frozen().unwrap_or_default() {
            let mut bytes = [0; PAGE_BYTES as usize];
            words.copy(page * PAGE_WORDS, &mut bytes);
            let entry = PageEntry::of(&bytes, self.cells);
            self.entries[page].store(u64::from_le_bytes(entry.encode()), Ordering::Relaxed);
        }
    }

    /// Computes entries of pending pages, at most `most`, that no add has computed.
    #[cfg(test)]
    pub(super) fn compute_some(&self, words: &Words, most: usize) {
        self.pending().take(most).for_each(|page| self.compute(words, page));
    }

    /// Computes the entries that no add has computed.
    pub(super) fn compute_all(&self, words: &Words) {
        self.pending().for_each(|page| self.compute(words, page));
    }

    fn pending(&self) -> impl Iterator<Item = usize> {
        pages_of(&self.groups, |group| group.pending.load(Ordering::Acquire))
    }

    /// The pages that were dirty at the boundary, with the entries that they had: all are computed.
    pub(super) fn frozen(&self) -> Result<Vec<(usize, PageEntry)>> {
        let pages = || pages_of(&self.groups, |group| group.claimed.load(Ordering::Acquire));
        let entry = |page: usize| self.entries[page].load(Ordering::Relaxed).to_le_bytes();
        let described = pages().map(|page| (page, PageEntry::decode(&entry(page))));
        memory::collect(described, pages().count() as u64, "collect the pages that changed")
    }

    /// The pages that changed since the last boundary, in order.
    pub(super) fn dirty(&self) -> impl Iterator<Item = usize> {
        pages_of(&self.groups, |group| group.dirty.load(Ordering::Relaxed))
    }

    pub(super) fn is_clean(&self) -> bool {
        self.groups.iter().all(|group| group.dirty.load(Ordering::Relaxed) == 0)
    }
}

/// The pages whose bits are set.
fn pages_of(groups: &[Group], bits: impl Fn(&Group) -> u64) -> impl Iterator<Item = usize> {
    groups.iter().enumerate().flat_map(move |(at, group)| {
        let bits = bits(group);
        (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| at * 64 + bit)
    })
}

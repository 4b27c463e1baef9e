//! Many hashes at once, with the memory of later ones asked for while earlier ones are dealt with.

use super::choice::Kernel;
use super::{Cells, portable, simd, wide};
use crate::storage::{Map, prefetch};

/// How many keys ahead a batch asks for its memory. Measured on a Zen 3 with 16 MiB and 1 GiB, in
/// nanoseconds per look-up: 18 and 20 with 8 keys, 12.6 and 13.2 with 16, 11.2 and 12.5 with 32,
/// 10.9 and 11.5 with 64, 12.4 and 15.7 with 96.
pub(super) const AHEAD: usize = 64;

impl<Q: Map> Cells<Q> {
    /// Whether the cells of many hashes are on: `hash` gives each, in order, as many as `found`
    /// has room for.
    #[inline]
    pub(crate) fn contains_batch(&self, hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        match self.kernel {
            Kernel::Counting | Kernel::WideCounting => {
                return self.counters_contain_batch(hash, found);
            }
            Kernel::Sealed => {
                return self.sealed().contains_batch(self.sealed_pages(), hash, found);
            }
            _ => {}
        }
        with_kernel!(
            self.kernel,
            contains_batch(self, hash, found),
            ahead(
                found.len(),
                hash,
                |hash| prefetch(self.line_pointer(hash)),
                |at, hash| found[at] = portable::line_contains(self, hash),
            ),
            ahead(
                found.len(),
                hash,
                |hash| portable::prefetch_drawn(self, hash),
                |at, hash| found[at] = portable::drawn_contains(self, hash),
            )
        );
    }

    /// Asks for the memory of a hash, to look at it soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        match self.kernel {
            Kernel::Drawn | Kernel::Counting | Kernel::WideCounting | Kernel::Sealed => {
                self.prefetch_places(hash);
            }
            _ => prefetch(self.line_pointer(hash)),
        }
    }

    /// [`prefetch`](Self::prefetch) where a hash has other cells than those of a line: out of the way of
    /// batches, which are compiled as one loop without it.
    #[inline(never)]
    fn prefetch_places(&self, hash: u64) {
        match self.kernel {
            Kernel::Counting | Kernel::WideCounting => self.prefetch_counters(hash),
            // Where a page has the words of a key stands in the page.
            Kernel::Sealed => {}
            _ => portable::prefetch_drawn(self, hash),
        }
    }

    /// Reads a word of the line of each hash, where a hash has one line: many of them wait for memory at
    /// once, which is what is left where there is no instruction that prefetches.
    #[inline(always)]
    pub(crate) fn touch(&self, hashes: &[u64]) {
        if matches!(self.kernel, Kernel::PortableLine) {
            let read = |read: u64, &hash: &u64| read ^ self.words.load(self.line(hash));
            std::hint::black_box(hashes.iter().fold(0, read));
        }
    }

    /// Visits many hashes in order, each given by `hash`, with their memory asked for ahead.
    #[inline]
    pub(crate) fn visit_batch(
        &self,
        count: usize,
        hash: impl FnMut(usize) -> u64,
        mut visit: impl FnMut(u64),
    ) {
        ahead(count, hash, |hash| self.prefetch(hash), |_, hash| visit(hash));
    }
}

/// Visits `count` hashes in order, and prefetches for each [`AHEAD`] of its turn.
#[inline(always)]
pub(super) fn ahead(
    count: usize,
    mut hash: impl FnMut(usize) -> u64,
    prefetch: impl Fn(u64),
    mut visit: impl FnMut(usize, u64),
) {
    let mut waiting = [0; AHEAD];
    for (at, waiting) in waiting.iter_mut().enumerate().take(count) {
        *waiting = hash(at);
        prefetch(*waiting);
    }
    for at in 0..count {
        let slot = &mut waiting[at % AHEAD];
        let turn = *slot;
        if at + AHEAD < count {
            *slot = hash(at + AHEAD);
            prefetch(*slot);
        }
        visit(at, turn);
    }
}

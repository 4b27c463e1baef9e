//! Look-ups in counters (F-58).

use super::batch::ahead;
use super::portable::{Drawn, GROUP, cell_in_line};
use super::{Cells, LINE_WORDS};
use crate::geometry::{LINE_BLOCK_CELLS, Layout, MAX_ROWS};
use crate::storage::{Map, prefetch};

/// Words of a block of the `line` layout, whose counters lie in neighbouring cache lines.
const BLOCK_WORDS: usize = LINE_BLOCK_CELLS as usize / COUNTERS;

/// Counters of a word.
const COUNTERS: usize = 16;

impl<Q: Map> Cells<Q> {
    /// Whether the counters of all rows are above 0.
    #[inline]
    pub(super) fn counters_contain(&self, hash: u64) -> bool {
        let counter = |address: usize| {
            // SAFETY: every address a geometry gives is within its span, which the words hold
            // (`Cells::new`).
            let word = unsafe { self.words.load_unchecked(address / COUNTERS) };
            word >> (4 * (address % COUNTERS)) & 15
        };
        if self.geometry.layout() == Layout::Line {
            let block = self.geometry.block(hash) as usize * LINE_BLOCK_CELLS as usize;
            let mut least = u64::MAX;
            for row in 0..self.geometry.row_count() as usize {
                least = least.min(counter(block + cell_in_line(self, hash, row)));
            }
            return least > 0;
        }
        let mut drawn = Drawn::new(self, hash);
        let mut left = self.geometry.row_count();
        while left > 0 {
            // As for bits: several loads are under way before one decides.
            let group = left.min(GROUP);
            let mut least = u64::MAX;
            for _ in 0..group {
                least = least.min(counter(drawn.next_address() as usize));
            }
            if least == 0 {
                return false;
            }
            left -= group;
        }
        true
    }

    /// The address of each row's counter; those behind the last row are 0.
    #[inline]
    pub(crate) fn counter_addresses(&self, hash: u64) -> [u64; MAX_ROWS as usize] {
        let rows = self.geometry.row_count() as usize;
        let mut addresses = [0; MAX_ROWS as usize];
        if self.geometry.layout() == Layout::Line {
            let block = self.geometry.block(hash) * LINE_BLOCK_CELLS;
            for (row, address) in addresses.iter_mut().enumerate().take(rows) {
                *address = block + cell_in_line(self, hash, row) as u64;
            }
        } else {
            let mut drawn = Drawn::new(self, hash);
            addresses.iter_mut().take(rows).for_each(|address| *address = drawn.next_address());
        }
        addresses
    }

    /// Asks for the memory of a look-up.
    #[inline]
    pub(super) fn prefetch_counters(&self, hash: u64) {
        if self.geometry.layout() == Layout::Line {
            let block = self.geometry.block(hash) as usize * BLOCK_WORDS;
            for word in (block..block + BLOCK_WORDS).step_by(LINE_WORDS) {
                prefetch(self.words.as_ptr().wrapping_add(word));
            }
            return;
        }
        let mut drawn = Drawn::new(self, hash);
        for _ in 0..self.geometry.row_count() {
            let word = drawn.next_address() as usize / COUNTERS;
            prefetch(self.words.as_ptr().wrapping_add(word));
        }
    }

    /// [`contains_batch`](Self::contains_batch) of counters.
    pub(super) fn counters_contain_batch(
        &self,
        hash: impl FnMut(usize) -> u64,
        found: &mut [bool],
    ) {
        ahead(
            found.len(),
            hash,
            |hash| self.prefetch_counters(hash),
            |at, hash| found[at] = self.counters_contain(hash),
        );
    }
}

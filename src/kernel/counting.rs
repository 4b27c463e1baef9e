//! Look-ups in counters (F-58).

use super::batch::ahead;
use super::choice::Kernel;
use super::portable::{Drawn, GROUP, cell_in_line};
use super::{Cells, LINE_WORDS, wide};
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
        if self.kernel == Kernel::WideCounting {
            // SAFETY: the choice of the kernel found its instructions; all of the block is there
            // (`Cells::new`).
            return unsafe { wide::counters_contain(self.block_pointer(hash), hash) };
        }
        self.counters_contain_general(hash)
    }

    #[inline]
    pub(super) fn counters_contain_general(&self, hash: u64) -> bool {
        if self.geometry.layout() == Layout::Line {
            let least = match self.geometry.row_count() {
                8 => self.least_counter::<8>(hash, 8),
                rows => self.least_counter::<0>(hash, rows as usize),
            };
            return least > 0;
        }
        let mut drawn = Drawn::new(self, hash);
        let mut left = self.geometry.row_count();
        while left > 0 {
            // As for bits: several loads are under way before one decides.
            let group = left.min(GROUP);
            let mut least = u64::MAX;
            for _ in 0..group {
                least = least.min(self.counter_at(drawn.next_address() as usize));
            }
            if least == 0 {
                return false;
            }
            left -= group;
        }
        true
    }

    /// The least counter of the first rows of a hash, in the `line` layout with `ROWS` rows, or with
    /// any number if that is 0: without a way out in between, which would be mispredicted.
    #[inline(always)]
    fn least_counter<const ROWS: usize>(&self, hash: u64, rows: usize) -> u64 {
        let block = self.geometry.block(hash) as usize * LINE_BLOCK_CELLS as usize;
        let row_cells = match ROWS {
            0 => self.geometry.row_cells() as u32,
            _ => LINE_BLOCK_CELLS as u32 / ROWS as u32,
        };
        let counter = |row| self.counter_at(block + cell_in_line(row_cells, hash, row));
        (0..rows).map(counter).fold(u64::MAX, u64::min)
    }

    /// The counter at an address that the geometry gave.
    #[inline(always)]
    fn counter_at(&self, address: usize) -> u64 {
        // SAFETY: every address a geometry gives is within its span, which the words hold
        // (`Cells::new`).
        let word = unsafe { self.words.load_unchecked(address / COUNTERS) };
        word >> (4 * (address % COUNTERS)) & 15
    }

    /// The counters of a hash in the `line` layout.
    #[inline(always)]
    pub(super) fn block_pointer(&self, hash: u64) -> *const std::sync::atomic::AtomicU64 {
        self.words.as_ptr().wrapping_add(self.geometry.block(hash) as usize * BLOCK_WORDS)
    }

    /// The address of each row's counter; those behind the last row are 0.
    #[inline]
    pub(crate) fn counter_addresses(&self, hash: u64) -> [u64; MAX_ROWS as usize] {
        let rows = self.geometry.row_count() as usize;
        let mut addresses = [0; MAX_ROWS as usize];
        if self.geometry.layout() == Layout::Line {
            let block = self.geometry.block(hash) * LINE_BLOCK_CELLS;
            let row_cells = self.geometry.row_cells() as u32;
            for (row, address) in addresses.iter_mut().enumerate().take(rows) {
                *address = block + cell_in_line(row_cells, hash, row) as u64;
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
            let block = self.block_pointer(hash);
            for word in (0..BLOCK_WORDS).step_by(LINE_WORDS) {
                prefetch(block.wrapping_add(word));
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
        if (self.geometry.layout(), self.geometry.row_count()) == (Layout::Line, 8) {
            return self.contain_batch_in_two_steps(hash, found);
        }
        ahead(
            found.len(),
            hash,
            |hash| self.prefetch_counters(hash),
            |at, hash| found[at] = self.counters_contain_general(hash),
        );
    }

    /// A batch in lines of 8 rows. Few keys that are absent come past the two rows in the first of the
    /// four lines of their block: the others are asked for only then, and take a third of the time.
    fn contain_batch_in_two_steps(&self, mut hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        const PIECE: usize = 1024;
        let (mut places, mut hashes) = ([0u16; PIECE], [0; PIECE]);
        for (piece, found) in found.chunks_mut(PIECE).enumerate() {
            let mut left = 0;
            ahead(
                found.len(),
                |at| hash(piece * PIECE + at),
                |hash| prefetch(self.block_pointer(hash)),
                |at, hash| {
                    found[at] = false;
                    // Those that are left move up, without a branch that would be mispredicted.
                    (places[left], hashes[left]) = (at as u16, hash);
                    left += usize::from(self.least_counter::<8>(hash, 2) > 0);
                },
            );
            ahead(
                left,
                |at| hashes[at],
                |hash| self.prefetch_counters(hash),
                |at, hash| found[usize::from(places[at])] = self.counters_contain(hash),
            );
        }
    }
}

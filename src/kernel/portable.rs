//! Kernels that every processor runs.

use super::{Cells, LINE_WORDS, place};
use crate::geometry::{LANE_MULTIPLIERS, reduce};
use crate::hash::{GOLDEN, mix};
use crate::storage::{Map, prefetch};

/// Rows looked at before the answer so far decides whether to go on. With every second cell on,
/// leaving after each row mispredicts once per absent key; after four rows of which one in 16
/// keys has all on, it hardly ever does, and four loads are under way at once.
pub(super) const GROUP: u32 = 4;

/// The cells of a hash within its line (F-55): they are a power of two per row, so the top bits of
/// the product are the cell.
#[inline(always)]
pub(super) fn cell_in_line(row_cells: u32, hash: u64, row: usize) -> usize {
    let product = (hash as u32).wrapping_mul(LANE_MULTIPLIERS[row % LANE_MULTIPLIERS.len()]);
    row * row_cells as usize + (product >> (32 - row_cells.trailing_zeros())) as usize
}

/// Whether the cells of all rows are on, in the `line` layout.
#[inline(always)]
pub(super) fn line_contains<Q: Map>(cells: &Cells<Q>, hash: u64) -> bool {
    let start = cells.line(hash);
    let mut on = 1;
    for row in 0..cells.geometry.row_count() as usize {
        let cell = cell_in_line(cells.geometry.row_cells() as u32, hash, row);
        debug_assert!(cell < 64 * LINE_WORDS);
        // SAFETY: a line has 512 cells, and the words hold all lines (`Cells::new`).
        let word = unsafe { cells.words.load_unchecked(start + cell / 64) };
        on &= word >> (cell % 64);
    }
    on & 1 == 1
}

/// The cells of a hash in the layouts that draw each one from a mixed value (F-53, F-56).
pub(super) struct Drawn {
    /// Address of the block.
    base: u64,
    row_span: u64,
    row_cells: u64,
    /// What the next row's value is mixed from.
    state: u64,
}

impl Drawn {
    #[inline(always)]
    pub(super) fn new<Q: Map>(cells: &Cells<Q>, hash: u64) -> Self {
        Drawn {
            base: cells.geometry.block(hash) * cells.block_span,
            row_span: cells.row_span,
            row_cells: cells.geometry.row_cells(),
            state: hash,
        }
    }

    /// The address of the next row's cell.
    #[inline(always)]
    pub(super) fn next_address(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        let address = self.base + reduce(mix(self.state), self.row_cells);
        self.base += self.row_span;
        address
    }

    /// The word and the bit number of the next row's cell.
    #[inline(always)]
    fn next(&mut self) -> (usize, u64) {
        let address = self.next_address();
        ((address / 64) as usize, address % 64)
    }
}

/// Whether the cells of all rows are on, in the layouts `page`, `rows` and `flat`.
#[inline]
pub(super) fn drawn_contains<Q: Map>(cells: &Cells<Q>, hash: u64) -> bool {
    let mut drawn = Drawn::new(cells, hash);
    let mut next = || {
        let (word, bit) = drawn.next();
        // SAFETY: every address a geometry gives is within its span, which the words hold
        // (`Cells::new`).
        unsafe { cells.words.load_unchecked(word) >> bit }
    };
    let mut left = cells.geometry.row_count();
    while left >= GROUP {
        let on = next() & next() & next() & next();
        if on & 1 == 0 {
            return false;
        }
        left -= GROUP;
    }
    let mut on = 1;
    for _ in 0..left {
        on &= next();
    }
    on & 1 == 1
}

/// Asks for the memory of a look-up that draws its cells.
#[inline(always)]
pub(super) fn prefetch_drawn<Q: Map>(cells: &Cells<Q>, hash: u64) {
    let mut drawn = Drawn::new(cells, hash);
    for _ in 0..cells.geometry.row_count() {
        prefetch(cells.words.as_ptr().wrapping_add(drawn.next().0));
    }
}

/// [`Cells::turn_on`] in the `line` layout, without its last part.
#[inline]
pub(super) fn turn_on<Q: Map>(cells: &Cells<Q>, hash: u64, before: impl FnOnce(u32)) -> u32 {
    let start = cells.line(hash);
    let mut words: [u64; LINE_WORDS] = std::array::from_fn(|at| cells.words.load(start + at));
    let mut mask = 0;
    for row in 0..cells.geometry.row_count() as usize {
        let cell = cell_in_line(cells.geometry.row_cells() as u32, hash, row);
        let bit = 1 << (cell % 64);
        mask |= u32::from(words[cell / 64] & bit == 0) << row;
        words[cell / 64] |= bit;
    }
    if mask != 0 {
        before(mask);
        for (at, word) in words.into_iter().enumerate() {
            cells.map.store(start + at, word);
        }
    }
    mask
}

/// Turns on the cells of the rows in `mask`, in the layouts that draw each one.
pub(super) fn set_drawn<Q: Map>(
    cells: &Cells<Q>,
    hash: u64,
    mask: u32,
    mut prepare: impl FnMut(usize),
) {
    let alone = cells.own_block(hash).is_some();
    let mut drawn = Drawn::new(cells, hash);
    for row in 0..cells.geometry.row_count() {
        let (word, bit) = drawn.next();
        if mask >> row & 1 == 1 {
            prepare(word);
            if alone {
                cells.map.store(word, cells.words.load(word) | 1 << bit);
            } else {
                cells.map.fetch_or(word, 1 << bit);
            }
        }
    }
}

/// One bit for each row whose cell is off, in any layout.
pub(super) fn missing<Q: Map>(cells: &Cells<Q>, hash: u64) -> u32 {
    (0..cells.geometry.row_count()).fold(0, |mask, row| {
        let (word, bit) = place(&cells.geometry, hash, row);
        mask | (u32::from(cells.words.load(word) & bit == 0) << row)
    })
}

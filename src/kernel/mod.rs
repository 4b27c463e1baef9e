//! The inner loops over mapped words.
//!
//! Callers hand over words that are as long as the geometry asks for ([`fits`]).

use crate::geometry::Geometry;
use crate::storage::Words;

/// Bits of a plain cell.
const CELL_BITS: u32 = 1;

/// Whether `words` hold all cells of the geometry.
pub(crate) fn fits(geometry: &Geometry, words: &Words) -> bool {
    words.len() as u64 * 64 >= geometry.blocks() * geometry.block_span(CELL_BITS)
}

/// The word and the bit of the cell a hash takes in a row.
#[inline(always)]
pub(crate) fn place(geometry: &Geometry, hash: u64, row: u32) -> (usize, u64) {
    let address = geometry.address(hash, row, CELL_BITS);
    ((address / 64) as usize, 1 << (address % 64))
}

/// Whether the cells of all rows are on.
#[inline]
pub(crate) fn contains(geometry: &Geometry, words: &Words, hash: u64) -> bool {
    (0..geometry.row_count()).all(|row| {
        let (word, bit) = place(geometry, hash, row);
        words.load(word) & bit != 0
    })
}

/// One bit for each row whose cell is off.
#[inline]
pub(crate) fn missing(geometry: &Geometry, words: &Words, hash: u64) -> u32 {
    (0..geometry.row_count()).fold(0, |mask, row| {
        let (word, bit) = place(geometry, hash, row);
        mask | (u32::from(words.load(word) & bit == 0) << row)
    })
}

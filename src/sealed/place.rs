//! Where in its page a value's equation is, as the page's header has it (F-147).

use std::sync::atomic::Ordering;

use super::header::BENDS_OFFSET;
use super::shape::{BLOCK_SLOTS, HEADER_WORDS, Shape, part_of};
use super::{PageInMap, fingerprint_of, row_of};

/// The words of a page that answer a look-up, and what they must give.
///
/// Column k of the equation is the words `words[0] + k`, `words[1] + k` and `words[2] + k`. They are in
/// the page for every column, whatever bytes stood in it when this was made: kernels rely on that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The first columns of the three blocks that the band covers, in words of 32 bits from the start
    /// of the page.
    words: [u32; 3],
    /// Columns of the first one of these blocks; 0 answers "maybe".
    columns: u32,
    /// The coefficients for each of the three blocks.
    rows: [u32; 3],
    /// What the columns must give, no more bits than columns.
    fingerprint: u32,
}

impl Place {
    /// What answers "maybe".
    const MAYBE: Place =
        Place { words: [HEADER_WORDS; 3], columns: 0, rows: [0; 3], fingerprint: 0 };

    /// What answers "no": a column without coefficients that must give a one.
    const NO: Place = Place { columns: 1, fingerprint: 1, ..Place::MAYBE };

    /// The place of a value in a page, of which `two_bytes` reads any two in a row. Nothing of the page
    /// is read twice to the same end, so that it does not matter if others write it.
    #[inline(always)]
    pub(crate) fn of(
        page: &PageInMap,
        value: u64,
        two_bytes: impl Fn(&PageInMap, usize) -> [u8; 2],
    ) -> Self {
        let first = load(page, 0);
        let (blocks, columns) = (first as u32 & 0xffff, (first >> 16) as u32 & 0xff);
        let Some(shape) = Shape::in_page(blocks, columns) else {
            return if blocks == 0 { Place::NO } else { Place::MAYBE };
        };
        let part = part_of(value);
        let [bend, next] = two_bytes(page, BENDS_OFFSET + part).map(u8::cast_signed);
        Self::in_shape(&shape, shape.part(part, bend, next).start(value), value)
    }

    /// The place of a value in a page of a shape and without bends.
    pub(crate) fn unbent(shape: &Shape, value: u64) -> Self {
        Self::in_shape(shape, shape.part(part_of(value), 0, 0).start(value), value)
    }

    #[inline(always)]
    fn in_shape(shape: &Shape, start: u32, value: u64) -> Self {
        let (block, slot) = (start / BLOCK_SLOTS, start % BLOCK_SLOTS);
        let columns = shape.columns_of(block);
        // Two more blocks follow this one (`Shape::starts`).
        let first = HEADER_WORDS + shape.word_of(block);
        let second = first + columns;
        let third = second + shape.columns_of(block + 1);
        let row = u128::from(row_of(value)) << slot;
        let fingerprint = u64::from(fingerprint_of(value)) & ((1 << columns) - 1);
        Place {
            words: [first, second, third],
            columns,
            rows: [row as u32, (row >> 32) as u32, (row >> 64) as u32],
            fingerprint: fingerprint as u32,
        }
    }

    /// The first columns of the three blocks, in words of 32 bits from the start of the page.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u32; 3] {
        self.words
    }

    /// Number of columns.
    #[inline(always)]
    pub(crate) fn columns(&self) -> u32 {
        self.columns
    }

    /// The coefficients for each of the three blocks.
    #[inline(always)]
    pub(crate) fn rows(&self) -> [u32; 3] {
        self.rows
    }

    /// What the columns must give.
    #[inline(always)]
    pub(crate) fn fingerprint(&self) -> u32 {
        self.fingerprint
    }

    /// The last word of the page that the look-up reads.
    #[inline(always)]
    pub(crate) fn last_word(&self) -> u32 {
        self.words[2] + self.columns.saturating_sub(1)
    }
}

/// A word of 64 bits of a page.
#[inline(always)]
pub(crate) fn load(page: &PageInMap, word: usize) -> u64 {
    u64::from_le(page[word % page.len()].load(Ordering::Relaxed))
}

//! Back-substitution: the equations of a page's slots → the words of its columns (F-146).

use super::PageBytes;
use super::banding::{Equation, SLOTS, System};
use super::header::HEADER_BYTES;
use super::shape::{BLOCK_SLOTS, MOST_COLUMNS, Shape};

/// Solves a banded system and writes the blocks behind the header.
#[inline(always)]
pub(crate) fn solve(system: &System, shape: &Shape, page: &mut PageBytes) {
    let columns = shape.columns_of(shape.blocks() - 1);
    debug_assert!(columns <= MOST_COLUMNS);
    match columns.div_ceil(8) {
        0 | 1 => solve_groups::<1>(&system.slots, shape, page),
        2 => solve_groups::<2>(&system.slots, shape, page),
        3 => solve_groups::<3>(&system.slots, shape, page),
        _ => solve_groups::<4>(&system.slots, shape, page),
    }
}

/// Solves for all columns, 8 · `GROUPS` at a time, and writes the blocks behind the header.
///
/// Slots are taken from the last to the first; each column has the bits of the 64 slots behind the
/// current one in a window. A slot without an equation gets 0. The columns that a page does not have
/// are solved as well and thrown away: eight fill a register.
#[inline(always)]
fn solve_groups<const GROUPS: usize>(
    slots: &[Equation; SLOTS],
    shape: &Shape,
    page: &mut PageBytes,
) {
    let mut windows = [[0u64; 8]; GROUPS];
    for block in (0..shape.blocks()).rev() {
        let first = (block * BLOCK_SLOTS) as usize;
        for slot in (first..first + BLOCK_SLOTS as usize).rev() {
            let equation = &slots[slot % SLOTS];
            let (row, fingerprint) = (equation.row, u64::from(equation.fingerprint()));
            for (group, windows) in windows.iter_mut().enumerate() {
                for (column, window) in windows.iter_mut().enumerate() {
                    let behind = *window << 1;
                    let parity = u64::from((row & behind).count_ones());
                    let bit = parity ^ (fingerprint >> (8 * group + column));
                    *window = behind | (bit & 1);
                }
            }
        }
        let at = HEADER_BYTES + 4 * shape.word_of(block) as usize;
        let columns = shape.columns_of(block) as usize;
        let words = page[at..at + 4 * columns].chunks_exact_mut(4);
        for (word, window) in words.zip(windows.as_flattened()) {
            word.copy_from_slice(&(*window as u32).to_le_bytes());
        }
    }
}

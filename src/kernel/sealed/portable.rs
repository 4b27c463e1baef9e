//! Kernels that every processor runs.

use crate::sealed::PageInMap;
use crate::sealed::place::{Place, load};

/// For each number of columns up to eight, the lowest bits of the bytes that stand for them: the even
/// columns in the lower half of a word, the odd ones in the upper.
const COLUMNS: [u64; 9] = {
    let mut columns = [0; 9];
    let mut at = 0;
    while at < 8 {
        columns[at + 1] = columns[at] | 1 << (at / 2 * 8 + at % 2 * 32);
        at += 1;
    }
    columns
};

kernel_functions!();
banding_function!();

/// Whether all columns of a place give what they must: eight at a time, without a branch that the
/// number of columns would let mispredict.
#[inline(always)]
pub(super) fn evaluate(page: &PageInMap, place: &Place) -> bool {
    let rows = place.rows().map(|row| u64::from(row) << 32 | u64::from(row));
    let mut done = 0;
    while done < place.columns() {
        let mut odd = 0;
        for pair in 0..4 {
            let column = done + 2 * pair;
            let mut ones = 0;
            for (word, row) in place.words().into_iter().zip(rows) {
                ones ^= two_words(page, word + column) & row;
            }
            // Bit k of the fingerprint joins the ones of column k: their parity must then be even.
            let bits = place.fingerprint() >> column;
            ones ^= u64::from(bits & 1) | u64::from(bits & 2) << 31;
            ones ^= ones >> 16;
            ones ^= ones >> 8;
            odd |= (ones & 0xff_0000_00ff) << (8 * pair);
        }
        for fold in [4, 2, 1] {
            odd ^= odd >> fold;
        }
        let left = (place.columns() - done).min(8);
        if odd & COLUMNS[left as usize % COLUMNS.len()] != 0 {
            return false;
        }
        done += 8;
    }
    true
}

/// Two words of 32 bits in a row. Behind the page's last word comes its first.
#[inline(always)]
fn two_words(page: &PageInMap, at: u32) -> u64 {
    let (word, shift) = (at as usize / 2, 32 * (at % 2));
    load(page, word) >> shift | load(page, word + 1) << 1 << (63 - shift)
}

/// Two bytes in a row, of which the second may be in the next word.
#[inline(always)]
fn two_bytes(page: &PageInMap, at: usize) -> [u8; 2] {
    let (word, shift) = (at / 8, 8 * (at % 8));
    let bytes = load(page, word) >> shift | load(page, word + 1) << 1 << (63 - shift);
    [bytes as u8, (bytes >> 8) as u8]
}

//! Folding: neighbouring blocks, or neighbouring cells of a row, ORed into one (F-59).

use std::ops::Range;

use byteorder::{ByteOrder, LittleEndian as Le};

use super::source::PAGE;
use crate::error::{Error, Result};
use crate::geometry::{CellKind, Geometry, LINE_BLOCK_CELLS, Layout};
use crate::plan;

/// Bits of a page.
const PAGE_BITS: u64 = 8 * PAGE as u64;

/// Bytes of a block of the `line` layout.
const LINE: usize = LINE_BLOCK_CELLS as usize / 8;

/// Which pages of a filter fold into which of a smaller one.
#[derive(Clone, Copy)]
pub(crate) struct Folding {
    from: Geometry,
    /// Pages of a row, there and here.
    row_pages: u64,
    target_row_pages: u64,
    factor: u64,
}

impl Folding {
    /// From one geometry to another that it folds to.
    pub(crate) fn new(from: &Geometry, target: &Geometry) -> Self {
        let [row_pages, target_row_pages] = [from, target].map(|geometry| geometry.row_pages());
        let factor = from.foldable() / target.foldable();
        Folding { from: *from, row_pages, target_row_pages, factor }
    }

    /// The pages that fold into these: within a row, those that fold into neighbours are neighbours.
    pub(crate) fn sources(self, pages: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut start = pages.start;
        std::iter::from_fn(move || {
            let row = start / self.target_row_pages;
            let end = pages.end.min((row + 1) * self.target_row_pages);
            let within = |page: u64| {
                let place = (page - row * self.target_row_pages) * self.factor;
                row * self.row_pages + place.min(self.row_pages)
            };
            let found = (start < end).then(|| within(start)..within(end));
            start = end;
            found
        })
    }

    /// ORs a page into the pages from `first` on that it folds to.
    pub(crate) fn fold(&self, page: u64, bytes: &[u8], first: u64, into: &mut [u8]) {
        let (row, place) = (page / self.row_pages, page % self.row_pages);
        let at = (row * self.target_row_pages + place / self.factor - first) as usize * PAGE;
        let (cells, layout) = (self.from.cell_kind(), self.from.layout());
        fold_page(cells, layout, self.factor, place % self.factor, bytes, &mut into[at..at + PAGE]);
    }
}

/// ORs page `part` of the `factor` pages that fold into one into that one.
///
/// In every layout a page of the small filter comes from `factor` consecutive pages of the large
/// one, because a page holds a whole number of blocks, and rows start on pages.
fn fold_page(
    cells: CellKind,
    layout: Layout,
    factor: u64,
    part: u64,
    page: &[u8],
    into: &mut [u8],
) {
    if cells == CellKind::Counting {
        // Files of counters are combined at one size only (`compatible::factor_to`).
        debug_assert_eq!(factor, 1);
        return add_counters(into, page);
    }
    match layout {
        _ if factor == 1 => or(into, page),
        Layout::Page => or(into, page),
        Layout::Line => {
            let first = part * (PAGE / LINE) as u64;
            for (line, at) in page.chunks_exact(LINE).zip(first..) {
                let at = (at / factor) as usize * LINE;
                or(&mut into[at..at + LINE], line);
            }
        }
        Layout::Rows | Layout::Flat if factor.is_power_of_two() => {
            fold_bits_by_shift(factor.trailing_zeros(), part, page, into);
        }
        Layout::Rows | Layout::Flat => fold_bits(factor, part, page, into),
        Layout::Sealed => {
            unreachable!("no source that is folded is sealed (`refuse_uncombinable`)")
        }
    }
}

/// ORs bytes into others.
pub(super) fn or(into: &mut [u8], bytes: &[u8]) {
    into.iter_mut().zip(bytes).for_each(|(into, byte)| *into |= byte);
}

/// Adds 4-bit counters to others; at 15 they stay.
fn add_counters(into: &mut [u8], bytes: &[u8]) {
    for (into, byte) in into.iter_mut().zip(bytes) {
        let low = ((*into & 15) + (byte & 15)).min(15);
        let high = ((*into >> 4) + (byte >> 4)).min(15);
        *into = high << 4 | low;
    }
}

/// Keeps the smaller of two 4-bit counters.
fn least_counters(into: &mut [u8], bytes: &[u8]) {
    for (into, byte) in into.iter_mut().zip(bytes) {
        *into = (*into & 0xf0).min(byte & 0xf0) | (*into & 15).min(byte & 15);
    }
}

/// Keeps what both have: the bits of plain pages, the smaller counters of counting ones.
pub(super) fn intersect(cells: CellKind, into: &mut [u8], bytes: &[u8]) {
    match cells {
        CellKind::Counting => least_counters(into, bytes),
        _ => and(into, bytes),
    }
}

/// ANDs bytes into others.
fn and(into: &mut [u8], bytes: &[u8]) {
    into.iter_mut().zip(bytes).for_each(|(into, byte)| *into &= byte);
}

/// The 64-bit words of a page, with the number of each one's first bit among all that are folded.
fn words(part: u64, page: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let firsts = (part * PAGE_BITS..).step_by(64);
    firsts
        .zip(page.chunks_exact(8))
        .map(|(first, bytes)| (first, Le::read_u64(bytes)))
        .filter(|&(_, word)| word != 0)
}

/// Turns on bits from bit `at` on; they do not reach beyond the 64-bit word that `at` is in.
fn set(into: &mut [u8], at: u64, bits: u64) {
    let start = (at / 64) as usize * 8;
    or(&mut into[start..start + 8], &(bits << (at % 64)).to_le_bytes());
}

/// Bit c becomes bit c >> shift.
fn fold_bits_by_shift(shift: u32, part: u64, page: &[u8], into: &mut [u8]) {
    for (first, mut word) in words(part, page) {
        for _ in 0..shift.min(6) {
            word = join_pairs(word);
        }
        set(into, first >> shift, word);
    }
}

/// ORs each pair of neighbouring bits into one: 64 bits become 32.
fn join_pairs(word: u64) -> u64 {
    let mut joined = (word | word >> 1) & 0x5555_5555_5555_5555;
    // Each step brings pieces of twice the length together.
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        joined = (joined | joined >> shift) & mask;
    }
    joined
}

/// Bit c becomes bit ⌊c / factor⌋.
fn fold_bits(factor: u64, part: u64, page: &[u8], into: &mut [u8]) {
    for (mut first, mut word) in words(part, page) {
        while word != 0 {
            // On to the first bit that is on: a run of zeros costs nothing.
            let zeros = word.trailing_zeros();
            first += u64::from(zeros);
            word >>= zeros;
            let at = first / factor;
            set(into, at, 1);
            let next = (at + 1) * factor - first;
            word = u32::try_from(next).ok().and_then(|next| word.checked_shr(next)).unwrap_or(0);
            first += next;
        }
    }
}

/// The largest factor by which a filter with `keys` keys can be folded so that its rate stays at
/// or below `rate`.
pub(super) fn factor_for_rate(geometry: &Geometry, keys: f64, rate: f64) -> Result<u64> {
    let refuse = |reason: String| Err(Error::parameter("false positive rate", rate, reason));
    // Written so that a NaN is refused.
    if !(rate > 0.0 && rate < 1.0) {
        return refuse("it must be above 0 and below 1, for example 0.01 for 1 %".into());
    }
    let keys = keys.round() as u64;
    for factor in divisors(geometry.foldable()).into_iter().rev() {
        if plan::false_positive_rate(&geometry.folded(factor)?, keys) <= rate {
            return Ok(factor);
        }
    }
    let now = plan::false_positive_rate(geometry, keys);
    refuse(format!("the filter is at {now:.3e} without being folded"))
}

/// All divisors, smallest first.
fn divisors(number: u64) -> Vec<u64> {
    let small: Vec<u64> =
        (1..=number.isqrt()).filter(|&divisor| number.is_multiple_of(divisor)).collect();
    let large = small.iter().rev().map(|divisor| number / divisor);
    let mut all: Vec<u64> = small.iter().copied().chain(large).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::split_mix;

    /// Bit by bit, as the definition says.
    fn slowly(factor: u64, part: u64, page: &[u8]) -> Vec<u8> {
        let mut into = vec![0; PAGE];
        for bit in (0..PAGE_BITS).filter(|bit| page[(bit / 8) as usize] >> (bit % 8) & 1 == 1) {
            let at = (part * PAGE_BITS + bit) / factor;
            into[(at / 8) as usize] |= 1 << (at % 8);
        }
        into
    }

    #[test]
    fn bits_fold_as_the_definition_says() {
        for factor in (1..=200).chain([255, 256, 1000, 4096, 32_768, 65_536, 1_000_003]) {
            for (part, sparse) in [(0, 0), (factor / 2, 3), (factor - 1, 1)] {
                let mut page = [0; PAGE];
                for (at, byte) in page.iter_mut().enumerate() {
                    let noise = split_mix(factor, at as u64);
                    *byte = if noise >> 32 & sparse == 0 { noise as u8 } else { 0 };
                }
                for layout in [Layout::Rows, Layout::Flat] {
                    let mut into = [0; PAGE];
                    fold_page(CellKind::Plain, layout, factor, part, &page, &mut into);
                    assert!(into[..] == slowly(factor, part, &page), "factor {factor}");
                }
                let mut into = [0; PAGE];
                fold_bits(factor, part, &page, &mut into);
                assert!(into[..] == slowly(factor, part, &page), "factor {factor}");
            }
        }
    }

    #[test]
    fn divisors_are_all_of_them() {
        for number in (1..500).chain([1 << 20, 1_000_000_007 * 4]) {
            let all: Vec<u64> = match number {
                0..500 => (1..=number).filter(|divisor| number % divisor == 0).collect(),
                1_048_576 => (0..=20).map(|power| 1 << power).collect(),
                _ => vec![1, 2, 4, 1_000_000_007, 2_000_000_014, 4_000_000_028],
            };
            assert_eq!(divisors(number), all);
        }
    }
}

//! The cells that a journal's records change, in few bytes: a record of 16 bytes names up to 32 of
//! them, and opening a crashed file must not take many times its journal in memory (F-39).

use std::collections::BTreeMap;

use super::PAGE_WORDS;
use crate::storage::Map;

/// What some bits of a word are to be: `word`, by its place in the data, takes `value` where `mask`
/// is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) word: usize,
    pub(crate) mask: u64,
    pub(crate) value: u64,
}

impl Patch {
    pub(crate) fn apply(&self, word: u64) -> u64 {
        (word & !self.mask) | self.value
    }
}

/// How a changed cell is held in 32 bits: its address within a chunk of the data and, unless that
/// says it all, its old and its new value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Form {
    /// A bit that is turned on: the 32 low bits of its address.
    #[default]
    Bit,
    /// A counter: the 24 low bits of its address, 4 bits of old and 4 of new value.
    Counter,
}

impl Form {
    /// Bits of an address that are kept with the cell; the others are the chunk's.
    const fn address_bits(self) -> u32 {
        match self {
            Form::Bit => 32,
            Form::Counter => 24,
        }
    }

    /// Bits of an address within a word of the data.
    const fn word_bits(self) -> u32 {
        match self {
            Form::Bit => 6,
            Form::Counter => 4,
        }
    }

    /// The address in a held cell.
    const fn address(self, held: u32) -> u32 {
        match self {
            Form::Bit => held,
            Form::Counter => held >> 8,
        }
    }

    /// The bits of its word that a held cell changes, and what they become.
    const fn bits(self, held: u32, side: Side) -> (u64, u64) {
        match (self, side) {
            (Form::Bit, Side::Before) => (1 << (held & 63), 0),
            (Form::Bit, Side::After) => (1 << (held & 63), 1 << (held & 63)),
            (Form::Counter, _) => {
                let shift = 4 * (held >> 8 & 15);
                let value = match side {
                    Side::Before => held >> 4 & 15,
                    Side::After => held & 15,
                };
                (15 << shift, (value as u64) << shift)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Before,
    After,
}

/// What records change in one segment: each cell once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    form: Form,
    /// By the high bits of their addresses, the cells in ascending order.
    chunks: BTreeMap<u64, Vec<u32>>,
}

impl Changes {
    /// No changes.
    pub(crate) const NONE: &'static Changes = &Changes { form: Form::Bit, chunks: BTreeMap::new() };

    /// No changes of counters yet.
    pub(super) const fn of_counters() -> Self {
        Changes { form: Form::Counter, chunks: BTreeMap::new() }
    }

    /// A bit that is turned on. All of them have to be [sorted](Self::sort) in the end.
    pub(super) fn push_bit(&mut self, address: u64) {
        let cells = self.chunks.entry(address >> self.form.address_bits()).or_default();
        if cells.len() == cells.capacity() {
            // Records that name the same cells again and again must not make this grow.
            sort(cells);
            if cells.len() > cells.capacity() / 2 {
                cells.reserve(cells.len());
            }
        }
        cells.push(address as u32);
    }

    /// A counter, after all counters with lower addresses.
    pub(super) fn push_counter(&mut self, address: u64, old: u8, new: u8) {
        let cells = self.chunks.entry(address >> self.form.address_bits()).or_default();
        cells.push((address as u32) << 8 | u32::from(old & 15) << 4 | u32::from(new & 15));
    }

    /// Puts the cells in order.
    pub(super) fn sort(&mut self) {
        for cells in self.chunks.values_mut() {
            sort(cells);
            cells.shrink_to_fit();
        }
    }

    /// What is changed on a page.
    pub(crate) fn page(&self, page: u64) -> PageChanges<'_> {
        let first = (page * PAGE_WORDS as u64) << self.form.word_bits();
        let chunk = first >> self.form.address_bits();
        let cells = self.chunks.get(&chunk).map_or(&[][..], Vec::as_slice);
        let page_bits = PAGE_WORDS.trailing_zeros() + self.form.word_bits();
        let number = |held: u32| self.form.address(held) >> page_bits;
        let page = number_within(first, self.form) >> page_bits;
        let cells = &cells[cells.partition_point(|&held| number(held) < page)..];
        let cells = &cells[..cells.partition_point(|&held| number(held) == page)];
        PageChanges { form: self.form, chunk, cells }
    }

    /// What the changed words have to be, in ascending order.
    fn after(&self) -> impl Iterator<Item = Patch> {
        self.chunks
            .iter()
            .flat_map(|(&chunk, cells)| PageChanges { form: self.form, chunk, cells }.after())
    }

    /// Makes the data what it has to be, and tells each word that was written.
    pub(crate) fn apply<Q: Map>(&self, data: &Q, mut written: impl FnMut(usize)) {
        for patch in self.after() {
            data.store(patch.word, patch.apply(data.words().load(patch.word)));
            written(patch.word);
        }
    }

    /// As [`apply`](Self::apply), in a private copy: pages that need nothing stay shared with the
    /// file.
    pub(crate) fn apply_private<Q: Map>(&self, data: &Q) {
        for patch in self.after() {
            let before = data.words().load(patch.word);
            let after = patch.apply(before);
            if after != before {
                data.store(patch.word, after);
            }
        }
    }
}

impl Changes {
    /// Whether the data are what they have to be.
    pub(crate) fn are_in<Q: Map>(&self, data: &Q) -> bool {
        self.after().all(|patch| {
            let word = data.words().load(patch.word);
            patch.apply(word) == word
        })
    }
}

/// The part of an address that is kept with a cell.
const fn number_within(address: u64, form: Form) -> u32 {
    (address & ((1 << form.address_bits()) - 1)) as u32
}

fn sort(cells: &mut Vec<u32>) {
    cells.sort_unstable();
    cells.dedup();
}

/// What records change on one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageChanges<'a> {
    form: Form,
    chunk: u64,
    cells: &'a [u32],
}

impl<'a> PageChanges<'a> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// How many more cells of the page are not zero with the changes than without them.
    pub(crate) fn gained(&self) -> i64 {
        match self.form {
            Form::Bit => self.cells.len() as i64,
            Form::Counter => self
                .cells
                .iter()
                .map(|held| i64::from(held & 15 != 0) - i64::from(held >> 4 & 15 != 0))
                .sum(),
        }
    }

    /// What turns the data into what the page table describes: sorted by word, each word once.
    pub(crate) fn before(self) -> impl Iterator<Item = Patch> + use<'a> {
        self.patches(Side::Before)
    }

    /// What turns the data into what it has to be: sorted by word, each word once.
    pub(crate) fn after(self) -> impl Iterator<Item = Patch> + use<'a> {
        self.patches(Side::After)
    }

    fn patches(self, side: Side) -> impl Iterator<Item = Patch> + use<'a> {
        let PageChanges { form, chunk, cells } = self;
        let first = (chunk << (form.address_bits() - form.word_bits())) as usize;
        let word = move |held: u32| form.address(held) >> form.word_bits();
        cells.chunk_by(move |&a, &b| word(a) == word(b)).map(move |cells| {
            let mut patch = Patch { word: first + word(cells[0]) as usize, mask: 0, value: 0 };
            for &held in cells {
                let (mask, value) = form.bits(held, side);
                patch.mask |= mask;
                patch.value |= value;
            }
            patch
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_by_page_each_word_once() {
        let mut changes = Changes::default();
        let addresses = [70, 64, 70, 32_767, 32_768, (1 << 32) - 1, 1 << 32, (5 << 32) + 32_769];
        addresses.iter().for_each(|&address| changes.push_bit(address));
        changes.sort();
        let page = |page| changes.page(page).after().collect::<Vec<_>>();
        let bits = |word, mask| Patch { word, mask, value: mask };
        assert_eq!(page(0), [bits(1, 0b100_0001), bits(511, 1 << 63)]);
        assert_eq!(page(1), [bits(512, 1)]);
        assert_eq!(page((1 << 17) - 1), [bits((1 << 26) - 1, 1 << 63)]);
        assert_eq!(page(1 << 17), [bits(1 << 26, 1)]);
        assert_eq!(page((5 << 17) + 1), [bits((5 << 26) + 512, 2)]);
        assert!(changes.page(2).is_empty() && changes.page(9 << 17).is_empty());
        let before: Vec<_> = changes.page(1).before().collect();
        assert_eq!(before, [Patch { word: 512, mask: 1, value: 0 }]);
        assert_eq!(changes.after().count(), 6);
    }

    #[test]
    fn counters_come_back_with_both_values() {
        let mut changes = Changes::of_counters();
        changes.push_counter(17, 3, 4);
        changes.push_counter(18, 0, 15);
        changes.push_counter((7 << 24) + 8192, 9, 8);
        let before: Vec<_> = changes.page(0).before().collect();
        assert_eq!(before, [Patch { word: 1, mask: 0xff0, value: 0x030 }]);
        let after: Vec<_> = changes.page(0).after().collect();
        assert_eq!(after, [Patch { word: 1, mask: 0xff0, value: 0xf40 }]);
        let after: Vec<_> = changes.page((7 << 11) + 1).after().collect();
        assert_eq!(after, [Patch { word: (7 << 20) + 512, mask: 15, value: 8 }]);
    }

    #[test]
    fn cells_that_are_named_again_take_no_room() {
        let mut changes = Changes::default();
        (0..1_000_000).for_each(|number| changes.push_bit(number % 100));
        assert!(changes.chunks[&0].capacity() <= 512);
    }
}

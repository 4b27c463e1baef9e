//! How many ones the blocks of a segment have.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use byteorder::{ByteOrder, LittleEndian};

use super::pages::Pages;
use super::scan::split_on_all_cores;
use crate::error::Result;
use crate::format::counters_in_use;
use crate::geometry::{CellKind, Geometry, LINE_BLOCK_CELLS, Layout, PAGE_BYTES};
use crate::plan::{Crowding, crowded_from, load_of_zeros};

/// The blocks of a geometry, or what takes their place: the `rows` and `flat` layouts have one block
/// only, in which stretches of 512 cells are counted.
pub(crate) struct Blocks {
    /// Rows and cells of each row of one block.
    pub(crate) rows: u32,
    pub(crate) row_cells: u64,
    /// All of them, whole or not.
    blocks: u64,
    /// Words from one to the next.
    words: u64,
    /// Of the first number of blocks in a row of the data, the second number, from the first on, is whole.
    whole: (u64, u64),
    /// Blocks that begin and end with a page, and their pages.
    group: (u64, u64),
    /// Keys of a block for each key of the segment.
    share: f64,
    cells: CellKind,
}

/// The fullest pages of a segment.
pub(crate) struct Fullest {
    /// By the numbers of their groups of blocks.
    groups: Vec<u64>,
    /// The ones of all pages.
    ones: u64,
}

impl Blocks {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let (rows, row_cells, span) = match geometry.layout() {
            Layout::Rows | Layout::Flat => (1, LINE_BLOCK_CELLS, LINE_BLOCK_CELLS),
            Layout::Page | Layout::Line | Layout::Sealed => {
                (geometry.row_count(), geometry.row_cells(), geometry.block_span())
            }
        };
        let stretch = LINE_BLOCK_CELLS as f64 / geometry.row_cells() as f64;
        let (blocks, whole, share) = match geometry.layout() {
            Layout::Rows | Layout::Flat => {
                let stretches = geometry.block_span() / span;
                let (in_row, draws) = match geometry.layout() {
                    Layout::Rows => (geometry.row_span() / span, 1),
                    _ => (stretches, geometry.row_count()),
                };
                let whole = (in_row, geometry.row_cells() / span);
                (stretches, whole, f64::from(draws) * stretch)
            }
            Layout::Page | Layout::Line | Layout::Sealed => {
                (geometry.blocks(), (1, 1), 1.0 / geometry.blocks() as f64)
            }
        };
        let words = span * u64::from(geometry.cell_kind().bits()) / 64;
        let page_words = PAGE_BYTES / 8;
        let group = ((page_words / words).max(1), words.div_ceil(page_words));
        Blocks { rows, row_cells, blocks, words, whole, group, share, cells: geometry.cell_kind() }
    }

    /// Groups of blocks that begin and end with a page.
    pub(crate) fn groups(&self) -> u64 {
        self.blocks.div_ceil(self.group.0)
    }

    /// Pages of a group.
    pub(crate) fn group_pages(&self) -> u64 {
        self.group.1
    }

    /// Ones that a block can have at most.
    fn most_ones(&self) -> usize {
        (u64::from(self.rows) * self.row_cells) as usize
    }

    /// How many blocks have how many ones.
    pub(crate) fn count(&self, pages: &dyn Pages) -> Result<Vec<u64>> {
        let parts = split_on_all_cores(self.groups(), self.group.1, |groups| {
            self.count_groups(pages, groups)
        });
        let mut counted = vec![0; self.most_ones() + 1];
        for part in parts {
            counted.iter_mut().zip(part?).for_each(|(sum, count)| *sum += count);
        }
        Ok(counted)
    }

    /// How many blocks of some groups have how many ones.
    pub(crate) fn count_groups(
        &self,
        pages: &dyn Pages,
        groups: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<u64>> {
        let (group, group_pages) = self.group;
        let mut counted = vec![0; self.most_ones() + 1];
        let mut bytes = vec![0; (group_pages * PAGE_BYTES) as usize];
        for number in groups {
            let blocks = number * group..((number + 1) * group).min(self.blocks);
            pages.read(number * group_pages, &mut bytes)?;
            for (block, bytes) in blocks.zip(bytes.chunks_exact(self.words as usize * 8)) {
                if block % self.whole.0 < self.whole.1 {
                    let words = bytes.chunks_exact(8).map(LittleEndian::read_u64);
                    let ones: u32 = words.map(|word| self.ones(word)).sum();
                    // More than there are cells means damage between the rows.
                    counted[(ones as usize).min(self.most_ones())] += 1;
                }
            }
        }
        Ok(counted)
    }

    /// The fullest pages, at most `most_pages` of them, by the ones that the page table has for each.
    pub(crate) fn fullest(&self, page_ones: impl Fn(u64) -> u32, most_pages: u64) -> Fullest {
        let pages = self.group.1;
        let most = (most_pages / pages).max(1) as usize;
        let mut ones = 0;
        let mut fullest = BinaryHeap::with_capacity(most + 1);
        for group in 0..self.groups() {
            let here = (group * pages..(group + 1) * pages).map(|page| u64::from(page_ones(page)));
            let here: u64 = here.sum();
            ones += here;
            let fuller = |Reverse((least, _)): &Reverse<(u64, u64)>| here > *least;
            if fullest.len() < most || fullest.peek().is_some_and(fuller) {
                fullest.push(Reverse((here, group)));
            }
            if fullest.len() > most {
                fullest.pop();
            }
        }
        let mut groups: Vec<u64> = fullest.into_iter().map(|Reverse((_, group))| group).collect();
        groups.sort_unstable();
        Fullest { groups, ones }
    }

    /// Looks for blocks that hold more keys than chance brings together in any. `adds` are the keys
    /// that are known to have come.
    pub(crate) fn find_crowded(
        &self,
        pages: &dyn Pages,
        Fullest { groups, ones }: Fullest,
        adds: u64,
    ) -> Result<Crowding> {
        let all = groups.len() as u64 == self.groups();
        let counted = self.count_groups(pages, groups)?;
        let looked_at: u64 = counted.iter().sum();
        let cells = self.most_ones() as f64;
        // Of pages that were not all looked at, the table knows: as of the last checkpoint. So the
        // adds since then count as well, or ordinary keys would seem to crowd.
        let (ones, all_cells) = if all {
            let ones = counted.iter().zip(0u64..).map(|(&count, ones)| (count * ones) as f64);
            (ones.sum::<f64>(), looked_at as f64 * cells)
        } else {
            let whole = self.whole.1 as f64 / self.whole.0 as f64;
            (ones as f64, self.blocks as f64 * cells * whole)
        };
        let mean = load_of_zeros(self.row_cells, (all_cells - ones) / all_cells.max(1.0));
        let mean = mean.max(adds as f64 * self.share);
        let from = crowded_from(self.rows, self.row_cells, self.blocks, mean) as usize;
        let crowded = counted.iter().skip(from).sum();
        Ok(Crowding { blocks: self.blocks, looked_at, crowded })
    }

    /// Cells of a word that are not zero.
    fn ones(&self, word: u64) -> u32 {
        match self.cells {
            CellKind::Plain | CellKind::Sealed => word.count_ones(),
            CellKind::Counting => counters_in_use(word),
        }
    }
}

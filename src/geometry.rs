//! Hash → block and cells: the layouts, and where a cell stands in the data (F-50 to F-59).

mod kinds;

pub use kinds::{CellKind, Layout};

use crate::error::{Error, Result};
use crate::hash::split_mix;

/// Most rows a geometry can have: one bit each in a journal record's mask.
pub const MAX_ROWS: u32 = 32;

/// Bytes in a page, the unit of checksums, repair and transfer.
pub const PAGE_BYTES: u64 = 4096;

/// Cells in a block of the `page` layout.
pub const PAGE_BLOCK_CELLS: u64 = 32_768;

/// Cells in a block of the `line` layout.
pub const LINE_BLOCK_CELLS: u64 = 512;

/// Most cells a geometry may span, padding included: keeps every product below 2^64.
pub const MAX_CELLS: u64 = 1 << 52;

/// Most pages of the `sealed` layout: as many as [`MAX_CELLS`] bits fill.
pub(crate) const MOST_SEALED_PAGES: u64 = MAX_CELLS / (8 * PAGE_BYTES);

/// Bits of a sealed page that hold its solution, behind the 20 bytes of its header (F-141).
pub(crate) const SEALED_PAGE_BITS: u64 = 8 * PAGE_BYTES - 160;

/// One odd multiplier for each lane of the `line` layout (F-55).
pub(crate) const LANE_MULTIPLIERS: [u32; MAX_ROWS as usize] = lane_multipliers();

/// The multipliers are the upper halves of SplitMix64's first outputs, made odd.
const fn lane_multipliers() -> [u32; MAX_ROWS as usize] {
    let mut multipliers = [0; MAX_ROWS as usize];
    let mut i = 0;
    while i < multipliers.len() {
        multipliers[i] = (split_mix(0, i as u64) >> 32) as u32 | 1;
        i += 1;
    }
    multipliers
}

/// `(value × range) >> 64`: a uniform 64-bit value to `0..range` without a division.
#[inline(always)]
pub(crate) const fn reduce(value: u64, range: u64) -> u64 {
    ((value as u128 * range as u128) >> 64) as u64
}

/// B blocks × k rows × w cells: where the cells of a hash are.
///
/// ```
/// use bloomfile::geometry::Geometry;
///
/// // The textbook matrix of 3 rows with 5 bits each.
/// let geometry = Geometry::rows(3, 5)?;
/// let cells: Vec<u64> = (0..3).map(|row| geometry.cell(0x0123_4567_89ab_cdef, row)).collect();
/// assert!(cells.iter().all(|&cell| cell < 5));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Geometry {
    layout: Layout,
    rows: u32,
    blocks: u64,
    row_cells: u64,
    #[cfg_attr(feature = "serde", serde(skip))]
    cells: CellKind,
}

impl Geometry {
    /// The textbook matrix: `rows` rows of `row_cells` cells.
    pub fn rows(rows: u32, row_cells: u64) -> Result<Self> {
        Self::new(Layout::Rows, rows, 1, row_cells)
    }

    /// One row of `row_cells` cells, shared by `rows` functions.
    pub fn flat(rows: u32, row_cells: u64) -> Result<Self> {
        Self::new(Layout::Flat, rows, 1, row_cells)
    }

    /// `blocks` blocks of one page each.
    pub fn page(rows: u32, blocks: u64) -> Result<Self> {
        Self::new(Layout::Page, rows, blocks, PAGE_BLOCK_CELLS / u64::from(rows.max(1)))
    }

    /// `blocks` blocks of one cache line each; `rows` must be a power of two.
    pub fn line(rows: u32, blocks: u64) -> Result<Self> {
        Self::new(Layout::Line, rows, blocks, LINE_BLOCK_CELLS / u64::from(rows.max(1)))
    }

    /// `pages` pages of equations (F-140): a block is a page, and there are neither rows nor cells.
    ///
    /// ```
    /// # use bloomfile::geometry::Geometry;
    /// let geometry = Geometry::sealed(10)?;
    /// assert_eq!((geometry.pages(), geometry.row_count()), (10, 0));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn sealed(pages: u64) -> Result<Self> {
        Self::new(Layout::Sealed, 0, pages, 0)
    }

    /// Any geometry from its four numbers, checked as the specification asks (F-51).
    pub fn new(layout: Layout, rows: u32, blocks: u64, row_cells: u64) -> Result<Self> {
        if layout == Layout::Sealed {
            return Self::new_sealed(rows, blocks, row_cells);
        }
        if rows == 0 || rows > MAX_ROWS {
            return Err(Error::parameter("rows", rows, "it must be from 1 to 32"));
        }
        if layout == Layout::Line && !rows.is_power_of_two() {
            return Err(Error::parameter(
                "rows",
                rows,
                "the line layout takes 1, 2, 4, 8, 16 or 32",
            ));
        }
        let forced_row_cells = match layout {
            Layout::Rows | Layout::Flat => row_cells,
            Layout::Page => PAGE_BLOCK_CELLS / u64::from(rows),
            Layout::Line => LINE_BLOCK_CELLS / u64::from(rows),
            Layout::Sealed => 0,
        };
        if row_cells == 0 || row_cells > MAX_CELLS {
            return Err(Error::parameter("row bits", row_cells, "it must be from 1 to 2^52"));
        }
        if row_cells != forced_row_cells {
            return Err(Error::parameter(
                "row bits",
                row_cells,
                format!("the {layout} layout with {rows} rows has {forced_row_cells}"),
            ));
        }
        let single = matches!(layout, Layout::Rows | Layout::Flat);
        if blocks == 0 || blocks > MAX_CELLS || (single && blocks != 1) {
            let range = if single { "this layout has 1" } else { "it must be at least 1" };
            return Err(Error::parameter("blocks", blocks, range));
        }
        let geometry = Geometry { layout, rows, blocks, row_cells, cells: CellKind::Plain };
        // The widest cell makes the largest padding.
        let widest = geometry.with_cells(CellKind::Counting);
        let span = u128::from(blocks) * u128::from(widest.block_span());
        if span > u128::from(MAX_CELLS) {
            return Err(Error::parameter("size", format!("{span} cells"), "the limit is 2^52"));
        }
        Ok(geometry)
    }

    fn new_sealed(rows: u32, blocks: u64, row_cells: u64) -> Result<Self> {
        if (rows, row_cells) != (0, 0) {
            return Err(Error::parameter(
                "rows",
                rows,
                "the sealed layout has neither rows nor bits",
            ));
        }
        if !(1..=MOST_SEALED_PAGES).contains(&blocks) {
            return Err(Error::parameter("blocks", blocks, "it must be from 1 to 2^37"));
        }
        Ok(Geometry { layout: Layout::Sealed, rows, blocks, row_cells, cells: CellKind::Sealed })
    }

    /// The same with cells of another kind: B, k and w do not depend on it (F-58). A sealed geometry
    /// has none, and stays as it is.
    ///
    /// ```
    /// # use bloomfile::{CellKind, geometry::Geometry};
    /// let bits = Geometry::page(7, 10)?;
    /// assert_eq!(bits.with_cells(CellKind::Counting).pages(), 4 * bits.pages());
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub const fn with_cells(self, cells: CellKind) -> Self {
        match self.layout {
            Layout::Sealed => self,
            _ => Geometry { cells, ..self },
        }
    }

    /// What a cell is.
    pub const fn cell_kind(&self) -> CellKind {
        self.cells
    }

    /// The layout.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// k: the number of rows, which is the number of cells each key sets.
    pub const fn row_count(&self) -> u32 {
        self.rows
    }

    /// B: the number of blocks.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// w: the cells of one row.
    pub const fn row_cells(&self) -> u64 {
        self.row_cells
    }

    /// The cells that a key can fall on: the filter's size in the formulas. In a sealed one, the bits
    /// of the solutions.
    pub const fn cells(&self) -> u64 {
        match self.layout {
            Layout::Sealed => self.blocks * SEALED_PAGE_BITS,
            Layout::Flat => self.row_cells,
            _ => self.blocks * self.row_cells * self.rows as u64,
        }
    }

    /// The block of a hash (F-52).
    #[inline(always)]
    pub const fn block(&self, hash: u64) -> u64 {
        reduce(hash, self.blocks)
    }

    /// The cell that a hash takes in row `row` (F-53 to F-55).
    #[inline(always)]
    pub const fn cell(&self, hash: u64, row: u32) -> u64 {
        match self.layout {
            Layout::Line => {
                let product = (hash as u32).wrapping_mul(LANE_MULTIPLIERS[row as usize]);
                reduce((product as u64) << 32, self.row_cells)
            }
            _ => reduce(split_mix(hash, row as u64), self.row_cells),
        }
    }

    /// Where the cell of a hash in row `row` stands among all cells of the data (F-56).
    #[inline(always)]
    pub const fn address(&self, hash: u64, row: u32) -> u64 {
        self.block(hash) * self.block_span() + row as u64 * self.row_span() + self.cell(hash, row)
    }

    /// Cells that a page has room for.
    pub(crate) const fn cells_per_page(&self) -> u64 {
        8 * PAGE_BYTES / self.cells.bits() as u64
    }

    /// Distance from one row of a block to the next, in cells (F-56).
    pub const fn row_span(&self) -> u64 {
        match self.layout {
            // Each row starts on a page, so that the page table tells the fill of each row.
            Layout::Rows => self.row_cells.next_multiple_of(self.cells_per_page()),
            Layout::Flat | Layout::Sealed => 0,
            Layout::Page | Layout::Line => self.row_cells,
        }
    }

    /// Distance from one block to the next, in cells (F-56).
    pub const fn block_span(&self) -> u64 {
        match self.layout {
            Layout::Rows => self.rows as u64 * self.row_span(),
            Layout::Flat => self.row_cells.next_multiple_of(self.cells_per_page()),
            Layout::Page | Layout::Sealed => PAGE_BLOCK_CELLS,
            Layout::Line => LINE_BLOCK_CELLS,
        }
    }

    /// Pages of data that a segment of this geometry takes (F-57).
    pub const fn pages(&self) -> u64 {
        let bits = self.blocks as u128 * self.block_span() as u128 * self.cells.bits() as u128;
        bits.div_ceil(8 * PAGE_BYTES as u128) as u64
    }

    /// The cells of a row or block, and how many of them from its start a key can fall on; the
    /// others stay zero (F-58).
    const fn unit(&self) -> (u64, u64) {
        match self.layout {
            Layout::Rows => (self.row_span(), self.row_cells),
            Layout::Flat => (self.block_span(), self.row_cells),
            Layout::Page | Layout::Line => (self.block_span(), self.rows as u64 * self.row_cells),
            Layout::Sealed => (self.block_span(), SEALED_PAGE_BITS),
        }
    }

    /// Cells among the first `address` ones that a key can fall on.
    const fn usable_before(&self, address: u64) -> u64 {
        let (unit, used) = self.unit();
        let end = self.blocks * self.block_span();
        let address = if address < end { address } else { end };
        let rest = address % unit;
        address / unit * used + if rest < used { rest } else { used }
    }

    /// Cells of a data page that a key can fall on.
    pub(crate) const fn page_cells(&self, page: u64) -> u64 {
        let span = self.cells_per_page();
        self.usable_before((page + 1) * span) - self.usable_before(page * span)
    }

    /// How many bits of a 64-bit word, from its lowest on, belong to cells that a key can fall on.
    pub(crate) const fn word_bits(&self, word: u64) -> u64 {
        let bits = self.cells.bits() as u64;
        let span = 64 / bits;
        (self.usable_before((word + 1) * span) - self.usable_before(word * span)) * bits
    }

    /// Pages whose ones are counted together: those of one row of the `rows` layout, each of which
    /// starts on a page, and all pages of the others.
    pub(crate) const fn row_pages(&self) -> u64 {
        match self.layout {
            Layout::Rows => self.row_span() * self.cells.bits() as u64 / (8 * PAGE_BYTES),
            _ => self.pages(),
        }
    }

    /// What a fold divides: the blocks of the blocked layouts, the cells of a row of the others.
    pub const fn foldable(&self) -> u64 {
        match self.layout {
            Layout::Rows | Layout::Flat => self.row_cells,
            Layout::Page | Layout::Line | Layout::Sealed => self.blocks,
        }
    }

    /// The name of what a fold divides.
    pub(crate) const fn fold_unit(&self) -> &'static str {
        match self.layout {
            Layout::Rows | Layout::Flat => "row bits",
            Layout::Page | Layout::Line | Layout::Sealed => "blocks",
        }
    }

    /// The geometry after folding `factor` neighbours into one (F-59).
    ///
    /// ```
    /// # use bloomfile::geometry::Geometry;
    /// let geometry = Geometry::line(8, 12)?;
    /// assert_eq!(geometry.folded(3)?, Geometry::line(8, 4)?);
    /// assert!(geometry.folded(5).is_err());
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn folded(&self, factor: u64) -> Result<Self> {
        if self.layout == Layout::Sealed {
            let reason = "a sealed filter cannot be made smaller; build it again from its keys";
            return Err(Error::parameter("fold factor", factor, reason));
        }
        let size = self.foldable();
        if factor == 0 || !size.is_multiple_of(factor) {
            let unit = self.fold_unit();
            return Err(Error::parameter(
                "fold factor",
                factor,
                format!("it must divide the {size} {unit}"),
            ));
        }
        let mut folded = *self;
        match self.layout {
            Layout::Rows | Layout::Flat => folded.row_cells /= factor,
            Layout::Page | Layout::Line | Layout::Sealed => folded.blocks /= factor,
        }
        Ok(folded)
    }
}

impl std::fmt::Display for Geometry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Geometry { layout, rows, blocks, row_cells, .. } = self;
        match layout {
            Layout::Rows => write!(f, "rows: {rows} rows of {row_cells} cells"),
            Layout::Flat => write!(f, "flat: {rows} functions on {row_cells} cells"),
            Layout::Page => write!(f, "page: {blocks} pages with {rows} rows of {row_cells} cells"),
            Layout::Line => write!(f, "line: {blocks} lines with {rows} rows of {row_cells} cells"),
            Layout::Sealed => write!(f, "sealed: {blocks} pages of equations"),
        }
    }
}

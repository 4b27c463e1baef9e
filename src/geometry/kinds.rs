//! Kinds of cells, and layouts of them.

use crate::error::{Error, Result};

/// What a cell is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum CellKind {
    /// One bit: keys can be added.
    #[default]
    Plain,
    /// A 4-bit counter: keys can be added and taken out.
    Counting,
    /// There are no cells: a page is a system of equations, and nothing can be added.
    Sealed,
}

impl CellKind {
    /// Bits a cell takes in the data.
    pub const fn bits(self) -> u32 {
        match self {
            CellKind::Plain | CellKind::Sealed => 1,
            CellKind::Counting => 4,
        }
    }

    /// The name used on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            CellKind::Plain => "plain",
            CellKind::Counting => "counting",
            CellKind::Sealed => "sealed",
        }
    }
}

/// How the cells of a filter are arranged, and so how many places a look-up touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Layout {
    /// The textbook k × m matrix: every function has a row of its own.
    Rows,
    /// The other textbook form: all functions share one row.
    Flat,
    /// Blocks of 4,096 bytes: one disk page per look-up, nearly no space lost.
    Page,
    /// Blocks of 64 bytes: one cache line per look-up, the fast one.
    Line,
    /// Pages of equations, for filters that are never added to: one page per look-up, least space.
    Sealed,
}

impl Layout {
    /// Every layout, in the order of their numbers in the file.
    pub const ALL: [Layout; 5] =
        [Layout::Rows, Layout::Flat, Layout::Page, Layout::Line, Layout::Sealed];

    /// The layouts of Bloom filters: those that keys can be added to.
    pub const BLOOM: [Layout; 4] = [Layout::Rows, Layout::Flat, Layout::Page, Layout::Line];

    /// The name used on the command line, in reports and in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Rows => "rows",
            Layout::Flat => "flat",
            Layout::Page => "page",
            Layout::Line => "line",
            Layout::Sealed => "sealed",
        }
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Layout {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name).ok_or_else(|| {
            Error::parameter("layout", name, "it must be rows, flat, page, line or sealed")
        })
    }
}

//! How large a filter shall be.

use bloomfile::{Options, geometry::Layout};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::failure::{Failure, Result};
use crate::units;

/// The rate when none is given.
const DEFAULT_RATE: f64 = 0.01;

/// How large a filter shall be.
#[derive(Args, Debug)]
pub(crate) struct ShapeArgs {
    /// Number of distinct keys it is for: 1000000, 10M, 1e7
    #[arg(short = 'n', long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) capacity: Option<u64>,

    /// False positive rate at that number: 0.01, 1%, 1e-5 [default: 1%]
    #[arg(short = 'p', long, value_name = "P", value_parser = units::parse_rate)]
    #[arg(conflicts_with_all = ["rows", "row_bits"])]
    fpr: Option<f64>,

    /// Exactly this many rows (hash functions), in place of a rate
    #[arg(short = 'k', long, value_name = "K", requires = "row_bits")]
    pub(crate) rows: Option<u32>,

    /// Exactly this many bits in each row
    #[arg(short = 'm', long, value_name = "M", requires = "rows", value_parser = units::parse_count)]
    pub(crate) row_bits: Option<u64>,

    /// How the bits are arranged [default: line, page below a rate of 0.1 %; rows with --rows]
    ///
    /// line: one cache line per look-up. page: one disk page per look-up, least space.
    /// rows: each function has a row of its own. flat: all functions share one. sealed: never added
    /// to, in less space still (build --sealed).
    #[arg(short, long, value_parser = layout_parser())]
    pub(crate) layout: Option<Layout>,
}

fn layout_parser() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new(["line", "page", "rows", "flat", "sealed"])
        .try_map(|name| name.parse::<Layout>())
}

impl ShapeArgs {
    /// Whether the size is given bit by bit.
    pub(crate) fn is_exact(&self) -> bool {
        self.rows.is_some()
    }

    /// Refuses a shape that says too little, before anything is done with it.
    pub(crate) fn check_complete(&self) -> Result<()> {
        if self.is_exact() || self.capacity.is_some() {
            return Ok(());
        }
        let message = "--capacity is missing; give --capacity and --fpr, or --rows and --row-bits";
        Err(Failure::new(message))
    }

    /// The rate asked for; none if the size is given bit by bit.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.fpr.or((!self.is_exact()).then_some(DEFAULT_RATE))
    }

    /// The library's options for it.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new();
        if let Some(capacity) = self.capacity {
            options = options.capacity(capacity);
        }
        if let Some(rate) = self.rate() {
            options = options.false_positive_rate(rate);
        }
        if let Some(rows) = self.rows {
            options = options.rows(rows);
        }
        if let Some(bits) = self.row_bits {
            options = options.row_bits(bits);
        }
        if let Some(layout) = self.layout {
            options = options.layout(layout);
        }
        options
    }
}

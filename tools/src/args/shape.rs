//! What a filter shall be: how large, of what kind.

use bloomfile::{CellKind, Options, WhenFull, geometry::Layout};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::failure::{Failure, Result};
use crate::units;

/// How large a filter shall be.
#[derive(Args, Debug)]
pub(crate) struct ShapeArgs {
    /// Number of distinct keys it is for: 1000000, 10M, 1e7
    #[arg(short = 'n', long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) capacity: Option<u64>,

    /// False positive rate at that number: 0.01, 1%, 1e-5
    #[arg(short = 'p', long, value_name = "P", value_parser = units::parse_rate)]
    #[arg(conflicts_with_all = ["rows", "row_bits"])]
    pub(crate) fpr: Option<f64>,

    /// Exactly this many rows (hash functions), in place of a rate
    #[arg(short = 'k', long, value_name = "K", requires = "row_bits")]
    pub(crate) rows: Option<u32>,

    /// Exactly this many bits in each row
    #[arg(short = 'm', long, value_name = "M", requires = "rows", value_parser = units::parse_count)]
    pub(crate) row_bits: Option<u64>,

    /// How the bits are arranged [default: line, page below a rate of 0.1 %; rows with --rows]
    ///
    /// line: one cache line per look-up. page: one disk page per look-up, least space.
    /// rows: each function has a row of its own. flat: all functions share one.
    #[arg(short, long, value_parser = layout_parser())]
    pub(crate) layout: Option<Layout>,
}

fn layout_parser() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new(["line", "page", "rows", "flat"])
        .try_map(|name| name.parse::<Layout>())
}

impl ShapeArgs {
    /// Whether the size is given bit by bit.
    pub(crate) fn is_exact(&self) -> bool {
        self.rows.is_some()
    }

    /// Refuses a shape that says too little, before anything is done with it.
    pub(crate) fn check_complete(&self) -> Result<()> {
        let missing = match (self.is_exact(), self.capacity, self.fpr) {
            (true, ..) | (false, Some(_), Some(_)) => return Ok(()),
            (false, None, _) => "--capacity is missing",
            (false, Some(_), None) => "--fpr is missing",
        };
        Err(Failure::new(format!("{missing}; give --capacity and --fpr, or --rows and --row-bits")))
    }

    /// The library's options for it.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new();
        if let Some(capacity) = self.capacity {
            options = options.capacity(capacity);
        }
        if let Some(rate) = self.fpr {
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

/// Of what kind a filter shall be.
#[derive(Args, Debug)]
pub(crate) struct KindArgs {
    /// plain: bits. counting: counters, from which keys can be removed, in 4 times the space
    #[arg(long, value_name = "KIND", default_value = "plain", value_parser = kind_parser())]
    pub(crate) kind: CellKind,

    /// What happens when it holds as many keys as it is for [default: allow]
    #[arg(long, value_name = "POLICY")]
    pub(crate) when_full: Option<Policy>,

    /// Grow when it is full, so that the rate of the whole stays below --fpr (--when-full grow)
    #[arg(long, conflicts_with_all = ["rows", "row_bits", "generations"])]
    pub(crate) grow: bool,

    /// Forget old keys: G generations, the oldest of which rotate drops; capacity and rate are those
    /// of each, and the rate of all together is up to G times as high
    #[arg(long, value_name = "G", value_parser = units::parse_count)]
    pub(crate) generations: Option<u64>,

    /// Rotate by itself when the newest generation has taken N keys
    #[arg(long, value_name = "N", requires = "generations", value_parser = units::parse_count)]
    pub(crate) rotate_after: Option<u64>,
}

fn kind_parser() -> impl TypedValueParser<Value = CellKind> {
    const KINDS: [CellKind; 2] = [CellKind::Plain, CellKind::Counting];
    PossibleValuesParser::new(KINDS.map(CellKind::name)).map(|name| match name.as_str() {
        "counting" => CellKind::Counting,
        _ => CellKind::Plain,
    })
}

/// What a full filter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Keys are added, and the rate rises
    Allow,
    /// Adding a new key is an error
    Refuse,
    /// A larger part with a lower rate is appended
    Grow,
}

impl KindArgs {
    /// Whether it grows, however that was said.
    pub(crate) fn grows(&self) -> bool {
        self.grow || self.when_full == Some(Policy::Grow)
    }

    /// Refuses what contradicts itself, in the words of the command line.
    pub(crate) fn check(&self) -> Result<()> {
        let contradiction = match (self.when_full, self.generations, self.rotate_after) {
            (Some(policy @ (Policy::Allow | Policy::Refuse)), ..) if self.grow => {
                format!("--grow and --when-full {} contradict each other", name(policy))
            }
            (Some(policy @ (Policy::Refuse | Policy::Grow)), Some(_), _) => format!(
                "--generations and --when-full {} contradict each other: a rotating filter makes \
                 room by forgetting",
                name(policy)
            ),
            (_, Some(0), _) => "--generations cannot be 0; it must be from 2 to 32".into(),
            (.., Some(0)) => "--rotate-after cannot be 0; leave it out to rotate by hand".into(),
            _ => return Ok(()),
        };
        Err(Failure::new(contradiction))
    }

    /// What the filter does when it is full.
    pub(crate) fn policy(&self) -> WhenFull {
        match self.when_full {
            _ if self.grows() => WhenFull::Grow,
            Some(Policy::Refuse) => WhenFull::Refuse,
            _ => WhenFull::Allow,
        }
    }

    /// Adds them to a shape's options.
    pub(crate) fn apply(&self, options: Options) -> Options {
        options
            .kind(self.kind)
            .when_full(self.policy())
            .generations(self.generations.unwrap_or(0))
            .rotate_after(self.rotate_after.unwrap_or(0))
    }
}

fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Allow => "allow",
        Policy::Refuse => "refuse",
        Policy::Grow => "grow",
    }
}

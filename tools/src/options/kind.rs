//! Of what kind a filter shall be.

use bloomfile::plan::generations_rate;
use bloomfile::{CellKind, Options, WhenFull};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::ShapeArgs;
use crate::failure::{Failure, Result};
use crate::units;

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

    /// Forget old keys: G generations, the oldest of which rotate drops; the capacity is that of each,
    /// the rate that of all together
    #[arg(long, value_name = "G", value_parser = units::parse_count)]
    pub(crate) generations: Option<u64>,

    /// False positive rate of each generation by itself, in place of --fpr; all together have up to G
    /// times as much
    #[arg(long, value_name = "P", requires = "generations", value_parser = units::parse_rate)]
    #[arg(conflicts_with_all = ["fpr", "rows", "row_bits"])]
    generation_fpr: Option<f64>,

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
    /// A larger segment with a lower rate is appended
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

    /// The rate of the whole that was asked for, of all generations together.
    pub(crate) fn whole_rate(&self, shape: &ShapeArgs) -> Option<f64> {
        match (self.generation_fpr, self.generations) {
            (Some(each), Some(generations)) => Some(generations_rate(each, generations)),
            _ => shape.rate(),
        }
    }

    /// The rate of a whole file with segments of this rate: the same, but for one of generations.
    pub(crate) fn rate_together(&self, each: f64) -> f64 {
        self.generations.map_or(each, |generations| generations_rate(each, generations))
    }

    /// Adds them to a shape's options.
    pub(crate) fn apply(&self, options: Options) -> Options {
        let options = match self.generation_fpr {
            Some(rate) => options.generation_rate(rate),
            None => options,
        };
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

//! What can be said of filters that count, grow, rotate or refuse.

use std::ffi::OsString;
use std::path::PathBuf;

use bloomfile::{CellKind, Options, WhenFull};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::{KeyArgs, ResultArgs};
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

    /// Adds them to a shape's options.
    pub(crate) fn apply(&self, options: Options) -> Options {
        let when_full = match self.when_full {
            _ if self.grows() => WhenFull::Grow,
            Some(Policy::Refuse) => WhenFull::Refuse,
            _ => WhenFull::Allow,
        };
        options
            .kind(self.kind)
            .when_full(when_full)
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

#[derive(Args, Debug)]
#[command(after_help = "\
Only a counting filter forgets single keys. Remove only what was added: a key that was not, and
seems to be in by mistake, takes others out with it. A key that was added twice has to be removed
twice; one that was added 15 times or more may stay for ever. When the command has ended, the
removals survive a power cut. Unlike add, the same command may not be given again.

Exit status: 0 when every key was removed; 1 when some were not in: they are named, the others were
removed; 2 on error, and when the parts of a grown filter leave in doubt which of them holds a key:
such keys are named as well and stay. 130 or 143 (128 + signal) when interrupted.

Examples:
  bloomfile remove users.bloom alice
  bloomfile remove users.bloom --from gone.txt")]
pub(crate) struct RemoveArgs {
    /// The filter
    pub(crate) file: PathBuf,

    /// Keys; - reads keys from standard input, as does naming none at all
    #[arg(value_name = "KEY")]
    pub(crate) arguments: Vec<OsString>,

    /// Files of keys, one per line; - is standard input; may be given again
    #[arg(long, value_name = "INPUT")]
    pub(crate) from: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyArgs,

    /// Print nothing but errors; keys that were not in only show in the exit status
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Readers see it without opening the file again, and a power cut leaves the generations as they were
before or after.

Example:
  bloomfile create day.bloom -n 1M -p 1% --generations 24
  bloomfile rotate day.bloom      every hour: what was added in the last 23 to 24 hours is in")]
pub(crate) struct RotateArgs {
    /// The filter, made with --generations
    pub(crate) file: PathBuf,

    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Keep the counters where keys come and go, and give the bits, a quarter of the size, to those who
only ask. OUT can be merged with plain filters made with the same --capacity, --fpr, --layout and
--seed.

Example:
  bloomfile export -o users-plain.bloom users.bloom")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The counting filter
    pub(crate) file: PathBuf,
}

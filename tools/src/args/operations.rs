//! What can be said to the commands that make files of files.

use std::path::PathBuf;

use clap::Args;

use super::{PrintArgs, ReplaceArgs};
use crate::units;

/// Where the result goes.
#[derive(Args, Debug)]
pub(crate) struct ResultArgs {
    /// The file to make
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The files must have the same seed, layout and rows, as those built with the same --capacity and
--fpr have. Sizes may differ where the smallest divides the others: those are folded, and OUT has
the size of the smallest. Every page is checked as it is read: if one is damaged, nothing is made.
A file may be written meanwhile: keys that were in when the command began are in OUT.

Counters are added up. Growing filters made alike are merged segment by segment, which takes their
rate above --fpr (inspect shows it): where there are the keys, build is better.

An intersection also has bits that different keys set in each file, so it seems to hold more keys
than the files have in common; compare tells how many that are.

Examples:
  bloomfile merge -o week.bloom monday.bloom tuesday.bloom
  bloomfile intersect -o both.bloom a.bloom b.bloom")]
pub(crate) struct CombineArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The filters
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The keys are not needed: OUT is what building it at that size would have given.

Examples:
  bloomfile shrink -o small.bloom large.bloom --factor 4
  bloomfile shrink -o small.bloom large.bloom --fpr 1%")]
pub(crate) struct ShrinkArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The filter
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) to: ShrinkTo,
}

/// How far.
#[derive(Args, Clone, Copy, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ShrinkTo {
    /// So many times smaller; must divide the size
    #[arg(long, value_name = "D", value_parser = units::parse_count)]
    pub(crate) factor: Option<u64>,

    /// As far as the rate of the keys now in it stays at or below P: 0.01, 1%, 1e-5
    #[arg(short = 'p', long, value_name = "P", value_parser = units::parse_rate)]
    pub(crate) fpr: Option<f64>,
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

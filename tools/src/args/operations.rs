//! What can be said to the commands that take several files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::KeyArgs;
use crate::units;

/// Where the result goes.
#[derive(Args, Debug)]
pub(crate) struct ResultArgs {
    /// The file to make
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// Replace OUT if it is there already
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
Of two files of the same size that were closed in good order, only the pages whose checksums differ
are read.")]
pub(crate) struct CompareArgs {
    /// One filter
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,

    /// The other
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Prints each key and the files that may hold it, separated by tabs. The files may differ in size,
layout and seed. A file that is not printed certainly does not hold the key: a damaged file is an
error, so the data is checked first.

Exit status: 0 when some file may hold some key, 1 when none may, 2 on error.

Examples:
  bloomfile which -k example.org *.bloom
  bloomfile which --from today.txt *.bloom --json")]
pub(crate) struct WhichArgs {
    /// A key; may be given again; without any, keys are read from standard input
    #[arg(short = 'k', long = "key", value_name = "KEY")]
    pub(crate) arguments: Vec<OsString>,

    /// Files of keys, one per line; - is standard input; may be given again
    #[arg(long, value_name = "INPUT")]
    pub(crate) from: Vec<PathBuf>,

    /// The filters
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyArgs,

    /// Print a JSON object on a line for each key
    #[arg(long)]
    pub(crate) json: bool,

    /// Trust the data pages: starts at once on large files, but damage may go unseen
    #[arg(long)]
    pub(crate) no_verify: bool,
}

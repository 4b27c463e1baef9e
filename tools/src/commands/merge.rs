//! `bloomfile merge`: one filter that holds the keys of several.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::derive::{self, ResultArgs};
use crate::failure::Result;

#[derive(Args, Debug)]
#[command(after_help = "\
The files must have the same seed, layout and rows, as those built with the same --capacity and
--fpr have. Sizes may differ where the smallest divides the others: those are folded, and OUT has
the size of the smallest. Every page is checked as it is read: if one is damaged, nothing is made.
Files may be written at the same time: keys that were in when the command began are in OUT.

OUT holds the keys of all files in the space of one. If that takes its rate above the one that they
were made for, a warning says so: where there are the keys, build makes a filter of the right size.
Counters are added up. Growing filters made alike are merged segment by segment.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile merge -o week.bloom monday.bloom tuesday.bloom")]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The filters
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub(crate) files: Vec<PathBuf>,
}

pub(super) fn run(args: &MergeArgs) -> Result<ExitCode> {
    derive::run(&args.result, &args.files, "", |operation, output| {
        operation.union(&args.files, output)
    })
}

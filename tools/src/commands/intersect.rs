//! `bloomfile intersect`: a filter of the keys that several have in common.

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

An intersection also has bits that different keys set in each file, so it seems to hold more keys
than the files have in common; compare tells how many that are.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile intersect -o both.bloom a.bloom b.bloom")]
pub(crate) struct IntersectArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The filters
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub(crate) files: Vec<PathBuf>,
}

pub(super) fn run(args: &IntersectArgs) -> Result<ExitCode> {
    // Bits that different keys set in each file are in it as well.
    derive::run(&args.result, &args.files, "as full as with ", |operation, output| {
        operation.intersection(&args.files, output)
    })
}

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
A file may be written meanwhile: keys that were in when the command began are in OUT.

Counters are added up. Growing filters made alike are merged segment by segment, which takes their
rate above --fpr (inspect shows it): where there are the keys, build is better.

An intersection also has bits that different keys set in each file, so it seems to hold more keys
than the files have in common; compare tells how many that are.

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

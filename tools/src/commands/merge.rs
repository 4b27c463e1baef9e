//! `bloomfile merge`: one filter that holds the keys of several.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::derive::{self, ResultArgs};
use crate::failure::Result;

#[derive(Args, Debug)]
#[command(after_help = "\
The files must have the same seed. Those built with the same --capacity and --fpr are joined in the
space of one. Where the smallest size divides the others, those are folded, and OUT has the size of
the smallest. Other sizes become segments of their own: OUT is then a filter that grows, of up to 32
segments, a look-up asks all of them and their rates add up. Every page is checked as it is read: if one is damaged, nothing is made.
Files may be written at the same time: keys that were in when the command began are in OUT.

If joining takes the rate above the one that the files were made for, a warning says so: where there
are the keys, build makes a filter of the right size. Counters are added up. Growing filters are
merged segment by segment. With --journal the result gets another journal, and with --journal 0
none.

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

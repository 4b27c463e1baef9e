//! `bloomfile export`: the plain filter of a counting one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::derive::{self, ResultArgs};
use crate::failure::Result;

#[derive(Args, Debug)]
#[command(after_help = "\
Keep the counters where keys come and go, and give the bits, a quarter of the size, to those who
only ask. OUT can be merged with plain filters made with the same --capacity, --fpr, --layout and
--seed.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile export -o users-plain.bloom users.bloom")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The counting filter
    pub(crate) file: PathBuf,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let files = std::slice::from_ref(&args.file);
    derive::run(&args.result, files, "", |operation, output| operation.export(&args.file, output))
}

//! `bloomfile compact`: the same filter with another journal, or none.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::derive::{self, ResultArgs};
use crate::failure::Result;

#[derive(Args, Debug)]
#[command(after_help = "\
OUT holds what FILE holds, bit for bit, without a journal: a file to ship and to read. Keys can be
added to it all the same; each sync then writes whole pages. With --journal it gets one of that size.
Rotating filters stay as they are: in them a journal is little beside the generations.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile compact -o ship.bloom words.bloom
  bloomfile compact -fo words.bloom words.bloom --journal 1MiB")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The filter
    pub(crate) file: PathBuf,
}

pub(super) fn run(args: &CompactArgs) -> Result<ExitCode> {
    let files = std::slice::from_ref(&args.file);
    derive::run(&args.result, files, "", |operation, output| {
        operation.journal_bytes(args.result.journal.unwrap_or(0)).union(files, output)
    })
}

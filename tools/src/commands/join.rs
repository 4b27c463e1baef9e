//! `bloomfile join`: the filter of parts that were built on several machines.

use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::parts::Join;
use clap::Args;
use serde::Serialize;

use super::wording::warn_of_maybe_pages;
use crate::failure::{Failure, Result};
use crate::options::{PrintArgs, ReplaceArgs};
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Each PART was made by build --part I/N, with the same options and N. All N have to be there, in any
order. Every page is checked as it is copied; the memory this takes is the same for any size. The file
is the one that build makes of the same keys at once.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile build 1.part keys.txt --part 1/2 --capacity 1G
  bloomfile build 2.part keys.txt --part 2/2 --capacity 1G
  bloomfile join -o keys.bloom 1.part 2.part")]
pub(crate) struct JoinArgs {
    /// The file to make
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// The parts, all of them
    #[arg(value_name = "PART", required = true)]
    pub(crate) parts: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct JoinOutput {
    schema: u32,
    file: String,
    parts: usize,
    new: u64,
    capacity: Option<u64>,
    expected_rate: Option<f64>,
    file_bytes: u64,
    maybe_pages: u64,
}

pub(super) fn run(args: &JoinArgs) -> Result<ExitCode> {
    let join = Join::new().replace(args.replace.force);
    let built = join.run(&args.parts, &args.output).map_err(Failure::file(&args.output))?;
    if args.print.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    warn_of_maybe_pages(&args.output, built.maybe_pages, built.plan.geometry().pages());
    if args.print.format.json {
        output::json(&JoinOutput {
            schema: 1,
            file: args.output.display().to_string(),
            parts: args.parts.len(),
            new: built.keys,
            capacity: built.plan.capacity(),
            expected_rate: built.plan.expected_rate(),
            file_bytes: built.file_bytes,
            maybe_pages: built.maybe_pages,
        })?;
    } else {
        output::line(format_args!(
            "{}: joined of {}; {}; {}",
            text::path(&args.output),
            units::counted(args.parts.len() as u64, "part"),
            units::counted(built.keys, "key"),
            units::size(built.file_bytes)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

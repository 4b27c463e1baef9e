//! `bloomfile apply`: makes the new version of a filter out of the old one and a delta.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::delta::{DeltaOutput, with_progress};
use crate::failure::{Failure, Result};
use crate::options::{PrintArgs, ReplaceArgs};
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
FILE is replaced at once, when the new version is whole, durable and has the digest that the delta
promises; programs that have the old one open keep it. A delta that is damaged, or for another
version, is an error, and FILE stays as it is.

With --in-place the keys are added to FILE where it is, durably, and programs that have it open see
them come; identity and journal stay. A crash in the middle leaves the old keys and some of the new
ones: apply the delta again. A delta that clears cells, or that changes a counting filter or the
number of segments, is refused then: it takes a new file.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: FILE stays as it is.

Examples:
  bloomfile apply today.delta words.bloom
  bloomfile apply today.delta yesterday.bloom -o today.bloom
  bloomfile apply --in-place today.delta words.bloom")]
pub(crate) struct ApplyArgs {
    /// The delta
    pub(crate) delta: PathBuf,

    /// The filter that it is for
    pub(crate) file: PathBuf,

    /// The file to make [default: FILE is replaced]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Change FILE where it is, which takes a delta of adds alone
    #[arg(long, conflicts_with_all = ["output", "force"])]
    pub(crate) in_place: bool,

    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

pub(super) fn run(args: &ApplyArgs) -> Result<ExitCode> {
    let output = args.output.as_ref().unwrap_or(&args.file);
    let replace = args.output.is_none() || args.replace.force;
    let applied = if args.in_place {
        bloomfile::ops::apply_delta(&args.delta, &args.file)
    } else {
        with_progress(args.print.quiet, |operation| {
            operation.replace(replace).apply(&args.delta, &args.file, output)
        })
    };
    let applied = applied.map_err(Failure::file(output))?;
    if args.print.format.json {
        let file = output.display().to_string();
        output::json(&DeltaOutput { schema: 1, file, summary: applied })?;
    } else if !args.print.quiet {
        output::line(format_args!(
            "{}: {} applied; {}, digest {}",
            text::path(output),
            units::size(applied.bytes),
            units::size(applied.new_bytes),
            applied.new_digest
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

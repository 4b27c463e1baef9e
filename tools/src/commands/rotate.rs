//! `bloomfile rotate`: the oldest generation goes, a new one takes the adds.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::writing::tell_recovery;
use crate::failure::{Failure, Result};
use crate::options::PrintArgs;
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Readers see it without opening the file again, and a power cut leaves the generations as they were
before or after.

Exit status: 0 done, 2 error.

Examples:
  bloomfile create day.bloom -n 1M -p 1% --generations 24
  bloomfile rotate day.bloom      every hour: what was added in the last 23 to 24 hours is in")]
pub(crate) struct RotateArgs {
    /// The filter, made with --generations
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct RotateOutput {
    schema: u32,
    file: String,
    generations: usize,
    dropped: bool,
}

pub(super) fn run(args: &RotateArgs) -> Result<ExitCode> {
    let failed = Failure::file(&args.file);
    let rotation = bloomfile::ops::rotate(&args.file).map_err(&failed)?;
    if let Some(recovery) = rotation.recovery.as_ref().filter(|_| !args.print.quiet) {
        let kind = bloomfile::report::inspect(&args.file).map_err(&failed)?.kind;
        tell_recovery(&args.file, recovery, kind);
    }
    let (file, now, dropped) = (text::path(&args.file), rotation.generations, rotation.dropped);
    if args.print.format.json {
        let file = args.file.display().to_string();
        output::json(&RotateOutput { schema: 1, file, generations: now, dropped })?;
    } else if !args.print.quiet {
        let outcome = if dropped {
            format!("the oldest of {now} generations was dropped")
        } else {
            format!("{} in use, none was dropped", units::counted(now as u64, "generation"))
        };
        output::line(format_args!("{file}: rotated: {outcome}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `bloomfile delta`: what turns one version of a filter into another.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use bloomfile::ops::{DeltaOperation, DeltaSummary};
use clap::Args;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::keys::Progress;
use crate::options::{PrintArgs, ReplaceArgs};
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
OUT holds the cells that differ, in about 50 bits for each key that was added to a filter of lines,
and no keys or hashes. It takes no history: any two versions of a filter do. `bloomfile apply` makes
NEW of OLD and OUT. Sealed filters differ in whole pages, which OUT then holds.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile delta yesterday.bloom today.bloom -o today.delta
  bloomfile apply today.delta yesterday.bloom")]
pub(crate) struct DeltaArgs {
    /// The version that those have who will receive the delta
    pub(crate) old: PathBuf,

    /// The version that they shall have
    pub(crate) new: PathBuf,

    /// The delta to make
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
pub(super) struct DeltaOutput {
    pub(super) schema: u32,
    pub(super) file: String,
    #[serde(flatten)]
    pub(super) summary: DeltaSummary,
}

pub(super) fn run(args: &DeltaArgs) -> Result<ExitCode> {
    let made = with_progress(args.print.quiet, |operation| {
        operation.replace(args.replace.force).make(&args.old, &args.new, &args.output)
    });
    let made = made.map_err(Failure::file(&args.output))?;
    if args.print.format.json {
        let file = args.output.display().to_string();
        output::json(&DeltaOutput { schema: 1, file, summary: made })?;
    } else if !args.print.quiet {
        output::line(summary(&args.output, &made))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs an operation with a bar on a terminal.
pub(super) fn with_progress<T>(
    quiet: bool,
    operate: impl FnOnce(DeltaOperation<'_>) -> Result<T, bloomfile::Error>,
) -> Result<T, bloomfile::Error> {
    let bar = OnceLock::new();
    let listener = |progress: bloomfile::ops::Progress| {
        let bar = bar.get_or_init(|| Progress::new(progress.bytes_total, quiet));
        bar.reached(progress.bytes_done);
    };
    operate(DeltaOperation::new().progress(&listener))
}

fn summary(path: &Path, made: &DeltaSummary) -> String {
    let DeltaSummary { bytes, new_bytes, chunks, chunks_of_pages, .. } = made;
    let file = text::path(path);
    let size = units::size(*bytes);
    if *chunks == 0 {
        return format!("{file}: {size}; the contents are the same, headers may differ");
    }
    let share = units::percent(*bytes as f64 / *new_bytes as f64);
    let mut line = format!("{file}: {size}, {share} of the new file's {}", units::size(*new_bytes));
    if *chunks_of_pages > 0 {
        let pages = units::count(*chunks_of_pages);
        line += &format!("; {pages} of {} hold whole pages", units::counted(*chunks, "chunk"));
    }
    line + advice(*bytes, *new_bytes)
}

/// What to do with a delta that saves little. Only one of gigabytes can be larger than the file, by the
/// heads of its chunks.
fn advice(bytes: u64, new_bytes: u64) -> &'static str {
    if bytes >= new_bytes {
        "; it is no smaller than the file: send that"
    } else if bytes >= new_bytes / 10 * 9 {
        "; it is hardly smaller than the file: send that"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::advice;

    #[test]
    fn advice_where_a_delta_saves_little() {
        assert_eq!(advice(899, 1000), "");
        assert!(advice(900, 1000).contains("hardly smaller"));
        assert!(advice(999, 1000).contains("hardly smaller"));
        assert!(advice(1000, 1000).contains("no smaller"));
        assert!(advice(u64::MAX, u64::MAX).contains("no smaller"));
    }
}

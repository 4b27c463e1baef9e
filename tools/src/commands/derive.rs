//! What `merge`, `intersect`, `shrink` and `export` share: new files from old ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use bloomfile::{
    Error,
    ops::{Derivation, InputSummary, SetOperation},
    report::Health,
};
use clap::Args;
use serde::Serialize;

use super::keys_estimated;
use crate::failure::{Failure, Result};
use crate::keys::Progress;
use crate::options::{PrintArgs, ReplaceArgs};
use crate::{output, text, units};

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct DeriveOutput {
    schema: u32,
    file: String,
    #[serde(flatten)]
    derivation: Derivation,
}

/// Where the result goes.
#[derive(Args, Debug)]
pub(crate) struct ResultArgs {
    /// The file to make
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

pub(super) fn run(
    args: &ResultArgs,
    files: &[PathBuf],
    holds: &str,
    operate: impl Fn(SetOperation<'_>, &Path) -> Result<Derivation, Error>,
) -> Result<ExitCode> {
    let bar = OnceLock::new();
    let listener = |progress: bloomfile::ops::Progress| {
        let bar = bar.get_or_init(|| Progress::new(progress.bytes_total, args.print.quiet));
        bar.reached(progress.bytes_done);
    };
    let operation = SetOperation::new().replace(args.replace.force).progress(&listener);
    let result = operate(operation, &args.output);
    // Takes the bar away.
    drop(bar);
    let derivation = result.map_err(|error| match error {
        // A size that the input cannot have; what is wrong with the output is its path.
        Error::Parameter { name, .. } if name != "path" => Failure::file(&files[0])(error),
        other => Failure::file(&args.output)(other),
    })?;
    if !args.print.quiet {
        for (path, input) in files.iter().zip(&derivation.inputs) {
            warn_of_input(path, input);
        }
        if args.print.format.json {
            let file = args.output.display().to_string();
            output::json(&DeriveOutput { schema: 1, file, derivation })?;
        } else {
            output::print(summary(&args.output, files, holds, &derivation))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(path: &Path, files: &[PathBuf], holds: &str, derivation: &Derivation) -> String {
    let Derivation { operation, keys, rate, file_bytes, .. } = derivation;
    let mut text = format!(
        "{}: {operation}; {holds}{}, rate {}; {}\n",
        text::path(path),
        keys_estimated(keys),
        units::percent(*rate),
        units::size(*file_bytes)
    );
    for (path, input) in files.iter().zip(&derivation.inputs) {
        if input.folded_by > 1 {
            text.push_str(&format!(
                "  {} was folded by {}: the rate of its keys goes from {} to {}\n",
                text::path(path),
                units::count(input.folded_by),
                units::percent(input.rate),
                units::percent(input.rate_folded)
            ));
        }
    }
    text
}

fn warn_of_input(path: &Path, input: &InputSummary) {
    if input.health == Health::Live {
        output::warn(path, "is being written: what is added from now on is not in the result");
    }
    if input.pages_unverified > 0 {
        output::warn(
            path,
            format_args!(
                "{} with bits that its checksums and journal do not explain, of keys that had \
                 not been synced: they are in the result",
                units::counted(input.pages_unverified, "page")
            ),
        );
    }
}

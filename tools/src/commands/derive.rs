//! `bloomfile merge`, `intersect`, `shrink` and `export`: new files from old ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use bloomfile::{
    Error,
    ops::{Derivation, InputSummary, SetOperation},
    report::Health,
};
use serde::Serialize;

use super::keys_estimated;
use crate::args::{CombineArgs, ExportArgs, ResultArgs, ShrinkArgs};
use crate::failure::{Failure, Result};
use crate::keys::Progress;
use crate::{output, text, units};

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct DeriveOutput {
    schema: u32,
    file: String,
    #[serde(flatten)]
    derivation: Derivation,
}

pub(crate) fn merge(args: &CombineArgs) -> Result<ExitCode> {
    run(&args.result, &args.files, "", |operation, output| operation.union(&args.files, output))
}

pub(crate) fn intersect(args: &CombineArgs) -> Result<ExitCode> {
    // Bits that different keys set in each file are in it as well.
    run(&args.result, &args.files, "as full as with ", |operation, output| {
        operation.intersection(&args.files, output)
    })
}

pub(crate) fn shrink(args: &ShrinkArgs) -> Result<ExitCode> {
    let files = std::slice::from_ref(&args.file);
    run(&args.result, files, "", |operation, output| match (args.to.factor, args.to.fpr) {
        (Some(factor), _) => operation.fold(&args.file, factor, output),
        (None, rate) => operation.fold_to_rate(&args.file, rate.unwrap_or(0.0), output),
    })
}

pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let files = std::slice::from_ref(&args.file);
    run(&args.result, files, "", |operation, output| operation.export(&args.file, output))
}

fn run(
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

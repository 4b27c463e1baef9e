//! What `merge`, `intersect`, `shrink` and `export` share: new files from old ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use bloomfile::{
    Error,
    hash::Form,
    ops::{Derivation, InputSummary, SetOperation},
    report::{Health, Inspection},
};
use clap::Args;
use serde::Serialize;

use super::wording::keys_estimated;
use crate::failure::{Failure, Result};
use crate::keys::{FormOptions, Progress};
use crate::options::{PrintArgs, ReplaceArgs};
use crate::{output, text, units};

/// How far a rate may be above the one asked for by chance alone, as a share of it.
const RATE_TOLERANCE: f64 = 0.05;

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

    /// Space for its journal: 64KiB, 1M; 0 for none, in a file that is shipped [default: the largest
    /// of those of the files]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(super) journal: Option<u64>,

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
    // Before one of them may be replaced by the result.
    let inspections: Vec<Inspection> =
        files.iter().filter_map(|path| bloomfile::report::inspect(path).ok()).collect();
    let bar = OnceLock::new();
    let listener = |progress: bloomfile::ops::Progress| {
        let bar = bar.get_or_init(|| Progress::new(progress.bytes_total, args.print.quiet));
        bar.reached(progress.bytes_done);
    };
    let mut operation = SetOperation::new().replace(args.replace.force).progress(&listener);
    if let Some(bytes) = args.journal {
        operation = operation.journal_bytes(bytes);
    }
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
        if files.len() > 1 {
            if !warn_of_segments(&args.output, &derivation, &inspections) {
                warn_of_rate(&args.output, derivation.rate, &inspections);
            }
            warn_of_forms(&args.output, &inspections);
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

/// Warns of a result that has more segments than its inputs; tells whether it did.
fn warn_of_segments(path: &Path, derivation: &Derivation, inputs: &[Inspection]) -> bool {
    let Derivation { segments, rate, .. } = derivation;
    let most = inputs.iter().map(|input| input.segments.len()).max().unwrap_or(1);
    let several = *segments > most;
    if several {
        output::warn(
            path,
            format_args!(
                "sizes that do not fold into one another are {} of their own: a look-up asks all of \
                 them, and their rates add up to {}; files built with the same --capacity and --fpr \
                 are joined in one",
                units::counted(*segments as u64, "segment"),
                units::percent(*rate),
            ),
        );
    }
    several
}

/// Warns of a result whose rate is above what the inputs were made for: it holds the keys of all in
/// the space of one.
fn warn_of_rate(path: &Path, rate: f64, inputs: &[Inspection]) {
    let made_for = |input: &Inspection| input.target_rate.or(input.rate_at_capacity());
    let lowest = inputs.iter().filter_map(made_for).fold(f64::INFINITY, f64::min);
    if rate > lowest * (1.0 + RATE_TOLERANCE) {
        output::warn(
            path,
            format_args!(
                "its rate of {} is above the {} that the files were made for; build a larger one \
                 from the keys",
                units::percent(rate),
                units::percent(lowest)
            ),
        );
    }
}

/// Warns of inputs whose keys are in different forms: no form is recorded in the result then.
fn warn_of_forms(path: &Path, inputs: &[Inspection]) {
    let form = |input: &Inspection| Form::recorded(&input.metadata).ok().flatten();
    let forms: Vec<Option<Form>> = inputs.iter().map(form).collect();
    if forms.iter().any(|form| *form != forms[0]) {
        let mut names: Vec<String> = Vec::new();
        for form in forms {
            let name = form.map_or_else(|| "none".into(), |form| FormOptions(form).to_string());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        output::warn(
            path,
            format_args!(
                "the files record different forms of keys ({}), and the result none: its keys are \
                 found only with the options that they were added with",
                names.join("; ")
            ),
        );
    }
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
                 not been synced, or of damage: they are in the result, which is not called sound",
                units::counted(input.pages_unverified, "page")
            ),
        );
    }
}

//! `bloomfile compare`: how two files relate.

use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::ops::{Comparison, Contents, PageComparison};
use bloomfile::plan::Estimate;
use clap::Args;
use serde::Serialize;

use super::wording::keys_estimated;
use crate::failure::{Failure, Result};
use crate::options::JsonArgs;
use crate::output::{self, Listing};
use crate::{text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Every page of both files is verified on the way.

Exit status: 0 when both have the same size and the same bits, and so the same answers; 1 when they
differ; 2 on an error, damage included.

Examples:
  bloomfile compare monday.bloom tuesday.bloom
  bloomfile compare copy.bloom original.bloom && echo same")]
pub(crate) struct CompareArgs {
    /// One filter
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,

    /// The other
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// Exit status when the files differ.
const EXIT_DIFFERENT: u8 = 1;

/// Runs of pages that are named.
const RUNS_SHOWN: usize = 5;

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct CompareOutput {
    schema: u32,
    file_a: String,
    file_b: String,
    #[serde(flatten)]
    comparison: Comparison,
}

pub(super) fn run(args: &CompareArgs) -> Result<ExitCode> {
    let comparison = bloomfile::ops::compare(&args.a, &args.b).map_err(Failure::file(&args.a))?;
    let same = comparison.is_same();
    if args.format.json {
        let [file_a, file_b] = [&args.a, &args.b].map(|path| path.display().to_string());
        output::json(&CompareOutput { schema: 1, file_a, file_b, comparison })?;
    } else {
        let listing = listing(&comparison);
        let [file_a, file_b] = [&args.a, &args.b].map(|path| text::path(path));
        output::print(format_args!("A: {file_a}\nB: {file_b}\n\n{listing}"))?;
    }
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DIFFERENT) })
}

fn listing(comparison: &Comparison) -> Listing {
    let mut listing = Listing::default();
    for pair in &comparison.parameters {
        if pair.is_same() {
            listing.row(pair.name, format_args!("{} in both", pair.a))
        } else {
            listing.row(pair.name, format_args!("{} in A, {} in B", pair.a, pair.b))
        }
    }
    match &comparison.contents {
        Contents::Compared(pages) => compared(&mut listing, comparison, pages),
        Contents::Incomparable { reason } => {
            listing.row("A holds", keys_estimated(&comparison.a.keys));
            listing.row("B holds", keys_estimated(&comparison.b.keys));
            listing.row("relation", format_args!("cannot be told: {reason}"));
        }
        _ => {}
    }
    listing
}

fn compared(listing: &mut Listing, comparison: &Comparison, pages: &PageComparison) {
    for (name, input) in [("A", &comparison.a), ("B", &comparison.b)] {
        if input.folded_by > 1 {
            let factor = units::count(input.folded_by);
            listing.row("compared at", format_args!("the smaller size: {name} folded by {factor}"));
        }
    }
    let overlap = &pages.overlap;
    listing.row("A holds", keys_estimated(&overlap.a));
    listing.row("B holds", keys_estimated(&overlap.b));
    listing.row("together", keys_estimated(&overlap.union));
    listing.row("in common", keys_estimated(&overlap.intersection));
    listing.row("Jaccard", share(&overlap.jaccard));
    listing.row("of A in B", share(&overlap.containment_a_in_b));
    listing.row("of B in A", share(&overlap.containment_b_in_a));
    listing.row("relation", pages.relation.meaning());
    listing.row("pages", differing(pages));
}

fn share(estimate: &Estimate) -> String {
    let Estimate { value, low, high } = estimate;
    // A share just below 0 is shown as 0, without a sign.
    let percent = |share: &f64| format!("{:.2}", (1e4 * share).round() / 100.0 + 0.0);
    let [value, low, high] = [value, low, high].map(percent);
    format!("{value} % ({low} to {high} %)")
}

fn differing(pages: &PageComparison) -> String {
    if pages.pages_differing == 0 {
        return format!("all {} are alike", units::count(pages.pages));
    }
    let mut runs: Vec<String> = pages
        .differing
        .iter()
        .take(RUNS_SHOWN)
        .map(|run| match run.pages {
            1 => run.first.to_string(),
            count => format!("{} to {}", run.first, run.first + count - 1),
        })
        .collect();
    if pages.differing.len() > RUNS_SHOWN {
        runs.push("…".into());
    }
    let (differing, all) =
        (units::count(pages.pages_differing), units::counted(pages.pages, "page"));
    format!("{differing} of {all} differ: {}", runs.join(", "))
}

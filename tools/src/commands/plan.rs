//! `bloomfile plan`: what a filter would take.

use std::process::ExitCode;

use bloomfile::{Layout, Plan};
use serde::Serialize;

use crate::args::PlanArgs;
use crate::failure::{Failure, Result, explain};
use crate::output::{self, Listing};
use crate::units;

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct PlanOutput {
    schema: u32,
    layout: Layout,
    rows: u32,
    blocks: u64,
    row_bits: u64,
    bits: u64,
    capacity: Option<u64>,
    target_rate: Option<f64>,
    expected_rate: Option<f64>,
    bits_per_key: Option<f64>,
    data_bytes: u64,
    file_bytes: u64,
    lines_per_lookup: u32,
    pages_per_lookup: u32,
    warning: Option<String>,
}

pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode> {
    args.shape.check_complete()?;
    let options = args.shape.options();
    let failed = |error| Failure::new(explain(&error));
    let plan = options.plan().map_err(failed)?;
    let file_bytes = options.file_bytes().map_err(failed)?;
    if args.json {
        output::json(&describe(&plan, args.shape.fpr, file_bytes))?;
    } else {
        output::print(listing(&plan, args.shape.fpr, file_bytes))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(plan: &Plan, target_rate: Option<f64>, file_bytes: u64) -> PlanOutput {
    let geometry = plan.geometry();
    PlanOutput {
        schema: 1,
        layout: geometry.layout(),
        rows: geometry.row_count(),
        blocks: geometry.blocks(),
        row_bits: geometry.row_cells(),
        bits: plan.cells(),
        capacity: plan.capacity(),
        target_rate,
        expected_rate: plan.expected_rate(),
        bits_per_key: plan.bits_per_key(),
        data_bytes: plan.data_bytes(),
        file_bytes,
        lines_per_lookup: plan.lines_per_lookup(),
        pages_per_lookup: plan.pages_per_lookup(),
        warning: plan.warning(),
    }
}

fn listing(plan: &Plan, target_rate: Option<f64>, file_bytes: u64) -> Listing {
    let mut listing = Listing::default();
    if let Some(capacity) = plan.capacity() {
        let rate = target_rate.map(|rate| format!(", rate at most {}", units::percent(rate)));
        let keys = units::counted(capacity, "key");
        listing.row("for", format!("{keys}{}", rate.unwrap_or_default()));
    }
    listing.row("layout", plan.geometry());
    listing.row_if("bits per key", plan.bits_per_key().map(|bits| format!("{bits:.2}")));
    listing.row_if("expected rate", plan.expected_rate().map(units::rate));
    let rest = units::size(file_bytes - plan.data_bytes());
    let data = units::size(plan.data_bytes());
    let whole = units::size(file_bytes);
    listing.row("file", format!("{whole}: {data} of data, {rest} of journal, tables and headers"));
    let lines = units::counted(plan.lines_per_lookup().into(), "cache line");
    let pages = units::counted(plan.pages_per_lookup().into(), "page");
    listing.row("a look-up", format!("touches at most {lines} in {pages}"));
    listing.row_if("warning", plan.warning());
    listing
}

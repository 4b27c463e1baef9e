//! `bloomfile plan`: what a filter would take.

use std::process::ExitCode;

use bloomfile::plan::Precheck;
use bloomfile::{Layout, Options, Plan};
use serde::Serialize;

use crate::args::{PlanArgs, PrecheckArgs};
use crate::failure::{Failure, Result, explain};
use crate::output::{self, Listing};
use crate::units;

/// Layouts in the order in which they are compared.
const COMPARED: [Layout; 4] = [Layout::Line, Layout::Page, Layout::Rows, Layout::Flat];

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct PlanOutput {
    schema: u32,
    #[serde(flatten)]
    chosen: LayoutOutput,
    blocks: u64,
    row_bits: u64,
    bits: u64,
    capacity: Option<u64>,
    target_rate: Option<f64>,
    warning: Option<String>,
    /// Every layout that can do it; none when the geometry was given.
    layouts: Vec<LayoutOutput>,
    precheck: Option<PrecheckOutput>,
}

/// What a layout takes.
#[derive(Serialize)]
struct LayoutOutput {
    layout: Layout,
    rows: u32,
    expected_rate: Option<f64>,
    bits_per_key: Option<f64>,
    data_bytes: u64,
    file_bytes: u64,
    lines_per_lookup: u32,
    pages_per_lookup: u32,
}

/// What asking the filter first saves.
#[derive(Serialize)]
struct PrecheckOutput {
    #[serde(flatten)]
    precheck: Precheck,
    seconds_without: f64,
    seconds_with: f64,
}

pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode> {
    args.shape.check_complete()?;
    let failed = |error| Failure::new(explain(&error));
    let options = args.shape.options();
    let plan = options.plan().map_err(failed)?;
    let chosen = take(&options, &plan).map_err(failed)?;
    let layouts = compare(args);
    let precheck = args.precheck.precheck(args.shape.fpr.or(plan.expected_rate()))?;
    if args.format.json {
        output::json(&describe(&plan, chosen, args.shape.fpr, layouts, precheck))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut listing = listing(&plan, args.shape.fpr, chosen.file_bytes);
    if let Some(precheck) = precheck {
        savings(&mut listing, &precheck);
    }
    output::print(listing)?;
    if !layouts.is_empty() {
        output::print(format_args!("\n{}", table(&layouts, plan.geometry().layout())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The layouts side by side; one that cannot reach the rate is left out.
fn compare(args: &PlanArgs) -> Vec<LayoutOutput> {
    if args.shape.is_exact() {
        return Vec::new();
    }
    let with = |layout| {
        let options = args.shape.options().layout(layout);
        options.plan().and_then(|plan| take(&options, &plan)).ok()
    };
    COMPARED.into_iter().filter_map(with).collect()
}

fn take(options: &Options, plan: &Plan) -> bloomfile::Result<LayoutOutput> {
    Ok(LayoutOutput {
        layout: plan.geometry().layout(),
        rows: plan.geometry().row_count(),
        expected_rate: plan.expected_rate(),
        bits_per_key: plan.bits_per_key(),
        data_bytes: plan.data_bytes(),
        file_bytes: options.file_bytes()?,
        lines_per_lookup: plan.lines_per_lookup(),
        pages_per_lookup: plan.pages_per_lookup(),
    })
}

fn table(layouts: &[LayoutOutput], chosen: Layout) -> String {
    let mut text = format!(
        "  {:<8}{:>5}{:>14}{:>12}{:>11}{:>13}{:>7}\n",
        "layout", "k", "bits per key", "data", "rate", "cache lines", "pages"
    );
    for layout in layouts {
        let mark = if layout.layout == chosen { '*' } else { ' ' };
        text += &format!(
            "{mark} {:<8}{:>5}{:>14.2}{:>12}{:>11}{:>13}{:>7}\n",
            layout.layout.name(),
            layout.rows,
            layout.bits_per_key.unwrap_or_default(),
            units::size(layout.data_bytes),
            units::percent(layout.expected_rate.unwrap_or_default()),
            layout.lines_per_lookup,
            layout.pages_per_lookup,
        );
    }
    text + "  * taken; choose another with --layout\n"
}

impl PrecheckArgs {
    /// What was asked for, with the rate of the filter.
    fn precheck(&self, rate: Option<f64>) -> Result<Option<Precheck>> {
        let (Some(slow), Some(present)) = (self.database_ms, self.present) else { return Ok(None) };
        let Some(rate) = rate else {
            return Err(Failure::new("--precheck needs a rate; give --capacity"));
        };
        Ok(Some(Precheck {
            lookups: self.lookups,
            present: present.of(self.lookups),
            slow_seconds: slow / 1000.0,
            filter_seconds: self.filter_ms / 1000.0,
            rate,
        }))
    }
}

fn savings(listing: &mut Listing, precheck: &Precheck) {
    let absent = precheck.lookups.saturating_sub(precheck.present) as f64;
    let needless = absent * precheck.rate;
    let (without, with) = (precheck.without(), precheck.with());
    let lookups = units::counted(precheck.lookups, "look-up");
    listing.row("without it", format!("{} for {lookups}", units::seconds(without)));
    let parts = [
        format!(
            "{} in the filter",
            units::seconds(precheck.lookups as f64 * precheck.filter_seconds)
        ),
        format!(
            "{} for {} that are there",
            units::seconds(precheck.present as f64 * precheck.slow_seconds),
            units::counted(precheck.present, "key")
        ),
        format!(
            "{} for {} asked for needlessly",
            units::seconds(needless * precheck.slow_seconds),
            units::counted(needless.round() as u64, "key")
        ),
    ];
    listing.row("with it", format!("{}:\n{}", units::seconds(with), parts.join("\n")));
    listing.row(
        "saves",
        match without > with {
            true => format!(
                "{} of the time: {} times as fast",
                units::percent(1.0 - with / without),
                units::decimal(without / with)
            ),
            false => "nothing: asking the filter first takes longer".into(),
        },
    );
}

fn describe(
    plan: &Plan,
    chosen: LayoutOutput,
    target_rate: Option<f64>,
    layouts: Vec<LayoutOutput>,
    precheck: Option<Precheck>,
) -> PlanOutput {
    let geometry = plan.geometry();
    PlanOutput {
        schema: 1,
        chosen,
        blocks: geometry.blocks(),
        row_bits: geometry.row_cells(),
        bits: plan.cells(),
        capacity: plan.capacity(),
        target_rate,
        warning: plan.warning(),
        layouts,
        precheck: precheck.map(|precheck| PrecheckOutput {
            seconds_without: precheck.without(),
            seconds_with: precheck.with(),
            precheck,
        }),
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

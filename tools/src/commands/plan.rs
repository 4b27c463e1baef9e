//! `bloomfile plan`: what a filter would take.

mod tables;

use std::process::ExitCode;

use bloomfile::plan::Precheck;
use bloomfile::{CellKind, Options, Plan, WhenFull, geometry::Layout, options::GrowthStage};
use clap::Args;
use serde::Serialize;

use super::wording::policy;
use crate::failure::{Failure, Result, explain};
use crate::options::{JsonArgs, KindArgs, ShapeArgs};
use crate::output::{self, Listing};
use crate::units;
use tables::{stages, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 done, 2 error.

Examples:
  bloomfile plan --capacity 10M
  bloomfile plan --rows 30 --row-bits 2.5M --capacity 5M
  bloomfile plan -n 1M -p 1% --kind counting
  bloomfile plan -n 10k -p 1% --grow
  bloomfile plan -n 1M -p 3% --precheck --lookups 102k --present 2k --database-ms 500 --filter-ms 1")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) kind: KindArgs,

    #[command(flatten)]
    pub(crate) precheck: PrecheckArgs,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// What a filter is asked in front of, and how often.
#[derive(Args, Debug)]
pub(crate) struct PrecheckArgs {
    /// Show what asking the filter first saves, in front of a database say
    #[arg(long, requires = "database_ms", requires = "present")]
    pub(crate) precheck: bool,

    /// Milliseconds of one look-up behind the filter
    #[arg(long, value_name = "MS", requires = "precheck", value_parser = units::parse_duration)]
    pub(crate) database_ms: Option<f64>,

    /// Milliseconds of one look-up in the filter
    #[arg(long, value_name = "MS", requires = "precheck", value_parser = units::parse_duration)]
    #[arg(default_value = "0.0001")]
    pub(crate) filter_ms: f64,

    /// Look-ups for keys that are there: a share such as 2%, or a number
    #[arg(long, value_name = "SHARE", requires = "precheck", value_parser = units::parse_amount)]
    pub(crate) present: Option<units::Amount>,

    /// Look-ups in all
    #[arg(long, value_name = "N", requires = "precheck", value_parser = units::parse_count)]
    #[arg(default_value = "1M")]
    pub(crate) lookups: u64,
}

/// Layouts in the order in which they are compared.
const COMPARED: [Layout; 5] =
    [Layout::Line, Layout::Page, Layout::Rows, Layout::Flat, Layout::Sealed];

/// Stages of growth that are shown: the last is for 255 times the keys of the first.
const STAGES: usize = 8;

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct PlanOutput {
    schema: u32,
    kind: CellKind,
    cell_bits: u32,
    when_full: WhenFull,
    generations: Option<u64>,
    rotate_after: Option<u64>,
    #[serde(flatten)]
    chosen: LayoutOutput,
    blocks: u64,
    row_bits: u64,
    bits: u64,
    capacity: Option<u64>,
    target_rate: Option<f64>,
    rate_together: Option<f64>,
    warning: Option<String>,
    /// Every layout that can do it; none when the geometry was given.
    layouts: Vec<LayoutOutput>,
    /// What a filter that grows becomes; none for the others.
    growth: Vec<GrowthStage>,
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

/// What was asked for, and what it takes.
struct Planned<'a> {
    args: &'a PlanArgs,
    plan: Plan,
    chosen: LayoutOutput,
    layouts: Vec<LayoutOutput>,
    growth: Vec<GrowthStage>,
}

pub(super) fn run(args: &PlanArgs) -> Result<ExitCode> {
    args.shape.check_complete()?;
    args.kind.check()?;
    let failed = |error| Failure::new(explain(&error));
    let options = args.kind.apply(args.shape.options());
    let plan = options.plan().map_err(failed)?;
    let chosen = describe(&options, &plan, &args.kind).map_err(failed)?;
    let growth =
        if args.kind.grows() { options.growth(STAGES).map_err(failed)? } else { Vec::new() };
    let planned = Planned { args, plan, chosen, layouts: compare(args, &options), growth };
    let precheck = args.precheck.precheck(planned.rate_bound())?;
    if args.format.json {
        output::json(&planned.describe(precheck))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut listing = planned.listing();
    if let Some(precheck) = precheck {
        savings(&mut listing, &precheck);
    }
    output::print(listing)?;
    if !planned.layouts.is_empty() {
        let layouts = table(&planned.layouts, planned.plan.geometry().layout());
        output::print(format_args!("\n{layouts}"))?;
    }
    if !planned.growth.is_empty() {
        output::print(format_args!("\n{}", stages(&planned.growth)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The layouts side by side; one that cannot reach the rate is left out.
fn compare(args: &PlanArgs, options: &Options) -> Vec<LayoutOutput> {
    if args.shape.is_exact() {
        return Vec::new();
    }
    let with = |layout| {
        let options = options.clone().layout(layout);
        options.plan().and_then(|plan| describe(&options, &plan, &args.kind)).ok()
    };
    COMPARED.into_iter().filter_map(with).collect()
}

fn describe(options: &Options, plan: &Plan, kind: &KindArgs) -> bloomfile::Result<LayoutOutput> {
    // First, because it refuses a number of generations that no file has.
    let file_bytes = options.file_bytes()?;
    // The generations of a rotating filter lie beside a spare one, and a look-up asks them all.
    let generations = kind.generations.unwrap_or(0);
    let asked = u32::try_from(generations).unwrap_or(u32::MAX).max(1);
    Ok(LayoutOutput {
        layout: plan.geometry().layout(),
        rows: plan.geometry().row_count(),
        expected_rate: plan.expected_rate(),
        bits_per_key: plan.bits_per_key(),
        data_bytes: plan.data_bytes() * (generations + 1),
        file_bytes,
        lines_per_lookup: plan.lines_per_lookup() * asked,
        pages_per_lookup: plan.pages_per_lookup() * asked,
    })
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
        if without > with {
            format!(
                "{} of the time: {} times as fast",
                units::percent(1.0 - with / without),
                units::decimal(without / with)
            )
        } else {
            "nothing: asking the filter first takes longer".into()
        },
    );
}

impl Planned<'_> {
    /// The highest rate of all segments or generations together, as far as it follows from the
    /// plan: that of every generation at capacity, or what the segments of a growing filter stay
    /// below however many come.
    fn rate_together(&self) -> Option<f64> {
        let kind = &self.args.kind;
        if kind.grows() {
            return self.args.shape.rate();
        }
        self.plan.expected_rate().map(|each| kind.rate_together(each))
    }

    /// The rate that may be relied on.
    fn rate_bound(&self) -> Option<f64> {
        self.args.kind.whole_rate(&self.args.shape).or(self.rate_together())
    }

    fn describe(self, precheck: Option<Precheck>) -> PlanOutput {
        let geometry = self.plan.geometry();
        let kind = &self.args.kind;
        PlanOutput {
            schema: 1,
            kind: geometry.cell_kind(),
            cell_bits: geometry.cell_kind().bits(),
            when_full: kind.policy(),
            generations: kind.generations,
            rotate_after: kind.rotate_after,
            blocks: geometry.blocks(),
            row_bits: geometry.row_cells(),
            bits: self.plan.cells(),
            capacity: self.plan.capacity(),
            target_rate: kind.whole_rate(&self.args.shape),
            rate_together: self.rate_together(),
            warning: self.plan.warning(),
            chosen: self.chosen,
            layouts: self.layouts,
            growth: self.growth,
            precheck: precheck.map(|precheck| PrecheckOutput {
                seconds_without: precheck.without(),
                seconds_with: precheck.with(),
                precheck,
            }),
        }
    }

    fn listing(&self) -> Listing {
        let (plan, kind) = (&self.plan, &self.args.kind);
        let mut listing = Listing::default();
        if let Some(capacity) = plan.capacity() {
            listing.row("for", self.purpose(capacity));
        }
        if kind.kind == CellKind::Counting {
            listing.row("kind", "counting: each cell is a counter of 4 bits");
        }
        if kind.generations.is_some() || kind.policy() != WhenFull::Allow {
            let policy = policy(kind.generations, kind.rotate_after, kind.policy());
            listing.row("when full", policy);
        }
        listing.row("layout", plan.geometry());
        listing.row_if("bits per key", plan.bits_per_key().map(|bits| format!("{bits:.2}")));
        listing.row_if("expected rate", plan.expected_rate().map(|rate| self.rates(rate)));
        listing.row("file", self.sizes());
        let lines = units::counted(self.chosen.lines_per_lookup.into(), "cache line");
        let pages = units::counted(self.chosen.pages_per_lookup.into(), "page");
        let each = if kind.grows() { " of each segment" } else { "" };
        listing.row("a look-up", format!("touches at most {lines} in {pages}{each}"));
        listing.row_if("warning", plan.warning());
        listing
    }

    fn purpose(&self, capacity: u64) -> String {
        let kind = &self.args.kind;
        let (generations, together) = match kind.generations {
            Some(generations) => (
                format!("{} generations, each for ", units::count(generations)),
                " of all together",
            ),
            None => (String::new(), ""),
        };
        let keys = units::counted(capacity, "key");
        let more = if kind.grows() { " and then more" } else { "" };
        let rate = kind.whole_rate(&self.args.shape);
        let rate = rate.map(|rate| format!(", rate{together} at most {}", units::percent(rate)));
        format!("{generations}{keys}{more}{}", rate.unwrap_or_default())
    }

    /// The rate of a segment, and of the whole where that is another.
    fn rates(&self, rate: f64) -> String {
        let kind = &self.args.kind;
        let together = self.rate_together().map(units::percent).unwrap_or_default();
        match kind.generations {
            Some(_) => format!("{} of each, {together} of all together", units::rate(rate)),
            None if kind.grows() => format!(
                "{} of the first segment, at most {together} of all together",
                units::rate(rate)
            ),
            None => units::rate(rate),
        }
    }

    fn sizes(&self) -> String {
        let LayoutOutput { data_bytes, file_bytes, .. } = self.chosen;
        let [whole, data, rest] =
            [file_bytes, data_bytes, file_bytes - data_bytes].map(units::size);
        let parts = match self.args.kind.generations {
            Some(generations) => {
                format!(" in {} generations and a spare one", units::count(generations))
            }
            None => String::new(),
        };
        let first = if self.args.kind.grows() { " at first" } else { "" };
        let sealed = self.plan.geometry().layout() == Layout::Sealed;
        let journal = if sealed { "" } else { "journal, " };
        format!("{whole}{first}: {data} of data{parts}, {rest} of {journal}tables and headers")
    }
}

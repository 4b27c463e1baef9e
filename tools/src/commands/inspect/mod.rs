//! `bloomfile inspect`: what a file is, how full, and what to do about it.

mod bytes;
mod charts;
mod html;

use std::process::ExitCode;

use bloomfile::plan::Estimate;
use bloomfile::{BlockLoads, CellKind, Health, Inspection, SegmentInspection, WhenFull};
use serde::Serialize;

use super::keys_estimated;
use crate::args::InspectArgs;
use crate::failure::{Failure, Result};
use crate::output::{self, Listing};
use crate::units;

/// Share of the capacity from which on a filter is nearly full.
const NEARLY_FULL: f64 = 0.9;

/// A rate that makes a filter of little use.
const USELESS_RATE: f64 = 0.5;

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct InspectOutput {
    schema: u32,
    file: String,
    #[serde(flatten)]
    inspection: Inspection,
    advice: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    loads: Option<Vec<BlockLoads>>,
}

pub(crate) fn run(args: &InspectArgs) -> Result<ExitCode> {
    match args {
        InspectArgs { bytes: true, .. } => bytes::bytes(args)?,
        InspectArgs { pages: true, .. } => bytes::pages(args)?,
        InspectArgs { html: Some(target), .. } => html::run(args, target)?,
        _ => summary(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(args: &InspectArgs) -> Result<()> {
    let failed = Failure::file(&args.file);
    let inspection = bloomfile::inspect(&args.file).map_err(&failed)?;
    let loads = args.loads.then(|| bloomfile::block_loads(&args.file)).transpose();
    let loads = loads.map_err(&failed)?;
    let file = args.file.display().to_string();
    let advice = advice(&file, &inspection);
    if args.json {
        return output::json(&InspectOutput { schema: 1, file, inspection, advice, loads });
    }
    let version = inspection.format_version;
    let size = units::size(inspection.file_bytes);
    let mut body = listing(&inspection);
    charts::fills(&mut body, &args.file, &inspection.segments)?;
    loads.iter().flatten().for_each(|loads| charts::loads(&mut body, loads));
    body.row("health", health(&inspection));
    body.row("advice", advice);
    output::print(format_args!(
        "{file}: a {} (bloomfile format {version}), {size}\n\n{body}",
        kind(&inspection)
    ))
}

fn listing(inspection: &Inspection) -> Listing {
    let mut listing = Listing::default();
    listing.row("made for", purpose(inspection));
    match &inspection.segments[..] {
        [segment] => fullness(&mut listing, segment),
        _ => several(&mut listing, inspection),
    }
    let data: u64 = inspection.segments.iter().map(|segment| segment.data_bytes).sum();
    let journal = units::size(inspection.journal_bytes);
    listing.row("space", format!("{} of data, {journal} of journal", units::size(data)));
    listing.row("hash", format!("{}, seed {}", inspection.hash, inspection.seed));
    listing.row("identity", &inspection.uuid);
    listing.row_if("mark", Some(inspection.mark).filter(|&mark| mark != 0));
    for (key, value) in &inspection.metadata {
        // A file may come from anywhere: its texts must not steer the terminal.
        listing.row("metadata", format!("{} = {}", key.escape_debug(), value.escape_debug()));
    }
    listing
}

fn purpose(inspection: &Inspection) -> String {
    let keys = inspection.capacity.map(|capacity| units::counted(capacity, "key"));
    match (keys, inspection.target_rate) {
        (Some(keys), Some(rate)) => format!("{keys}, rate at most {}", units::percent(rate)),
        (Some(keys), None) => keys,
        _ => "no number of keys in particular".into(),
    }
}

/// What several segments hold together, and each by itself.
fn several(listing: &mut Listing, inspection: &Inspection) {
    let adds: u64 = inspection.segments.iter().map(|segment| segment.adds).sum();
    let adds = units::counted(adds, "add");
    listing.row("holds", format!("{}; {adds} changed it", keys_estimated(&inspection.keys())));
    listing.row("rate now", units::rate(inspection.rate_now()));
    for (index, segment) in inspection.segments.iter().enumerate() {
        let share = segment.capacity.map(|capacity| {
            let share = segment.keys.value / capacity as f64;
            format!(" at {} of its capacity", units::percent(share))
        });
        listing.row(
            &format!("segment {index}"),
            format!(
                "{}\n{}{}, rate {}",
                segment.geometry,
                keys_estimated(&segment.keys),
                share.unwrap_or_default(),
                units::percent(segment.rate_now)
            ),
        );
    }
}

/// What kind of filter it is.
fn kind(inspection: &Inspection) -> String {
    let counting = match inspection.kind {
        CellKind::Counting => "counting ",
        _ => "",
    };
    match (inspection.when_full, inspection.generations) {
        (_, Some(generations)) => {
            format!("{counting}rotating Bloom filter of {generations} generations")
        }
        (WhenFull::Grow, _) => format!("{counting}growing Bloom filter"),
        _ => format!("{counting}Bloom filter"),
    }
}

fn fullness(listing: &mut Listing, segment: &SegmentInspection) {
    listing.row("layout", segment.geometry);
    let estimate = keys_estimated(&segment.keys);
    let adds = units::counted(segment.adds, "add");
    listing.row("holds", format!("{estimate}; {adds} changed it"));
    let share = segment.capacity.map(|capacity| {
        let share = segment.keys.value / capacity as f64;
        format!("; at {} of its capacity", units::percent(share))
    });
    let fill = units::percent(segment.fill);
    listing.row("full", format!("{fill} of its bits are set{}", share.unwrap_or_default()));
    listing.row("rate now", units::rate(segment.rate_now));
    listing.row_if("at capacity", segment.rate_at_capacity.map(units::rate));
}

fn health(inspection: &Inspection) -> String {
    let mut text = inspection.health.meaning().to_owned();
    match inspection.health {
        Health::Crashed => {
            let adds = units::counted(inspection.journal_records, "add");
            text.push_str(&format!("\n{adds} in the journal, not in the figures above"));
        }
        Health::Live => text.push_str("\nthe figures above are those of its last checkpoint"),
        _ => {}
    }
    for (count, what) in [
        (inspection.unsynced_pages, "kept by a recovery with bits that had not been synced"),
        (inspection.repaired_pages, "repaired: set to all ones"),
    ] {
        if count > 0 {
            text.push_str(&format!("\n{} {what}", units::counted(count, "page")));
        }
    }
    text
}

/// What the user should do next.
fn advice(file: &str, inspection: &Inspection) -> String {
    if inspection.health == Health::Crashed {
        return format!("recover it: bloomfile add {file} < /dev/null");
    }
    let segments = &inspection.segments;
    let rate = segments.iter().map(|segment| segment.rate_now).fold(0.0, f64::max);
    let sum = |part: fn(&Estimate) -> f64| segments.iter().map(|segment| part(&segment.keys)).sum();
    let (keys, fewest): (f64, f64) = (sum(|keys| keys.value), sum(|keys| keys.low));
    // What grows or rotates makes room by itself.
    let bounded = inspection.when_full != WhenFull::Grow && inspection.generations.is_none();
    match inspection.capacity.filter(|_| bounded).map(|capacity| capacity as f64) {
        _ if rate > USELESS_RATE => {
            "build a larger one: this one says \"maybe\" to most absent keys".into()
        }
        Some(capacity) if fewest > capacity => {
            "build a larger one: it holds more keys than it was made for".into()
        }
        Some(capacity) if keys > NEARLY_FULL * capacity => {
            "none as it is; it is as full as planned, so build a larger one before adding more"
                .into()
        }
        _ => format!("none; bloomfile verify {file} checks the data, which was not read here"),
    }
}

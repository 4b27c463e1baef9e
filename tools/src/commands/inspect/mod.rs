//! `bloomfile inspect`: what a file is, how full, and what to do about it.

mod app;
mod bytes;
mod charts;
mod subject;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::{
    CellKind,
    ops::Digest,
    plan::Crowding,
    report::{BlockLoads, Health, Inspection, SealedInspection, SegmentInspection},
};
use bloomfile_describe::advice;
use clap::Args;
use clap::builder::ArgPredicate;
use serde::Serialize;

use super::wording::{
    self, full_segments, hash, keys_estimated, kind, newest_share, policy_of, purpose, records,
};
use crate::failure::{Failure, Result};
use crate::options::JsonArgs;
use crate::output::{self, Listing};
use crate::pending::Target;
use crate::{text, units};
use subject::Subject;

/// How often a file is read that is replaced each time.
const VERSIONS: u32 = 5;

#[derive(Args, Debug)]
#[command(after_help = "\
The summary, --pages and --json read headers and page tables, and of the data the fullest pages at
most, so that they take no longer for a large file. --digest, --loads, --html and --bytes read everything. --bytes explains damaged files
as well: it shows why a file is refused.

FILE may be an address: http://, https:// or s3:// (see `bloomfile pull --help`), in a command that
was built with the feature `network`; one that ends in a slash is a publication. Then headers and page
tables are read, and no data: so there is no --digest, --loads, --html or --all, and no look at
crowded blocks.

The digest is the same for the same keys and options, whatever the file went through: it is made from
parameters and data alone. verify --expect holds a file against it.

Exit status: 0 done, 2 error.

Examples:
  bloomfile inspect seen.bloom
  bloomfile inspect seen.bloom --digest
  bloomfile inspect seen.bloom --html seen.html
  bloomfile inspect --app look.html
  bloomfile inspect https://example.org/seen.bloom
  bloomfile inspect damaged.bloom --bytes | grep wrong")]
#[command(group = clap::ArgGroup::new("page").args(["html", "app"]))]
pub(crate) struct InspectArgs {
    /// The file, or its address
    #[arg(required = false, required_unless_present = "app")]
    #[arg(default_value_if("app", ArgPredicate::IsPresent, "-"))]
    #[arg(hide_default_value = true)]
    pub(crate) file: PathBuf,

    /// Show how the keys are spread over the blocks, against the law they should follow
    #[arg(long)]
    pub(crate) loads: bool,

    /// Show the digest of the contents (SHA-256); reads and checks all data
    #[arg(long, conflicts_with_all = ["html", "pages", "bytes"])]
    pub(crate) digest: bool,

    /// Write one page with all of it as charts, for a browser; - is standard output
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["loads", "pages", "bytes", "json"])]
    pub(crate) html: Option<PathBuf>,

    /// Write a page that opens any file in a browser and asks it, on this machine alone; - is
    /// standard output
    #[arg(long, value_name = "PAGE")]
    #[arg(conflicts_with_all = ["file", "html", "digest", "loads", "pages", "bytes", "json"])]
    pub(crate) app: Option<PathBuf>,

    /// Replace PAGE if it is there already; never the filter itself
    #[arg(short, long, requires = "page")]
    pub(crate) force: bool,

    /// List the data pages: checksum, bits set, fill
    #[arg(long, conflicts_with_all = ["loads", "bytes"])]
    pub(crate) pages: bool,

    /// Explain the file byte range by byte range, damaged or not
    #[arg(long, conflicts_with = "loads")]
    pub(crate) bytes: bool,

    /// With --bytes: each table entry, journal record and data page by itself
    #[arg(long, requires = "bytes")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct InspectOutput {
    schema: u32,
    file: String,
    #[serde(flatten)]
    inspection: Inspection,
    advice: String,
    /// Empty if the data could not be read.
    crowding: Vec<Crowding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loads: Option<Vec<BlockLoads>>,
}

pub(super) fn run(args: &InspectArgs) -> Result<ExitCode> {
    subject::refuse_all_data(args)?;
    match args {
        InspectArgs { bytes: true, .. } => bytes::bytes(args)?,
        InspectArgs { pages: true, .. } => bytes::pages(args)?,
        InspectArgs { html: Some(target), .. } => page(args, target)?,
        InspectArgs { app: Some(target), .. } => app::run(args, target)?,
        _ => summaries(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `--html`: one page for a browser, with everything in it and nothing from elsewhere.
fn page(args: &InspectArgs, target: &Path) -> Result<()> {
    let pending = match target.as_os_str().as_encoded_bytes() {
        b"-" => None,
        _ => Some(Target::new(target, Some(&args.file), args.force)?),
    };
    let page = bloomfile_describe::html(&args.file).map_err(Failure::file(&args.file))?;
    let Some(pending) = pending else { return output::print(page) };
    pending.write(page.as_bytes())?;
    let (target, size) = (text::path(target), units::size(page.len() as u64));
    output::line(format_args!("{target}: written, {size}; open it in a browser"))
}

/// The summary of one version of a file at an address, which may be replaced all the time.
fn summaries(args: &InspectArgs) -> Result<()> {
    for _ in 1..VERSIONS {
        let subject = Subject::of(&args.file)?;
        match summary(args, &subject) {
            Err(_) if subject.has_changed() => {}
            result => return result,
        }
    }
    summary(args, &Subject::of(&args.file)?)
}

fn summary(args: &InspectArgs, subject: &Subject<'_>) -> Result<()> {
    let failed = Failure::file(&args.file);
    let inspection = subject.inspect()?;
    let loads = args.loads.then(|| bloomfile::report::block_loads(&args.file)).transpose();
    let loads = loads.map_err(&failed)?;
    let digest = args.digest.then(|| bloomfile::ops::digest(&args.file)).transpose();
    let digest = digest.map_err(&failed)?;
    let crowding = subject.crowding();
    let crowded = crowding.iter().map(|found| found.crowded).sum();
    let advice = advice(subject.name(), &inspection, crowded);
    if args.format.json {
        let (schema, file) = (1, args.file.display().to_string());
        let output = InspectOutput { schema, file, inspection, advice, crowding, digest, loads };
        return output::json(&output);
    }
    let version = inspection.format_version;
    let size = units::size(inspection.file_bytes);
    let mut body = listing(&inspection);
    body.row_if("digest", digest);
    charts::fills(&mut body, subject, &inspection.segments)?;
    loads.iter().flatten().for_each(|loads| charts::loads(&mut body, loads));
    body.row_if("crowded", wording::crowded_blocks(crowded));
    body.row("health", health(&inspection));
    body.row("advice", advice);
    output::print(format_args!(
        "{}: a {} (bloomfile format {version}), {size}\n\n{body}",
        text::path(&args.file),
        kind(&inspection)
    ))
}

fn listing(inspection: &Inspection) -> Listing {
    let mut listing = Listing::default();
    listing.row("made for", purpose(inspection));
    let changes = inspection.kind != CellKind::Sealed;
    listing.row_if(
        "when full",
        inspection.capacity.filter(|_| changes).map(|_| policy_of(inspection)),
    );
    fullness(&mut listing, inspection);
    let data: u64 = inspection.segments.iter().map(|segment| segment.data_bytes).sum();
    let rest = match inspection.segments.first().and_then(|segment| segment.sealed.as_ref()) {
        Some(sealed) => match sealed.bits_per_key {
            Some(bits) => format!(", {bits:.2} bits per key"),
            None => String::new(),
        },
        None if inspection.journal_bytes == 0 => ", no journal".into(),
        None => format!(", {} of journal", units::size(inspection.journal_bytes)),
    };
    listing.row("space", format!("{} of data{rest}", units::size(data)));
    listing.row("hash", hash(inspection));
    listing.row("identity", &inspection.uuid);
    listing.row_if("mark", Some(inspection.mark).filter(|&mark| mark != 0));
    for (key, value) in &inspection.metadata {
        // A file may come from anywhere: its texts must not steer the terminal.
        let pair = format!("{} = {}", key.escape_debug(), value.escape_debug());
        listing.row("metadata", pair);
    }
    listing
}

fn fullness(listing: &mut Listing, inspection: &Inspection) {
    let segments = &inspection.segments;
    let Some(newest) = segments.last() else { return };
    listing.row("layout", newest.geometry);
    if let Some(sealed) = &newest.sealed {
        return sealed_fullness(listing, inspection, newest, sealed);
    }
    let estimate = keys_estimated(&inspection.keys());
    let adds = segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.adds));
    let adds = units::counted(adds, "add");
    listing.row("holds", format!("{estimate}; {adds} changed it"));
    let share = newest_share(inspection).map(units::percent);
    if segments.len() == 1 {
        let share = share.map(|share| format!("; at {share} of its capacity")).unwrap_or_default();
        listing.row("full", format!("{} of its bits are set{share}", units::percent(newest.fill)));
    } else {
        let share = share.map(|share| format!("; the newest is at {share} of its capacity"));
        let count = units::counted(segments.len() as u64, "segment");
        listing.row("in use", format!("{count}{}", share.unwrap_or_default()));
    }
    listing.row("rate now", units::rate(inspection.rate_now()));
    listing.row_if("at capacity", rate_at_capacity(inspection));
}

/// How the keys of a sealed filter are spread, and what follows from that.
fn sealed_fullness(
    listing: &mut Listing,
    inspection: &Inspection,
    segment: &SegmentInspection,
    sealed: &SealedInspection,
) {
    listing.row("holds", units::counted(segment.ones, "key"));
    let pages = format!(
        "{} with {} keys on average, {} to {}",
        units::counted(segment.pages, "page"),
        units::decimal(sealed.keys_per_page),
        units::count(sealed.fewest_keys),
        units::count(sealed.most_keys)
    );
    listing.row("in", pages);
    let some = |count: u64| Some(count).filter(|&count| count > 0).map(units::count);
    listing.row_if("empty pages", some(sealed.empty_pages));
    listing.row_if("maybe pages", some(sealed.maybe_pages));
    listing.row(
        "worst page",
        format!(
            "{} with {}: {}",
            units::count(sealed.worst_page),
            units::counted(sealed.worst_page_keys, "key"),
            units::rate(sealed.worst_page_rate)
        ),
    );
    listing.row("rate now", units::rate(inspection.rate_now()));
}

/// The rate of the whole when it is full, and of what that is where it is not of one segment.
fn rate_at_capacity(inspection: &Inspection) -> Option<String> {
    let rate = units::rate(inspection.rate_at_capacity()?);
    Some(match full_segments(inspection) {
        Some(full) => format!("{rate}, {full}"),
        None => rate,
    })
}

fn health(inspection: &Inspection) -> String {
    let mut text = inspection.health.meaning().to_owned();
    if inspection.slot_damaged {
        text.push_str("\none of its two slots is damaged: what was written last may be lost");
    }
    if inspection.journal_records > 0 {
        let records = records(inspection.journal_records, inspection.kind);
        text.push_str(&format!("\n{records} in the journal, counted above"));
    }
    if inspection.journal_full && matches!(inspection.health, Health::Live | Health::Crashed) {
        text.push_str("\nadds that the journal had no room for are not in the figures above");
    }
    if inspection.health == Health::Crashed {
        // How many, only those know that read them: the slot counts what a recovery kept.
        text.push_str("\nits pages were not checked here: verify tells which cannot be verified");
    }
    for (count, what) in [
        (inspection.unverifiable_pages, "not verifiable, and kept by a recovery"),
        (inspection.repaired_pages, repaired(inspection.kind)),
    ] {
        if count > 0 {
            text.push_str(&format!("\n{} {what}", units::counted(count, "page")));
        }
    }
    text
}

/// What a repair made of pages.
fn repaired(kind: CellKind) -> &'static str {
    match kind {
        CellKind::Sealed => "repaired: \"maybe\" for every key",
        _ => "repaired: set to all ones",
    }
}

//! `bloomfile repair`: a damaged file made usable, and what that costs.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::{CellKind, filter::Recovery, ops::Repair, report::Health};
use clap::Args;
use serde::Serialize;

use super::wording::records;
use crate::failure::{Failure, Result};
use crate::options::JsonArgs;
use crate::output::{self, Listing};
use crate::{text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
A copy of the file, or building it again from its keys, is better: use repair where there is
neither. It changes FILE in place and cannot be undone, so keep a copy of the damaged file.

Every page that fails its checksum is set to all ones, or to \"maybe\" if it is sealed: the filter then says \"maybe\" to keys that
fall into it, present or not, and never \"no\" wrongly. What was done and the rate that this leaves
are printed. A damaged superblock, two damaged state slots or a wrong length cannot be repaired.

A file whose writer crashed is not damaged: the next command that writes it recovers it. --recover
does that alone, for which a keyed file takes no secret key. It refuses a damaged file.

Exit status: 0 when the file is sound now, 2 when it could not be repaired.

Examples:
  cp damaged.bloom damaged.copy
  bloomfile repair damaged.bloom")]
pub(crate) struct RepairArgs {
    /// The file
    pub(crate) file: PathBuf,

    /// Also repair a file that may only have been left by a crash: pages with bits that nothing
    /// explains, which recovery would keep, are set to all ones
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Only recover a file that a crash left, and keep pages with bits that nothing explains: keys that
    /// were added and not synced, most likely
    #[arg(long, conflicts_with = "force")]
    pub(crate) recover: bool,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// Nothing was wrong.
    Sound,
    /// A crash had left it open; nothing was damaged.
    Recovered,
    /// Damage was mended.
    Repaired,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct RepairOutput {
    schema: u32,
    file: String,
    outcome: Outcome,
    #[serde(flatten)]
    repair: Repair,
}

/// The JSON form of a recovery; described in `tools/json-output.md`.
#[derive(Serialize)]
struct RecoverOutput {
    schema: u32,
    file: String,
    crashed: bool,
    records_replayed: u64,
    records_missing: u64,
    pages_unverifiable: u64,
}

pub(super) fn run(args: &RepairArgs) -> Result<ExitCode> {
    if args.recover {
        return recover(args);
    }
    if !args.force {
        refuse_mere_crash(&args.file)?;
    }
    let repair = bloomfile::ops::repair(&args.file).map_err(|error| {
        let (beyond_repair, failure) = (error.is_damage(), Failure::file(&args.file)(error));
        if beyond_repair { failure.and("repair cannot help") } else { failure }
    })?;
    let outcome = match (repair.found_damage(), repair.crashed) {
        (true, _) => Outcome::Repaired,
        (false, true) => Outcome::Recovered,
        (false, false) => Outcome::Sound,
    };
    if args.format.json {
        let file = args.file.display().to_string();
        output::json(&RepairOutput { schema: 1, file, outcome, repair })?;
    } else {
        output::print(summary(text::path(&args.file), outcome, &repair))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Recovers a file as a writer does, and leaves it at that.
fn recover(args: &RepairArgs) -> Result<ExitCode> {
    let failed = Failure::file(&args.file);
    let recovery = bloomfile::ops::recover(&args.file).map_err(&failed)?;
    let count = |of: fn(&Recovery) -> u64| recovery.as_ref().map_or(0, of);
    let replayed = count(|found| found.records_replayed);
    let missing = count(|found| found.records_missing);
    let kept = count(|found| found.pages_unverifiable);
    if args.format.json {
        output::json(&RecoverOutput {
            schema: 1,
            file: args.file.display().to_string(),
            crashed: recovery.is_some(),
            records_replayed: replayed,
            records_missing: missing,
            pages_unverifiable: kept,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = text::path(&args.file);
    if recovery.is_none() {
        output::line(format_args!("{file}: nothing to recover: its last writer closed it"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let kind = bloomfile::report::inspect(&args.file).map_err(&failed)?.kind;
    let replayed = records(replayed, kind);
    let missing = match missing {
        0 => String::new(),
        _ => format!(", {} that had not been synced lost", units::counted(missing, "record")),
    };
    let kept = match kept {
        0 => String::new(),
        _ => format!(", {} kept that cannot be verified", units::counted(kept, "page")),
    };
    output::line(format_args!(
        "{file}: recovered after a crash: {replayed} replayed{missing}{kept}"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a file that a power cut left and that shows no damage. A repair takes pages that cannot
/// be verified for damage; recovery takes what they hold for adds that were not synced, and costs
/// nothing.
fn refuse_mere_crash(path: &Path) -> Result<()> {
    let Ok(found) = bloomfile::report::verify(path) else { return Ok(()) };
    let unverifiable = found.pages_unverifiable.len() as u64;
    if found.health != Health::Crashed || !found.pages_damaged.is_empty() || unverifiable == 0 {
        return Ok(());
    }
    let (file, pages) = (text::word(path), units::counted(unverifiable, "page"));
    Err(Failure::about(
        text::path(path),
        format!(
            "was left open by a crash and shows no damage; recover it with bloomfile repair \
             --recover {file}, which keeps {pages} that cannot be verified, or set these pages to \
             all ones with --force"
        ),
    ))
}

fn summary(file: impl Display, outcome: Outcome, repair: &Repair) -> String {
    let pages = units::counted(repair.pages, "page");
    let replayed = records(repair.records_replayed, repair.kind);
    match outcome {
        Outcome::Sound => format!("{file}: nothing to repair: {pages} as written\n"),
        Outcome::Recovered => {
            format!("{file}: recovered after a crash, nothing was damaged: {replayed} replayed\n")
        }
        Outcome::Repaired => {
            let verdict = if repair.pages_repaired.is_empty() {
                "it answers as before"
            } else {
                "it never answers \"no\" wrongly, but \"maybe\" more often than before"
            };
            format!("{file}: repaired: {verdict}\n\n{}", listing(repair))
        }
    }
}

/// What becomes of a damaged page.
fn mended(kind: CellKind) -> &'static str {
    match kind {
        CellKind::Sealed => "made to answer \"maybe\"",
        _ => "set to all ones",
    }
}

fn listing(repair: &Repair) -> Listing {
    let mut listing = Listing::default();
    let filled = &repair.pages_repaired;
    let of_pages = format!("of {}", units::counted(repair.pages, "page"));
    listing.row(
        "pages",
        match filled.len() {
            0 => format!("none {of_pages} damaged"),
            _ if repair.records_lost => format!("all {of_pages} set to all ones"),
            count => format!(
                "{} {of_pages} {} ({})",
                units::count(count as u64),
                mended(repair.kind),
                units::page_names(filled)
            ),
        },
    );
    if repair.slot_rewritten {
        listing.row("state slots", "the older one was damaged; written again");
    }
    if repair.table_rebuilt {
        listing.row("page table", "was damaged; made again from the data");
    }
    if repair.records_corrected != 0 {
        let corrected = units::counted(repair.records_corrected, "record");
        listing.row("journal", format!("{corrected} with a flipped bit put right"));
    }
    if repair.records_lost {
        let lost = "a synced record cannot be read: any page may miss its bits";
        listing.row("journal", lost);
    }
    if repair.crashed {
        let replayed = records(repair.records_replayed, repair.kind);
        listing.row("crash", format!("recovered: {replayed} replayed"));
    }
    listing.row("rate now", units::rate(repair.rate_now));
    let advice = if filled.is_empty() {
        "find out what damaged it: the disk may be failing"
    } else {
        "restore it from a copy, or build it again, when you can"
    };
    listing.row("advice", advice);
    listing
}

//! `bloomfile verify`: whether every byte is what was written.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::report::{Health, Verification};
use clap::Args;
use serde::Serialize;

use super::wording::records;
use crate::EXIT_ERROR;
use crate::failure::{Failure, Result, explain};
use crate::options::PrintArgs;
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 when every file is sound, 1 when one is damaged, 2 when one could not be judged, or
has pages that cannot be verified after a power cut, and none is damaged.

Examples:
  bloomfile verify seen.bloom
  bloomfile verify -q *.bloom || echo look at them")]
pub(crate) struct VerifyArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// Exit status when a file is damaged.
const EXIT_DAMAGED: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Sound,
    Damaged,
    /// Damage cannot be told from keys that were not synced.
    Unverifiable,
    Unknown,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct VerifyOutput {
    schema: u32,
    files: Vec<FileOutput>,
}

#[derive(Serialize)]
struct FileOutput {
    file: String,
    verdict: Verdict,
    /// Why the verdict is not "sound".
    reason: Option<String>,
    verification: Option<Verification>,
}

pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode> {
    let mut files = Vec::new();
    for path in &args.files {
        let file = judge(path);
        // What could not be judged is an error, which quiet does not silence.
        if !args.print.format.json && (!args.print.quiet || file.verdict == Verdict::Unknown) {
            say(path, &file)?;
        }
        files.push(file);
    }
    let any = |verdict| files.iter().any(|file| file.verdict == verdict);
    let unsure = any(Verdict::Unknown) || any(Verdict::Unverifiable);
    let code = match (any(Verdict::Damaged), unsure) {
        (true, _) => ExitCode::from(EXIT_DAMAGED),
        (false, true) => ExitCode::from(EXIT_ERROR),
        (false, false) => ExitCode::SUCCESS,
    };
    if args.print.format.json {
        output::json(&VerifyOutput { schema: 1, files })?;
    }
    Ok(code)
}

fn judge(path: &Path) -> FileOutput {
    let file = path.display().to_string();
    let (verdict, reason, verification) = match bloomfile::report::verify(path) {
        Err(error) => {
            let verdict = if error.is_damage() { Verdict::Damaged } else { Verdict::Unknown };
            (verdict, Some(explain(error.cause())), None)
        }
        Ok(found) if !found.pages_damaged.is_empty() => {
            (Verdict::Damaged, Some(damage(&found)), Some(found))
        }
        Ok(found) if !found.pages_busy.is_empty() => {
            (Verdict::Unknown, Some(busy(&found)), Some(found))
        }
        Ok(found) if !found.is_sound() => {
            (Verdict::Unverifiable, Some(unverifiable(&found)), Some(found))
        }
        Ok(found) => (Verdict::Sound, None, Some(found)),
    };
    FileOutput { file, verdict, reason, verification }
}

fn say(path: &Path, judged: &FileOutput) -> Result<()> {
    let FileOutput { verdict, reason, verification, .. } = judged;
    let file = text::path(path);
    let reason = reason.as_deref().unwrap_or_default();
    match verdict {
        Verdict::Damaged => output::line(format_args!("{file}: damaged: {reason}")),
        Verdict::Unverifiable => output::line(format_args!("{file}: not verifiable: {reason}")),
        Verdict::Unknown => {
            output::note(Failure::about(file, reason));
            Ok(())
        }
        Verdict::Sound => {
            let details = verification.as_ref().map(soundness).unwrap_or_default();
            output::line(format_args!("{file}: sound: {details}"))
        }
    }
}

fn soundness(found: &Verification) -> String {
    let pages = units::counted(found.pages, "page");
    let state = match found.health {
        Health::Clean => return format!("{pages} as written"),
        Health::Crashed => format!("nothing synced is lost; {}", found.health.meaning()),
        health => health.meaning().to_owned(),
    };
    let missing = match found.journal_missing {
        0 => String::new(),
        count => format!(", {} missing from its unsynced end", units::count(count)),
    };
    let records = records(found.journal_records, found.kind);
    format!("{pages}, {records} in the journal{missing}; {state}")
}

fn unverifiable(found: &Verification) -> String {
    let pages = &found.pages_unverifiable;
    format!(
        "{} of {} {} more than checksums and journal explain ({}): keys that were added and not \
         synced, or damage; {}",
        units::count(pages.len() as u64),
        units::counted(found.pages, "page"),
        if pages.len() == 1 { "holds" } else { "hold" },
        units::page_names(pages),
        found.health.meaning(),
    )
}

fn damage(found: &Verification) -> String {
    let damaged = &found.pages_damaged;
    format!(
        "{} of {} not as written ({}); restore the file from a copy or build it again, or run \
         repair, which answers \"maybe\" for what was lost",
        units::count(damaged.len() as u64),
        units::counted(found.pages, "page"),
        units::page_names(damaged),
    )
}

fn busy(found: &Verification) -> String {
    format!(
        "is being written: {} changed while being read; verify it when the writer is done",
        units::counted(found.pages_busy.len() as u64, "page")
    )
}

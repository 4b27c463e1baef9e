//! `bloomfile verify`: whether every byte is what was written.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::ops::Digest;
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
With --expect each file must also have the contents that the digest stands for: the one that inspect
--digest shows, the same for the same keys and options.

A file with pages that could not be verified after a power cut is not called sound, before it is
recovered or after: until it is built again from its keys, or restored from a copy.

Exit status: 0 when every file is sound, 1 when one is damaged or has another digest than the one
expected, 2 when one could not be judged, or has such pages, and none is damaged.

Examples:
  bloomfile verify seen.bloom
  bloomfile verify -q *.bloom || echo look at them
  bloomfile verify copy.bloom --expect $(cat copy.bloom.digest)")]
pub(crate) struct VerifyArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Check that the contents are those of this digest, 64 hex digits
    #[arg(long, value_name = "DIGEST", value_parser = parse_digest)]
    pub(crate) expect: Option<Digest>,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

fn parse_digest(text: &str) -> Result<Digest, String> {
    text.trim().parse().map_err(|_| "not 64 hex digits, as inspect --digest prints them".into())
}

/// Exit status when a file is damaged, or another one than expected.
const EXIT_DAMAGED: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Sound,
    Damaged,
    /// Sound, and not what was expected.
    Different,
    /// Damage cannot, or could not, be told from keys that were not synced.
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
    /// The digest of its contents, where one was expected.
    digest: Option<Digest>,
    verification: Option<Verification>,
}

pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode> {
    let mut files = Vec::new();
    for path in &args.files {
        let file = judge(path, args.expect.as_ref());
        // What could not be judged is an error, which quiet does not silence.
        if !args.print.format.json && (!args.print.quiet || file.verdict == Verdict::Unknown) {
            say(path, &file)?;
        }
        files.push(file);
    }
    let any = |verdict| files.iter().any(|file| file.verdict == verdict);
    let unsure = any(Verdict::Unknown) || any(Verdict::Unverifiable);
    let wrong = any(Verdict::Damaged) || any(Verdict::Different);
    let code = match (wrong, unsure) {
        (true, _) => ExitCode::from(EXIT_DAMAGED),
        (false, true) => ExitCode::from(EXIT_ERROR),
        (false, false) => ExitCode::SUCCESS,
    };
    if args.print.format.json {
        output::json(&VerifyOutput { schema: 1, files })?;
    }
    Ok(code)
}

fn judge(path: &Path, expected: Option<&Digest>) -> FileOutput {
    let file = path.display().to_string();
    let refuse = |error: bloomfile::Error| {
        let verdict = if error.is_damage() { Verdict::Damaged } else { Verdict::Unknown };
        (verdict, Some(explain(error.cause())))
    };
    let (mut verdict, mut reason, verification) = match bloomfile::report::verify(path) {
        Err(error) => {
            let (verdict, reason) = refuse(error);
            (verdict, reason, None)
        }
        Ok(found) if !found.pages_damaged.is_empty() => {
            (Verdict::Damaged, Some(damage(&found)), Some(found))
        }
        Ok(found) if !found.pages_busy.is_empty() => {
            (Verdict::Unknown, Some(busy(&found)), Some(found))
        }
        Ok(found) if !found.is_as_written() => {
            (Verdict::Unverifiable, Some(unverifiable(&found)), Some(found))
        }
        Ok(found) if !found.is_sound() => (Verdict::Unverifiable, Some(kept(&found)), Some(found)),
        Ok(found) => (Verdict::Sound, None, Some(found)),
    };
    let mut digest = None;
    // What recoveries kept has a digest that can be told from others.
    let has_digest = verification.as_ref().is_some_and(Verification::is_as_written);
    if let Some(expected) = expected.filter(|_| has_digest) {
        match bloomfile::ops::digest(path) {
            Ok(found) => {
                if found != *expected {
                    verdict = Verdict::Different;
                    reason = Some(format!("the digest of its contents is {found}"));
                }
                digest = Some(found);
            }
            Err(error) => (verdict, reason) = refuse(error),
        }
    }
    FileOutput { file, verdict, reason, digest, verification }
}

fn say(path: &Path, judged: &FileOutput) -> Result<()> {
    let FileOutput { verdict, reason, digest, verification, .. } = judged;
    let file = text::path(path);
    let reason = reason.as_deref().unwrap_or_default();
    let expected = if digest.is_some() { "; the digest is the one expected" } else { "" };
    match verdict {
        Verdict::Damaged => output::line(format_args!("{file}: damaged: {reason}")),
        Verdict::Different => output::line(format_args!("{file}: not what was expected: {reason}")),
        Verdict::Unverifiable => {
            output::line(format_args!("{file}: not verifiable: {reason}{expected}"))
        }
        Verdict::Unknown => {
            output::note(Failure::about(file, reason));
            Ok(())
        }
        Verdict::Sound => {
            let details = verification.as_ref().map(soundness).unwrap_or_default();
            output::line(format_args!("{file}: sound: {details}{expected}"))
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

/// What is left to say of pages that were not verifiable, once a writer took what they held.
fn kept(found: &Verification) -> String {
    format!(
        "{} kept by a recovery, or taken from another file, not verifiable then: keys that were \
         added and not synced, or damage (to be sure, build it again from the keys, or restore it \
         from a copy); now {}",
        units::counted(found.pages_kept_unverified, "page"),
        soundness(found),
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

//! `bloomfile remove`: keys out of a counting filter, durably.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::{CellKind, Error, Filter, Hasher};
use serde::Serialize;

use super::add::open;
use crate::args::RemoveArgs;
use crate::failure::{Failure, Result};
use crate::interrupt::Interruptible;
use crate::keys::{self, Piece, Sink};
use crate::{EXIT_ERROR, output, units};

/// Exit status when some keys were not in.
const EXIT_NOT_IN: u8 = 1;

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct RemoveOutput {
    schema: u32,
    file: String,
    keys: u64,
    removed: u64,
    absent: u64,
    ambiguous: u64,
}

pub(crate) fn run(args: RemoveArgs) -> Result<ExitCode> {
    let sources = keys::sources(args.keys.arguments, args.keys.inputs.from)?;
    let progress = Progress {
        path: args.file.clone(),
        quiet: args.print.quiet,
        filter: None,
        read: 0,
        removed: 0,
        ambiguous: 0,
    };
    let mut progress = Interruptible::new(progress, end_early)?;
    let filter = open(&args.file, args.print.quiet)?;
    if filter.kind() != CellKind::Counting {
        let message = "is a plain filter, and only a counting one lets keys be removed; make one \
                       with create --kind counting";
        return Err(Failure::about(args.file.display(), message));
    }
    let hasher = filter.hasher();
    progress.hold().filter = Some(filter);
    let mut removing = Removing { hasher, progress };
    let visited = keys::visit(&sources, &args.keys.inputs.written, args.print.quiet, &mut removing);

    let progress = removing.progress.hold();
    // Also when reading failed: what was removed is gone for this process's readers already.
    progress.finish()?;
    visited.map_err(|failure| {
        failure.and(format_args!("{} before it, {}", progress.keys(), progress.outcome()))
    })?;
    let file = args.file.display();
    if args.print.format.json {
        let Progress { read, removed, ambiguous, .. } = *progress;
        output::json(&RemoveOutput {
            schema: 1,
            file: file.to_string(),
            keys: read,
            removed,
            absent: read - removed - ambiguous,
            ambiguous,
        })?;
    } else if !args.print.quiet {
        output::line(format_args!("{file}: {} read, {}", progress.keys(), progress.outcome()))?;
    }
    Ok(match &*progress {
        Progress { ambiguous: 1.., .. } => ExitCode::from(EXIT_ERROR),
        Progress { read, removed, .. } if removed < read => ExitCode::from(EXIT_NOT_IN),
        _ => ExitCode::SUCCESS,
    })
}

/// How far the work has come.
struct Progress {
    path: PathBuf,
    quiet: bool,
    /// None before it is open and after it was closed.
    filter: Option<Filter>,
    /// Keys of the input.
    read: u64,
    removed: u64,
    /// Keys that stay because it is in doubt where they are.
    ambiguous: u64,
}

impl Progress {
    /// Removes the key of a record, or says why not.
    fn remove(&mut self, record: &[u8], hash: u64) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let (reason, is_error) = match filter.remove_hash(hash) {
            Ok(()) => ("", false),
            Err(Error::NotPresent) => ("is not in it", false),
            Err(Error::Ambiguous) => ("stays: more than one segment seems to hold it", true),
            Err(error) => return Err(Failure::file(&self.path)(error)),
        };
        self.read += 1;
        self.removed += u64::from(reason.is_empty());
        self.ambiguous += u64::from(is_error);
        if !reason.is_empty() && (is_error || !self.quiet) {
            // A key may hold anything: it must not steer the terminal.
            let key = String::from_utf8_lossy(record);
            let (file, key) = (self.path.display(), key.escape_debug());
            output::note(format_args!("{file}: {key} {reason}"));
        }
        Ok(())
    }

    /// Makes the removals durable.
    fn finish(&mut self) -> Result<()> {
        match self.filter.take() {
            Some(filter) => filter.close().map_err(Failure::file(&self.path)),
            None => Ok(()),
        }
    }

    fn keys(&self) -> String {
        units::counted(self.read, "key")
    }

    fn outcome(&self) -> String {
        format!("{} of them removed", units::count(self.removed))
    }
}

/// Makes safe what was removed, says how far that is, and returns the exit status.
fn end_early(progress: &mut Progress, status: i32) -> i32 {
    if progress.filter.is_none() {
        return status;
    }
    match progress.finish() {
        Ok(()) => {
            output::note(format_args!(
                "{}: interrupted: {} read, {}; go on with the keys after them",
                progress.path.display(),
                progress.keys(),
                progress.outcome(),
            ));
            status
        }
        Err(failure) => {
            output::note(failure);
            EXIT_ERROR.into()
        }
    }
}

/// Removes keys from an open filter.
struct Removing {
    hasher: Hasher,
    progress: Interruptible<Progress>,
}

/// The records of a piece: all of them one after the other, and for each where it ends and the
/// hash of its key.
#[derive(Default)]
struct Records {
    text: Vec<u8>,
    ends: Vec<(usize, u64)>,
}

impl Sink for Removing {
    type Part = Records;

    fn work(&self, piece: &mut Piece<'_>) -> Records {
        let mut records = Records::default();
        while let Some((record, key)) = piece.next() {
            let hash = self.hasher.hash(key);
            records.text.extend_from_slice(record);
            records.ends.push((records.text.len(), hash));
        }
        records
    }

    fn take(&mut self, records: Records) -> Result<ControlFlow<()>> {
        let mut start = 0;
        for (end, hash) in records.ends {
            self.progress.hold_or_end().remove(&records.text[start..end], hash)?;
            start = end;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn pause(&mut self) -> Result<()> {
        self.progress.let_go();
        Ok(())
    }
}

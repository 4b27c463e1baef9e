//! `bloomfile remove`: keys out of a counting filter, durably.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::{CellKind, Error, Filter, hash::Hasher};
use clap::Args;
use serde::Serialize;

use super::key_form;
use super::resume::Resume;
use super::writing::{open, skipped_note, unfinished_note};
use crate::failure::{Failure, Result};
use crate::interrupt::Interruptible;
use crate::keys::{self, Format, Piece, Position, Resumed, Sink, Source};
use crate::options::{KeyListArgs, PrintArgs, ResumeArgs, SecretArgs};
use crate::{EXIT_ERROR, output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Only a counting filter forgets single keys. Remove only what was added: a key that was not, and
seems to be in by mistake, takes others out with it. A key that was added twice has to be removed
twice; one that was added 15 times or more may stay for ever. When the command has ended, the
removals survive a power cut. Unlike add, the same command may not be given again, unless --resume
skips what was removed before; see bloomfile help add.

Exit status: 0 when every key was removed; 1 when some were not in: they are named, unless --quiet,
and the others were removed; 2 on error, and when the segments of a grown filter leave in doubt which
of them holds a key: such keys are named and stay. 129, 130 or 143 (128 + signal) when interrupted.

Examples:
  bloomfile remove users.bloom alice
  bloomfile remove users.bloom --from gone.txt
  bloomfile remove users.bloom --from gone.log --resume    only the lines that are new")]
pub(crate) struct RemoveArgs {
    /// The filter
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) keys: KeyListArgs,

    /// Make removals safe from a power cut after every N, not only at the end; 0: only at the end
    #[arg(long, value_name = "N", default_value = "1M", value_parser = units::parse_count)]
    pub(crate) sync_every: u64,

    #[command(flatten)]
    pub(crate) resuming: ResumeArgs,

    #[command(flatten)]
    pub(crate) secret: SecretArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

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
    skipped: u64,
    mark: Option<u64>,
    unfinished: bool,
}

pub(super) fn run(args: RemoveArgs) -> Result<ExitCode> {
    let quiet = args.print.quiet;
    if !quiet {
        keys::warn_of_file_names(&args.keys.arguments);
    }
    let sources = keys::sources(args.keys.arguments, args.keys.inputs.from.clone())?;
    let session = Session {
        path: args.file.clone(),
        quiet,
        sync_every: args.sync_every,
        resume: None,
        filter: None,
        read: 0,
        unsynced: 0,
        keys: 0,
        removed: 0,
        ambiguous: 0,
    };
    let mut session = Interruptible::new(session, end_early)?;
    let filter = open(&args.file, &args.secret, quiet)?;
    if filter.kind() != CellKind::Counting {
        let message = "is a plain filter, and only a counting one lets keys be removed; make one \
                       with create --kind counting";
        return Err(Failure::about(text::path(&args.file), message));
    }
    let hasher = filter.hasher();
    let form = key_form::for_file(&args.file, &filter.metadata(), &args.keys.inputs)?;
    let format = Format::new(&args.keys.inputs.records, form);
    let input = session.hold().start(filter, &args.resuming, &sources, (&format, quiet))?;
    let mut removing = Removing { hasher, session };
    let visited = match input {
        Some(input) => input.visit(&mut removing),
        None => keys::visit(&sources, &format, quiet, &mut removing).map(|()| false),
    };

    let session = removing.session.hold();
    // Also when reading failed: what was removed is gone for this process's readers already.
    let mark = session.finish()?;
    let unfinished = visited.map_err(|failure| {
        failure.and(format_args!("{} before it, {}", session.keys(), session.outcome()))
    })?;
    session.refuse_short_input()?;
    let skipped = session.read - session.keys;
    let file = text::path(&args.file);
    if args.print.format.json {
        let Session { keys, removed, ambiguous, .. } = *session;
        output::json(&RemoveOutput {
            schema: 1,
            file: args.file.display().to_string(),
            keys,
            removed,
            absent: keys - removed - ambiguous,
            ambiguous,
            skipped,
            mark,
            unfinished,
        })?;
    } else if !args.print.quiet {
        let mark = mark.map(|mark| format!("; mark {mark}"));
        output::line(format_args!(
            "{file}: {}{} read, {}{}{}",
            skipped_note(skipped),
            session.keys(),
            session.outcome(),
            mark.unwrap_or_default(),
            unfinished_note(unfinished, &format),
        ))?;
    }
    Ok(match &*session {
        Session { ambiguous: 1.., .. } => ExitCode::from(EXIT_ERROR),
        Session { keys, removed, .. } if removed < keys => ExitCode::from(EXIT_NOT_IN),
        _ => ExitCode::SUCCESS,
    })
}

/// The filter at work, and how far the work has come.
struct Session {
    path: PathBuf,
    quiet: bool,
    sync_every: u64,
    /// None when the input is not resumed.
    resume: Option<Resume>,
    /// None before it is open and after it was closed.
    filter: Option<Filter>,
    /// Keys of the input, those that were skipped included.
    read: u64,
    /// Keys since the last sync.
    unsynced: u64,
    /// Keys looked at.
    keys: u64,
    removed: u64,
    /// Keys that stay because it is in doubt where they are.
    ambiguous: u64,
}

impl Session {
    /// Takes the filter, and opens the input if it is to be resumed.
    fn start<'a>(
        &mut self,
        filter: Filter,
        args: &ResumeArgs,
        sources: &'a [Source],
        (format, quiet): (&Format, bool),
    ) -> Result<Option<Resumed<'a>>> {
        let mut input = None;
        if args.resume {
            let resume = Resume::new(&filter, "remove", args.from_start);
            let before = (resume.read, resume.position());
            let opened = Resumed::open(sources, format, quiet, filter.hasher(), before)?;
            resume.claim(&filter).map_err(Failure::file(&self.path))?;
            self.read = opened.before();
            self.resume = Some(resume);
            input = Some(opened);
        }
        self.filter = Some(filter);
        Ok(input)
    }

    /// Called with a position of the input ahead, before the keys up to it are removed.
    fn before(&mut self, position: Position) -> Result<()> {
        match (&self.filter, &mut self.resume) {
            (Some(filter), Some(resume)) => {
                resume.before(filter, position).map_err(Failure::file(&self.path))
            }
            _ => Ok(()),
        }
    }

    /// Removes a key, or says why not, and syncs when it is time to.
    fn remove(&mut self, written: &[u8], hash: u64) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        if self.resume.as_ref().is_some_and(|resume| self.read < resume.read) {
            self.read += 1;
            return Ok(());
        }
        let (reason, is_error) = match filter.remove_hash(hash) {
            Ok(()) => ("", false),
            Err(Error::NotPresent) => ("is not in it", false),
            Err(Error::Ambiguous) => ("stays: more than one segment seems to hold it", true),
            Err(error) => return Err(Failure::file(&self.path)(error)),
        };
        self.read += 1;
        self.keys += 1;
        self.unsynced += 1;
        self.removed += u64::from(reason.is_empty());
        self.ambiguous += u64::from(is_error);
        if !reason.is_empty() && (is_error || !self.quiet) {
            let (file, key) = (text::path(&self.path), text::key(written));
            output::note(format_args!("{file}: {key} {reason}"));
        }
        if self.unsynced == self.sync_every {
            let synced = match &mut self.resume {
                Some(resume) => resume.sync(filter, self.read),
                None => filter.sync(),
            };
            synced.map_err(Failure::file(&self.path))?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Makes the removals durable and tells the mark that was set.
    fn finish(&mut self) -> Result<Option<u64>> {
        let Some(filter) = self.filter.take() else { return Ok(None) };
        let (mark, marked) = match &mut self.resume {
            Some(resume) => {
                // Never back: an input may have ended, or been cut off, before the old mark.
                let mark = self.read.max(resume.read);
                (Some(mark), resume.sync(&filter, mark))
            }
            None => (None, Ok(())),
        };
        marked.and_then(|()| filter.close()).map_err(Failure::file(&self.path))?;
        Ok(mark)
    }

    fn refuse_short_input(&self) -> Result<()> {
        match &self.resume {
            Some(resume) => resume.refuse_short_input(&self.path, self.read),
            None => Ok(()),
        }
    }

    fn keys(&self) -> String {
        units::counted(self.keys, "key")
    }

    fn outcome(&self) -> String {
        format!("{} of them removed", units::count(self.removed))
    }
}

/// Makes safe what was removed, says how far that is, and returns the exit status.
fn end_early(session: &mut Session, status: i32) -> i32 {
    if session.filter.is_none() {
        return status;
    }
    match session.finish() {
        Ok(mark) => {
            let again = match mark {
                Some(mark) => format!("the same command goes on from mark {mark}"),
                None => "go on with the keys after them".into(),
            };
            output::note(format_args!(
                "{}: interrupted: {} read, {}; {again}",
                text::path(&session.path),
                session.keys(),
                session.outcome(),
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
    session: Interruptible<Session>,
}

/// The keys of a piece as they are written: all of them one after the other, and for each where it
/// ends and its hash.
#[derive(Default)]
struct Written {
    text: Vec<u8>,
    ends: Vec<(usize, u64)>,
}

impl Sink for Removing {
    type Output = Written;

    fn work(&self, piece: &mut Piece<'_>) -> Written {
        let mut written = Written::default();
        while let Some(key) = piece.next() {
            let hash = self.hasher.hash(key.bytes);
            written.text.extend_from_slice(key.text);
            written.ends.push((written.text.len(), hash));
        }
        written
    }

    fn accept(&mut self, written: Written) -> Result<ControlFlow<()>> {
        let mut start = 0;
        for (end, hash) in written.ends {
            self.session.hold_or_end().remove(&written.text[start..end], hash)?;
            start = end;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn before(&mut self, position: Position) -> Result<()> {
        self.session.hold_or_end().before(position)
    }

    fn pause(&mut self) -> Result<()> {
        self.session.let_go();
        Ok(())
    }
}

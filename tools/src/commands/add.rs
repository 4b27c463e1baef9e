//! `bloomfile add`: keys into a filter, durably.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::{CellKind, Filter, WhenFull, hash::Hasher};
use clap::Args;
use serde::Serialize;

use super::key_form;
use super::resume::{self, Resume};
use super::wording::warn_if_over_capacity;
use super::writing::{hashes, news, open, skipped_note, unfinished_note};
use crate::failure::{Failure, Result};
use crate::interrupt::Interruptible;
use crate::keys::{self, Format, Piece, Position, Resumed, Sink, Source};
use crate::options::{KeyListArgs, PrintArgs, ResumeArgs, SecretArgs};
use crate::{EXIT_ERROR, output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
When the command has ended without an error, all keys survive a power cut. Ended by Ctrl-C, kill or
the end of its terminal (SIGINT, SIGTERM, SIGHUP), it makes safe what it has added and says how far
it came. Adding a key again changes nothing, so the same command may always be given again; only a
counting filter counts it again, unless --resume skips it.

Keys that change the filter are new. The others are present already, or false positives: at a rate
of 1 %, up to one key in a hundred of those that are new.

Keys are read in the form that the file records. An option that contradicts it is an error. The first
keys of a file that records none set it.

--resume reads one input, a file or standard input. It is known again by its first and its last
bytes that were read, wherever it lies: a copy will do, and another input or one that was cut short
is an error. When a log was rotated, give the old one once more with --resume, then the new one with
--resume --from-start.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted.

Examples:
  bloomfile add seen.bloom example.org
  bloomfile add seen.bloom --from today.txt
  bloomfile add seen.bloom --from access.log --resume    only the lines that are new
  bloomfile add seen.bloom --from hosts.csv --csv --field host")]
pub(crate) struct AddArgs {
    /// The filter
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) keys: KeyListArgs,

    /// Make keys safe from a power cut after every N, not only at the end; 0: only at the end
    #[arg(long, value_name = "N", default_value = "1M", value_parser = units::parse_count)]
    pub(crate) sync_every: u64,

    /// Keep this number of yours with the keys once all are in: a position in their source, say;
    /// inspect shows it
    #[arg(long, value_name = "N", conflicts_with = "resume", value_parser = units::parse_count)]
    pub(crate) mark: Option<u64>,

    #[command(flatten)]
    pub(crate) resuming: ResumeArgs,

    #[command(flatten)]
    pub(crate) secret: SecretArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct AddOutput {
    schema: u32,
    file: String,
    keys: u64,
    new: u64,
    skipped: u64,
    mark: Option<u64>,
    unfinished: bool,
    pages_unverified: u64,
}

pub(super) fn run(args: AddArgs) -> Result<ExitCode> {
    let quiet = args.print.quiet;
    if !quiet {
        keys::warn_of_file_names(&args.keys.arguments);
    }
    let sources = keys::sources(args.keys.arguments, args.keys.inputs.from.clone())?;
    let session = Session {
        path: args.file.clone(),
        sync_every: args.sync_every,
        marking: args.mark.map_or(Marking::None, Marking::AtEnd),
        filter: None,
        one_by_one: false,
        read: 0,
        unsynced: 0,
        keys: 0,
        new: 0,
        pages_unverified: 0,
    };
    let mut session = Interruptible::new(session, end_early)?;

    let filter = open(&args.file, &args.secret, quiet)?;
    let form = key_form::for_file(&args.file, &filter.metadata(), &args.keys.inputs)?;
    let format = Format::new(&args.keys.inputs.records, form);
    key_form::record(&args.file, &filter, form, &args.keys.inputs, quiet)?;
    let hasher = filter.hasher();
    let input = session.hold().start(filter, &args.resuming, &sources, (&format, quiet))?;
    let mut adding = Adding { hasher, session };
    let visited = match input {
        Some(input) => input.visit(&mut adding),
        None => keys::visit(&sources, &format, quiet, &mut adding).map(|()| false),
    };

    let session = adding.session.hold();
    // Also when reading failed: what was added stays, so it shall be safe.
    let mark = session.finish(visited.is_ok())?;
    let keys = units::counted(session.keys, "key");
    let unfinished = visited.map_err(|failure| {
        let were = if session.keys == 1 { "was" } else { "were" };
        failure.and(format_args!("{keys} {were} added before it"))
    })?;
    session.refuse_short_input()?;
    if quiet {
        return Ok(ExitCode::SUCCESS);
    }
    tell_of_file(&args.file)?;
    let skipped = session.read - session.keys;
    if args.print.format.json {
        output::json(&AddOutput {
            schema: 1,
            file: args.file.display().to_string(),
            keys: session.keys,
            new: session.new,
            skipped,
            mark,
            unfinished,
            pages_unverified: session.pages_unverified,
        })?;
    } else {
        let mark = mark.map(|mark| format!("; mark {mark}"));
        output::line(format_args!(
            "{}: {}{keys} read{}{}{}{}",
            text::path(&args.file),
            skipped_note(skipped),
            news(session.keys, session.new),
            mark.unwrap_or_default(),
            unfinished_note(unfinished, &format),
            unverified_note(session.pages_unverified),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the journal was full, or there is none: damage that came to these pages while they were
/// added to would not be known.
fn unverified_note(pages: u64) -> String {
    match pages {
        0 => String::new(),
        pages => {
            format!("; {} with a new checksum that no records prove", units::counted(pages, "page"))
        }
    }
}

/// Warns when the segment of a file that takes the adds holds more keys than it was made for; says
/// that a file which was built to be shipped has no journal.
fn tell_of_file(path: &Path) -> Result<()> {
    let inspection = bloomfile::report::inspect(path).map_err(Failure::file(path))?;
    if inspection.journal_bytes == 0 {
        let word = text::word(path);
        output::note(format_args!(
            "{}: note: it has no journal, so that each sync writes whole pages; to give it one: \
             bloomfile compact -fo {word} {word} --journal 1MiB",
            text::path(path)
        ));
    }
    if let Some(newest) = inspection.segments.last() {
        let remedy = match inspection.generations {
            Some(_) => "rotate it",
            None => "build a larger one",
        };
        warn_if_over_capacity(path, newest.adds, newest.capacity, remedy);
    }
    Ok(())
}

/// What becomes of the mark.
enum Marking {
    /// It stays.
    None,
    /// It becomes this once all keys are in.
    AtEnd(u64),
    /// It is the number of keys read from the input.
    Position(Resume),
}

/// The filter at work, and how far the work has come.
struct Session {
    path: PathBuf,
    sync_every: u64,
    marking: Marking,
    /// None before it is open and after it was closed.
    filter: Option<Filter>,
    /// Whether keys are added one at a time: where one may be refused, and where adding one again
    /// makes a difference, it has to be known exactly how far the work has come.
    one_by_one: bool,
    /// Keys of the input, those that were skipped included.
    read: u64,
    /// Keys handed to the filter since the last sync.
    unsynced: u64,
    /// Keys handed to the filter.
    keys: u64,
    /// Those that changed it.
    new: u64,
    /// Pages that got a new checksum without proof that they were what the old one says.
    pages_unverified: u64,
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
        let inspection =
            bloomfile::report::inspect(&self.path).map_err(Failure::file(&self.path))?;
        self.one_by_one =
            inspection.when_full == WhenFull::Refuse || inspection.kind == CellKind::Counting;
        let mut input = None;
        if args.resume {
            let resume = Resume::new(&filter, "add", args.from_start);
            let before = (resume.read, resume.position());
            let opened = Resumed::open(sources, format, quiet, filter.hasher(), before)?;
            resume.claim(&filter).map_err(Failure::file(&self.path))?;
            self.read = opened.before();
            self.marking = Marking::Position(resume);
            input = Some(opened);
        }
        self.filter = Some(filter);
        Ok(input)
    }

    /// Adds keys by their hashes, and syncs whenever it is time to.
    fn add(&mut self, mut hashes: &[u64]) -> Result<()> {
        if let Marking::Position(resume) = &self.marking {
            let left = resume.read.saturating_sub(self.read);
            let skipped = left.min(hashes.len() as u64);
            self.read += skipped;
            hashes = &hashes[skipped as usize..];
        }
        let failed = Failure::file(&self.path);
        let Some(filter) = &self.filter else { return Ok(()) };
        while !hashes.is_empty() {
            let until_sync =
                if self.one_by_one { 1 } else { self.sync_every.saturating_sub(self.unsynced) };
            let (now, later) = match usize::try_from(until_sync) {
                Ok(count @ 1..) if count < hashes.len() => hashes.split_at(count),
                _ => (hashes, &[][..]),
            };
            self.new += filter.add_hash_batch(now).map_err(&failed)?;
            self.read += now.len() as u64;
            self.keys += now.len() as u64;
            self.unsynced += now.len() as u64;
            if self.unsynced == self.sync_every {
                match &mut self.marking {
                    Marking::Position(resume) => resume.sync(filter, self.read),
                    _ => filter.sync(),
                }
                .map_err(&failed)?;
                self.unsynced = 0;
            }
            hashes = later;
        }
        Ok(())
    }

    /// Called with a position of the input ahead, before the keys up to it are added.
    fn before(&mut self, position: Position) -> Result<()> {
        match (&self.filter, &mut self.marking) {
            (Some(filter), Marking::Position(resume)) => {
                resume.before(filter, position).map_err(Failure::file(&self.path))
            }
            _ => Ok(()),
        }
    }

    /// Closes the filter and tells the mark that was set.
    fn finish(&mut self, complete: bool) -> Result<Option<u64>> {
        let Some(filter) = self.filter.take() else { return Ok(None) };
        let (mark, marked) = match &mut self.marking {
            Marking::AtEnd(mark) if complete => (Some(*mark), resume::set_mark(&filter, *mark)),
            Marking::Position(resume) => {
                // Never back: an input may have ended, or been cut off, before the old mark.
                let mark = self.read.max(resume.read);
                (Some(mark), resume.sync(&filter, mark))
            }
            _ => (None, Ok(())),
        };
        let failed = Failure::file(&self.path);
        self.pages_unverified =
            marked.and_then(|()| filter.close_and_count_unverified()).map_err(&failed)?;
        Ok(mark)
    }

    fn refuse_short_input(&self) -> Result<()> {
        match &self.marking {
            Marking::Position(resume) => resume.refuse_short_input(&self.path, self.read),
            _ => Ok(()),
        }
    }
}

/// Makes safe what was added, says how far that is, and returns the exit status.
fn end_early(session: &mut Session, status: i32) -> i32 {
    let Some(filter) = &session.filter else { return status };
    let counts = filter.kind() == CellKind::Counting;
    match session.finish(false) {
        Ok(mark) => {
            let again = match (mark, &session.marking) {
                (Some(mark), _) => format!("the same command goes on from mark {mark}"),
                (None, _) if counts => {
                    "go on with the keys after them: these would count twice".into()
                }
                (None, Marking::AtEnd(_)) => {
                    "the same command goes on from the start; the mark was not set".into()
                }
                (None, _) => "the same command goes on from the start".into(),
            };
            output::note(format_args!(
                "{}: interrupted: {} read{}; what was added is safe; {again}",
                text::path(&session.path),
                units::counted(session.keys, "key"),
                news(session.keys, session.new),
            ));
            status
        }
        Err(failure) => {
            output::note(failure);
            EXIT_ERROR.into()
        }
    }
}

/// Adds keys to an open filter.
struct Adding {
    hasher: Hasher,
    session: Interruptible<Session>,
}

/// Keys added before it is looked whether someone wants it to end.
const KEYS_AT_ONCE: usize = 1 << 14;

impl Sink for Adding {
    type Output = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.hasher, piece)
    }

    fn accept(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        for hashes in hashes.chunks(KEYS_AT_ONCE) {
            self.session.hold_or_end().add(hashes)?;
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

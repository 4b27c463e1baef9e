//! `bloomfile add`: keys into a filter, durably.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::{CellKind, Filter, Hasher, Recovery, WhenFull};
use serde::Serialize;

use super::{records, warn_if_over_capacity};
use crate::args::AddArgs;
use crate::failure::{Failure, Result};
use crate::interrupt::Interruptible;
use crate::keys::{self, Piece, Sink};
use crate::{EXIT_ERROR, output, units};

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct AddOutput {
    schema: u32,
    file: String,
    keys: u64,
    new: u64,
    skipped: u64,
    mark: Option<u64>,
}

pub(crate) fn run(args: AddArgs) -> Result<ExitCode> {
    let sources = keys::sources(args.keys.arguments, args.keys.inputs.from)?;
    let marking = match (args.resume, args.mark) {
        (true, _) => Marking::Position { skip: 0 },
        (false, Some(mark)) => Marking::AtEnd(mark),
        (false, None) => Marking::None,
    };
    let progress = Progress {
        path: args.file.clone(),
        sync_every: args.sync_every,
        marking,
        filter: None,
        one_by_one: false,
        read: 0,
        unsynced: 0,
        keys: 0,
        new: 0,
    };
    let mut progress = Interruptible::new(progress, end_early)?;

    let filter = open(&args.file, args.print.quiet)?;
    let hasher = filter.hasher();
    progress.hold().start(filter)?;
    let mut adding = Adding { hasher, progress };
    let visited = keys::visit(&sources, &args.keys.inputs.written, args.print.quiet, &mut adding);

    let progress = adding.progress.hold();
    // Also when reading failed: what was added stays, so it shall be safe.
    let mark = progress.finish(visited.is_ok())?;
    let keys = units::counted(progress.keys, "key");
    visited.map_err(|failure| {
        let were = if progress.keys == 1 { "was" } else { "were" };
        failure.and(format_args!("{keys} {were} added before it"))
    })?;
    progress.refuse_short_input()?;
    if !args.print.quiet {
        warn_if_overfull(&args.file)?;
        if args.print.format.json {
            output::json(&AddOutput {
                schema: 1,
                file: args.file.display().to_string(),
                keys: progress.keys,
                new: progress.new,
                skipped: progress.read - progress.keys,
                mark,
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        let skipped = match progress.read - progress.keys {
            0 => String::new(),
            skipped => format!("{} skipped, ", units::counted(skipped, "key")),
        };
        let mark = mark.map(|mark| format!("; mark {mark}"));
        output::line(format_args!(
            "{}: {skipped}{keys} read, {} of them new{}",
            args.file.display(),
            units::count(progress.new),
            mark.unwrap_or_default(),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a filter for writing, and says so if it had to be recovered.
pub(super) fn open(path: &Path, quiet: bool) -> Result<Filter> {
    let filter = Filter::open(path).map_err(Failure::file(path))?;
    if let Some(recovery) = filter.recovery().filter(|_| !quiet) {
        tell_recovery(path, recovery, filter.kind());
    }
    Ok(filter)
}

/// Warns when the part of a file that takes the adds holds more keys than it was made for.
fn warn_if_overfull(path: &Path) -> Result<()> {
    let inspection = bloomfile::inspect(path).map_err(Failure::file(path))?;
    if let Some(newest) = inspection.segments.last() {
        let remedy = match inspection.generations {
            Some(_) => "rotate it",
            None => "build a larger one",
        };
        warn_if_over_capacity(path, newest.adds, newest.capacity, remedy);
    }
    Ok(())
}

fn tell_recovery(path: &Path, recovery: &Recovery, kind: CellKind) {
    let missing = match recovery.records_missing {
        0 => String::new(),
        count => format!(", {} that had not been synced lost", units::counted(count, "record")),
    };
    output::note(format_args!(
        "{}: recovered after a crash: {} replayed{missing}, {} with bits that had not been synced",
        path.display(),
        records(recovery.records_replayed, kind),
        units::counted(recovery.pages_unsynced, "page"),
    ));
}

/// What becomes of the mark.
enum Marking {
    /// It stays.
    None,
    /// It becomes this once all keys are in.
    AtEnd(u64),
    /// It is the number of keys read from the input, of which so many were added before.
    Position { skip: u64 },
}

/// How far the work has come.
struct Progress {
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
}

impl Progress {
    fn start(&mut self, filter: Filter) -> Result<()> {
        let inspection = bloomfile::inspect(&self.path).map_err(Failure::file(&self.path))?;
        self.one_by_one =
            inspection.when_full == WhenFull::Refuse || inspection.kind == CellKind::Counting;
        if let Marking::Position { skip } = &mut self.marking {
            *skip = filter.mark();
        }
        self.filter = Some(filter);
        Ok(())
    }

    /// Adds keys by their hashes, and syncs whenever it is time to.
    fn add(&mut self, mut hashes: &[u64]) -> Result<()> {
        if let Marking::Position { skip } = self.marking {
            let skipped = skip.saturating_sub(self.read).min(hashes.len() as u64);
            self.read += skipped;
            hashes = &hashes[skipped as usize..];
        }
        let failed = Failure::file(&self.path);
        let Some(filter) = &self.filter else { return Ok(()) };
        while !hashes.is_empty() {
            let until_sync = match self.one_by_one {
                true => 1,
                false => self.sync_every.saturating_sub(self.unsynced),
            };
            let (now, later) = match usize::try_from(until_sync) {
                Ok(count @ 1..) if count < hashes.len() => hashes.split_at(count),
                _ => (hashes, &[][..]),
            };
            self.new += filter.add_hash_batch(now).map_err(&failed)?;
            self.read += now.len() as u64;
            self.keys += now.len() as u64;
            self.unsynced += now.len() as u64;
            if self.unsynced == self.sync_every {
                match self.marking {
                    Marking::Position { .. } => filter.sync_with_mark(self.read),
                    _ => filter.sync(),
                }
                .map_err(&failed)?;
                self.unsynced = 0;
            }
            hashes = later;
        }
        Ok(())
    }

    /// Closes the filter and tells the mark that was set.
    fn finish(&mut self, complete: bool) -> Result<Option<u64>> {
        let Some(filter) = self.filter.take() else { return Ok(None) };
        let mark = match self.marking {
            Marking::AtEnd(mark) if complete => Some(mark),
            // Never back: an input may have ended, or been cut off, before the old mark.
            Marking::Position { skip } => Some(self.read.max(skip)),
            _ => None,
        };
        let failed = Failure::file(&self.path);
        if let Some(mark) = mark {
            filter.sync_with_mark(mark).map_err(&failed)?;
        }
        filter.close().map_err(&failed)?;
        Ok(mark)
    }

    fn refuse_short_input(&self) -> Result<()> {
        match self.marking {
            Marking::Position { skip } if self.read < skip => {
                let (read, skip) = (units::count(self.read), units::counted(skip, "key"));
                let message = format!(
                    "its mark says that {skip} were read before, and the input has only {read}; is \
                     it the same input? --mark 0 lets the next --resume start from its beginning"
                );
                Err(Failure::about(self.path.display(), message))
            }
            _ => Ok(()),
        }
    }
}

/// Makes safe what was added, says how far that is, and returns the exit status.
fn end_early(progress: &mut Progress, status: i32) -> i32 {
    let Some(filter) = &progress.filter else { return status };
    let counts = filter.kind() == CellKind::Counting;
    match progress.finish(false) {
        Ok(mark) => {
            let again = match (mark, &progress.marking) {
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
                "{}: interrupted: {} read, {} of them new, all of them safe; {again}",
                progress.path.display(),
                units::counted(progress.keys, "key"),
                units::count(progress.new),
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
    progress: Interruptible<Progress>,
}

/// Keys added before it is looked whether someone wants it to end.
const KEYS_AT_ONCE: usize = 1 << 14;

impl Sink for Adding {
    type Part = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.hasher, piece)
    }

    fn take(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        for hashes in hashes.chunks(KEYS_AT_ONCE) {
            self.progress.hold_or_end().add(hashes)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn pause(&mut self) -> Result<()> {
        self.progress.let_go();
        Ok(())
    }
}

/// The hashes of the keys of a piece, in order.
pub(super) fn hashes(hasher: Hasher, piece: &mut Piece<'_>) -> Vec<u64> {
    let mut hashes = Vec::new();
    while let Some((_, key)) = piece.next() {
        hashes.push(hasher.hash(key));
    }
    hashes
}

//! `bloomfile add`: keys into a filter, durably.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use bloomfile::Filter;

use super::warn_if_over_capacity;
use crate::args::AddArgs;
use crate::failure::{Failure, Result};
use crate::keys::{self, Sink};
use crate::{output, units};

pub(crate) fn run(args: AddArgs) -> Result<ExitCode> {
    let sources = keys::sources(args.arguments, args.from)?;
    let failed = Failure::file(&args.file);
    let filter = Filter::open(&args.file).map_err(&failed)?;
    if let Some(recovery) = filter.recovery().filter(|_| !args.quiet) {
        output::note(format_args!(
            "{}: recovered after a crash: {} replayed, {} with bits that had not been synced",
            args.file.display(),
            units::counted(recovery.records_replayed, "add"),
            units::counted(recovery.pages_unsynced, "page"),
        ));
    }
    let mut adding = Adding { path: &args.file, filter: &filter, keys: 0, new: 0 };
    let visited = keys::visit(&sources, &args.keys, &mut adding);
    let (keys, new) = (adding.keys, adding.new);
    let (adds, capacity) = (filter.adds(), filter.capacity());
    // Also when reading failed: what was added stays, so it shall be safe.
    filter.close().map_err(&failed)?;
    visited.map_err(|failure| failure.and(format_args!("{} added before it", were(keys))))?;
    if !args.quiet {
        warn_if_over_capacity(&args.file, adds, capacity);
        let (file, keys) = (args.file.display(), units::counted(keys, "key"));
        output::line(format_args!("{file}: {keys} read, {} of them new", units::count(new)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn were(keys: u64) -> String {
    format!("{} {}", units::counted(keys, "key"), if keys == 1 { "was" } else { "were" })
}

/// Adds keys to an open filter.
struct Adding<'a> {
    path: &'a Path,
    filter: &'a Filter,
    keys: u64,
    new: u64,
}

impl Sink for Adding<'_> {
    fn key(&mut self, _record: &[u8], key: &[u8]) -> Result<ControlFlow<()>> {
        let new = self.filter.add(key).map_err(Failure::file(self.path))?;
        self.keys += 1;
        self.new += u64::from(new);
        Ok(ControlFlow::Continue(()))
    }
}

//! `--resume`: how far an input was read, kept in the filter with the keys.
//!
//! The mark is the number of keys read. It becomes durable with the keys, in the journal; metadata
//! become durable with checkpoints only. So the metadata never have to be as new as the mark:
//!
//! | pair | holds |
//! | --- | --- |
//! | `resume.mark` | whose position the mark is: `add` or `remove` |
//! | `resume.add`, `resume.remove` | keys read at least, and a [`Position`] by which the input is known again |
//!
//! The position of the operation that has the mark is the greater of the two numbers, that of the
//! other one is its pair's. A position of a new input is durable before the first mark that counts its
//! keys is; after that, any position of it will do. Only when the mark changes hands, or starts again,
//! it goes back: to 0 first, under the pairs as they were, which then say where it stood.

use std::path::Path;

use bloomfile::Filter;

use crate::failure::{Failure, Result};
use crate::keys::{Position, WHEN_ROTATED};
use crate::{text, units};

const OWNER: &str = "resume.mark";
const OPERATIONS: [&str; 2] = ["add", "remove"];

fn pair(operation: &str) -> String {
    format!("resume.{operation}")
}

/// The operation whose position the mark is.
fn owner(filter: &Filter) -> Option<&'static str> {
    let owner = filter.metadata().remove(OWNER)?;
    OPERATIONS.into_iter().find(|&operation| operation == owner)
}

/// What the metadata say of an input.
#[derive(Clone, Default)]
struct Entry {
    /// Keys read, or more.
    read: u64,
    position: Option<Position>,
}

impl Entry {
    fn of(filter: &Filter, operation: &str) -> Self {
        let metadata = filter.metadata();
        let Some(text) = metadata.get(&pair(operation)) else { return Entry::default() };
        let mut words = text.split(' ');
        let read = words.next().and_then(|word| word.strip_prefix("read=")?.parse().ok());
        Entry { read: read.unwrap_or(0), position: Position::parse(words) }
    }

    fn keep(&self, filter: &Filter, operation: &str) -> bloomfile::Result<()> {
        let mut text = format!("read={}", self.read);
        if let Some(position) = &self.position {
            text.push_str(&format!(" {position}"));
        }
        filter.set_metadata(&pair(operation), Some(&text))
    }
}

/// How far the input of an operation was read.
pub(super) struct Resume {
    operation: &'static str,
    /// Keys that were read in earlier runs.
    pub(super) read: u64,
    entry: Entry,
    /// Whether the file holds a position of this input, durably.
    bound: bool,
    /// Whether the mark is to become this operation's, or 0.
    claims: bool,
}

impl Resume {
    /// Where the operation stands; `from_start` puts it at the start.
    pub(super) fn new(filter: &Filter, operation: &'static str, from_start: bool) -> Self {
        let owner = owner(filter);
        let mut entry = Entry::of(filter, operation);
        match owner {
            _ if from_start => entry = Entry::default(),
            Some(owner) if owner == operation => entry.read = entry.read.max(filter.mark()),
            Some(_) => {}
            // A number that the user gave, with no input to know again.
            None => entry = Entry { read: filter.mark(), position: None },
        }
        let claims = from_start || owner != Some(operation);
        let bound = entry.position.is_some();
        Resume { operation, read: entry.read, entry, bound, claims }
    }

    /// Makes the mark this operation's, once its input is open.
    pub(super) fn claim(&self, filter: &Filter) -> bloomfile::Result<()> {
        if !self.claims {
            return Ok(());
        }
        if let Some(owner) = owner(filter) {
            let mut entry = Entry::of(filter, owner);
            entry.read = entry.read.max(filter.mark());
            entry.keep(filter, owner)?;
            filter.checkpoint()?;
            filter.sync_with_mark(0)?;
        } else if filter.mark() > self.read {
            filter.sync_with_mark(0)?;
        }
        filter.set_metadata(OWNER, Some(self.operation))?;
        self.entry.keep(filter, self.operation)?;
        filter.checkpoint()
    }

    /// A position in the input that was read before.
    pub(super) fn position(&self) -> Option<Position> {
        self.entry.position.clone()
    }

    /// Called with a position ahead, before the keys up to it are handed to the filter.
    pub(super) fn before(&mut self, filter: &Filter, position: Position) -> bloomfile::Result<()> {
        self.entry.position = Some(position);
        if !self.bound {
            self.entry.keep(filter, self.operation)?;
            filter.checkpoint()?;
            self.bound = true;
        }
        Ok(())
    }

    /// Makes what was done durable together with the number of keys read.
    pub(super) fn sync(&mut self, filter: &Filter, read: u64) -> bloomfile::Result<()> {
        filter.sync_with_mark(read)?;
        self.entry.read = read;
        // Durable with the next checkpoint or the close, with this mark or a later one.
        self.entry.keep(filter, self.operation)
    }

    /// Refuses an input that has fewer keys than were read before.
    pub(super) fn refuse_short_input(&self, path: &Path, read: u64) -> Result<()> {
        if read >= self.read {
            return Ok(());
        }
        let (read, before) = (units::count(read), units::counted(self.read, "key"));
        let message = format!(
            "its mark says that {before} were read before, and the input has only {read}; \
             {WHEN_ROTATED}"
        );
        Err(Failure::about(text::path(path), message))
    }
}

/// Sets the mark to a number of the user's own, which is no position of an input.
pub(super) fn set_mark(filter: &Filter, mark: u64) -> bloomfile::Result<()> {
    if filter.metadata().contains_key(OWNER) {
        filter.set_metadata(OWNER, None)?;
        for operation in OPERATIONS {
            filter.set_metadata(&pair(operation), None)?;
        }
        filter.checkpoint()?;
    }
    filter.sync_with_mark(mark)
}

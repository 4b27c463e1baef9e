//! Keys as the user gives them: arguments, lines, fields, hex digits, numbers.
//!
//! An input is cut into pieces of whole records. Regular files are read and worked on by all cores,
//! several pieces at a time; what comes through a pipe, and CSV, is worked on as it comes. Either way
//! the results are accepted in the order of the input.

mod csv;
mod file;
mod form;
mod format;
mod json;
mod look;
mod piece;
mod position;
mod progress;
mod resume;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod texts;

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

use bloomfile::hash::Encoding;
pub(crate) use form::{FormOptions, RESERVED, on_file};
pub(crate) use format::{Field, Format};
pub(crate) use json::JsonPath;
pub(crate) use look::FILTER;
use piece::Outcome;
pub(crate) use piece::{Bad, Key, Piece};
use position::Fingerprint;
pub(crate) use position::Position;
pub(crate) use progress::Progress;
use resume::Tracker;
pub(crate) use resume::{Resumed, WHEN_ROTATED};
pub(crate) use source::{Source, sources, warn_of_file_names};

use crate::failure::{Failure, Result};
use crate::{output, platform, text, units};

/// Longest key: a file without a single separator is not a list of keys.
const MAX_KEY_BYTES: usize = 256 << 20;

/// What is done with keys.
pub(crate) trait Sink: Sync {
    /// What the keys of a piece give.
    type Output: Send;

    /// Works on the keys of a piece; several pieces are worked on at the same time.
    fn work(&self, piece: &mut Piece<'_>) -> Self::Output;

    /// Accepts what a piece gave, in the order of the input; breaks when no more is needed.
    fn accept(&mut self, output: Self::Output) -> Result<ControlFlow<()>>;

    /// Called with the first bytes of an input, before anything of it is accepted.
    fn begin(&mut self, _source: &Source, _first: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Called before a piece is accepted that goes as far as `position`, where an input is
    /// [resumed](Resumed).
    fn before(&mut self, _position: Position) -> Result<()> {
        Ok(())
    }

    /// Called when everything read so far was accepted and reading on may take a while.
    fn pause(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Hands every key of the sources to the sink, in bounded memory.
///
/// Shows how far it is when standard error is a terminal, unless `quiet`.
pub(crate) fn visit(
    sources: &[Source],
    format: &Format,
    quiet: bool,
    sink: &mut impl Sink,
) -> Result<()> {
    for source in sources {
        let mut input = Input::new(source, format, quiet);
        let flow = match source {
            Source::Argument(_, argument) => {
                let mut piece = Piece::argument(argument, format);
                let output = sink.work(&mut piece);
                let outcome = piece.outcome();
                input.accept(sink, argument, output, outcome)?
            }
            Source::Stdin => {
                let stdin = io::stdin().lock();
                tell_if_terminal(&stdin);
                match source::regular() {
                    Some((file, start)) => input.visit_file(&file, start, sink)?,
                    None => input.visit_stream(stdin, &Progress::none(), sink)?,
                }
            }
            Source::File(path) => {
                let (file, is_regular) = source::open(source, path)?;
                if is_regular {
                    input.visit_file(&file, 0, sink)?
                } else {
                    input.visit_stream(file, &Progress::none(), sink)?
                }
            }
        };
        input.tell_missing();
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

fn tell_if_terminal(stdin: &io::StdinLock<'_>) {
    if stdin.is_terminal() {
        output::note(format_args!(
            "reading keys from the terminal, one per line; {} ends them",
            platform::END_OF_INPUT
        ));
    }
}

/// An input while it is read.
struct Input<'a> {
    source: &'a Source,
    /// As the command line has it; names of fields become numbers by the header of this input.
    format: Format,
    quiet: bool,
    /// Records accepted so far, or skipped.
    number: u64,
    /// Those of them that lack the field and were passed over.
    missing: u64,
    /// Whether its first bytes are still to be looked at.
    is_new: bool,
    /// How far it was read, where that is kept.
    tracker: Option<Tracker>,
}

impl<'a> Input<'a> {
    fn new(source: &'a Source, format: &Format, quiet: bool) -> Self {
        let is_new = !matches!(source, Source::Argument(..));
        let format = format.clone();
        Input { source, format, quiet, number: 0, missing: 0, is_new, tracker: None }
    }

    /// Whether the last record counts although nothing ends it.
    fn takes_unfinished(&self) -> bool {
        self.tracker.is_none()
    }

    /// Accepts what a piece gave, then refuses the record that ended it, if one did.
    fn accept<S: Sink>(
        &mut self,
        sink: &mut S,
        piece: &[u8],
        output: S::Output,
        outcome: Outcome,
    ) -> Result<ControlFlow<()>> {
        if self.is_new && !piece.is_empty() {
            self.is_new = false;
            sink.begin(self.source, piece)?;
            if let Some(warning) = look::warning(piece, &self.format).filter(|_| !self.quiet) {
                output::note(format_args!("{}: warning: {warning}", self.source));
            }
        }
        if let Some(tracker) = &mut self.tracker {
            let good = outcome.bad.map_or(piece.len(), |(start, _)| start);
            let keys = self.number + outcome.records - u64::from(outcome.bad.is_some());
            let positions = tracker.pass(&piece[..good], &self.format, self.number, keys);
            for position in positions.map_err(|mismatch| mismatch.of(self.source))? {
                sink.before(position)?;
            }
        }
        let flow = sink.accept(output)?;
        self.number += outcome.records;
        self.missing += outcome.missing;
        match outcome.bad.filter(|_| flow.is_continue()) {
            Some((_, bad)) => Err(self.refuse(bad)),
            None => Ok(flow),
        }
    }

    /// Passes over what stands in front of the first key; its length, once enough of the input is
    /// there.
    fn begin(&mut self, bytes: &[u8], is_all: bool) -> Result<Option<usize>> {
        self.format.begin(bytes, is_all).map_err(|missing| {
            let fields: Vec<String> = missing
                .fields
                .iter()
                .map(|field| text::key(field.as_bytes()).to_string())
                .collect();
            let message = format!(
                "its header has no field {}; it has {}",
                text::key(missing.name.as_bytes()),
                fields.join(", ")
            );
            Failure::about(self.source, message)
        })
    }

    /// What is wrong with the last record.
    fn refuse(&self, bad: Bad) -> Failure {
        let record = match self.source {
            Source::Argument(..) => String::new(),
            _ => format!("{} {} ", self.format.record_name(), self.number),
        };
        let reason = match bad {
            Bad::Hex => {
                "is not hex; with --hex a key is written as two digits for each byte".into()
            }
            Bad::Number(Encoding::Decimal) => {
                "is not a whole number; with --encoding decimal a key is written in decimal digits"
                    .into()
            }
            Bad::Number(_) => {
                "is not a whole number of 64 bits; with --encoding le64 or be64 a key \
                               is written in decimal digits"
                    .into()
            }
            Bad::Field => format!(
                "has no {}; check the options for fields, or pass over such {}s with --skip-missing",
                self.format.field_name(),
                self.format.record_name(),
            ),
            Bad::Json => "is not JSON; --json-field reads one JSON value from each line".into(),
            Bad::Quote => "has a quote that is never closed; is this CSV?".into(),
        };
        Failure::about(self.source, format!("{record}{reason}"))
    }

    /// Says how many records were passed over, if some were.
    fn tell_missing(&self) {
        if self.missing > 0 && !self.quiet {
            output::note(format_args!(
                "{}: {} of {} without a {} passed over",
                self.source,
                units::count(self.missing),
                units::counted(self.number, self.format.record_name()),
                self.format.field_name(),
            ));
        }
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        Failure::about(self.source, format!("cannot read the keys: {error}"))
    }

    fn too_long(&self) -> Failure {
        let message = format!(
            "{} {} is longer than {MAX_KEY_BYTES} bytes; is this a list of keys?",
            self.format.record_name(),
            self.number + 1
        );
        Failure::about(self.source, message)
    }
}

//! Inputs of which a part was read before: logs that grow.
//!
//! Only records that have ended count, for the rest of the last one may be on its way. The position
//! that was reached is known again by what stands before it, so that another input, or one that was
//! cut short, is not taken for the same.

use std::fs::File;
use std::io::{self, Read};

use bloomfile::hash::Hasher;

use super::source::{open, regular};
use super::{Fingerprint, Format, Input, Position, Progress, Sink, Source, tell_if_terminal};
use crate::failure::{Failure, Result};
use crate::units;

/// Bytes of a new input that are told as its first position: few, so that it is known again even if
/// the process is killed before it came any further.
const FIRST_BYTES: usize = 4096;

/// How far an input was read.
pub(super) struct Tracker {
    fingerprint: Fingerprint,
    /// A position that was reached before and has not been passed yet.
    expected: Option<Position>,
    /// Whether a position of this input was told, now or in an earlier run.
    told: bool,
    /// Whether a record was left because nothing ends it.
    pub(super) unfinished: bool,
}

/// Why an input is not the one of a position.
#[derive(Debug)]
pub(super) enum Mismatch {
    Shorter { bytes: u64 },
    Other { bytes: u64 },
}

impl Mismatch {
    pub(super) fn of(self, source: &Source) -> Failure {
        let what = match self {
            Mismatch::Shorter { bytes } => {
                format!(
                    "is shorter than the {} that were read of it before",
                    units::counted(bytes, "byte")
                )
            }
            Mismatch::Other { bytes } => format!(
                "is not the input that was read: its first {} are others now",
                units::counted(bytes, "byte")
            ),
        };
        Failure::about(source, format!("{what}; {WHEN_ROTATED}"))
    }
}

/// What to do with an input that is not the one of before.
pub(crate) const WHEN_ROTATED: &str = "if the log was rotated, finish the old one first; then \
                                       --from-start reads this one from its beginning";

impl Tracker {
    /// Goes on by a piece of whole records, with the number of the last record before it and of its
    /// own last one. Tells the positions in it that are worth keeping.
    pub(super) fn pass(
        &mut self,
        piece: &[u8],
        format: &Format,
        before: u64,
        last: u64,
    ) -> Result<Vec<Position>, Mismatch> {
        let mut positions = Vec::new();
        if piece.is_empty() {
            return Ok(positions);
        }
        if let Some(expected) = &self.expected {
            let left = expected.bytes.saturating_sub(self.fingerprint.bytes());
            if let Some(piece) = usize::try_from(left).ok().and_then(|left| piece.get(..left)) {
                let mut fingerprint = self.fingerprint.clone();
                fingerprint.advance(piece);
                if !expected.is_in(&fingerprint) {
                    return Err(Mismatch::Other { bytes: expected.bytes });
                }
                self.expected = None;
            }
        }
        if self.expected.is_some() {
            // It may still turn out to be another input: its positions are not worth keeping.
            self.fingerprint.advance(piece);
            return Ok(positions);
        }
        let mut rest = piece;
        if !self.told {
            let separator = format.separator;
            let first = &piece[..piece.len().min(FIRST_BYTES)];
            let end = memchr::memrchr(separator, first).or(memchr::memchr(separator, piece));
            if let Some(end) = end {
                let (first, more) = piece.split_at(end + 1);
                self.fingerprint.advance(first);
                let records = memchr::memchr_iter(separator, first).count() as u64;
                positions.push(self.fingerprint.position(before + records));
                rest = more;
            }
            self.told = true;
        }
        if !rest.is_empty() {
            self.fingerprint.advance(rest);
            positions.push(self.fingerprint.position(last));
        }
        Ok(positions)
    }
}

/// An input that is read from where an earlier run ended.
pub(crate) struct Resumed<'a> {
    input: Input<'a>,
    opened: Opened,
}

enum Opened {
    /// A file, and where reading begins.
    File(File, u64),
    Stream(Box<dyn Read>),
}

impl<'a> Resumed<'a> {
    /// Opens the only one of `sources`, of which `read` keys were read before, and which must have
    /// `position` in it, as a filter with this hasher tells.
    pub(crate) fn open(
        sources: &'a [Source],
        format: &Format,
        quiet: bool,
        hasher: Hasher,
        (read, position): (u64, Option<Position>),
    ) -> Result<Self> {
        let [source @ (Source::File(_) | Source::Stdin)] = sources else {
            let message = "--resume reads one input: name it with --from, or give it as standard \
                           input";
            return Err(Failure::new(message));
        };
        if format.has_beginning() {
            let message = "--resume goes on where there is no header to find a field by its name; \
                           give --field its number";
            return Err(Failure::new(message));
        }
        let position = position.filter(|_| read > 0);
        let mut input = Input::new(source, format, quiet);
        let file = match source {
            Source::File(path) => {
                let (file, is_regular) = open(source, path)?;
                if is_regular { Ok((file, 0)) } else { Err(Box::new(file) as Box<dyn Read>) }
            }
            _ => {
                let stdin = io::stdin();
                tell_if_terminal(&stdin.lock());
                regular().ok_or(Box::new(stdin) as Box<dyn Read>)
            }
        };
        let told = position.is_some();
        let (file, start) = match file {
            Ok(file) => file,
            Err(stream) => {
                let fingerprint = Fingerprint::new(hasher);
                let expected = position;
                input.tracker = Some(Tracker { fingerprint, expected, told, unfinished: false });
                return Ok(Resumed { input, opened: Opened::Stream(stream) });
            }
        };
        let fingerprint = Fingerprint::new(hasher);
        let mut tracker = Tracker { fingerprint, expected: None, told, unfinished: false };
        let mut at = start;
        if let Some(position) = position {
            let unreadable = |error: io::Error| input.unreadable(&error);
            let bytes = position.bytes;
            if file.metadata().map_err(unreadable)?.len().saturating_sub(start) < bytes {
                return Err(Mismatch::Shorter { bytes }.of(source));
            }
            let fingerprint =
                Fingerprint::of_file(hasher, &file, start, bytes).map_err(unreadable)?;
            if !position.is_in(&fingerprint) {
                return Err(Mismatch::Other { bytes }.of(source));
            }
            // A position further on, reached by a process that was killed, only tells the input.
            if position.keys <= read {
                (input.number, tracker.fingerprint, at) =
                    (position.keys, fingerprint, start + bytes);
            }
        }
        input.tracker = Some(tracker);
        Ok(Resumed { input, opened: Opened::File(file, at) })
    }

    /// Keys at the beginning that the sink is not told of.
    pub(crate) fn before(&self) -> u64 {
        self.input.number
    }

    /// Hands the keys to the sink, as [`visit`](super::visit) does; whether a record was left
    /// because nothing ends it yet.
    pub(crate) fn visit(self, sink: &mut impl Sink) -> Result<bool> {
        let Resumed { mut input, opened } = self;
        // To the end: the sinks that resume want every key.
        let _ = match opened {
            Opened::File(file, at) => input.visit_file(&file, at, sink)?,
            Opened::Stream(stream) => input.visit_stream(stream, &Progress::none(), sink)?,
        };
        let Some(tracker) = input.tracker else { return Ok(false) };
        match tracker.expected {
            Some(position) => Err(Mismatch::Shorter { bytes: position.bytes }.of(input.source)),
            None => Ok(tracker.unfinished),
        }
    }
}

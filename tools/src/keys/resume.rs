//! Inputs of which a part was read before: logs that grow.
//!
//! Only records that have ended count, for the rest of the last one may be on its way. The place
//! that was reached is known again by what stands before it, so that another input, or one that was
//! cut short, is not taken for the same.

use std::fs::File;
use std::io::{self, Read};

use super::{Ends, Input, Place, Sink, Source, open, regular, tell_if_terminal};
use crate::failure::{Failure, Result};
use crate::options::KeyArgs;
use crate::units;

/// Bytes of a new input that are told as its first place: few, so that it is known again even if
/// the process is killed before it came any further.
const FIRST_BYTES: usize = 4096;

/// How far an input was read.
#[derive(Default)]
pub(super) struct Track {
    ends: Ends,
    /// A place that was reached before and has not been passed yet.
    expected: Option<Place>,
    /// Whether a place of this input was told, now or in an earlier run.
    told: bool,
    /// Whether a record was left because nothing ends it.
    pub(super) unfinished: bool,
}

/// Why an input is not the one of a place.
#[derive(Debug)]
pub(super) enum Unlike {
    Shorter { bytes: u64 },
    Other { bytes: u64 },
}

impl Unlike {
    pub(super) fn of(self, source: &Source) -> Failure {
        let what = match self {
            Unlike::Shorter { bytes } => {
                format!(
                    "is shorter than the {} that were read of it before",
                    units::counted(bytes, "byte")
                )
            }
            Unlike::Other { bytes } => format!(
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

impl Track {
    /// Goes on by a piece of whole records, with the number of the last record before it and of its
    /// own last one. Tells the places in it that are worth keeping.
    pub(super) fn pass(
        &mut self,
        piece: &[u8],
        format: &KeyArgs,
        before: u64,
        last: u64,
    ) -> Result<Vec<Place>, Unlike> {
        let mut places = Vec::new();
        if piece.is_empty() {
            return Ok(places);
        }
        if let Some(expected) = &self.expected {
            let left = expected.bytes.saturating_sub(self.ends.bytes());
            if let Some(piece) = usize::try_from(left).ok().and_then(|left| piece.get(..left)) {
                let mut ends = self.ends.clone();
                ends.advance(piece);
                if !expected.is_in(&ends) {
                    return Err(Unlike::Other { bytes: expected.bytes });
                }
                self.expected = None;
            }
        }
        if self.expected.is_some() {
            // It may still turn out to be another input: its places are not worth keeping.
            self.ends.advance(piece);
            return Ok(places);
        }
        let mut rest = piece;
        if !self.told {
            let separator = format.separator();
            let first = &piece[..piece.len().min(FIRST_BYTES)];
            let end = memchr::memrchr(separator, first).or(memchr::memchr(separator, piece));
            if let Some(end) = end {
                let (first, more) = piece.split_at(end + 1);
                self.ends.advance(first);
                let records = memchr::memchr_iter(separator, first).count() as u64;
                places.push(self.ends.place(before + records));
                rest = more;
            }
            self.told = true;
        }
        if !rest.is_empty() {
            self.ends.advance(rest);
            places.push(self.ends.place(last));
        }
        Ok(places)
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
    /// Opens the only one of `sources`, of which `position` keys were read before, and which must
    /// have `place` in it.
    pub(crate) fn open(
        sources: &'a [Source],
        format: &'a KeyArgs,
        position: u64,
        place: Option<Place>,
    ) -> Result<Self> {
        let [source @ (Source::File(_) | Source::Stdin)] = sources else {
            let message = "--resume reads one input: name it with --from, or give it as standard \
                           input";
            return Err(Failure::new(message));
        };
        let place = place.filter(|_| position > 0);
        let mut input = Input::new(source, format);
        let file = match source {
            Source::File(path) => {
                let (file, is_regular) = open(source, path)?;
                if is_regular { Ok((file, 0)) } else { Err(Box::new(file) as Box<dyn Read>) }
            }
            _ => {
                let stdin = io::stdin();
                tell_if_terminal(&stdin.lock());
                regular(&stdin).ok_or(Box::new(stdin) as Box<dyn Read>)
            }
        };
        let told = place.is_some();
        let (file, start) = match file {
            Ok(file) => file,
            Err(stream) => {
                input.track = Some(Track { expected: place, told, ..Track::default() });
                return Ok(Resumed { input, opened: Opened::Stream(stream) });
            }
        };
        let mut track = Track { told, ..Track::default() };
        let mut at = start;
        if let Some(place) = place {
            let unreadable = |error: io::Error| input.unreadable(&error);
            let bytes = place.bytes;
            if file.metadata().map_err(unreadable)?.len().saturating_sub(start) < bytes {
                return Err(Unlike::Shorter { bytes }.of(source));
            }
            let ends = Ends::of_file(&file, start, bytes).map_err(unreadable)?;
            if !place.is_in(&ends) {
                return Err(Unlike::Other { bytes }.of(source));
            }
            // A place further on, reached by a process that was killed, only tells the input.
            if place.keys <= position {
                (input.number, track.ends, at) = (place.keys, ends, start + bytes);
            }
        }
        input.track = Some(track);
        Ok(Resumed { input, opened: Opened::File(file, at) })
    }

    /// Keys at the beginning that the sink is not told of.
    pub(crate) fn before(&self) -> u64 {
        self.input.number
    }

    /// Hands the keys to the sink, as [`visit`](super::visit) does; whether a record was left
    /// because nothing ends it yet.
    pub(crate) fn visit(self, quiet: bool, sink: &mut impl Sink) -> Result<bool> {
        let Resumed { mut input, opened } = self;
        // To the end: the sinks that resume want every key.
        let _ = match opened {
            Opened::File(file, at) => input.visit_file(&file, at, quiet, sink)?,
            Opened::Stream(stream) => input.visit_stream(stream, sink)?,
        };
        let Some(track) = input.track else { return Ok(false) };
        match track.expected {
            Some(place) => Err(Unlike::Shorter { bytes: place.bytes }.of(input.source)),
            None => Ok(track.unfinished),
        }
    }
}

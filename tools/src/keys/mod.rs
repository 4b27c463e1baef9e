//! Keys as the user gives them: arguments, lines, NUL-separated records, hex digits.
//!
//! Inputs are cut into pieces of whole records. Regular files are read and worked on by all cores,
//! several pieces at a time; what comes through a pipe is worked on as it comes. Either way the
//! results are taken in the order of the input.

mod file;
mod piece;
mod place;
mod progress;
mod resume;
mod stream;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Seek};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub(crate) use piece::Piece;
use piece::{Bad, Outcome};
use place::Ends;
pub(crate) use place::Place;
pub(crate) use progress::Progress;
use resume::Track;
pub(crate) use resume::{Resumed, WHEN_ROTATED};

use crate::failure::{Failure, Result};
use crate::options::KeyArgs;
use crate::{output, text};

/// Longest key: a file without a single separator is not a list of keys.
const MAX_KEY_BYTES: usize = 256 << 20;

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The key itself, and which argument it was.
    Argument(usize, Vec<u8>),
    /// Standard input.
    Stdin,
    /// A file of keys.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Argument(number, _) => write!(f, "key argument {number}"),
            Source::Stdin => f.write_str("standard input"),
            Source::File(path) => write!(f, "{}", text::path(path)),
        }
    }
}

/// The sources that arguments name, checked: keys first, then files; standard input when there is
/// neither.
pub(crate) fn sources(keys: Vec<OsString>, inputs: Vec<PathBuf>) -> Result<Vec<Source>> {
    let keys = keys.into_iter().enumerate().map(|(at, key)| match key.as_encoded_bytes() {
        b"-" => Source::Stdin,
        _ => Source::Argument(at + 1, key.into_vec()),
    });
    let inputs = inputs.into_iter().map(|path| match path.as_os_str().as_encoded_bytes() {
        b"-" => Source::Stdin,
        _ => Source::File(path),
    });
    let mut sources: Vec<Source> = keys.chain(inputs).collect();
    if sources.is_empty() {
        sources.push(Source::Stdin);
    }
    if sources.iter().filter(|source| **source == Source::Stdin).count() > 1 {
        return Err(Failure::about("-", "standard input is named twice; it can be read only once"));
    }
    Ok(sources)
}

/// What is done with keys.
pub(crate) trait Sink: Sync {
    /// What a piece of an input gives.
    type Part: Send;

    /// Works on the keys of a piece; several pieces are worked on at the same time.
    fn work(&self, piece: &mut Piece<'_>) -> Self::Part;

    /// Takes what a piece gave, in the order of the input; breaks when no more is needed.
    fn take(&mut self, part: Self::Part) -> Result<ControlFlow<()>>;

    /// Called before a piece is taken that goes as far as `place`, where an input is
    /// [resumed](Resumed).
    fn approach(&mut self, _place: Place) -> Result<()> {
        Ok(())
    }

    /// Called when everything read so far was taken and reading on may take a while.
    fn pause(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Hands every key of the sources to the sink, in bounded memory.
///
/// Shows how far it is when standard error is a terminal, unless `quiet`.
pub(crate) fn visit(
    sources: &[Source],
    format: &KeyArgs,
    quiet: bool,
    sink: &mut impl Sink,
) -> Result<()> {
    for source in sources {
        let mut input = Input::new(source, format);
        let flow = match source {
            Source::Argument(_, argument) => {
                let mut piece = Piece::argument(argument, format);
                let part = sink.work(&mut piece);
                input.take(sink, argument, part, piece.outcome())?
            }
            Source::Stdin => {
                let stdin = io::stdin().lock();
                tell_if_terminal(&stdin);
                match regular(&stdin) {
                    Some((file, start)) => input.visit_file(&file, start, quiet, sink)?,
                    None => input.visit_stream(stdin, sink)?,
                }
            }
            Source::File(path) => {
                let (file, is_regular) = open(source, path)?;
                match is_regular {
                    true => input.visit_file(&file, 0, quiet, sink)?,
                    false => input.visit_stream(file, sink)?,
                }
            }
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

fn tell_if_terminal(stdin: &io::StdinLock<'_>) {
    if stdin.is_terminal() {
        output::note(
            "reading keys from the terminal, one per line; Ctrl-D at the start of a line ends them",
        );
    }
}

/// Opens a file of keys; whether it is a regular one.
fn open(source: &Source, path: &Path) -> Result<(File, bool)> {
    let file = File::open(path).map_err(|error| {
        Failure::about(source, format!("cannot open the keys: {error}; check the path"))
    })?;
    let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    Ok((file, is_regular))
}

/// Standard input as a file, and the place it stands at, when it is one.
fn regular(stdin: &impl AsFd) -> Option<(File, u64)> {
    let mut file = File::from(stdin.as_fd().try_clone_to_owned().ok()?);
    let place = file.stream_position().ok()?;
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some((file, place))
}

/// An input while it is read.
struct Input<'a> {
    source: &'a Source,
    format: &'a KeyArgs,
    /// Records taken so far, or skipped.
    number: u64,
    /// How far it was read, where that is kept track of.
    track: Option<Track>,
}

impl<'a> Input<'a> {
    fn new(source: &'a Source, format: &'a KeyArgs) -> Self {
        Input { source, format, number: 0, track: None }
    }

    /// Whether the last record counts although nothing ends it.
    fn takes_unfinished(&self) -> bool {
        self.track.is_none()
    }

    /// Takes what a piece gave, then refuses the record that ended it, if one did.
    fn take<S: Sink>(
        &mut self,
        sink: &mut S,
        piece: &[u8],
        part: S::Part,
        outcome: Outcome,
    ) -> Result<ControlFlow<()>> {
        if let Some(track) = &mut self.track {
            let good = outcome.bad.map_or(piece.len(), |(start, _)| start);
            let keys = self.number + outcome.records - u64::from(outcome.bad.is_some());
            let places = track.pass(&piece[..good], self.format, self.number, keys);
            for place in places.map_err(|unlike| unlike.of(self.source))? {
                sink.approach(place)?;
            }
        }
        let flow = sink.take(part)?;
        self.number += outcome.records;
        if let Some((_, bad)) = outcome.bad.filter(|_| flow.is_continue()) {
            let place = match self.source {
                Source::Argument(..) => String::new(),
                _ => format!("{} {} ", self.format.record_name(), self.number),
            };
            let reason = match bad {
                Bad::Hex => {
                    "is not hex; with --hex a key is written as two digits for each byte".into()
                }
                Bad::Field => format!(
                    "has no field {}; check --field and --delimiter",
                    self.format.field.unwrap_or_default()
                ),
            };
            return Err(Failure::about(self.source, format!("{place}{reason}")));
        }
        Ok(flow)
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::stream::BUFFER_BYTES;
    use super::*;

    /// Collects keys.
    #[derive(Default)]
    struct Collected(Vec<Vec<u8>>);

    impl Sink for Collected {
        type Part = Vec<Vec<u8>>;

        fn work(&self, piece: &mut Piece<'_>) -> Self::Part {
            let mut keys = Vec::new();
            while let Some((_, key)) = piece.next() {
                keys.push(key.to_vec());
            }
            keys
        }

        fn take(&mut self, keys: Self::Part) -> Result<ControlFlow<()>> {
            self.0.extend(keys);
            Ok(ControlFlow::Continue(()))
        }
    }

    fn visit_input(
        source: &Source,
        input: impl Read,
        format: &KeyArgs,
        sink: &mut Collected,
    ) -> Result<ControlFlow<()>> {
        Input::new(source, format).visit_stream(input, sink)
    }

    /// The keys of a file, read in pieces of a few bytes each by several threads.
    fn keys_of_file(input: &[u8], format: &KeyArgs, piece: usize) -> Vec<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).unwrap();
        let mut sink = Collected::default();
        let mut reading = Input::new(&Source::Stdin, format);
        let flow = reading.visit_pieces(&file, 0, (3, piece), &Progress::none(), &mut sink);
        assert!(flow.unwrap().is_continue());
        sink.0
    }

    /// Gives a few bytes at a time.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(bytes.len());
            (&mut self.0).take(length as u64).read(bytes)
        }
    }

    fn keys(input: &[u8], format: KeyArgs) -> Vec<Vec<u8>> {
        let mut results = [1, 2, 3, usize::MAX].map(|step| {
            let mut sink = Collected::default();
            let flow = visit_input(&Source::Stdin, Dribble(input, step), &format, &mut sink);
            assert!(flow.unwrap().is_continue());
            sink.0
        });
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "cut differently by reads");
        for piece in [1, 2, 3, 7, 1000] {
            let from_file = keys_of_file(input, &format, piece);
            assert_eq!(from_file, results[0], "cut differently by pieces of {piece}");
        }
        std::mem::take(&mut results[0])
    }

    fn lines() -> KeyArgs {
        KeyArgs { null: false, crlf: false, hex: false, field: None, delimiter: None }
    }

    #[test]
    fn lines_are_keys() {
        let none: [&[u8]; 0] = [];
        assert_eq!(keys(b"", lines()), none);
        assert_eq!(keys(b"a\nbb\n", lines()), [&b"a"[..], b"bb"]);
        assert_eq!(keys(b"a\nbb", lines()), [&b"a"[..], b"bb"]);
        assert_eq!(keys(b"\n\na", lines()), [&b""[..], b"", b"a"]);
        assert_eq!(keys(b"a\r\nb\r\n", lines()), [&b"a\r"[..], b"b\r"]);
        assert_eq!(keys(b"a\0b\n", lines()), [&b"a\0b"[..]]);
    }

    #[test]
    fn other_forms_of_keys() {
        let crlf = KeyArgs { crlf: true, ..lines() };
        assert_eq!(keys(b"a\r\nb\nc\r\r\nd\r", crlf), [&b"a"[..], b"b", b"c\r", b"d"]);
        let null = KeyArgs { null: true, ..lines() };
        assert_eq!(keys(b"a\nb\0\0c", null), [&b"a\nb"[..], b"", b"c"]);
        let hex = KeyArgs { hex: true, ..lines() };
        assert_eq!(keys(b"00fF\n\n61", hex), [&[0x00, 0xff][..], b"", b"a"]);
    }

    #[test]
    fn bad_hex_names_its_line() {
        let hex = KeyArgs { hex: true, ..lines() };
        for bad in ["abc", "gg", "0x00", " 00", "+1"] {
            let input = format!("00\n{bad}\n");
            let result =
                visit_input(&Source::Stdin, input.as_bytes(), &hex, &mut Collected::default());
            let message = result.unwrap_err().to_string();
            assert!(message.starts_with("standard input: line 2 is not hex"), "{message}");
        }
    }

    #[test]
    fn long_keys_are_whole() {
        let mut input = vec![b'x'; 3 * BUFFER_BYTES];
        input.extend(b"\nshort\n");
        input.extend(vec![b'y'; BUFFER_BYTES]);
        let mut sink = Collected::default();
        let flow = visit_input(&Source::Stdin, &input[..], &lines(), &mut sink).unwrap();
        assert!(flow.is_continue());
        let lengths: Vec<usize> = sink.0.iter().map(Vec::len).collect();
        assert_eq!(lengths, [3 * BUFFER_BYTES, 5, BUFFER_BYTES]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let input = io::repeat(b'x');
        let result = visit_input(&Source::Stdin, input, &lines(), &mut Collected::default());
        let message = result.unwrap_err().to_string();
        assert!(message.contains("line 1 is longer than 268435456 bytes"), "{message}");
    }

    #[test]
    fn standard_input_is_the_default_and_is_read_once() {
        assert_eq!(sources(vec![], vec![]).unwrap(), [Source::Stdin]);
        assert_eq!(sources(vec!["-".into()], vec![]).unwrap(), [Source::Stdin]);
        let both = sources(vec!["a".into()], vec!["f".into(), "-".into()]).unwrap();
        assert_eq!(
            both,
            [Source::Argument(1, b"a".to_vec()), Source::File("f".into()), Source::Stdin]
        );
        assert!(sources(vec!["-".into()], vec!["-".into()]).is_err());
    }
}

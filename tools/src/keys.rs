//! Keys as the user gives them: arguments, lines, NUL-separated records, hex digits.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::args::KeyArgs;
use crate::failure::{Failure, Result};
use crate::output;

/// What a reader of keys starts with; it grows for longer keys only.
const BUFFER_BYTES: usize = 256 << 10;

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
            Source::File(path) => write!(f, "{}", path.display()),
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

/// What is done with each key.
pub(crate) trait Sink {
    /// Takes a key, and the record it came from as it stood in the input; breaks when it needs no
    /// more.
    fn key(&mut self, record: &[u8], key: &[u8]) -> Result<ControlFlow<()>>;

    /// Called when everything read so far was handed over and reading on may take a while.
    fn pause(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Hands every key of the sources to the sink, in bounded memory.
pub(crate) fn visit(sources: &[Source], format: &KeyArgs, sink: &mut impl Sink) -> Result<()> {
    for source in sources {
        let flow = match source {
            Source::Argument(_, argument) => visit_record(source, None, argument, format, sink)?,
            Source::Stdin => {
                let stdin = io::stdin().lock();
                if stdin.is_terminal() {
                    output::note(
                        "reading keys from the terminal, one per line; Ctrl-D at the start of a line ends them",
                    );
                }
                visit_input(source, stdin, format, sink)?
            }
            Source::File(path) => {
                let file = File::open(path).map_err(|error| {
                    Failure::about(source, format!("cannot open the keys: {error}; check the path"))
                })?;
                visit_input(source, file, format, sink)?
            }
        };
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

fn visit_input(
    source: &Source,
    input: impl Read,
    format: &KeyArgs,
    sink: &mut impl Sink,
) -> Result<ControlFlow<()>> {
    let mut records = Records::new(input, format.separator());
    let mut number = 0;
    loop {
        if !records.has_next() {
            sink.pause()?;
            let more = records.read_more().map_err(|error| {
                Failure::about(source, format!("cannot read the keys: {error}"))
            })?;
            if !more {
                let message = format!(
                    "{} {} is longer than {MAX_KEY_BYTES} bytes; is this a list of keys?",
                    format.record_name(),
                    number + 1
                );
                return Err(Failure::about(source, message));
            }
            continue;
        }
        let Some(record) = records.next() else { return Ok(ControlFlow::Continue(())) };
        number += 1;
        if visit_record(source, Some(number), record, format, sink)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

fn visit_record(
    source: &Source,
    number: Option<u64>,
    record: &[u8],
    format: &KeyArgs,
    sink: &mut impl Sink,
) -> Result<ControlFlow<()>> {
    // Only a record that was cut out of an input ends in the first half of a line end.
    let text = match number {
        Some(_) if format.crlf => record.strip_suffix(b"\r").unwrap_or(record),
        _ => record,
    };
    if !format.hex {
        return sink.key(record, text);
    }
    let key = decode_hex(text).ok_or_else(|| {
        let place = number.map(|number| format!("{} {number} ", format.record_name()));
        let place = place.unwrap_or_default();
        Failure::about(
            source,
            format!("{place}is not hex; with --hex a key is written as two digits for each byte"),
        )
    })?;
    sink.key(record, &key)
}

/// Two digits, of either case, for each byte.
fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    pairs.iter().map(|&[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8)).collect()
}

/// Cuts an input into records, each ended by a separator or by the end of the input.
struct Records<R> {
    input: R,
    separator: u8,
    buffer: Vec<u8>,
    /// The bytes read and not yet handed out are `start..end` of the buffer.
    start: usize,
    end: usize,
    /// There is no separator from `start` up to here.
    searched: usize,
    /// End of the next record, once it is known.
    next: Option<usize>,
    finished: bool,
}

impl<R: Read> Records<R> {
    fn new(input: R, separator: u8) -> Self {
        Records {
            input,
            separator,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            searched: 0,
            next: None,
            finished: false,
        }
    }

    /// Whether [`next`](Self::next) can answer without reading.
    fn has_next(&mut self) -> bool {
        if self.next.is_none() {
            let found = memchr::memchr(self.separator, &self.buffer[self.searched..self.end]);
            self.next = found.map(|at| self.searched + at);
            self.searched = self.next.unwrap_or(self.end);
        }
        self.next.is_some() || self.finished
    }

    /// The next record; none at the end of the input.
    fn next(&mut self) -> Option<&[u8]> {
        let start = self.start;
        let end = match self.next.take() {
            Some(end) => {
                self.start = end + 1;
                end
            }
            None if self.start < self.end => {
                self.start = self.end;
                self.end
            }
            None => return None,
        };
        self.searched = self.start;
        Some(&self.buffer[start..end])
    }

    /// Reads once; false when the record is too long to go on.
    fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.searched -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            if self.end >= MAX_KEY_BYTES {
                return Ok(false);
            }
            self.buffer.resize(2 * self.end, 0);
        }
        let read = loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.end += read;
        self.finished = read == 0;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects keys.
    #[derive(Default)]
    struct Collected(Vec<Vec<u8>>);

    impl Sink for Collected {
        fn key(&mut self, _record: &[u8], key: &[u8]) -> Result<ControlFlow<()>> {
            self.0.push(key.to_vec());
            Ok(ControlFlow::Continue(()))
        }
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
        std::mem::take(&mut results[0])
    }

    fn lines() -> KeyArgs {
        KeyArgs { null: false, crlf: false, hex: false }
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

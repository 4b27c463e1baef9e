//! How inputs are cut into keys, whatever the pieces.

use std::io::{Read, Write};

use bloomfile::hash::Form;
use clap::Parser;

use super::stream::BUFFER_BYTES;
use super::*;
use crate::options::{FormArgs, RecordArgs};

/// Collects keys.
#[derive(Default)]
struct Collected(Vec<Vec<u8>>);

impl Sink for Collected {
    type Output = Vec<Vec<u8>>;

    fn work(&self, piece: &mut Piece<'_>) -> Self::Output {
        let mut keys = Vec::new();
        while let Some(key) = piece.next() {
            keys.push(key.bytes.to_vec());
        }
        keys
    }

    fn accept(&mut self, keys: Self::Output) -> Result<ControlFlow<()>> {
        self.0.extend(keys);
        Ok(ControlFlow::Continue(()))
    }
}

fn visit_input(
    source: &Source,
    input: impl Read,
    format: &Format,
    sink: &mut Collected,
) -> Result<ControlFlow<()>> {
    Input::new(source, format, true).visit_stream(input, &Progress::none(), sink)
}

/// The keys of a file, read in pieces of a few bytes each by several threads.
fn keys_of_file(input: &[u8], format: &Format, piece: usize) -> Vec<Vec<u8>> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input).unwrap();
    let mut sink = Collected::default();
    let mut input = Input::new(&Source::Stdin, format, true);
    let flow = input.visit_file_in(&file, 0, (3, piece), &mut sink);
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

fn keys(input: &[u8], format: Format) -> Vec<Vec<u8>> {
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

/// The options that say how keys are written.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    records: RecordArgs,
    #[command(flatten)]
    form: FormArgs,
}

/// The format that options ask for.
fn format(options: &str) -> Format {
    let words = std::iter::once("test").chain(options.split(' ').filter(|word| !word.is_empty()));
    let options = Options::try_parse_from(words).unwrap();
    Format::new(&options.records, options.form.into())
}

fn lines() -> Format {
    format("")
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
    assert_eq!(keys(b"a\r\nb\nc\r\r\nd\r", format("--crlf")), [&b"a"[..], b"b", b"c\r", b"d"]);
    assert_eq!(keys(b"a\nb\0\0c", format("--null")), [&b"a\nb"[..], b"", b"c"]);
    assert_eq!(keys(b"00fF\n\n61", format("--hex")), [&[0x00, 0xff][..], b"", b"a"]);
    assert_eq!(keys(b" A \r\n", format("--trim --lower")), [&b"a"[..]]);
}

#[test]
fn fields_are_keys() {
    for (options, input, expected) in [
        ("--field 2", "a\tb\tc\nd\te\n", &["b", "e"][..]),
        ("--field 2 --delimiter ,", "a,\"b\",c", &["\"b\""]),
        ("--field name --delimiter ,", "id, name \r\n1,x\r\n2,y", &["x\r", "y"]),
        ("--field 1 --header", "id\n1\n2\n", &["1", "2"]),
        ("--field 3 --whitespace", "  a \t b\t\tc\r\n d e f", &["c", "f"]),
        ("--each --delimiter ,", "a,,b\n,\nc", &["a", "b", "c"]),
        ("--each --whitespace", " a  b \n\n c", &["a", "b", "c"]),
        ("--field 2 --csv", "1,\"x,\"\"y\nz\",3\r\n\n4,5\n", &["x,\"y\nz", "5"]),
        ("--field ip --csv", "\u{feff}\"id\",\"ip\"\n1,::1\n", &["::1"]),
        ("--field 1 --csv --delimiter ;", "\u{feff}\"a;b\";c", &["a;b"]),
        ("--each --csv", "a,\"\",\"b,c\"\n", &["a", "b,c"]),
        ("--field 1 --csv --header", "", &[]),
        ("--json-field a.b", "{\"a\":{\"b\":\"x\\ny\"}}\r\n{\"a\":{\"b\":7}}", &["x\ny", "7"]),
        ("--json-field . --each", "{\"a\":[1,\"\",\"c\"]}\n[]\n", &["1", "c"]),
        ("--field 2 --skip-missing", "a\nb\tc\n", &["c"]),
        ("--json-field a --skip-missing", "{}\n\n{\"a\":null}\n{\"a\":1}\n", &["1"]),
        ("--field 2 --null", "a\tb\0c\td\0", &["b", "d"]),
    ] {
        let expected: Vec<&[u8]> = expected.iter().map(|key| key.as_bytes()).collect();
        assert_eq!(keys(input.as_bytes(), format(options)), expected, "{options}: {input}");
    }
    // Spaces in a row count as one.
    let args = RecordArgs {
        delimiter: Some(b' '),
        field: Some(Field::Number(2)),
        ..RecordArgs::default()
    };
    assert_eq!(keys(b"  a   b c\n", Format::new(&args, Form::default())), [b"b"]);
}

#[test]
fn a_record_without_a_key_is_named() {
    for (options, input, expected) in [
        ("--hex", "00\nabc\n", "line 2 is not hex"),
        ("--hex", "00\n 0\n", "line 2 is not hex"),
        ("--hex", "00\n+1\n", "line 2 is not hex"),
        ("--encoding le64", "1\n1.5\n", "line 2 is not a whole number of 64 bits"),
        ("--encoding decimal", "1\nx\n", "line 2 is not a whole number"),
        ("--field 2 --delimiter ,", "a,b\nc\n", "line 2 has no field 2"),
        ("--field 2 --csv", "a,b\n\n\"c\n\"\n", "record 2 has no field 2"),
        ("--field b --csv", "a,b\n1\n", "record 1 has no field 2"),
        ("--field c --csv", "a,b\n", "its header has no field c; it has a, b"),
        ("--field 1 --csv", "a\n\"b\nc\n", "record 2 has a quote that is never closed"),
        ("--json-field a.b", "{\"a\":{\"b\":1}}\n{\"a\":1}", "line 2 has no text or number at a.b"),
        ("--json-field a", "{\"a\":[1]}", "line 1 has no text or number at a"),
        ("--json-field a", "{\"a\":1}\n{'a':1}\n", "line 2 is not JSON"),
    ] {
        let format = format(options);
        let mut sink = Collected::default();
        let result = visit_input(&Source::Stdin, input.as_bytes(), &format, &mut sink);
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with(&format!("standard input: {expected}")), "{message}");
    }
}

#[test]
fn inputs_that_are_no_lists_are_suspicious() {
    for (options, input, expected) in [
        ("", "a\nb\r\n", None),
        ("", "a\r\nb\r\n", Some("its lines end in CR LF")),
        ("--crlf", "a\r\nb\r\n", None),
        ("--trim", "a\r\nb\r\n", None),
        ("--field 2 --delimiter ,", "a,b\r\n", Some("its lines end in CR LF")),
        ("--field 1 --delimiter ,", "a,b\r\n", None),
        ("--field 2 --whitespace", "a b\r\n", None),
        ("--field 2 --csv", "a,b\r\n", None),
        ("--json-field a", "{\"a\":1}\r\n", None),
        ("", "PAR1\u{1}\n", Some("looks like a Parquet file")),
        ("", "a\n\0\n", Some("looks like binary data")),
        ("--null", "a\n\0\n", None),
        ("", "\u{feff}a\n", Some("starts with a byte order mark")),
        ("--field 1 --csv", "\u{feff}a\n", None),
    ] {
        let warning = look::warning(input.as_bytes(), &format(options));
        let starts =
            warning.as_deref().map(|text| expected.is_some_and(|start| text.starts_with(start)));
        assert_eq!(starts, expected.map(|_| true), "{options}: {input:?}: {warning:?}");
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
    assert_eq!(both, [Source::Argument(1, b"a".to_vec()), Source::File("f".into()), Source::Stdin]);
    assert!(sources(vec!["-".into()], vec!["-".into()]).is_err());
}

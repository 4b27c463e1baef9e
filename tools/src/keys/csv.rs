//! CSV: records whose fields may stand in quotes.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::texts::Texts;

/// Takes bytes apart, one record after the other.
pub(super) struct CsvReader(Box<Reader>);

/// What was found at the beginning of bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CsvRecord {
    /// A record that goes from `start` to `end`, its line end included.
    Whole { start: usize, end: usize },
    /// A record that goes on after the bytes.
    Unfinished,
    /// A quote that is never closed, so that everything after it is one field.
    OpenQuote,
    /// No record.
    End,
}

/// A reader that is at the beginning of a record.
pub(super) fn reader(delimiter: u8) -> CsvReader {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    // A reader takes a byte order mark off the first bytes that it sees. These are not always the
    // first bytes of an input, so it sees an empty line at first.
    reader.read_record(b"\n", &mut [0], &mut [0]);
    CsvReader(Box::new(reader))
}

impl CsvReader {
    /// Reads the fields of the first record of `bytes`, which are the last ones of the input if
    /// `is_all`. After a record that is not whole, a new reader has to read it.
    pub(super) fn read(&mut self, bytes: &[u8], is_all: bool, fields: &mut Texts) -> CsvRecord {
        // Empty lines, and the second half of a line end.
        let start = bytes.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(bytes.len());
        if start == bytes.len() {
            return if is_all { CsvRecord::End } else { CsvRecord::Unfinished };
        }
        let (mut end, mut used, mut count) = (start, 0, 0);
        let Texts { bytes: texts, ends } = fields;
        texts.resize(texts.capacity().max(256), 0);
        ends.resize(ends.capacity().max(16), 0);
        loop {
            let rest = &bytes[end..];
            let input = match (rest.is_empty(), is_all) {
                (false, _) => rest,
                // What ends the last record if nothing does; a quote takes it as part of its field.
                (true, true) => b"\n",
                (true, false) => return CsvRecord::Unfinished,
            };
            let (result, read, text, fields) =
                self.0.read_record(input, &mut texts[used..], &mut ends[count..]);
            end = (end + read).min(bytes.len());
            used += text;
            count += fields;
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::InputEmpty if rest.is_empty() => return CsvRecord::OpenQuote,
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => texts.resize(2 * texts.len(), 0),
                ReadRecordResult::OutputEndsFull => ends.resize(2 * ends.len(), 0),
            }
        }
        texts.truncate(used);
        ends.truncate(count);
        CsvRecord::Whole { start, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records of an input that is read in steps, with the fields joined by `|`.
    fn records(input: &str, step: usize) -> (Vec<String>, CsvRecord) {
        let bytes = input.as_bytes();
        let (mut found, mut fields) = (Vec::new(), Texts::default());
        let (mut at, mut until) = (0, step.min(bytes.len()));
        loop {
            let is_all = until == bytes.len();
            match reader(b',').read(&bytes[at..until], is_all, &mut fields) {
                CsvRecord::Whole { start, end } => {
                    let texts: Vec<_> = fields.iter().map(String::from_utf8_lossy).collect();
                    found.push(format!("{start}:{}", texts.join("|")));
                    at += end;
                }
                CsvRecord::Unfinished => until = (until + step).min(bytes.len()),
                last => return (found, last),
            }
        }
    }

    #[test]
    fn quotes_hold_what_they_enclose() {
        let long = "x".repeat(1000);
        let wide = ",".repeat(40);
        for (input, expected) in [
            ("", vec![]),
            ("\n\r\n", vec![]),
            ("a,b\nc\n", vec!["0:a|b", "0:c"]),
            ("a,\"b,\"\"c\"\"\nd\"\r\ne", vec!["0:a|b,\"c\"\nd", "1:e"]),
            ("\n\na", vec!["2:a"]),
            ("5\" pipe,b\n", vec!["0:5\" pipe|b"]),
            ("a,\nb", vec!["0:a|", "0:b"]),
            (&long, vec![&format!("0:{long}")]),
            (&wide, vec![&format!("0:{}", wide.replace(',', "|"))]),
        ] {
            let (found, last) = records(input, usize::MAX / 2);
            assert_eq!(
                (found, last),
                (expected.iter().map(|&record| record.into()).collect(), CsvRecord::End),
                "{input}"
            );
        }
    }

    #[test]
    fn a_record_is_whole_wherever_reads_end() {
        let input = "a,\"b\r\n\"\"x\"\r\n\r\nc,\"\"\r\n\"d\ne\",f";
        let texts = |step| -> Vec<String> {
            let (found, last) = records(input, step);
            assert_eq!(last, CsvRecord::End);
            found.iter().map(|record| record.split_once(':').unwrap().1.to_owned()).collect()
        };
        let all = texts(usize::MAX / 2);
        assert_eq!(all, ["a|b\r\n\"x", "c|", "d\ne|f"]);
        for step in 1..input.len() {
            assert_eq!(texts(step), all, "in steps of {step}");
        }
    }

    #[test]
    fn a_quote_that_is_never_closed_is_found() {
        let (found, last) = records("a\n\"b,c\nd\ne,f\n", usize::MAX / 2);
        assert_eq!((found, last), (vec!["0:a".to_owned()], CsvRecord::OpenQuote));
    }
}

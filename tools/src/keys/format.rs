//! How keys stand in an input: what a record is, and what in it is the key.

use bloomfile::hash::Form;

use super::JsonPath;
use super::csv::{self, CsvRecord};
use super::texts::Texts;
use crate::options::RecordArgs;

/// What spreadsheets put in front of UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How keys stand in an input, and in what form they become keys.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    /// The byte that ends a record, unless it is CSV.
    pub(super) separator: u8,
    pub(super) selection: Selection,
    /// Whether the first record of an input names the fields.
    header: bool,
    /// Whether a record without the field is passed over.
    pub(super) skip_missing: bool,
    pub(super) form: Form,
}

/// What in a record is the key.
#[derive(Clone, Debug)]
pub(super) enum Selection {
    /// All of it.
    Record,
    /// Fields between delimiters.
    Fields(Delimiter, Which),
    /// Fields of CSV with this delimiter.
    Csv(u8, Which),
    /// Values of JSON; whether each of those at the path is one.
    Json(JsonPath, bool),
}

/// What separates fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delimiter {
    Byte(u8),
    /// Any number of spaces; those in front of the first field separate nothing.
    Spaces,
    /// The same for all white space.
    Whitespace,
}

impl Delimiter {
    fn splits(self, byte: u8) -> bool {
        match self {
            Delimiter::Byte(delimiter) => byte == delimiter,
            Delimiter::Spaces => byte == b' ',
            Delimiter::Whitespace => byte.is_ascii_whitespace(),
        }
    }

    /// The fields of a record; between delimiters that count as one there is an empty one, which
    /// does not count.
    fn split(self, record: &[u8]) -> impl Iterator<Item = &[u8]> {
        let counts_empty = matches!(self, Delimiter::Byte(_));
        record
            .split(move |&byte| self.splits(byte))
            .filter(move |field| counts_empty || !field.is_empty())
    }

    /// One field, counted from 0.
    pub(super) fn field(self, record: &[u8], number: usize) -> Option<&[u8]> {
        self.split(record).nth(number)
    }

    /// All fields.
    pub(super) fn fields(self, record: &[u8], fields: &mut Texts) {
        self.split(record).for_each(|field| fields.push(field));
    }
}

/// Which fields are keys.
#[derive(Clone, Debug)]
pub(super) enum Which {
    /// One, counted from 0.
    Number(usize),
    /// The one that the header calls like this.
    Name(String),
    /// All that are not empty.
    Each,
}

/// A field as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// Its number, counted from 1.
    Number(u32),
    /// Its name in the header.
    Name(String),
}

impl Field {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(0) => Err("fields are counted from 1".into()),
            Ok(number) => Ok(Field::Number(number)),
            Err(_) if text.is_empty() => Err("a field is a number or a name".into()),
            Err(_) => Ok(Field::Name(text.to_owned())),
        }
    }
}

/// A header that has no field of the name.
#[derive(Debug)]
pub(super) struct NoSuchField {
    pub(super) name: String,
    /// The fields that there are.
    pub(super) fields: Vec<String>,
}

impl Format {
    pub(crate) fn new(args: &RecordArgs, form: Form) -> Self {
        let which = match (&args.field, args.each) {
            (Some(Field::Number(number)), _) => Some(Which::Number(*number as usize - 1)),
            (Some(Field::Name(name)), _) => Some(Which::Name(name.clone())),
            (None, true) => Some(Which::Each),
            (None, false) => None,
        };
        let delimiter = match args.delimiter {
            _ if args.whitespace => Delimiter::Whitespace,
            Some(b' ') => Delimiter::Spaces,
            Some(byte) => Delimiter::Byte(byte),
            None => Delimiter::Byte(b'\t'),
        };
        let header = args.header || matches!(which, Some(Which::Name(_)));
        let selection = match (&args.json_field, which) {
            (Some(path), _) => Selection::Json(path.clone(), args.each),
            (None, None) => Selection::Record,
            (None, Some(which)) if args.csv => {
                Selection::Csv(args.delimiter.unwrap_or(b','), which)
            }
            (None, Some(which)) => Selection::Fields(delimiter, which),
        };
        let separator = if args.null { 0 } else { b'\n' };
        Format { separator, selection, header, skip_missing: args.skip_missing, form }
    }

    /// Whether records are keys as they stand.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.selection, Selection::Record) && self.form.is_plain()
    }

    /// Whether records are CSV, which end where a newline is not in quotes.
    pub(super) fn is_csv(&self) -> bool {
        matches!(self.selection, Selection::Csv(..))
    }

    /// Whether the beginning of an input is not for keys, or may not be.
    pub(super) fn has_beginning(&self) -> bool {
        self.header || self.is_csv()
    }

    /// What a piece of an input is called.
    pub(crate) fn record_name(&self) -> &'static str {
        if self.separator == 0 || self.is_csv() { "record" } else { "line" }
    }

    /// The field that a record lacks, in the words of the command line.
    pub(super) fn field_name(&self) -> String {
        match &self.selection {
            Selection::Fields(_, Which::Number(number))
            | Selection::Csv(_, Which::Number(number)) => format!("field {}", number + 1),
            Selection::Json(path, _) => format!("text or number at {path}"),
            _ => "field".into(),
        }
    }

    /// The record without the first half of its line end.
    #[inline]
    pub(super) fn without_cr<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        if self.form.crlf && self.separator != 0 {
            record.strip_suffix(b"\r").unwrap_or(record)
        } else {
            record
        }
    }

    /// Passes over what stands in front of the first key of an input, and finds out by the header
    /// which field is the key. How many bytes that are, once enough of the input is there.
    pub(super) fn begin(
        &mut self,
        bytes: &[u8],
        is_all: bool,
    ) -> Result<Option<usize>, NoSuchField> {
        if bytes.len() < BYTE_ORDER_MARK.len() && !is_all {
            return Ok(None);
        }
        let start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        if !self.header {
            return Ok(Some(start));
        }
        let mut fields = Texts::default();
        let Some(length) = self.read_header(&bytes[start..], is_all, &mut fields) else {
            return Ok(None);
        };
        if let Selection::Fields(_, which) | Selection::Csv(_, which) = &mut self.selection
            && let Which::Name(name) = which
        {
            match fields.iter().position(|field| field.trim_ascii() == name.as_bytes()) {
                Some(number) => *which = Which::Number(number),
                None => {
                    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
                    let fields = fields.iter().map(text).collect();
                    return Err(NoSuchField { name: name.clone(), fields });
                }
            }
        }
        Ok(Some(start + length))
    }

    /// Takes the fields of the first record, and tells its length, if it is there as a whole.
    fn read_header(&self, bytes: &[u8], is_all: bool, fields: &mut Texts) -> Option<usize> {
        match self.selection {
            Selection::Csv(delimiter, _) => {
                match csv::reader(delimiter).read(bytes, is_all, fields) {
                    CsvRecord::Whole { end, .. } => Some(end),
                    CsvRecord::Unfinished => None,
                    CsvRecord::End | CsvRecord::OpenQuote => Some(bytes.len()),
                }
            }
            Selection::Fields(delimiter, _) => {
                let (line, length) = match memchr::memchr(self.separator, bytes) {
                    Some(end) => (&bytes[..end], end + 1),
                    None if is_all => (bytes, bytes.len()),
                    None => return None,
                };
                delimiter.fields(line, fields);
                Some(length)
            }
            _ => Some(0),
        }
    }
}

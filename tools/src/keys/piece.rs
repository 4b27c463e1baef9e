//! A piece of an input: whole records, cut into keys.

use std::ops::Range;

use bloomfile::hash::{Encoding, Form};

use super::csv::{self, CsvReader, CsvRecord};
use super::form;
use super::format::{Format, Selection, Which};
use super::json;
use super::texts::Texts;

/// Why a record means no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is not written in hex digits.
    Hex,
    /// It is no whole number, or one that the encoding has no room for.
    Number(Encoding),
    /// It lacks the field.
    Field,
    /// It is no JSON.
    Json,
    /// A quote in it is never closed.
    Quote,
}

/// A key and where it comes from.
pub(crate) struct Key<'a, 'p> {
    /// The record as it stands in the input.
    pub(crate) record: &'a [u8],
    /// What of the record means the key.
    pub(crate) text: &'p [u8],
    /// The key.
    pub(crate) bytes: &'p [u8],
}

/// Whole records, to be read once.
pub(crate) struct Piece<'a> {
    bytes: &'a [u8],
    format: &'a Format,
    cut: Cut<'a>,
    /// Whether records are keys as they stand.
    is_plain: bool,
    /// Where the next record starts.
    next: usize,
    finished: bool,
    /// The record that was read last.
    record: &'a [u8],
    start: usize,
    text: Text<'a>,
    texts: Texts,
    /// Texts of the record that are still to come.
    left: Range<usize>,
    decoded: Vec<u8>,
    outcome: Outcome,
}

/// How the input is cut into records.
enum Cut<'a> {
    /// The ends of records are found ahead of their turn, many at once.
    Separator(memchr::Memchr<'a>),
    /// Whether the piece is the end of the input.
    Csv(CsvReader, bool),
    /// All of it is one record.
    Not,
}

/// Where the text of a key is.
#[derive(Clone, Copy)]
enum Text<'a> {
    Here(&'a [u8]),
    /// Among the texts taken out of the record.
    Taken(usize),
}

/// What was met in a piece.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    /// How many records.
    pub(super) records: u64,
    /// Those of them that lack the field and were passed over.
    pub(super) missing: u64,
    /// Why the last of them means no key, and where it starts, if it does not.
    pub(super) bad: Option<(usize, Bad)>,
}

impl<'a> Piece<'a> {
    /// Records that each end in a separator; the last one need not. Of CSV, a record that goes on
    /// after the piece is left, unless `is_end` tells that nothing comes after.
    pub(super) fn new(bytes: &'a [u8], format: &'a Format, is_end: bool) -> Self {
        let cut = match format.selection {
            Selection::Csv(delimiter, _) => Cut::Csv(csv::reader(delimiter), is_end),
            _ => Cut::Separator(memchr::memchr_iter(format.separator, bytes)),
        };
        // An empty input holds no record, an empty argument is one.
        Piece { finished: bytes.is_empty(), ..Self::with(bytes, format, cut) }
    }

    /// A single record, whatever it holds.
    pub(super) fn argument(bytes: &'a [u8], format: &'a Format) -> Self {
        Self::with(bytes, format, Cut::Not)
    }

    fn with(bytes: &'a [u8], format: &'a Format, cut: Cut<'a>) -> Self {
        Piece {
            bytes,
            format,
            cut,
            is_plain: format.is_plain(),
            next: 0,
            finished: false,
            record: &[],
            start: 0,
            text: Text::Here(&[]),
            texts: Texts::default(),
            left: 0..0,
            decoded: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// The next key. None at the end, and at a record that means none.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Key<'a, '_>> {
        // Lists of keys, one on each line, are what large inputs are.
        if self.is_plain
            && let Cut::Separator(ends) = &mut self.cut
        {
            if self.finished {
                return None;
            }
            let record = next_record(self.bytes, &mut self.next, ends);
            self.finished = self.next == self.bytes.len();
            self.outcome.records += 1;
            self.text = Text::Here(record);
            return Some(Key { record, text: record, bytes: record });
        }
        self.next_general()
    }

    #[inline(never)]
    fn next_general(&mut self) -> Option<Key<'a, '_>> {
        if !self.advance() {
            return None;
        }
        let text = match self.text {
            Text::Here(text) => text,
            Text::Taken(number) => &self.texts[number],
        };
        match form::key(self.format.form, text, &mut self.decoded) {
            Ok(bytes) => Some(Key { record: self.record, text, bytes }),
            Err(bad) => {
                (self.outcome.bad, self.finished) = (Some((self.start, bad)), true);
                self.left = 0..0;
                None
            }
        }
    }

    /// The key that the text of the last one means in another form.
    pub(crate) fn key_in<'k>(
        &'k self,
        form: Form,
        buffer: &'k mut Vec<u8>,
    ) -> Result<&'k [u8], Bad> {
        let text = match self.text {
            Text::Here(text) => text,
            Text::Taken(number) => &self.texts[number],
        };
        form::key(form, text, buffer)
    }

    /// Ends the piece at the record of the last key, for a key that it does not mean.
    pub(crate) fn refuse(&mut self, bad: Bad) {
        (self.outcome.bad, self.finished) = (Some((self.start, bad)), true);
        self.left = 0..0;
    }

    /// Whether the next key, if there is one, is of another record than the last one.
    pub(crate) fn is_at_record_end(&self) -> bool {
        self.left.is_empty()
    }

    /// How many records there are, where that is quick to tell: to have the memory for their keys at
    /// once, and no more.
    pub(crate) fn records_hint(&self) -> usize {
        match self.cut {
            Cut::Separator(_) => memchr::memchr_iter(self.format.separator, self.bytes).count() + 1,
            _ => 0,
        }
    }

    /// What was met.
    pub(super) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Bytes of the records that were read.
    pub(super) fn consumed(&self) -> usize {
        self.next
    }

    /// Goes on to the next text; whether there is one.
    fn advance(&mut self) -> bool {
        if let Some(number) = self.left.next() {
            self.text = Text::Taken(number);
            return true;
        }
        loop {
            if self.finished || !self.next_record() {
                return false;
            }
            match self.select() {
                Ok(true) => return true,
                Ok(false) => {}
                Err(Bad::Field) if self.format.skip_missing => self.outcome.missing += 1,
                Err(bad) => {
                    self.refuse(bad);
                    return false;
                }
            }
        }
    }

    /// Cuts off the next record; whether there is one.
    fn next_record(&mut self) -> bool {
        self.start = self.next;
        match &mut self.cut {
            Cut::Separator(ends) => {
                self.record = next_record(self.bytes, &mut self.next, ends);
                self.finished = self.next == self.bytes.len();
            }
            Cut::Csv(reader, is_end) => {
                let rest = &self.bytes[self.next..];
                match reader.read(rest, *is_end, &mut self.texts) {
                    CsvRecord::Whole { start, end } => {
                        self.start += start;
                        self.next += end;
                        self.record = without_line_end(&rest[start..end]);
                    }
                    CsvRecord::OpenQuote => {
                        self.outcome.records += 1;
                        self.refuse(Bad::Quote);
                        return false;
                    }
                    CsvRecord::Unfinished => {
                        self.finished = true;
                        return false;
                    }
                    CsvRecord::End => {
                        (self.next, self.finished) = (self.bytes.len(), true);
                        return false;
                    }
                }
            }
            Cut::Not => {
                self.record = self.bytes;
                (self.next, self.finished) = (self.bytes.len(), true);
            }
        }
        self.outcome.records += 1;
        true
    }

    /// Finds the first text of the record; whether there is one.
    fn select(&mut self) -> Result<bool, Bad> {
        let record = self.record;
        if matches!(self.cut, Cut::Not) {
            self.text = Text::Here(record);
            return Ok(true);
        }
        let record = self.format.without_cr(record);
        match &self.format.selection {
            Selection::Record => {
                self.text = Text::Here(record);
                Ok(true)
            }
            Selection::Fields(delimiter, Which::Number(number)) => {
                self.text = Text::Here(delimiter.field(record, *number).ok_or(Bad::Field)?);
                Ok(true)
            }
            _ => self.select_taken(record),
        }
    }

    /// The same where the texts have to be taken out of the record.
    fn select_taken(&mut self, record: &[u8]) -> Result<bool, Bad> {
        let each = match &self.format.selection {
            Selection::Fields(delimiter, _) => {
                self.texts.clear();
                delimiter.fields(record, &mut self.texts);
                true
            }
            Selection::Csv(_, Which::Number(number)) => {
                if *number >= self.texts.len() {
                    return Err(Bad::Field);
                }
                self.text = Text::Taken(*number);
                return Ok(true);
            }
            Selection::Json(path, each) => {
                self.texts.clear();
                if self.format.skip_missing && record.trim_ascii().is_empty() {
                    return Err(Bad::Field);
                }
                json::select(record, path, *each, &mut self.texts).map_err(|_| Bad::Json)?;
                if self.texts.len() == 0 && !each {
                    return Err(Bad::Field);
                }
                *each
            }
            _ => true,
        };
        if each {
            // An empty text would make every record with an empty field look like the others.
            self.texts.drop_empty();
        }
        self.left = 0..self.texts.len();
        Ok(match self.left.next() {
            Some(number) => {
                self.text = Text::Taken(number);
                true
            }
            None => false,
        })
    }
}

/// Cuts off the record at `next`, which goes on to the one after it.
#[inline]
fn next_record<'a>(bytes: &'a [u8], next: &mut usize, ends: &mut memchr::Memchr<'_>) -> &'a [u8] {
    let start = *next;
    let end = ends.next();
    *next = end.map_or(bytes.len(), |end| end + 1);
    &bytes[start..end.unwrap_or(bytes.len())]
}

fn without_line_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

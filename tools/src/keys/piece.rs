//! A piece of an input: whole records, cut into keys.

use crate::options::KeyArgs;

/// Why a record means no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is not written in hex digits.
    Hex,
    /// It has too few fields.
    Field,
}

/// Whole records, to be read once.
pub(crate) struct Piece<'a> {
    rest: &'a [u8],
    /// What ends a record; nothing does in an argument.
    separator: Option<u8>,
    format: &'a KeyArgs,
    /// Ends of records are found ahead of their turn, many at once.
    ends: memchr::Memchr<'a>,
    bytes: &'a [u8],
    finished: bool,
    records: u64,
    bad: Option<(usize, Bad)>,
    decoded: Vec<u8>,
}

impl<'a> Piece<'a> {
    /// Records that each end in a separator; the last one need not.
    pub(super) fn new(bytes: &'a [u8], format: &'a KeyArgs) -> Self {
        let separator = format.separator();
        Self::with(bytes, format, Some(separator))
    }

    /// A single record, whatever it holds.
    pub(super) fn argument(bytes: &'a [u8], format: &'a KeyArgs) -> Self {
        Self::with(bytes, format, None)
    }

    fn with(bytes: &'a [u8], format: &'a KeyArgs, separator: Option<u8>) -> Self {
        Piece {
            rest: bytes,
            separator,
            format,
            ends: memchr::memchr_iter(separator.unwrap_or(0), bytes),
            bytes,
            // An empty input holds no record, an empty argument is one.
            finished: bytes.is_empty() && separator.is_some(),
            records: 0,
            bad: None,
            decoded: Vec::new(),
        }
    }

    /// The next record as it stands in the input, and the key it means. None at the end, and at a
    /// record that means none.
    pub(crate) fn next(&mut self) -> Option<(&'a [u8], &[u8])> {
        if self.finished {
            return None;
        }
        let start = self.bytes.len() - self.rest.len();
        let record = match self.separator.and_then(|_| self.ends.next()) {
            Some(end) => {
                self.rest = &self.bytes[end + 1..];
                self.finished = self.rest.is_empty();
                &self.bytes[start..end]
            }
            None => {
                self.finished = true;
                std::mem::take(&mut self.rest)
            }
        };
        self.records += 1;
        let text = match self.separator {
            Some(_) => self.format.part(record),
            None => Some(record),
        };
        let Some(text) = text else {
            (self.bad, self.finished) = (Some((start, Bad::Field)), true);
            return None;
        };
        if !self.format.hex {
            return Some((record, text));
        }
        if !decode_hex(text, &mut self.decoded) {
            (self.bad, self.finished) = (Some((start, Bad::Hex)), true);
            return None;
        }
        Some((record, &self.decoded))
    }

    /// What was met.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome { records: self.records, bad: self.bad }
    }
}

/// What was met in a piece.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    /// How many records.
    pub(super) records: u64,
    /// Why the last of them means no key, and where it starts, if it does not.
    pub(super) bad: Option<(usize, Bad)>,
}

/// Two digits, of either case, for each byte.
fn decode_hex(text: &[u8], bytes: &mut Vec<u8>) -> bool {
    let (pairs, []) = text.as_chunks::<2>() else { return false };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    bytes.clear();
    bytes.extend(
        pairs.iter().map_while(|&[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8)),
    );
    bytes.len() == pairs.len()
}

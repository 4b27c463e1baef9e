//! The form of keys: what is done to a text before it is a key.
//!
//! Two lists of the same sums, one in upper and one in lower case, have no key in common, and neither
//! have hex digits and the bytes that they mean. So a file records what was done to the texts that it
//! was made from, and what adds texts to it or asks it for texts does the same.

use std::collections::BTreeMap;

use super::Encoding;
use crate::error::{Error, Result};

/// What is done to a text before it is a key, as a file's metadata record it.
///
/// | pair | holds |
/// | --- | --- |
/// | `keys.form` | words with a space between: `crlf`, `trim`, and one of `lower` and `hex` |
/// | `keys.encoding` | `le64`, `be64` or `decimal`: keys are whole numbers, encoded like this |
///
/// A file without either has keys as they stand, as those that other programs write.
///
/// ```
/// use bloomfile::hash::Form;
///
/// let metadata = [("keys.form".to_owned(), "trim hex".to_owned())].into();
/// let form = Form::recorded(&metadata)?.unwrap();
/// let mut buffer = Vec::new();
/// assert_eq!(form.key(b" 5D41 ", &mut buffer), Some(&[0x5d, 0x41][..]));
/// assert_eq!(form.key(b"wolf", &mut buffer), None);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// A CR in front of a newline belongs to the line end; [`key`](Self::key) sees no line ends.
    pub crlf: bool,
    /// White space around the text goes.
    pub trim: bool,
    /// How the rest of the text becomes a key.
    pub conversion: Conversion,
}

/// How a text becomes the bytes of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conversion {
    /// As it stands.
    #[default]
    None,
    /// In lower case.
    Lower,
    /// The bytes that hex digits mean.
    Hex,
    /// A whole number in decimal digits.
    Number(Encoding),
}

impl Form {
    /// The pair of the metadata that names what is done to texts; [`Encoding::METADATA`] is the other
    /// one.
    pub const METADATA: &'static str = "keys.form";

    /// The form that a file's metadata record, if they do; one that is not known is an error.
    pub fn recorded(metadata: &BTreeMap<String, String>) -> Result<Option<Self>> {
        let (words, encoding) = (metadata.get(Self::METADATA), metadata.get(Encoding::METADATA));
        if words.is_none() && encoding.is_none() {
            return Ok(None);
        }
        let (mut crlf, mut trim, mut agree) = (false, false, true);
        let mut conversion = Conversion::None;
        let mut convert = |asked| {
            agree &= [Conversion::None, asked].contains(&conversion);
            conversion = asked;
        };
        for word in words.iter().flat_map(|words| words.split_ascii_whitespace()) {
            match word {
                "crlf" => crlf = true,
                "trim" => trim = true,
                "lower" => convert(Conversion::Lower),
                "hex" => convert(Conversion::Hex),
                other => return Err(unknown(Self::METADATA, other)),
            }
        }
        if let Some(name) = encoding {
            let known = name.parse().map_err(|_| unknown(Encoding::METADATA, name))?;
            convert(Conversion::Number(known));
        }
        if !agree {
            let values: Vec<String> = [words, encoding].into_iter().flatten().cloned().collect();
            return Err(unknown(Self::METADATA, &values.join(", ")));
        }
        Ok(Some(Form { crlf, trim, conversion }))
    }

    /// The pairs that record it; none for keys as they stand.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut words = Vec::new();
        words.extend(self.crlf.then_some("crlf"));
        words.extend(self.trim.then_some("trim"));
        let mut encoding = None;
        match self.conversion {
            Conversion::None => {}
            Conversion::Lower => words.push("lower"),
            Conversion::Hex => words.push("hex"),
            Conversion::Number(number) => encoding = Some(number.name()),
        }
        let form = Some(words.join(" ")).filter(|words| !words.is_empty());
        let form = form.map(|words| (Self::METADATA, words));
        form.into_iter().chain(encoding.map(|name| (Encoding::METADATA, name.to_owned()))).collect()
    }

    /// Whether texts are keys as they stand.
    pub fn is_plain(&self) -> bool {
        *self == Form::default()
    }

    /// The key that a text means, if it means one; `buffer` is for keys that are not part of the text.
    #[inline]
    pub fn key<'k>(&self, text: &'k [u8], buffer: &'k mut Vec<u8>) -> Option<&'k [u8]> {
        let text = if self.trim { text.trim_ascii() } else { text };
        match self.conversion {
            Conversion::None => Some(text),
            _ => self.convert(text, buffer),
        }
    }

    #[inline(never)]
    fn convert<'k>(&self, text: &'k [u8], buffer: &'k mut Vec<u8>) -> Option<&'k [u8]> {
        buffer.clear();
        match self.conversion {
            Conversion::None => return Some(text),
            Conversion::Lower => lower(text, buffer),
            Conversion::Hex => decode_hex(text, buffer)?,
            Conversion::Number(encoding) => encode_number(text, encoding, buffer)?,
        }
        Some(buffer)
    }
}

/// The value comes from a file: it is not to end a message and begin another.
fn unknown(pair: &'static str, value: &str) -> Error {
    Error::parameter(
        pair,
        value.escape_debug(),
        "no such form of keys is known; use a newer bloomfile",
    )
}

/// Each character by itself becomes lower case, as Unicode has it; bytes that are not UTF-8 stay.
fn lower(text: &[u8], buffer: &mut Vec<u8>) {
    if text.is_ascii() {
        buffer.extend(text.iter().map(u8::to_ascii_lowercase));
        return;
    }
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars().flat_map(char::to_lowercase) {
            buffer.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        buffer.extend_from_slice(chunk.invalid());
    }
}

/// No hex digit.
const NO_DIGIT: u8 = 0xff;

/// The value of each hex digit, of either case.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

/// Two digits, of either case, for each byte.
fn decode_hex(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let mut all = 0;
    bytes.extend(pairs.iter().map(|&[high, low]| {
        let (high, low) = (DIGITS[usize::from(high)], DIGITS[usize::from(low)]);
        all |= high | low;
        high << 4 | low
    }));
    // Only what is no digit has a high bit.
    (all < 16).then_some(())
}

/// A whole number in decimal digits, with or without a sign.
fn encode_number(text: &[u8], encoding: Encoding, bytes: &mut Vec<u8>) -> Option<()> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[zeros.min(digits.len() - 1)..];
    let negative = negative && digits != b"0";
    if encoding == Encoding::Decimal {
        bytes.extend(negative.then_some(b'-'));
        bytes.extend_from_slice(digits);
        return Some(());
    }
    let number: u64 = str::from_utf8(digits).ok()?.parse().ok()?;
    let number = if negative {
        // Two's complement, as far as 64 bits have it.
        0i64.checked_sub_unsigned(number)?.cast_unsigned()
    } else {
        number
    };
    bytes.extend_from_slice(&match encoding {
        Encoding::Be64 => number.to_be_bytes(),
        _ => number.to_le_bytes(),
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(words: &str) -> Form {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let metadata = match words {
            "le64" | "be64" | "decimal" => BTreeMap::from([pair(Encoding::METADATA, words)]),
            _ => BTreeMap::from([pair(Form::METADATA, words)]),
        };
        Form::recorded(&metadata).unwrap().unwrap()
    }

    fn key(form: Form, text: &str) -> Option<Vec<u8>> {
        form.key(text.as_bytes(), &mut Vec::new()).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_form_is_read_as_it_was_recorded() {
        for words in ["crlf", "trim", "crlf trim lower", "trim hex", "le64", "be64", "decimal"] {
            let form = form(words);
            let pairs = form.pairs().into_iter().map(|(name, value)| (name.to_owned(), value));
            assert_eq!(Form::recorded(&pairs.collect()).unwrap(), Some(form), "{words}");
        }
        assert_eq!(Form::recorded(&BTreeMap::new()).unwrap(), None);
        assert_eq!(Form::default().pairs(), []);
        for (name, value) in
            [(Form::METADATA, "rot13"), (Encoding::METADATA, "le16"), (Form::METADATA, "lower hex")]
        {
            let metadata = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let error = Form::recorded(&metadata).unwrap_err();
            assert!(
                matches!(error, Error::Parameter { name: pair, .. } if pair == name),
                "{error}"
            );
        }
    }

    #[test]
    fn texts_become_keys() {
        for (words, text, expected) in [
            ("trim", "\t a b\r ", Some(&b"a b"[..])),
            ("lower", "Ab\u{c4}\u{3a3}", Some("ab\u{e4}\u{3c3}".as_bytes())),
            ("hex", "00fF", Some(&[0, 0xff])),
            ("hex", "00f", None),
            ("hex", "0g", None),
            ("trim hex", " 61 ", Some(b"a")),
            ("le64", "258", Some(&[2, 1, 0, 0, 0, 0, 0, 0])),
            ("be64", "258", Some(&[0, 0, 0, 0, 0, 0, 1, 2])),
            ("le64", "-1", Some(&[0xff; 8])),
            ("le64", "18446744073709551615", Some(&[0xff; 8])),
            ("le64", "18446744073709551616", None),
            ("le64", "-9223372036854775808", Some(&[0, 0, 0, 0, 0, 0, 0, 0x80])),
            ("le64", "-9223372036854775809", None),
            ("le64", "1.5", None),
            ("le64", "", None),
            ("le64", "-", None),
            ("decimal", "+007", Some(b"7")),
            ("decimal", "-000", Some(b"0")),
            ("decimal", "-42", Some(b"-42")),
            ("decimal", "123456789012345678901234567890", Some(b"123456789012345678901234567890")),
            ("decimal", "0x10", None),
        ] {
            assert_eq!(key(form(words), text).as_deref(), expected, "{words}: {text}");
        }
        let mut buffer = Vec::new();
        let broken = form("lower").key(b"A\xffB", &mut buffer).map(<[u8]>::to_vec);
        assert_eq!(broken, Some(b"a\xffb".to_vec()));
    }
}

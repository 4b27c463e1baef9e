//! The form of keys: what is done to a text before it is a key.
//!
//! Two lists of the same sums, one in upper and one in lower case, have no key in common, and neither
//! have hex digits and the bytes that they mean. So a file records what was done to the texts that it
//! was made from, and the commands that add to it or ask it do the same:
//!
//! | pair | holds |
//! | --- | --- |
//! | `keys.form` | words with a space between: `crlf`, `trim`, and one of `lower` and `hex` |
//! | `keys.encoding` | `le64`, `be64` or `decimal`: keys are whole numbers, encoded like this |
//!
//! A file without either has keys as they stand, as those that other programs write.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;

use super::Bad;
use crate::options::FormArgs;
use crate::text;

/// The pairs of the metadata.
const FORM: &str = "keys.form";
const ENCODING: &str = "keys.encoding";

/// Names of pairs that only the options for the form may write.
pub(crate) const RESERVED: [&str; 2] = [FORM, ENCODING];

/// What is done to the text of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// A CR in front of a newline belongs to the line end.
    pub(crate) crlf: bool,
    /// White space around the text goes.
    pub(super) trim: bool,
    conversion: Conversion,
}

/// How the rest of the text becomes a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Conversion {
    /// As it stands.
    #[default]
    None,
    /// In lower case.
    Lower,
    /// The bytes that hex digits mean.
    Hex,
    /// A whole number.
    Number(Encoding),
}

/// How a whole number becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    // 8 bytes, the lowest or the highest first. (Not in the help: the option says it.)
    Le64,
    Be64,
    // Decimal digits.
    Decimal,
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Encoding::Le64 => "le64",
            Encoding::Be64 => "be64",
            Encoding::Decimal => "decimal",
        }
    }
}

impl From<FormArgs> for Form {
    fn from(args: FormArgs) -> Self {
        let conversion = match args {
            FormArgs { encoding: Some(encoding), .. } => Conversion::Number(encoding),
            FormArgs { hex: true, .. } => Conversion::Hex,
            FormArgs { lower: true, .. } => Conversion::Lower,
            _ => Conversion::None,
        };
        Form { crlf: args.crlf, trim: args.trim, conversion }
    }
}

/// The options that ask for a form.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conversion = match self.conversion {
            Conversion::None => None,
            Conversion::Lower => Some("--lower".to_owned()),
            Conversion::Hex => Some("--hex".to_owned()),
            Conversion::Number(encoding) => Some(format!("--encoding {}", encoding.name())),
        };
        let options = [self.crlf.then(|| "--crlf".into()), self.trim.then(|| "--trim".into())];
        let options: Vec<String> = options.into_iter().chain([conversion]).flatten().collect();
        f.write_str(&options.join(" "))
    }
}

impl Form {
    /// Whether texts are keys as they stand.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Form::default()
    }

    /// The pairs that record it; none for keys as they stand.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
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
        let form = form.map(|words| (FORM, words));
        form.into_iter().chain(encoding.map(|name| (ENCODING, name.to_owned()))).collect()
    }

    /// The form that a file records, if it does; an error tells what cannot be understood, and can
    /// be shown.
    pub(crate) fn recorded(metadata: &BTreeMap<String, String>) -> Result<Option<Self>, String> {
        let (form, encoding) = (metadata.get(FORM), metadata.get(ENCODING));
        if form.is_none() && encoding.is_none() {
            return Ok(None);
        }
        let unknown = |pair: &str, value: &str| format!("{pair} = {}", text::key(value.as_bytes()));
        let mut args = FormArgs::default();
        for word in form.iter().flat_map(|words| words.split_ascii_whitespace()) {
            match word {
                "crlf" => args.crlf = true,
                "trim" => args.trim = true,
                "lower" => args.lower = true,
                "hex" => args.hex = true,
                other => return Err(unknown(FORM, other)),
            }
        }
        if let Some(name) = encoding {
            let known = Encoding::value_variants().iter().find(|encoding| encoding.name() == name);
            args.encoding = Some(*known.ok_or_else(|| unknown(ENCODING, name))?);
        }
        let conversions = [args.lower, args.hex, args.encoding.is_some()];
        if conversions.into_iter().filter(|&asked| asked).count() > 1 {
            let values = [form, encoding].into_iter().flatten();
            return Err(unknown(FORM, &values.cloned().collect::<Vec<_>>().join(", ")));
        }
        Ok(Some(args.into()))
    }

    /// The form for a file that records `recorded`, when options ask for this one. None if they
    /// contradict each other.
    ///
    /// What goes from around a text may be asked for in addition: it depends on the input, and leaves
    /// keys of the same form. Another conversion makes other keys of the same texts.
    pub(crate) fn on_file_with(self, recorded: Form) -> Option<Self> {
        let agrees = [Conversion::None, recorded.conversion].contains(&self.conversion);
        agrees.then_some(Form {
            crlf: self.crlf || recorded.crlf,
            trim: self.trim || recorded.trim,
            conversion: recorded.conversion,
        })
    }

    /// The key that a text means; `buffer` is for keys that are not part of the text.
    #[inline]
    pub(super) fn key<'k>(&self, text: &'k [u8], buffer: &'k mut Vec<u8>) -> Result<&'k [u8], Bad> {
        let text = if self.trim { text.trim_ascii() } else { text };
        match self.conversion {
            Conversion::None => Ok(text),
            _ => self.convert(text, buffer),
        }
    }

    #[inline(never)]
    fn convert<'k>(&self, text: &'k [u8], buffer: &'k mut Vec<u8>) -> Result<&'k [u8], Bad> {
        buffer.clear();
        match self.conversion {
            Conversion::None => return Ok(text),
            Conversion::Lower => lower(text, buffer),
            Conversion::Hex => decode_hex(text, buffer).ok_or(Bad::Hex)?,
            Conversion::Number(encoding) => {
                encode_number(text, encoding, buffer).ok_or(Bad::Number(encoding))?;
            }
        }
        Ok(buffer)
    }
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
            "le64" | "be64" | "decimal" => BTreeMap::from([pair(ENCODING, words)]),
            _ => BTreeMap::from([pair(FORM, words)]),
        };
        Form::recorded(&metadata).unwrap().unwrap()
    }

    fn key(form: Form, text: &str) -> Option<Vec<u8>> {
        form.key(text.as_bytes(), &mut Vec::new()).ok().map(<[u8]>::to_vec)
    }

    #[test]
    fn a_form_is_read_as_it_was_recorded() {
        for words in ["crlf", "trim", "crlf trim lower", "trim hex", "le64", "be64", "decimal"] {
            let form = form(words);
            let pairs = form.pairs().into_iter().map(|(name, value)| (name.to_owned(), value));
            assert_eq!(Form::recorded(&pairs.collect()), Ok(Some(form)), "{words}");
        }
        assert_eq!(Form::recorded(&BTreeMap::new()), Ok(None));
        assert_eq!(Form::default().pairs(), []);
        for (name, value) in [(FORM, "rot13"), (ENCODING, "le16"), (FORM, "lower hex")] {
            let metadata = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert!(Form::recorded(&metadata).unwrap_err().starts_with(name));
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
        assert_eq!(broken, Ok(b"a\xffb".to_vec()));
    }

    #[test]
    fn options_may_add_and_must_not_contradict() {
        let plain = Form::default();
        assert_eq!(plain.on_file_with(form("trim lower")), Some(form("trim lower")));
        assert_eq!(form("crlf").on_file_with(form("hex")), Some(form("crlf hex")));
        assert_eq!(form("hex").on_file_with(form("hex")), Some(form("hex")));
        assert_eq!(form("hex").on_file_with(form("lower")), None);
        assert_eq!(form("lower").on_file_with(form("trim")), None);
        assert_eq!(form("le64").on_file_with(form("be64")), None);
    }
}

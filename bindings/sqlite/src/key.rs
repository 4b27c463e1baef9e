//! SQL values as keys (docs/encoding.md).

use std::collections::BTreeMap;
use std::path::Path;

use bloomfile::hash::{EncodedNumber, Encoding};
use rusqlite::types::ValueRef;

use crate::Result;

/// The pair of the metadata that says what the command did to texts.
const FORM: &str = "keys.form";

/// What the values of a file's keys are: what its metadata say of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    /// How numbers are encoded; none if nothing was said of that.
    pub(crate) encoding: Option<Encoding>,
    /// What was done to texts before they were keys.
    texts: Option<String>,
}

/// The bytes of a key.
pub(crate) enum Key<'a> {
    Bytes(&'a [u8]),
    Number(EncodedNumber),
}

impl AsRef<[u8]> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Key::Bytes(bytes) => bytes,
            Key::Number(number) => number.as_ref(),
        }
    }
}

impl Form {
    /// What a file says of its keys.
    pub(crate) fn recorded(path: &Path, metadata: &BTreeMap<String, String>) -> Result<Self> {
        let encoding = Encoding::recorded(metadata);
        let encoding = encoding.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Form { encoding, texts: metadata.get(FORM).cloned() })
    }

    /// The key that a value is; none for NULL.
    #[inline]
    pub(crate) fn key<'a>(&self, value: ValueRef<'a>) -> Result<Option<Key<'a>>> {
        Ok(Some(match value {
            ValueRef::Null => return Ok(None),
            ValueRef::Blob(bytes) => Key::Bytes(bytes),
            ValueRef::Text(text) => {
                if self.encoding.is_some() || self.texts.is_some() {
                    self.check_text(text)?;
                }
                Key::Bytes(text)
            }
            ValueRef::Integer(number) => self.number(number)?,
            ValueRef::Real(number) => return Err(real(number)),
        }))
    }

    fn number<'a>(&self, number: i64) -> Result<Key<'a>> {
        let key = self.encoding.and_then(|encoding| encoding.encode(number.into()));
        key.map(Key::Number).ok_or_else(|| {
            format!(
                "the key {number} is a number, and the file does not say how numbers are encoded: ask \
                 for CAST(… AS TEXT) if its keys are texts, or build it with an encoding (le64, be64 \
                 or decimal)"
            )
            .into()
        })
    }

    /// Refuses a text that is not a key of such a file as it stands: the answer would always be "no".
    #[cold]
    fn check_text(&self, text: &[u8]) -> Result<()> {
        if let Some(form) = &self.texts {
            return Err(format!(
                "the keys of the file are texts of another form ({FORM} = {form}): do the same to the \
                 value, and give it as a BLOB"
            )
            .into());
        }
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let zero_in_front = digits.starts_with(b"0") && (digits.len() > 1 || text.len() > 1);
        let whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && !zero_in_front;
        match self.encoding {
            Some(Encoding::Decimal) if whole => Ok(()),
            Some(encoding) => Err(format!(
                "the key {:?} is a text, and the keys of the file are numbers ({} = {}): give an \
                 INTEGER",
                String::from_utf8_lossy(text),
                Encoding::METADATA,
                encoding.name()
            )
            .into()),
            None => Ok(()),
        }
    }
}

#[cold]
fn real(number: f64) -> Box<dyn std::error::Error + Send + Sync> {
    format!("the key {number} is a REAL, which is no key: cast it to what was meant").into()
}

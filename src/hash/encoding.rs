//! How whole numbers become keys.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::str::FromStr;

use super::Hasher;
use crate::error::{Error, Result};

/// How a whole number becomes a key: a number has no bytes of its own.
///
/// What makes a file of numbers records the name of the encoding in its metadata, under
/// [`Encoding::METADATA`], so that whatever asks the file encodes numbers alike.
///
/// ```
/// use bloomfile::hash::Encoding;
///
/// let key = |encoding: Encoding, number| encoding.encode(number).unwrap().as_ref().to_vec();
/// assert_eq!(key(Encoding::Le64, 258), [2, 1, 0, 0, 0, 0, 0, 0]);
/// assert_eq!(key(Encoding::Be64, -1), [0xff; 8]);
/// assert_eq!(key(Encoding::Decimal, -42), b"-42");
/// assert!(Encoding::Le64.encode(1 << 64).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// 8 bytes, the lowest first; negative numbers as two's complement.
    Le64,
    /// The same with the highest byte first.
    Be64,
    /// Decimal digits without zeros in front, and a minus sign where there is one.
    Decimal,
}

/// The key of a number; made by [`Encoding::encode`].
#[derive(Clone, Copy, Debug)]
pub struct EncodedNumber {
    bytes: [u8; LONGEST],
    length: usize,
}

/// Digits of the longest number, with its sign.
const LONGEST: usize = 40;

impl AsRef<[u8]> for EncodedNumber {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Encoding {
    /// The pair of the metadata that names the encoding of a file's keys.
    pub const METADATA: &'static str = "keys.encoding";

    /// Every encoding.
    pub const ALL: [Encoding; 3] = [Encoding::Le64, Encoding::Be64, Encoding::Decimal];

    /// The name in metadata and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Le64 => "le64",
            Encoding::Be64 => "be64",
            Encoding::Decimal => "decimal",
        }
    }

    /// The encoding that a file's metadata name, if they do; one that is not known is an error.
    ///
    /// ```
    /// use bloomfile::hash::Encoding;
    ///
    /// let metadata = [("keys.encoding".to_owned(), "be64".to_owned())].into();
    /// assert_eq!(Encoding::recorded(&metadata)?, Some(Encoding::Be64));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn recorded(metadata: &BTreeMap<String, String>) -> Result<Option<Self>> {
        metadata.get(Self::METADATA).map(|name| name.parse()).transpose()
    }

    /// The key of a number; none where 64 bits do not hold it.
    #[inline]
    pub fn encode(self, number: i128) -> Option<EncodedNumber> {
        let mut bytes = [0; LONGEST];
        let word = || match i64::try_from(number) {
            Ok(signed) => Some(signed.cast_unsigned()),
            Err(_) => u64::try_from(number).ok(),
        };
        let length = match self {
            Encoding::Le64 => {
                bytes[..8].copy_from_slice(&word()?.to_le_bytes());
                8
            }
            Encoding::Be64 => {
                bytes[..8].copy_from_slice(&word()?.to_be_bytes());
                8
            }
            Encoding::Decimal => {
                let mut rest = &mut bytes[..];
                write!(rest, "{number}").ok()?;
                LONGEST - rest.len()
            }
        };
        Some(EncodedNumber { bytes, length })
    }

    /// The hash of a number's key; none where 64 bits do not hold it.
    #[inline]
    pub fn hash(self, hasher: &Hasher, number: i128) -> Option<u64> {
        self.encode(number).map(|key| hasher.hash(key))
    }
}

impl FromStr for Encoding {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|encoding| encoding.name() == name);
        known.ok_or_else(|| Error::parameter("encoding", name, "it must be le64, be64 or decimal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_limits_have_keys_and_those_beyond_have_none() {
        let key = |encoding: Encoding, number: i128| {
            encoding.encode(number).map(|key| key.as_ref().to_vec())
        };
        let least = i128::from(i64::MIN);
        let most = i128::from(u64::MAX);
        for encoding in [Encoding::Le64, Encoding::Be64] {
            assert_eq!(key(encoding, most), Some(vec![0xff; 8]));
            assert_eq!(key(encoding, most), key(encoding, -1));
            assert!(key(encoding, least).is_some());
            assert_eq!((key(encoding, least - 1), key(encoding, most + 1)), (None, None));
        }
        assert_eq!(key(Encoding::Le64, least), Some(vec![0, 0, 0, 0, 0, 0, 0, 0x80]));
        assert_eq!(key(Encoding::Be64, least), Some(vec![0x80, 0, 0, 0, 0, 0, 0, 0]));
        for number in [0, 7, -7, i128::MAX, i128::MIN] {
            assert_eq!(key(Encoding::Decimal, number), Some(number.to_string().into_bytes()));
        }
    }

    #[test]
    fn an_encoding_is_read_as_it_was_recorded() {
        for encoding in Encoding::ALL {
            let metadata =
                |name: &str| BTreeMap::from([(Encoding::METADATA.to_owned(), name.to_owned())]);
            assert_eq!(Encoding::recorded(&metadata(encoding.name())).unwrap(), Some(encoding));
            let error = Encoding::recorded(&metadata("le16")).unwrap_err();
            assert!(matches!(error, Error::Parameter { name: "encoding", .. }));
        }
        assert_eq!(Encoding::recorded(&BTreeMap::new()).unwrap(), None);
    }
}

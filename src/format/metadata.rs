//! The pairs of a user's own that a slot carries (F-27).

use super::slot::METADATA_BYTES;
use crate::error::{Error, Result};

/// The user's pairs, sorted by key.
pub(crate) type Metadata = std::collections::BTreeMap<String, String>;

/// Metadata as bytes: for each pair, sorted by key, `u16 length, key, u16 length, value` (F-27).
pub(crate) fn encode_metadata(metadata: &Metadata) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (key, value) in metadata {
        if key.is_empty() {
            return Err(Error::parameter("metadata key", "empty", "give each pair a name"));
        }
        for text in [key, value] {
            // Anything longer than a u16 is longer than the space as well.
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    if bytes.len() > METADATA_BYTES {
        return Err(Error::parameter(
            "metadata",
            format!("{} bytes long", bytes.len()),
            format!("a file has room for {METADATA_BYTES} bytes, 4 of them spent on each pair"),
        ));
    }
    Ok(bytes)
}

pub(super) fn decode_metadata(mut bytes: &[u8]) -> Result<Metadata> {
    let bad = |reason: &str| Error::field("the slot", "metadata", "unreadable", reason);
    let mut text = || -> Result<Option<String>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (length, rest) =
            bytes.split_first_chunk::<2>().ok_or_else(|| bad("it ends inside a length"))?;
        let (text, rest) = rest
            .split_at_checked(u16::from_le_bytes(*length).into())
            .ok_or_else(|| bad("a text reaches beyond its end"))?;
        bytes = rest;
        let text = std::str::from_utf8(text).map_err(|_| bad("a text is not UTF-8"))?;
        Ok(Some(text.to_owned()))
    };
    let mut metadata = Metadata::new();
    while let Some(key) = text()? {
        let value = text()?.ok_or_else(|| bad("a key has no value"))?;
        let sorted = metadata.last_key_value().is_none_or(|(last, _)| *last < key);
        if key.is_empty() || !sorted {
            return Err(bad("keys must be sorted, distinct and not empty"));
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

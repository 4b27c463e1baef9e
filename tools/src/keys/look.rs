//! A look at the first bytes of an input: what is no list of keys, or not in the form that it is
//! read in, would give keys that are never found.

use super::format::{BYTE_ORDER_MARK, Format, Selection, Which};

/// How much of an input is looked at for bytes that no text has.
const LOOKED_AT: usize = 8192;

/// The first bytes of a filter.
pub(crate) const FILTER: [u8; 8] = *b"\x89BLM\r\n\x1a\n";

/// First bytes, and what has them.
const KINDS: [(&[u8], &str); 10] = [
    (b"PAR1", "a Parquet file"),
    (&FILTER, "a Bloom filter"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PK\x03\x04", "a ZIP archive, as those of spreadsheets are"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// What is suspicious about the first piece of an input, if something is.
pub(super) fn warning(piece: &[u8], format: &Format) -> Option<String> {
    if format.separator == 0 {
        return None;
    }
    let start = &piece[..piece.len().min(LOOKED_AT)];
    let kind = KINDS.iter().find(|(first, _)| start.starts_with(first)).map(|&(_, kind)| kind);
    if let Some(kind) = kind.or(start.contains(&0).then_some("binary data")) {
        let record = format.record_name();
        return Some(format!(
            "looks like {kind}, not like a list of keys; each {record} of it is taken as it is"
        ));
    }
    let is_cut_at_bytes = matches!(format.selection, Selection::Record | Selection::Fields(..));
    if !is_cut_at_bytes {
        return None;
    }
    if start.starts_with(BYTE_ORDER_MARK) && !format.has_beginning() {
        let warning = "starts with a byte order mark, which is taken as part of the first key";
        return Some(warning.into());
    }
    let line = format.without_cr(&start[..memchr::memchr(b'\n', start)?]);
    let text = match &format.selection {
        Selection::Fields(delimiter, Which::Number(number)) => delimiter.field(line, *number)?,
        _ => line,
    };
    let warning = "its lines end in CR LF, and each CR is taken as part of its key; give --crlf";
    (text.ends_with(b"\r") && !format.form.trim).then(|| warning.into())
}

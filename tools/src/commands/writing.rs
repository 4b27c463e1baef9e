//! What the commands that write to a filter share.

use std::path::Path;

use bloomfile::{CellKind, Filter, filter::Recovery, hash::Hasher};

use super::wording::records;
use crate::failure::{Failure, Result};
use crate::keys::{Format, Piece};
use crate::options::SecretArgs;
use crate::{output, text, units};

/// Opens a filter for writing, and says so if it had to be recovered.
pub(super) fn open(path: &Path, secret: &SecretArgs, quiet: bool) -> Result<Filter> {
    let filter = match secret.key()? {
        Some(key) => Filter::open_with_key(path, &key),
        None => Filter::open(path),
    };
    let filter = filter.map_err(Failure::file(path))?;
    if let Some(recovery) = filter.recovery().filter(|_| !quiet) {
        tell_recovery(path, recovery, filter.kind());
    }
    Ok(filter)
}

pub(super) fn tell_recovery(path: &Path, recovery: &Recovery, kind: CellKind) {
    let missing = match recovery.records_missing {
        0 => String::new(),
        count => format!(", {} that had not been synced lost", units::counted(count, "record")),
    };
    output::note(format_args!(
        "{}: recovered after a crash: {} replayed{missing}, {} not verifiable",
        text::path(path),
        records(recovery.records_replayed, kind),
        units::counted(recovery.pages_unverifiable, "page"),
    ));
}

/// The hashes of the keys of a piece, in order.
pub(super) fn hashes(hasher: Hasher, piece: &mut Piece<'_>) -> Vec<u64> {
    let mut hashes = Vec::with_capacity(piece.records_hint());
    while let Some(key) = piece.next() {
        hashes.push(hasher.hash(key.bytes));
    }
    hashes
}

/// What keys did to a filter. A key that changes it is certainly new; one that does not is present
/// already, or a false positive.
pub(super) fn news(keys: u64, new: u64) -> String {
    let others = keys.saturating_sub(new);
    match (keys, others) {
        (0, _) => String::new(),
        (_, 0) => ": all new".into(),
        _ => format!(
            ": {} new, {} already present or false positive",
            units::count(new),
            units::count(others)
        ),
    }
}

/// What is said of keys that `--resume` passed over.
pub(super) fn skipped_note(skipped: u64) -> String {
    match skipped {
        0 => String::new(),
        skipped => format!("{} skipped, ", units::counted(skipped, "key")),
    }
}

/// What is said of a last record that was left.
pub(super) fn unfinished_note(unfinished: bool, format: &Format) -> String {
    if unfinished {
        format!("; the last {} has not ended: left for the next run", format.record_name())
    } else {
        String::new()
    }
}

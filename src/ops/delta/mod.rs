//! Deltas: what turns one version of a file into another, and clean copies of files.

mod apply;
#[cfg(feature = "files")]
mod in_place;
#[cfg(feature = "files")]
mod make;
#[cfg(feature = "files")]
mod operation;
mod outline;
mod read;

#[cfg(feature = "files")]
pub(crate) use in_place::apply_in_place;
#[cfg(feature = "files")]
pub use operation::DeltaOperation;

#[cfg(feature = "files")]
use std::path::Path;
use std::sync::Arc;

use self::apply::rebuild;
use self::outline::slot_of;
use self::read::DeltaFile;
use super::digest::Digest;
use super::source::Source;
use super::stream::Listener;
use crate::error::{Error, Result};
use crate::file::finish_slot;
use crate::format::{DeltaHeader, Slot};
use crate::geometry::PAGE_BYTES;
use crate::random::uuid_text;
use crate::storage::{Bytes, NewBytes, WriteMedium};

/// What a delta is; told by `DeltaOperation` and `inspect_delta`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DeltaSummary {
    /// The identity of the file that it applies to.
    pub old_uuid: String,
    /// The contents of the file that it applies to.
    pub old_digest: Digest,
    /// The identity of the file that it leads to.
    pub new_uuid: String,
    /// The contents of the file that it leads to.
    pub new_digest: Digest,
    /// Length of the delta in bytes.
    pub bytes: u64,
    /// Length of the file that it leads to in bytes.
    pub new_bytes: u64,
    /// Chunks of 4 MiB of data in which something differs.
    pub chunks: u64,
    /// Chunks that hold whole pages, because all that differs takes more.
    pub chunks_of_pages: u64,
}

impl DeltaSummary {
    fn of(header: &DeltaHeader, new_bytes: u64, chunks_of_pages: u64) -> Self {
        DeltaSummary {
            old_uuid: uuid_text(&header.old_uuid),
            old_digest: Digest::from_bytes(header.old_digest),
            new_uuid: uuid_text(&header.superblock.uuid),
            new_digest: Digest::from_bytes(header.new_digest),
            bytes: header.delta_bytes,
            new_bytes,
            chunks: header.chunks,
            chunks_of_pages,
        }
    }
}

/// Makes the file that a delta leads to, in all but its name.
fn make_new<M: WriteMedium>(
    delta: &DeltaFile<'_>,
    old: &[Source<'_>],
    slot: Slot,
    medium: &M,
    listener: Listener<'_>,
) -> Result<DeltaSummary> {
    let header = &delta.header;
    let rebuilt = rebuild(header, old, &delta.chunks, medium, listener)?;
    if rebuilt != Digest::from_bytes(header.new_digest) {
        return Err(outline::blame_for_result(header, old)?);
    }
    let (_, slot) = finish_slot(medium, header.superblock.clone(), slot, false)?;
    let promised = header.new.iter().map(|segment| &segment.record);
    if promised.zip(&slot.segments).any(|(a, b)| (a.table_crc, a.ones) != (b.table_crc, b.ones)) {
        let reason = "its page tables are not those of the pages".into();
        return Err(Error::DamagedDelta { reason });
    }
    Ok(DeltaSummary::of(header, slot.file_bytes, delta.chunks.of_pages()))
}

/// Applies a delta whose bytes are in memory to a file whose bytes are, as
/// [`DeltaOperation::apply`](crate::ops::DeltaOperation::apply): the bytes of the new file, of which
/// there are at most `most`.
///
/// A delta of a few hundred bytes can lead to a file of any length: nothing in it tells of a journal but
/// how long it is, and little of a new segment without keys. So memory for the file is taken when all of
/// the delta was checked, and none if the file would be longer ([`Error::TooLong`]).
///
/// ```
/// # #[cfg(feature = "files")] {
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Filter, Options, Reader, ops::{DeltaOperation, apply_delta_bytes}};
///
/// Options::new().capacity(1000).false_positive_rate(0.01).create(at("old"))?.close()?;
/// std::fs::copy(at("old"), at("new")).unwrap();
/// let new = Filter::open(at("new"))?;
/// new.add("sheep")?;
/// new.close()?;
/// DeltaOperation::new().make(at("old"), at("new"), at("delta"))?;
///
/// let [old, delta] = ["old", "delta"].map(|name| std::fs::read(at(name)).unwrap());
/// let new = apply_delta_bytes(delta, old, 1 << 20)?;
/// assert!(Reader::from_bytes(&new)?.contains("sheep"));
/// # }
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn apply_delta_bytes(
    delta: impl AsRef<[u8]>,
    old: impl AsRef<[u8]>,
    most: u64,
) -> Result<Vec<u8>> {
    let delta = DeltaFile::read(Box::new(Bytes(delta.as_ref())))?;
    let old = Source::all_of(Arc::new(Bytes(old.as_ref())), None)?;
    outline::refuse_other_version(&delta.header, &old)?;
    let slot = slot_of(&delta.header)?;
    delta.chunks.check_all()?;
    if slot.file_bytes > most {
        return Err(Error::TooLong { bytes: slot.file_bytes, most });
    }
    let medium = NewBytes::new(slot.file_bytes).map_err(Error::io("make room for the new file"))?;
    make_new(&delta, &old, slot, &medium, None)?;
    Ok(medium.into_bytes())
}

/// What a delta applies to and leads to; every byte of it is checked.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Options, ops::{DeltaOperation, digest, inspect_delta}};
///
/// let file = Options::new().capacity(1000).false_positive_rate(0.01).create(at("file"))?;
/// DeltaOperation::new().make(at("file"), at("file"), at("delta"))?;
/// let delta = inspect_delta(at("delta"))?;
/// assert_eq!((delta.old_digest, delta.new_digest), (digest(at("file"))?, digest(at("file"))?));
/// assert_eq!(delta.chunks, 0);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn inspect_delta(path: impl AsRef<Path>) -> Result<DeltaSummary> {
    let inspect = || {
        let delta = DeltaFile::open(path.as_ref())?;
        delta.chunks.check_all()?;
        let slot = slot_of(&delta.header)?;
        Ok(DeltaSummary::of(&delta.header, slot.file_bytes, delta.chunks.of_pages()))
    };
    inspect().map_err(|error: Error| error.at(path.as_ref()))
}

/// Bytes of data pages.
fn page_bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES
}

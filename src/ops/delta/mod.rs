//! Deltas: what turns one version of a file into another, and clean copies of files.

mod apply;
mod in_place;
mod make;
mod outline;
mod read;

pub(crate) use in_place::apply_in_place;

use std::collections::BTreeMap;
use std::path::Path;

use self::apply::rebuild;
use self::outline::{outline_of, slot_of};
use self::read::{Chunks, DeltaFile};
use super::digest::Digest;
use super::source::Source;
use super::stream::{Listener, Progress};
use crate::error::{Error, Result};
use crate::file::finish_slot;
use crate::format::DeltaHeader;
use crate::geometry::PAGE_BYTES;
use crate::random::uuid_text;
use crate::storage::{PendingFile, Target, open_to_read};

/// What a delta is; told by [`DeltaOperation`] and [`inspect_delta`].
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

/// Makes deltas and applies them: hosts that keep copies of a file then receive what changed in it, and
/// not the file.
///
/// A delta holds the cells that differ, coded in about 50 bits for each key that was added to a filter
/// of the `line` layout, and no keys and no hashes. It takes no history: any two versions do. It applies
/// to the contents that it was made from, whatever became of identity, journal and metadata since, and
/// leads to one file, byte for byte ([`clean_copy`](Self::clean_copy) makes the same one of the new
/// version). A delta that is damaged, or for another version, is an error and changes nothing; the
/// contents of the result are held against the digest that the delta promises.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Filter, Options, Reader, ops::{DeltaOperation, digest}};
///
/// Options::new().capacity(100_000).false_positive_rate(0.01).create(at("here"))?.close()?;
/// std::fs::copy(at("here"), at("there")).unwrap();
/// let filter = Filter::open(at("here"))?;
/// filter.add("sheep")?;
/// filter.close()?;
///
/// let delta = DeltaOperation::new().make(at("there"), at("here"), at("delta"))?;
/// assert!(delta.bytes < 600 && delta.new_bytes > 100_000);
/// DeltaOperation::new().replace(true).apply(at("delta"), at("there"), at("there"))?;
/// assert!(Reader::open(at("there"))?.contains("sheep"));
/// assert_eq!(digest(at("here"))?, digest(at("there"))?);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct DeltaOperation<'a> {
    replace: bool,
    listener: Listener<'a>,
}

impl std::fmt::Debug for DeltaOperation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaOperation").field("replace", &self.replace).finish_non_exhaustive()
    }
}

impl<'a> DeltaOperation<'a> {
    /// An operation that replaces nothing and does not tell of its progress.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an existing file of the result's name is replaced; by default it is an error.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Tells `listener`, from any of the operation's threads and often, how far it has come.
    pub fn progress(mut self, listener: &'a (dyn Fn(Progress) + Sync)) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Writes the delta that turns the file `old` into the file `new`, both of which may be in use.
    ///
    /// Both must have the same kind, seed, secret and geometry; the segments of filters that grow or
    /// rotate are matched. Pages of sealed files are held whole.
    pub fn make(
        &self,
        old: impl AsRef<Path>,
        new: impl AsRef<Path>,
        output: impl AsRef<Path>,
    ) -> Result<DeltaSummary> {
        let target = Target::new(output.as_ref(), self.replace)
            .map_err(|error| error.at(output.as_ref()))?;
        let [old, new] = [old.as_ref(), new.as_ref()].map(Source::open_all);
        make::make(&old?, &new?, target, self.listener)
    }

    /// Applies a delta to `file`, of which it makes the file `output`: the name of `file` itself, with
    /// [`replace`](Self::replace), or another one.
    ///
    /// The result appears under its name when it is whole, verified and durable. Those that have the old
    /// file open keep it: see [`Follower`](crate::reader::Follower).
    pub fn apply(
        &self,
        delta: impl AsRef<Path>,
        file: impl AsRef<Path>,
        output: impl AsRef<Path>,
    ) -> Result<DeltaSummary> {
        let (delta, file, output) = (delta.as_ref(), file.as_ref(), output.as_ref());
        let blame_delta = |error: Error| match error {
            Error::DamagedDelta { .. } => error.at(delta),
            error => error.at(file),
        };
        // First of all: if the old file is replaced, nothing may be added to it from here on.
        let target = Target::new(output, self.replace).map_err(|error| error.at(output))?;
        let delta_file = DeltaFile::open(delta).map_err(|error| error.at(delta))?;
        let old = Source::open_all(file)?;
        let header = &delta_file.header;
        outline::refuse_other_version(header, &old).map_err(|error| error.at(file))?;
        let slot = slot_of(header).map_err(|error| error.at(delta))?;
        let pending =
            PendingFile::new(target, slot.file_bytes).map_err(|error| error.at(output))?;
        let medium = pending.medium()?;
        let rebuilt = rebuild(header, &old, &delta_file.chunks, &medium, self.listener)
            .map_err(blame_delta)?;
        if rebuilt != Digest::from_bytes(header.new_digest) {
            return Err(blame_delta(outline::blame_for_result(header, &old)?));
        }
        let (_, slot) = finish_slot(&medium, header.superblock.clone(), slot, false)
            .map_err(|error| error.at(output))?;
        let promised = header.new.iter().map(|segment| &segment.record);
        if promised.zip(&slot.segments).any(|(a, b)| (a.table_crc, a.ones) != (b.table_crc, b.ones))
        {
            let reason = "its page tables are not those of the pages".into();
            return Err(Error::DamagedDelta { reason }.at(delta));
        }
        let summary = DeltaSummary::of(header, slot.file_bytes, delta_file.chunks.of_pages());
        // Not every system replaces a file that is open.
        drop(old);
        pending.publish().map_err(|error| error.at(output))?;
        Ok(summary)
    }

    /// Copies a file as a delta would lead to it: clean, with the journal of a crashed file in it, and
    /// nothing left of what it went through; the same contents, identity and state give the same bytes.
    /// Every page is verified. `metadata` takes the pairs of the file and may change them;
    /// `journal_bytes` is for those who will write to it, 0 for one that is only read.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name| folder.path().join(name);
    /// use bloomfile::{Options, ops::{DeltaOperation, digest}};
    ///
    /// let filter = Options::new().capacity(1000).false_positive_rate(0.01).create(at("live"))?;
    /// filter.add("sheep")?;
    /// let copy = DeltaOperation::new().clean_copy(at("live"), at("copy"), 0, |pairs| {
    ///     pairs.insert("version".into(), "7".into());
    /// })?;
    /// assert_eq!(copy, digest(at("copy"))?);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn clean_copy(
        &self,
        file: impl AsRef<Path>,
        output: impl AsRef<Path>,
        journal_bytes: u64,
        metadata: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<Digest> {
        let (file, output) = (file.as_ref(), output.as_ref());
        let target = Target::new(output, self.replace).map_err(|error| error.at(output))?;
        let old = Source::open_all(file)?;
        let mut header = outline_of(&old, Some(journal_bytes)).map_err(|error| error.at(file))?;
        metadata(&mut header.metadata);
        // Told early, and by a name that the user knows.
        header.encode()?;
        let slot = slot_of(&header).map_err(|error| error.at(file))?;
        let pending =
            PendingFile::new(target, slot.file_bytes).map_err(|error| error.at(output))?;
        let medium = pending.medium()?;
        let digest = rebuild(&header, &old, &Chunks::none(), &medium, self.listener)
            .map_err(|error| error.at(file))?;
        let unverified: u64 = old.iter().map(Source::unverified).sum();
        let mut slot = slot;
        slot.unverifiable_pages = slot.unverifiable_pages.saturating_add(unverified);
        finish_slot(&medium, header.superblock, slot, false).map_err(|error| error.at(output))?;
        drop(old);
        pending.publish().map_err(|error| error.at(output))?;
        Ok(digest)
    }
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

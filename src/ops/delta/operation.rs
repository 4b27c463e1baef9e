//! Deltas between files, and clean copies of files.

use std::collections::BTreeMap;
use std::path::Path;

use super::apply::rebuild;
use super::outline::{self, outline_of, slot_of};
use super::read::{Chunks, DeltaFile};
use super::{DeltaSummary, make, make_new};
use crate::error::{Error, Result};
use crate::file::finish_slot;
use crate::ops::digest::Digest;
use crate::ops::source::Source;
use crate::ops::stream::{Listener, Progress};
use crate::storage::{PendingFile, Target};

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
        let made = make_new(&delta_file, &old, slot, &medium, self.listener);
        let summary = made.map_err(blame_delta)?;
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
        let unverified: u64 = old.iter().map(Source::found_in_doubt).sum();
        let mut slot = slot;
        slot.unverifiable_pages = slot.unverifiable_pages.saturating_add(unverified);
        finish_slot(&medium, header.superblock, slot, false).map_err(|error| error.at(output))?;
        drop(old);
        pending.publish().map_err(|error| error.at(output))?;
        Ok(digest)
    }
}

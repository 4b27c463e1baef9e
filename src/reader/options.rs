//! How a file is opened for reading.

#[cfg(feature = "files")]
use std::path::Path;

#[cfg(feature = "files")]
use super::Follower;
use super::Reader;
use crate::error::Result;
use crate::hash::Key;

/// How a file is opened for reading.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
/// use bloomfile::ReadOptions;
///
/// let reader = ReadOptions::new().verify(true).open(&path)?;
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    pub(super) verify: bool,
    pub(super) trust: bool,
    pub(super) access: Access,
    pub(super) warm_up: bool,
    pub(super) key: Option<Key>,
}

/// Where a reader looks keys up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// In the mapped file: opening reads next to nothing, all processes share the memory, and
    /// what a writer adds is seen at once.
    #[default]
    Mapped,
    /// In a copy in memory of its own, as of opening, in huge pages where the system has them.
    ///
    /// Opening reads all of the file. After that nothing that happens to the file matters: for
    /// media that may fail or go away, and for files that other programs may cut short, where a
    /// mapped look-up would end the process with SIGBUS.
    Memory,
}

impl ReadOptions {
    /// As [`Reader::open`] does it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether every data page is checked before the first look-up, so that damage is an error of
    /// opening.
    ///
    /// By default opening reads the headers and the page table, and takes hardly longer for a large
    /// file; a page is checked when a "no" first rests on it. One that is damaged answers "maybe"
    /// for every key: see [`Reader::try_contains`], [`Reader::health`] and [`Reader::stats`].
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Whether data pages are believed without a check, so that damage can make a "no" wrong: for
    /// files that were verified by other means.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
    /// use bloomfile::ReadOptions;
    ///
    /// let reader = ReadOptions::new().trust(true).open(&path)?;
    /// assert!(!reader.contains(b"sheep"));
    /// assert_eq!(reader.stats().pages_checked, 0);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn trust(mut self, trust: bool) -> Self {
        self.trust = trust;
        self
    }

    /// Whether look-ups are in the mapped file or in a copy in memory.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?;
    /// # filter.add(b"sheep")?;
    /// # filter.close()?;
    /// use bloomfile::{ReadOptions, reader::Access};
    ///
    /// let reader = ReadOptions::new().access(Access::Memory).verify(true).open(&path)?;
    /// std::fs::write(&path, "cut short").unwrap();
    /// assert!(reader.contains(b"sheep"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Whether the system is told to read all of a mapped file into its cache right away; by
    /// default each page is read when the first look-up needs it.
    pub fn warm_up(mut self, warm_up: bool) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// The secret of a keyed file: see [`Key`]. A keyed file without its secret gives
    /// [`Error::KeyNeeded`](crate::Error::KeyNeeded), a wrong one
    /// [`Error::WrongKey`](crate::Error::WrongKey), and one for a file that is not keyed
    /// [`Error::NotKeyed`](crate::Error::NotKeyed): it may be another file than the one meant. Many
    /// files at once: [`Readers::open_with`](crate::ops::Readers::open_with).
    pub fn key(mut self, key: &Key) -> Self {
        self.key = Some(key.clone());
        self
    }

    /// Opens a file.
    #[cfg(feature = "files")]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader> {
        Reader::open_with(path.as_ref(), self)
    }

    /// Opens a file, to go on in those that replace it. All pages of a replacement are checked before
    /// look-ups switch to it, unless [`trust`](Self::trust) is set.
    #[cfg(feature = "files")]
    pub fn follow(&self, path: impl AsRef<Path>) -> Result<Follower> {
        Follower::with(path.as_ref(), self)
    }

    /// As [`Reader::from_bytes`]: what says how a file is accessed does not matter there.
    pub fn from_bytes(&self, bytes: impl AsRef<[u8]>) -> Result<Reader> {
        Reader::from_bytes_with(bytes.as_ref(), self)
    }
}

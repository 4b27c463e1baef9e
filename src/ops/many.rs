//! One key, many files.

#[cfg(feature = "files")]
use std::path::Path;

#[cfg(feature = "files")]
use crate::error::Result;
use crate::hash::Hasher;
#[cfg(feature = "files")]
use crate::reader::ReadOptions;
use crate::reader::Reader;

/// Several files that are asked together: a key is hashed once, or once for each seed or secret in use. A file
/// with damaged pages may hold every key of theirs; its [reader](Self::as_slice) tells.
///
/// Each reader keeps its file open and mapped; a process may have to raise its limit of open files
/// to hold more than about a thousand.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Options, ops::Readers};
///
/// for (name, key) in [("monday", "sheep"), ("tuesday", "goat"), ("wednesday", "goat")] {
///     let filter = Options::new().capacity(1000).false_positive_rate(1e-6).create(at(name))?;
///     filter.add(key.as_bytes())?;
/// }
/// let days = Readers::open(&[at("monday"), at("tuesday"), at("wednesday")])?;
/// assert_eq!(days.which(b"goat"), [1, 2]);
/// assert!(days.any(b"sheep") && !days.any(b"wolf"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Readers {
    readers: Vec<Reader>,
    /// The readers of each seed or secret.
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    hasher: Hasher,
    /// Ascending.
    members: Vec<usize>,
}

impl Readers {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens files; the error says which one cannot be.
    #[cfg(feature = "files")]
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        Self::open_with(paths, &ReadOptions::new())
    }

    /// As [`open`](Self::open), each file in the same way: with the same secret, say. Files that take
    /// different secrets, or none, are opened one by one and [added](Self::push).
    #[cfg(feature = "files")]
    pub fn open_with<P: AsRef<Path>>(paths: &[P], options: &ReadOptions) -> Result<Self> {
        let mut readers = Self::new();
        for path in paths {
            readers.push(options.open(path)?);
        }
        Ok(readers)
    }

    /// Adds one more; it has the next number.
    pub fn push(&mut self, reader: Reader) {
        let (number, hasher) = (self.readers.len(), reader.hasher());
        match self.groups.iter_mut().find(|group| group.hasher == hasher) {
            Some(group) => group.members.push(number),
            None => self.groups.push(Group { hasher, members: vec![number] }),
        }
        self.readers.push(reader);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// The readers, by number.
    pub fn as_slice(&self) -> &[Reader] {
        &self.readers
    }

    /// The numbers, ascending, of the files that may hold a key.
    pub fn which(&self, key: impl AsRef<[u8]>) -> Vec<usize> {
        let mut found: Vec<usize> = self.holders(key.as_ref()).collect();
        // Each group is in order already.
        if self.groups.len() > 1 {
            found.sort_unstable();
        }
        found
    }

    /// Whether any of the files may hold a key.
    pub fn any(&self, key: impl AsRef<[u8]>) -> bool {
        self.holders(key.as_ref()).next().is_some()
    }

    fn holders<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        self.groups.iter().flat_map(move |group| {
            let hash = group.hasher.hash(key);
            let members = group.members.iter().copied();
            members.filter(move |&number| self.readers[number].contains_hash(hash))
        })
    }
}

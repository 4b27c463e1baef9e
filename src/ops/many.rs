//! One key, many files.

use std::path::Path;

use crate::error::Result;
use crate::hash::Hasher;
use crate::reader::Reader;

/// Several files that are asked together: a key is hashed once, or once for each seed in use. A file
/// with damaged pages may hold every key of theirs; its [reader](Self::as_slice) tells.
///
/// Each reader keeps its file open and mapped; a process may have to raise its limit of open files
/// to hold more than about a thousand.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Options, Readers};
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
    /// The readers of each seed.
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

    /// Opens files; [`Error::Input`](crate::Error::Input) says which one cannot be.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        let mut readers = Self::new();
        for path in paths {
            let path = path.as_ref();
            readers.push(Reader::open(path).map_err(|error| error.of_input(path))?);
        }
        Ok(readers)
    }

    /// Takes in one more; it has the next number.
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
    pub fn which(&self, key: &[u8]) -> Vec<usize> {
        let mut found: Vec<usize> = self.holders(key).collect();
        // Each group is in order already.
        if self.groups.len() > 1 {
            found.sort_unstable();
        }
        found
    }

    /// Whether any of the files may hold a key.
    pub fn any(&self, key: &[u8]) -> bool {
        self.holders(key).next().is_some()
    }

    fn holders<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        self.groups.iter().flat_map(move |group| {
            let hash = group.hasher.hash(key);
            let members = group.members.iter().copied();
            members.filter(move |&number| self.readers[number].contains_hash(hash))
        })
    }
}

/// What is in one file and not in another: deletion by a second filter.
///
/// Bits cannot be taken out of a filter, as other keys may share them. Deleted keys go into a
/// filter of their own instead, and a key counts as held when the first may hold it and the second
/// does not.
///
/// **This can say "no" wrongly.** A false positive of the second filter hides a key that was never
/// deleted. Give it a rate that such losses may have, and know that a key that was deleted cannot
/// come back. Without a second filter a "no" is always certain.
///
/// Damage does not: where the second file has [damaged pages](Reader::try_contains), or cannot be
/// read, a key does not count as deleted, so that deleted ones may come back as "maybe".
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Except, Options, Reader};
///
/// let held = Options::new().capacity(1000).false_positive_rate(0.01).create(at("held"))?;
/// let deleted = Options::new().capacity(1000).false_positive_rate(1e-6).create(at("deleted"))?;
/// held.add(b"sheep")?;
/// held.add(b"goat")?;
/// deleted.add(b"goat")?;
///
/// let both = Except::new(Reader::open(at("held"))?, Reader::open(at("deleted"))?);
/// assert!(both.contains(b"sheep") && !both.contains(b"goat"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Debug)]
pub struct Except {
    held: Reader,
    deleted: Reader,
}

impl Except {
    /// What is in `held` and not in `deleted`; they may differ in everything.
    pub fn new(held: Reader, deleted: Reader) -> Self {
        Except { held, deleted }
    }

    /// Whether a key is in the first file, as far as it can tell, and not in the second, as far as
    /// that can.
    pub fn contains(&self, key: &[u8]) -> bool {
        let (hasher, other) = (self.held.hasher(), self.deleted.hasher());
        let hash = hasher.hash(key);
        if !self.held.contains_hash(hash) {
            return false;
        }
        let hash = if other == hasher { hash } else { other.hash(key) };
        // A "maybe" that damage makes says nothing of the key.
        !self.deleted.contains_hash(hash)
            || !matches!(self.deleted.try_contains_hash(hash), Ok(true))
    }
}

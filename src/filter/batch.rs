//! Batches of keys that do not lie in a slice of slices.

use super::Filter;
use crate::error::Result;
use crate::hash::in_blocks;
use crate::kernel::keyed_in_blocks;

impl Filter {
    /// As [`add_batch`](Self::add_batch), for keys that lie in another form than a slice of them, in
    /// one buffer with offsets say: `key` gives each by its number, from 0 to `count`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// let (text, ends) = ("sheepgoat", [0, 5, 9]);
    /// let new = filter.add_batch_by(2, |at| text[ends[at]..ends[at + 1]].as_bytes())?;
    /// assert!(new == 2 && filter.contains("goat"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline]
    pub fn add_batch_by<'k>(&self, count: usize, key: impl Fn(usize) -> &'k [u8]) -> Result<u64> {
        let hasher = self.hasher;
        let added = if hasher.is_keyed() {
            self.engine.add_batch(count, keyed_in_blocks(count, hasher, key))
        } else {
            self.engine.add_batch(count, move |at| hasher.hash_unkeyed(key(at)))
        };
        added.map_err(|error| self.blame(error))
    }

    /// As [`contains_batch`](Self::contains_batch), for keys that lie in another form than a slice of
    /// them: `key` gives each by its number, as many as `found` has room for.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// # filter.add(b"sheep")?;
    /// let (text, ends) = ("sheepgoat", [0, 5, 9]);
    /// let mut found = [false; 2];
    /// filter.contains_batch_by(|at| text[ends[at]..ends[at + 1]].as_bytes(), &mut found);
    /// assert_eq!(found, [true, false]);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline]
    pub fn contains_batch_by<'k>(&self, key: impl Fn(usize) -> &'k [u8], found: &mut [bool]) {
        let hasher = self.hasher;
        if hasher.is_keyed() {
            let hash = keyed_in_blocks(found.len(), hasher, key);
            return self.engine.contains_batch(hash, found);
        }
        let hash = in_blocks(found.len(), move |at| hasher.hash_unkeyed(key(at)));
        self.engine.contains_batch(hash, found);
    }

    /// As [`contains_batch_by`](Self::contains_batch_by), for hashes.
    #[inline]
    pub fn contains_hash_batch_by(&self, hash: impl Fn(usize) -> u64, found: &mut [bool]) {
        self.engine.contains_batch(hash, found);
    }

    /// Takes keys out of a counting filter, each once; how many of them were in. A key that is not in
    /// is left alone.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::{CellKind, Options};
    ///
    /// let options = Options::new().capacity(99).false_positive_rate(1e-6).kind(CellKind::Counting);
    /// let filter = options.create(&path)?;
    /// filter.add_batch(&["sheep", "goat"])?;
    /// assert_eq!(filter.remove_batch(&["goat", "wolf", "goat"])?, 1);
    /// assert!(filter.contains("sheep") && !filter.contains("goat"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn remove_batch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<u64> {
        self.remove_batch_by(keys.len(), |at| keys[at].as_ref())
    }

    /// As [`remove_batch`](Self::remove_batch), for `count` keys that lie in another form than a slice
    /// of them: `key` gives each by its number.
    pub fn remove_batch_by<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
    ) -> Result<u64> {
        let hasher = self.hasher;
        let removed = self.engine.remove_batch(count, move |at| hasher.hash_by_call(key(at)));
        removed.map_err(|error| self.blame(error))
    }

    /// As [`remove_batch`](Self::remove_batch), for hashes.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::{CellKind, Options};
    ///
    /// let options = Options::new().capacity(99).false_positive_rate(1e-6).kind(CellKind::Counting);
    /// let filter = options.create(&path)?;
    /// filter.add_batch(&["sheep", "goat"])?;
    /// let hashes = ["goat", "wolf"].map(|key| filter.hasher().hash(key));
    /// assert_eq!(filter.remove_hash_batch(&hashes)?, 1);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn remove_hash_batch(&self, hashes: &[u64]) -> Result<u64> {
        let removed = self.engine.remove_batch(hashes.len(), |at| hashes[at]);
        removed.map_err(|error| self.blame(error))
    }
}

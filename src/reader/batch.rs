//! Batches of keys that do not lie in a slice of slices.

use super::Reader;
use crate::hash::in_blocks;
use crate::kernel::keyed_in_blocks;

impl Reader {
    /// As [`contains_batch`](Self::contains_batch), for keys that lie in another form than a slice of
    /// them, in one buffer with offsets say: `key` gives each by its number, as many as `found` has
    /// room for.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// # filter.add(b"sheep")?;
    /// # filter.close()?;
    /// let (text, ends) = ("sheepgoat", [0, 5, 9]);
    /// let reader = bloomfile::Reader::open(&path)?;
    /// let mut found = [false; 2];
    /// reader.contains_batch_by(|at| text[ends[at]..ends[at + 1]].as_bytes(), &mut found);
    /// assert_eq!(found, [true, false]);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline]
    pub fn contains_batch_by<'k>(&self, key: impl Fn(usize) -> &'k [u8], found: &mut [bool]) {
        let hasher = self.hasher;
        if hasher.is_keyed() {
            let hash = keyed_in_blocks(found.len(), hasher, key);
            return self.answer_batch(hash, found);
        }
        let hash = in_blocks(found.len(), move |at| hasher.hash_unkeyed(key(at)));
        self.answer_batch(hash, found);
    }

    /// As [`contains_batch_by`](Self::contains_batch_by), for hashes.
    #[inline]
    pub fn contains_hash_batch_by(&self, hash: impl Fn(usize) -> u64, found: &mut [bool]) {
        self.answer_batch(hash, found);
    }
}

//! Look-ups that are answered without a call, for programs that are called for each.

use super::Reader;
use crate::kernel::{FastPath, hash_fast};

impl Reader {
    /// As [`contains`](Self::contains), where that takes one look, every page being known to be what was
    /// written; `None` where there is more to do, which [`contains`](Self::contains) does.
    ///
    /// It is inlined whole and calls nothing: a function that does nothing else for a short key, a
    /// binding to another language say, needs no registers of its caller.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// # filter.add(b"sheep")?;
    /// # filter.close()?;
    /// let reader = bloomfile::Reader::open(&path)?;
    /// let contains = |key: &[u8]| match reader.contains_at_once(key) {
    ///     Some(found) => found,
    ///     None => reader.contains(key),
    /// };
    /// assert!(contains(b"sheep") && !contains(b"wolf"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline(always)]
    pub fn contains_at_once(&self, key: impl AsRef<[u8]>) -> Option<bool> {
        match self.fast_unkeyed.get() {
            FastPath::None => None,
            fast => {
                let hash = hash_fast(&self.hasher, key.as_ref());
                Some(self.segments.first.contains_fast(fast, hash))
            }
        }
    }

    /// As [`contains_at_once`](Self::contains_at_once), for a hash.
    #[inline(always)]
    pub fn contains_hash_at_once(&self, hash: u64) -> Option<bool> {
        match self.fast.get() {
            FastPath::None => None,
            fast => Some(self.segments.first.contains_fast(fast, hash)),
        }
    }
}

//! Look-ups that are answered without a call, for programs that are called for each.

use std::sync::atomic::Ordering;

use super::Reader;
use crate::kernel::{FastPath, hash_fast};

impl Reader {
    /// As [`contains`](Self::contains), where that takes one look at a page that is known to be what was
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
        if self.fast_unkeyed == FastPath::None {
            return None;
        }
        self.look_once(self.fast_unkeyed, hash_fast(&self.hasher, key.as_ref()))
    }

    /// As [`contains_at_once`](Self::contains_at_once), for a hash.
    #[inline(always)]
    pub fn contains_hash_at_once(&self, hash: u64) -> Option<bool> {
        if self.fast == FastPath::None {
            return None;
        }
        self.look_once(self.fast, hash)
    }

    #[inline(always)]
    fn look_once(&self, fast: FastPath, hash: u64) -> Option<bool> {
        let found = self.segments.first.contains_fast(fast, hash);
        // As in `contains_fast`: of the pages, and not of the answer.
        if self.all_checked.load(Ordering::Relaxed) {
            return Some(found);
        }
        if found {
            return Some(true);
        }
        let page = self.segments.first.only_page(hash)?;
        self.checked.as_ref()?.is_first_checked(page).then_some(false)
    }
}

//! How often a key was added to a counting filter.

use std::sync::atomic::{Ordering, fence};

use super::Reader;
#[cfg(feature = "files")]
use super::answer::LOOK_UPS;
#[cfg(feature = "files")]
use crate::error::Error;
use crate::error::Result;
use crate::format::STUCK;
use crate::geometry::CellKind;
use crate::kernel::Cells;
use crate::storage::FileMap;

impl Reader {
    /// How often a key may have been added to a counting filter: the smallest of its counters, so
    /// never too low below 15, where counters stay; 15 as well where damage keeps that from being told.
    /// `None` in any other filter. What a writer adds or takes out counts here once it has synced.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::{CellKind, Options, Reader};
    ///
    /// let options = Options::new().capacity(1000).false_positive_rate(0.01);
    /// let filter = options.kind(CellKind::Counting).create(&path)?;
    /// filter.add_batch(&["sheep", "goat", "sheep"])?;
    /// filter.close()?;
    /// let reader = Reader::open(&path)?;
    /// assert_eq!(reader.count_estimate("sheep"), Some(2));
    /// assert_eq!(reader.count_estimate("wolf"), Some(0));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn count_estimate(&self, key: impl AsRef<[u8]>) -> Option<u8> {
        if self.kind() != CellKind::Counting {
            return None;
        }
        Some(self.count(self.hasher.hash(key)).unwrap_or(STUCK))
    }

    /// How often a hash may have been added, or why that cannot be told.
    #[cfg(not(feature = "files"))]
    fn count(&self, hash: u64) -> Result<u8> {
        self.count_now(hash, None)
    }

    /// How often a hash may have been added, or why that cannot be told: as for a look-up, the slots
    /// are the same afterwards as before.
    #[cfg(feature = "files")]
    fn count(&self, hash: u64) -> Result<u8> {
        let Some(watch) = self.watch.as_ref().filter(|_| !self.simple) else {
            return self.count_now(hash, None);
        };
        for _ in 0..LOOK_UPS {
            let signature = watch.signature();
            if !watch.is_seen(signature) {
                self.refresh(watch)?;
                continue;
            }
            let copies = self.replayed.as_deref().filter(|_| signature == watch.opened);
            let count = self.count_now(hash, copies);
            fence(Ordering::Acquire);
            if watch.signature() == signature {
                return count;
            }
        }
        Err(Error::Busy)
    }

    /// As [`count`](Self::count), whatever the slots say afterwards.
    fn count_now(&self, hash: u64, copies: Option<&[Cells<FileMap>]>) -> Result<u8> {
        let mut copies = copies.into_iter().flatten();
        let mut sum = 0;
        for region in self.segments.order() {
            let cells = self.segments.get(region);
            self.check_on(region, cells, hash)?;
            // A writer that recovers brings what the copies have into the file by and by; one that
            // goes on after that changes the file alone.
            let count = copies.next().map_or(0, |copy| copy.count(hash)).max(cells.count(hash));
            sum = (sum + count).min(STUCK);
        }
        Ok(sum)
    }
}

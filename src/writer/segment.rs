//! The data of one segment, mapped for writing.

use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::file::PAGE_WORDS;
use crate::format::Extent;
use crate::geometry::Geometry;
use crate::kernel::Cells;
use crate::storage::{Map, Mapping, Medium, Usage};
use crate::sync::AtomicU64;

/// A segment of a writer.
pub(crate) struct Segment<M: Medium> {
    pub(crate) data: Cells<M::Map>,
    pub(super) dirty: DirtyPages,
}

impl<M: Medium> Segment<M> {
    /// Maps a segment.
    pub(super) fn map(medium: &M, geometry: Geometry, extent: Extent) -> Result<Self> {
        let data = medium
            .map(extent.data()..extent.end(), Mapping::Shared)
            .map_err(Error::io("map the data"))?;
        // Or else the first add to a page of a new file would have the system fill many others.
        data.advise(Usage::LookUps);
        Ok(Segment { data: Cells::new(geometry, data)?, dirty: DirtyPages::new(extent.pages) })
    }

    /// Remembers that the page of a word changed.
    #[inline]
    pub(super) fn mark_dirty(&self, word: usize) {
        self.dirty.insert(word / PAGE_WORDS);
    }
}

/// The pages that changed since the last checkpoint: one bit each.
pub(super) struct DirtyPages(Vec<AtomicU64>);

impl DirtyPages {
    fn new(pages: u64) -> Self {
        DirtyPages((0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn insert(&self, page: usize) {
        let (at, bit) = (page / 64, 1 << (page % 64));
        // Most adds find their page dirty already: look before writing a line others share.
        if self.0[at].load(Ordering::Relaxed) & bit == 0 {
            self.0[at].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The pages, in order.
    pub(super) fn pages(&self) -> Vec<usize> {
        let mut pages = Vec::new();
        for (at, word) in self.0.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                pages.push(at * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        pages
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

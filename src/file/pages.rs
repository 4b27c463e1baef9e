//! Data pages read with system calls: a disk that fails is an error that names the page, where a
//! mapped page would be a signal.

use super::PAGE_WORDS;
use crate::error::{Error, Result};
use crate::format::Extent;
use crate::geometry::PAGE_BYTES;
use crate::storage::{ReadMedium, Words};

/// Pages that are read at once: enough to keep a disk busy, few enough for a core's cache.
pub(crate) const PAGES_AT_ONCE: u64 = 64;

/// Where the pages of a segment are read from.
pub(crate) trait Pages: Sync {
    /// Fills `bytes`, which are whole pages, from page `first` on.
    fn read(&self, first: u64, bytes: &mut [u8]) -> Result<()>;
}

/// A copy in memory.
impl Pages for Words {
    fn read(&self, first: u64, bytes: &mut [u8]) -> Result<()> {
        self.copy(first as usize * PAGE_WORDS, bytes);
        Ok(())
    }
}

/// A segment in its file.
pub(crate) struct FilePages<'a> {
    medium: &'a dyn ReadMedium,
    /// The segment's place in the slot's list, for errors.
    index: usize,
    extent: Extent,
}

impl<'a> FilePages<'a> {
    pub(crate) fn new(medium: &'a dyn ReadMedium, index: usize, extent: Extent) -> Self {
        FilePages { medium, index, extent }
    }
}

impl Pages for FilePages<'_> {
    fn read(&self, first: u64, bytes: &mut [u8]) -> Result<()> {
        let offset = |page: u64| self.extent.data() + page * PAGE_BYTES;
        if self.medium.read_at(bytes, offset(first)).is_ok() {
            return Ok(());
        }
        for (page, bytes) in (first..).zip(bytes.chunks_exact_mut(PAGE_BYTES as usize)) {
            self.medium.read_at(bytes, offset(page)).map_err(|error| Error::Page {
                segment: self.index as u32,
                page,
                error,
            })?;
        }
        Ok(())
    }
}

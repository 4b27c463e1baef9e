//! Bulk loading: a file that is filled without a journal and published when it is whole.

use crate::engine::finish_file;
use crate::error::{Error, Result};
use crate::format::{Metadata, Superblock, first_extent};
use crate::hash::Hasher;
use crate::kernel::{self, Cells};
use crate::plan::Plan;
use crate::storage::{Draft, FileMap, Map, Mapping, Medium};

/// Fills a new file in bulk; made by [`Options::build`](crate::Options::build).
///
/// Nothing is visible under the file's name until [`finish`](Builder::finish) has made all of it
/// durable; a builder that is dropped leaves nothing behind. The same keys and options give the
/// same bytes, in whatever order the keys came.
pub struct Builder {
    draft: Draft,
    superblock: Superblock,
    plan: Plan,
    metadata: Metadata,
    hasher: Hasher,
    data: Cells<FileMap>,
    adds: u64,
    identity_from_contents: bool,
}

impl Builder {
    pub(crate) fn new(
        draft: Draft,
        superblock: Superblock,
        plan: &Plan,
        metadata: Metadata,
        identity_from_contents: bool,
    ) -> Result<Self> {
        let extent = first_extent(&superblock, plan.geometry());
        let data = draft
            .medium()?
            .map(extent.data()..extent.end(), Mapping::Shared)
            .map_err(Error::io("map the data"))?;
        Ok(Builder {
            hasher: Hasher::new(superblock.hash_seed),
            draft,
            superblock,
            plan: plan.clone(),
            metadata,
            data: Cells::new(*plan.geometry(), data)?,
            adds: 0,
            identity_from_contents,
        })
    }

    /// Adds a key; true when that changed the filter.
    pub fn add(&mut self, key: &[u8]) -> bool {
        self.add_hash(self.hasher.hash(key))
    }

    /// Adds the hash of a key, as [`Hasher`] gives it.
    pub fn add_hash(&mut self, hash: u64) -> bool {
        let geometry = self.plan.geometry();
        let mut new = false;
        for row in 0..geometry.row_count() {
            let (word, bit) = kernel::place(geometry, hash, row);
            new |= self.data.fetch_or(word, bit) & bit == 0;
        }
        self.adds += u64::from(new);
        new
    }

    /// The hasher of the file.
    pub fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// Adds that changed the filter.
    pub fn adds(&self) -> u64 {
        self.adds
    }

    /// Writes checksums and headers, makes the file durable and gives it its name.
    pub fn finish(self) -> Result<()> {
        finish_file(
            &self.draft.medium()?,
            self.superblock,
            &self.plan,
            self.metadata,
            self.data.words(),
            self.adds,
            self.identity_from_contents,
        )?;
        self.draft.publish()?;
        Ok(())
    }
}

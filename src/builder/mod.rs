//! Bulk loading: a file that is filled without a journal and published when it is whole.

mod bulk;

use crate::error::{Error, Result};
use crate::file::{describe_pages, finish_file};
use crate::format::{Metadata, Superblock, first_extent};
use crate::hash::Hasher;
use crate::kernel::Cells;
use crate::plan::Plan;
use crate::storage::{FileMap, Map, Mapping, Medium, PendingFile, Usage};

/// Fills a new file in bulk; made by [`Options::start_build`](crate::Options::start_build).
///
/// Nothing is visible under the file's name until [`finish`](Builder::finish) has made all of it
/// durable; a builder that is dropped leaves nothing behind, and on Linux neither does a process that
/// is killed. A file that is to be replaced is locked from the start, so that nothing is added to it
/// that would go with it. In a forked child a builder takes no keys and does not finish. The same keys, in the same order, and
/// the same options give the same bytes, on any number of threads; in another order they give the
/// same bits, though [`adds`](Builder::adds) can differ by a key or two that another one hid.
///
/// [`add_batch`](Builder::add_batch) works on all cores. Keys that come from many threads are best
/// hashed there, with a copy of the [`hasher`](Builder::hasher), and handed over as batches of
/// hashes:
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// use bloomfile::{Options, Reader};
/// use std::sync::Mutex;
///
/// let builder = Options::new().capacity(4000).false_positive_rate(0.01).start_build(&path)?;
/// let hasher = builder.hasher();
/// let builder = Mutex::new(builder);
/// std::thread::scope(|scope| {
///     for thread in 0..4u32 {
///         let builder = &builder;
///         scope.spawn(move || {
///             let keys = (1000 * thread..1000 * (thread + 1)).map(u32::to_le_bytes);
///             let hashes: Vec<u64> = keys.map(|key| hasher.hash(&key)).collect();
///             builder.lock().unwrap().add_hash_batch(&hashes);
///         });
///     }
/// });
/// builder.into_inner().unwrap().finish()?;
/// assert!(Reader::open(&path)?.contains(&3999u32.to_le_bytes()));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[must_use = "a builder that is not finished leaves no file"]
pub struct Builder {
    pending: PendingFile,
    superblock: Superblock,
    plan: Plan,
    metadata: Metadata,
    hasher: Hasher,
    data: Cells<FileMap>,
    adds: u64,
    threads: usize,
    identity_from_contents: bool,
}

impl Builder {
    pub(crate) fn new(
        pending: PendingFile,
        superblock: Superblock,
        plan: &Plan,
        metadata: Metadata,
        identity_from_contents: bool,
    ) -> Result<Self> {
        let extent = first_extent(&superblock, plan.geometry());
        let data = pending
            .medium()?
            .map(extent.data()..extent.end(), Mapping::Shared)
            .map_err(Error::io("map the data"))?;
        data.advise(Usage::Fill);
        Ok(Builder {
            hasher: Hasher::new(superblock.hash_seed),
            pending,
            superblock,
            plan: plan.clone(),
            metadata,
            data: Cells::new(*plan.geometry(), data)?,
            adds: 0,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            identity_from_contents,
        })
    }

    /// Adds a key; true when that changed the filter.
    pub fn add(&mut self, key: impl AsRef<[u8]>) -> bool {
        self.add_hash(self.hasher.hash(key))
    }

    /// Adds the hash of a key, as [`Hasher`] gives it.
    pub fn add_hash(&mut self, hash: u64) -> bool {
        if self.pending.is_forked() {
            return false;
        }
        let new = self.data.add(hash);
        self.adds += u64::from(new);
        new
    }

    /// Adds many keys, on all cores; how many of them changed the filter.
    ///
    /// The more at once the better: from some ten thousand on they are sorted by region of the
    /// filter and each region is filled from the cache. Memory stays bounded however many there
    /// are (16 MiB for each thread).
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// let mut builder =
    ///     bloomfile::Options::new().capacity(3).false_positive_rate(0.01).start_build(&path)?;
    /// assert_eq!(builder.add_batch(&["lorem", "ipsum", "lorem"]), 2);
    /// builder.finish()?;
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn add_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> u64 {
        let hasher = self.hasher;
        self.add_all(keys.len(), |at| hasher.hash(&keys[at]))
    }

    /// As [`add_batch`](Self::add_batch), for hashes.
    pub fn add_hash_batch(&mut self, hashes: &[u64]) -> u64 {
        self.add_all(hashes.len(), |at| hashes[at])
    }

    fn add_all(&mut self, count: usize, hash: impl Fn(usize) -> u64 + Sync) -> u64 {
        if self.pending.is_forked() {
            return 0;
        }
        let new = bulk::add(&self.data, self.threads, count, hash);
        self.adds += new;
        new
    }

    /// The number of threads that batches are added on; by default as many as there are cores.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
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
        let path = self.pending.path().to_owned();
        self.publish().map_err(|error| error.at(&path))
    }

    fn publish(self) -> Result<()> {
        let medium = self.pending.medium()?;
        let extent = first_extent(&self.superblock, self.plan.geometry());
        describe_pages(&medium, &extent, self.data.words(), self.superblock.cells)?;
        finish_file(
            &medium,
            self.superblock,
            &self.plan,
            self.metadata,
            self.adds,
            self.identity_from_contents,
        )?;
        self.pending.publish()?;
        Ok(())
    }
}

/// Adds keys one by one; [`Builder::add_batch`] is faster for many.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let mut builder =
///     bloomfile::Options::new().capacity(3).false_positive_rate(0.01).start_build(&path)?;
/// builder.extend(["lorem", "ipsum"]);
/// assert_eq!(builder.adds(), 2);
/// # Ok::<(), bloomfile::Error>(())
/// ```
impl<K: AsRef<[u8]>> Extend<K> for Builder {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        keys.into_iter().for_each(|key| {
            self.add(key);
        });
    }
}

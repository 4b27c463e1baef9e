//! Bulk loading: a file that is filled without a journal and published when it is whole.

mod bulk;
pub(crate) mod sealed;
mod spool;

use crate::error::{Error, Result};
use crate::file::{describe_pages, file_bytes, finish_file};
use crate::format::{JOURNAL_OFFSET, Metadata, Superblock, first_extent};
use crate::geometry::{Geometry, Layout};
use crate::hash::Hasher;
use crate::kernel::Cells;
use crate::plan::Plan;
use crate::storage::{FileMap, Map, Mapping, Medium, PendingFile, Target, Usage};
use sealed::{Collector, write_pages};

pub use spool::Spool;

/// Fills a new file in bulk; made by [`Options::start_build`](crate::Options::start_build).
///
/// Nothing is visible under the file's name until [`finish`](Builder::finish) has made all of it
/// durable; a builder that is dropped leaves nothing behind, and on Linux neither does a process that
/// is killed. A file that is to be replaced is locked from the start, so that nothing is added to it
/// that would go with it. In a forked child a builder takes no keys and does not finish. The same
/// keys, in the same order, and the same options give the same bytes, on any number of threads; in
/// another order they give the same bits, though [`adds`](Builder::adds) can differ by a key or two
/// that another one hid. A [sealed](crate::Options::sealed) filter has the same bytes whatever the
/// order and the repetitions.
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
    metadata: Metadata,
    hasher: Hasher,
    work: Work,
    threads: usize,
    identity_from_contents: bool,
}

/// What is being filled.
enum Work {
    /// The bits of the file, and the adds that changed them.
    Bits { plan: Plan, data: Cells<FileMap>, adds: u64 },
    /// Hashes, of which pages are made once all are there.
    Sealed { size: SealedSize, hashes: Collector },
}

/// How many pages a sealed filter gets.
#[derive(Clone, Debug)]
pub(crate) enum SealedSize {
    /// As planned.
    Planned(Plan),
    /// As many as its distinct keys need for this rate.
    Counted(f64),
}

impl SealedSize {
    /// The plan for a number of distinct keys.
    fn plan(&self, keys: u64) -> Result<Plan> {
        match self {
            SealedSize::Planned(plan) => Ok(plan.clone()),
            SealedSize::Counted(rate) if keys > 0 => Plan::new(keys, *rate, Some(Layout::Sealed)),
            SealedSize::Counted(_) => Ok(Plan::exact(Geometry::sealed(1)?, None)),
        }
    }
}

/// What was built; told by [`Builder::finish`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Built {
    /// The size of the filter. That of a sealed one may follow from its number of keys.
    pub plan: Plan,
    /// Adds that changed the filter; of a sealed one, its distinct keys.
    pub keys: u64,
    /// Pages of a sealed filter that could not be solved, because keys that were chosen to that end
    /// or are far too many fell into them: they answer "maybe" for every key.
    pub maybe_pages: u64,
    /// Length of the file.
    pub file_bytes: u64,
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
        let data = Cells::new(*plan.geometry(), data)?;
        let work = Work::Bits { plan: plan.clone(), data, adds: 0 };
        Ok(Self::with_work(pending, superblock, metadata, work, identity_from_contents))
    }

    /// A builder of a sealed filter, which keeps hashes in `memory` bytes.
    pub(crate) fn new_sealed(
        target: Target,
        superblock: Superblock,
        size: SealedSize,
        memory: u64,
        metadata: Metadata,
        identity_from_contents: bool,
    ) -> Result<Self> {
        // Its length is not known yet.
        let pending = PendingFile::new(target, JOURNAL_OFFSET)?;
        let work = Work::Sealed { size, hashes: Collector::new(memory) };
        Ok(Self::with_work(pending, superblock, metadata, work, identity_from_contents))
    }

    fn with_work(
        pending: PendingFile,
        superblock: Superblock,
        metadata: Metadata,
        work: Work,
        identity_from_contents: bool,
    ) -> Self {
        Builder {
            hasher: Hasher::new(superblock.hash_seed),
            pending,
            superblock,
            metadata,
            work,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            identity_from_contents,
        }
    }

    /// The same for keys that are hashed with this hasher, which is that of the file's secret.
    pub(crate) fn hashing_with(self, hasher: Hasher) -> Self {
        Builder { hasher, ..self }
    }

    /// Adds a key; true when that changed the filter. Of a sealed one that is not known before it is
    /// finished: there it is true for every key.
    pub fn add(&mut self, key: impl AsRef<[u8]>) -> bool {
        self.add_hash(self.hasher.hash(key))
    }

    /// Adds the hash of a key, as [`Hasher`] gives it.
    pub fn add_hash(&mut self, hash: u64) -> bool {
        if self.pending.is_forked() {
            return false;
        }
        match &mut self.work {
            Work::Bits { data, adds, .. } => {
                let new = data.add(hash);
                *adds += u64::from(new);
                new
            }
            Work::Sealed { hashes, .. } => {
                hashes.add(hash, self.threads);
                true
            }
        }
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
        self.add_batch_by(keys.len(), |at| keys[at].as_ref())
    }

    /// As [`add_batch`](Self::add_batch), for keys that lie in another form than a slice of them, in
    /// one buffer with offsets say: `key` gives each by its number, from 0 to `count`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let options = bloomfile::Options::new().capacity(3).false_positive_rate(0.01);
    /// let mut builder = options.start_build(&path)?;
    /// let (text, ends) = ("sheepgoat", [0, 5, 9]);
    /// assert_eq!(builder.add_batch_by(2, |at| text[ends[at]..ends[at + 1]].as_bytes()), 2);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn add_batch_by<'k>(
        &mut self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8] + Sync,
    ) -> u64 {
        let hasher = self.hasher;
        if hasher.is_keyed() {
            return self.add_all(count, |at| hasher.hash_keyed(key(at)));
        }
        self.add_all(count, |at| hasher.hash_unkeyed(key(at)))
    }

    /// As [`add_batch`](Self::add_batch), for hashes.
    pub fn add_hash_batch(&mut self, hashes: &[u64]) -> u64 {
        self.add_all(hashes.len(), |at| hashes[at])
    }

    fn add_all(&mut self, count: usize, hash: impl Fn(usize) -> u64 + Sync) -> u64 {
        if self.pending.is_forked() {
            return 0;
        }
        match &mut self.work {
            Work::Bits { data, adds, .. } => {
                let new = bulk::add(data, self.threads, count, hash);
                *adds += new;
                new
            }
            Work::Sealed { hashes, .. } => {
                hashes.add_all(self.threads, count, hash);
                count as u64
            }
        }
    }

    /// The number of threads that batches are added on; by default as many as there are cores.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    /// The hasher of the file.
    pub fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// Adds that changed the filter; of a sealed one, all keys so far, repetitions included.
    pub fn adds(&self) -> u64 {
        match &self.work {
            Work::Bits { adds, .. } => *adds,
            Work::Sealed { hashes, .. } => hashes.taken,
        }
    }

    /// Writes checksums and headers, makes the file durable and gives it its name.
    ///
    /// This is where the pages of a sealed filter are made, on all cores; keys that could not be kept
    /// until now, because the temporary folder has no room say, are an error here.
    pub fn finish(self) -> Result<Built> {
        let path = self.pending.path().to_owned();
        self.publish().map_err(|error| error.at(&path))
    }

    fn publish(self) -> Result<Built> {
        let Builder { pending, mut superblock, metadata, work, threads, .. } = self;
        let medium = pending.medium()?;
        let (plan, keys, maybe_pages) = match work {
            Work::Bits { plan, data, adds } => {
                let extent = first_extent(&superblock, plan.geometry());
                describe_pages(&medium, &extent, data.words(), superblock.cells)?;
                (plan, adds, 0)
            }
            Work::Sealed { size, hashes } => {
                let counted = matches!(size, SealedSize::Counted(_));
                let (mut hashes, distinct) = hashes.finish(counted, threads)?;
                let plan = size.plan(distinct)?;
                superblock.capacity = plan.capacity().unwrap_or(0);
                let extent = first_extent(&superblock, plan.geometry());
                medium
                    .extend(JOURNAL_OFFSET, extent.end())
                    .map_err(Error::io("allocate space for the file"))?;
                let pages = plan.geometry().pages();
                let built = hashes.build(pages, |run| write_pages(&medium, &extent, &run))?;
                (plan, built.keys, built.maybe_pages)
            }
        };
        let file_bytes = file_bytes(&superblock, &plan);
        let identity_from_contents = self.identity_from_contents;
        finish_file(&medium, superblock, &plan, metadata, keys, identity_from_contents)?;
        pending.publish()?;
        Ok(Built { plan, keys, maybe_pages, file_bytes })
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

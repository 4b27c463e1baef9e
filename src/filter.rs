//! A filter opened for reading and writing.

mod background;
mod batch;
mod close;
#[cfg(feature = "digest")]
mod delta;
mod figures;
mod name;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::writer::{FilterStats, Recovery};

use crate::error::{Error, Result};
use crate::file::load_hasher;
use crate::format::Superblock;
use crate::geometry::{CellKind, Geometry};
use crate::hash::{Hasher, Key};
use crate::ops::{Absorbed, union_into};
use crate::reader::Reader;
use crate::storage::{FileMedium, Medium, open_for_writing};
use crate::writer::{Background, Engine};

/// A filter file opened for reading and writing.
///
/// One process at a time may have a file open as a `Filter`; any number of threads share it by
/// reference. What was added is visible to [`Reader`]s in other processes as soon
/// as `add` returns, and safe from a power cut once [`sync`](Filter::sync) returns.
///
/// A filter belongs to the process that opened it. In a child that was forked from that process,
/// every call that writes gives [`Error::Forked`], and dropping the filter leaves the file alone.
/// Look-ups and [`stats`](Filter::stats) go on there. What else tells how the filter is
/// ([`adds`](Filter::adds), [`estimate`](Filter::estimate), [`metadata`](Filter::metadata)) is to be
/// asked in the process that opened it: a thread that the child does not have may have held the lock
/// for a moment when it was forked.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// use bloomfile::{Filter, Options};
///
/// Options::new().capacity(100_000).false_positive_rate(0.01).create(&path)?.close()?;
///
/// let filter = Filter::open(&path)?;
/// std::thread::scope(|scope| {
///     for thread in 0..4u8 {
///         let filter = &filter;
///         scope.spawn(move || filter.add(&[thread]).unwrap());
///     }
/// });
/// filter.sync()?;
/// assert!((0..4u8).all(|thread| filter.contains(&[thread])));
/// filter.close()?;
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub struct Filter {
    engine: Arc<Engine<FileMedium>>,
    /// What writes checkpoints while this handle is used.
    background: Option<Background>,
    hasher: Hasher,
    /// The name that the file was opened by, for errors.
    path: PathBuf,
    closed: bool,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Filter");
        shown.field("geometry", self.geometry());
        // In a forked child a lock may be held by a thread that is not there.
        if !self.engine.medium().is_forked() {
            shown.field("adds", &self.adds());
        }
        shown.finish_non_exhaustive()
    }
}

impl Filter {
    /// Opens a file for writing.
    ///
    /// Every page is verified; a file whose writer crashed is recovered, and
    /// [`recovery`](Filter::recovery) says what that found. A file that is being written by
    /// another process gives [`Error::Locked`].
    ///
    /// The file stays mapped while it is open. Cutting it short under the map, which no bloomfile
    /// program ever does, raises SIGBUS in this process, as it does for every mapped file.
    ///
    /// A keyed file takes its secret: see [`open_with_key`](Self::open_with_key).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_as(path.as_ref(), None)
    }

    /// As [`open`](Self::open), for a keyed file and its secret. A wrong one gives
    /// [`Error::WrongKey`] before anything is changed, and a file that is not keyed
    /// [`Error::NotKeyed`]. What needs no hashing needs no secret: [`ops::recover`](crate::ops::recover)
    /// and [`ops::rotate`](crate::ops::rotate), say.
    pub fn open_with_key(path: impl AsRef<Path>, key: &Key) -> Result<Self> {
        Self::open_as(path.as_ref(), Some(key))
    }

    pub(crate) fn open_as(path: &Path, key: Option<&Key>) -> Result<Self> {
        let open = || {
            let medium = open_for_writing(path)?;
            let hasher = load_hasher(&medium, key)?;
            Ok(Self::from_engine(Engine::open(medium)?, hasher, path))
        };
        open().map_err(|error: Error| error.at(path))
    }

    pub(crate) fn from_engine(engine: Engine<FileMedium>, hasher: Hasher, path: &Path) -> Self {
        let engine = Arc::new(engine);
        let background = Some(Background::serve(&engine));
        Filter { engine, background, hasher, path: path.to_owned(), closed: false }
    }

    /// What the file was made with: its superblock, and the geometry of its first segment.
    pub(crate) fn first_parameters(&self) -> (Superblock, Geometry) {
        (self.engine.superblock.clone(), *self.engine.segments.first.data.geometry())
    }

    /// Says in an error which file it is about.
    #[cold]
    fn blame(&self, error: Error) -> Error {
        error.at(&self.path)
    }

    /// Adds a key; true when it was new, as far as the filter can tell.
    ///
    /// An error means that the handle was poisoned by an earlier failed write.
    #[inline]
    pub fn add(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.add_hash(self.engine.hash(&self.hasher, key.as_ref()))
    }

    /// Adds the hash of a key, as this filter's [`hasher`](Filter::hasher) gives it.
    #[inline]
    pub fn add_hash(&self, hash: u64) -> Result<bool> {
        self.engine.add_hash(hash).map_err(|error| self.blame(error))
    }

    /// Adds many keys; how many of them were new, as far as the filter can tell.
    ///
    /// Does what adding them one after the other does, with the memory of later keys asked for
    /// while earlier ones are added. When the handle is poisoned on the way, some of the keys are
    /// in, as with any other order of `add` and error.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// assert_eq!(filter.add_batch(&["sheep", "goat", "sheep"])?, 2);
    /// assert!(filter.contains(b"goat"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline]
    pub fn add_batch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<u64> {
        self.add_batch_by(keys.len(), move |at| keys[at].as_ref())
    }

    /// As [`add_batch`](Self::add_batch), for hashes.
    #[inline]
    pub fn add_hash_batch(&self, hashes: &[u64]) -> Result<u64> {
        let added = self.engine.add_batch(hashes.len(), |at| hashes[at]);
        added.map_err(|error| self.blame(error))
    }

    /// Whether a key may be in: false is certain, true is wrong at the filter's rate.
    #[inline]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.engine.contains_key(&self.hasher, key.as_ref())
    }

    /// Whether the key of a hash may be in.
    #[inline]
    pub fn contains_hash(&self, hash: u64) -> bool {
        self.engine.contains_hash(hash)
    }

    /// Whether each of many keys may be in: fills `found` with one answer per key.
    ///
    /// Asks for the memory of later keys while it looks at earlier ones, so that a filter larger
    /// than the caches answers several times faster than key by key. What `found` held before is
    /// replaced; handing the same vector in again saves its allocation.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// # filter.add(b"sheep")?;
    /// # filter.add(b"goat")?;
    /// let mut found = Vec::new();
    /// filter.contains_batch(&["sheep", "wolf", "goat"], &mut found);
    /// assert_eq!(found, [true, false, true]);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[inline]
    pub fn contains_batch<K: AsRef<[u8]>>(&self, keys: &[K], found: &mut Vec<bool>) {
        found.resize(keys.len(), false);
        let hasher = self.hasher;
        if hasher.is_keyed() {
            return self.contains_batch_by(move |at| keys[at].as_ref(), found);
        }
        // As in a reader's batch.
        self.engine.contains_batch(move |at| hasher.hash_unkeyed(keys[at].as_ref()), found);
    }

    /// As [`contains_batch`](Self::contains_batch), for hashes.
    #[inline]
    pub fn contains_hash_batch(&self, hashes: &[u64], found: &mut Vec<bool>) {
        found.resize(hashes.len(), false);
        self.engine.contains_batch(|at| hashes[at], found);
    }

    /// The hasher of this file.
    pub fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// Makes every add that returned before this call survive a power cut.
    ///
    /// Cheap: only the journal's new records are written, unless the journal is full. A failure
    /// poisons the handle: open the file again to go on.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync(None).map_err(|error| self.blame(error))
    }

    /// As [`sync`](Filter::sync), and makes a number of the caller's own durable with the keys:
    /// the position in a log up to which keys were added, say.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # use bloomfile::{Filter, Options};
    /// let filter = Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
    /// filter.add(b"line 1 of the log")?;
    /// filter.sync_with_mark(1)?;
    /// drop(filter);
    /// assert_eq!(Filter::open(&path)?.mark(), 1);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn sync_with_mark(&self, mark: u64) -> Result<()> {
        self.engine.sync(Some(mark)).map_err(|error| self.blame(error))
    }

    /// Takes in every key of another file, durably: it ends in a checkpoint.
    ///
    /// The file has this filter's size or a whole multiple of it, and the same seed, layout and
    /// rows; otherwise it is refused with [`Error::Incompatible`]. It is verified from end to end
    /// before the first bit of this filter changes, and read as it is now: keys that another
    /// process added since the reader was opened come as well. Other threads may add and ask
    /// at the same time. The number of [`adds`](Filter::adds) rises by the keys that the bits say
    /// are new.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name| folder.path().join(name);
    /// use bloomfile::{Options, Reader};
    ///
    /// let options = Options::new().capacity(1000).false_positive_rate(0.01);
    /// let (filter, other) = (options.create(at("a"))?, options.create(at("b"))?);
    /// other.add(b"sheep")?;
    /// let absorbed = filter.union_from(&Reader::open(at("b"))?)?;
    /// assert!(filter.contains(b"sheep") && absorbed.keys.contains(1.0));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn union_from(&self, reader: &Reader) -> Result<Absorbed> {
        union_into(&self.engine, reader).map_err(|error| self.blame(error))
    }

    /// The mark that was last synced; 0 before the first.
    pub fn mark(&self) -> u64 {
        self.engine.mark()
    }

    /// Brings the checksums up to date with the data, durably, and empties the journal.
    pub fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint().map_err(|error| self.blame(error))
    }

    /// Takes a key out of a counting filter.
    ///
    /// A key that is certainly not in gives [`Error::NotPresent`] and changes nothing. Taking out a
    /// key that was never added, and is reported as present by mistake, may lose others: only take
    /// out what was added. Of a filter with several segments, a key that more than one seems to
    /// hold gives [`Error::Ambiguous`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::{CellKind, Error, Options};
    ///
    /// let filter = Options::new()
    ///     .capacity(1000)
    ///     .false_positive_rate(0.01)
    ///     .kind(CellKind::Counting)
    ///     .create(&path)?;
    /// filter.add(b"sheep")?;
    /// filter.remove(b"sheep")?;
    /// assert!(!filter.contains(b"sheep"));
    /// assert!(matches!(filter.remove(b"sheep"), Err(Error::NotPresent)));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.remove_hash(self.hasher.hash(key))
    }

    /// Takes the key of a hash out of a counting filter.
    pub fn remove_hash(&self, hash: u64) -> Result<()> {
        self.engine.remove_hash(hash).map_err(|error| self.blame(error))
    }

    /// How often a key may have been added to a counting filter: the smallest of its counters, so
    /// never too low below 15, where counters stay. `None` in a plain filter.
    pub fn count_estimate(&self, key: impl AsRef<[u8]>) -> Option<u8> {
        self.engine.count_hash(self.hasher.hash(key))
    }

    /// Drops the oldest generation of a rotating filter, if there are as many as it was made with,
    /// and starts a new one; durable when it returns.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::Options;
    ///
    /// let filter = Options::new()
    ///     .capacity(1000)
    ///     .false_positive_rate(0.01)
    ///     .generations(2)
    ///     .create(&path)?;
    /// filter.add(b"today")?;
    /// filter.rotate()?;
    /// assert!(filter.contains(b"today"), "the last two generations are remembered");
    /// filter.rotate()?;
    /// assert!(!filter.contains(b"today"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn rotate(&self) -> Result<()> {
        self.engine.rotate().map_err(|error| self.blame(error))
    }

    /// Segments in use: more than one in a filter that has grown or rotated.
    pub fn segments(&self) -> usize {
        self.engine.segments.active().count
    }

    /// What cells are: bits or counters.
    pub fn kind(&self) -> CellKind {
        self.engine.superblock.cells
    }

    /// Adds that changed the filter, ever: distinct keys, but for false positives.
    pub fn adds(&self) -> u64 {
        self.engine.adds()
    }

    /// The number of keys the filter was made for, if that was said.
    pub fn capacity(&self) -> Option<u64> {
        Some(self.engine.superblock.capacity).filter(|&capacity| capacity != 0)
    }

    /// The geometry of the newest segment, which takes the adds.
    pub fn geometry(&self) -> &Geometry {
        self.engine.segments.newest().data.geometry()
    }

    /// The file's identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.engine.superblock.uuid
    }

    /// The pairs kept in the file.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        self.engine.metadata()
    }

    /// Sets a pair, or removes it; durable with the next checkpoint or close. Threads may set
    /// different pairs at the same time.
    pub fn set_metadata(&self, key: &str, value: Option<&str>) -> Result<()> {
        self.engine.set_metadata(key, value).map_err(|error| self.blame(error))
    }

    /// Pages whose checksums were replaced in this session without proof that they are what was
    /// written: of those that take adds, while the journal is full or there is none, nothing tells
    /// which cells are new. 0 when every checkpoint could hold its pages against the records.
    ///
    /// A checkpoint that finds a page that is not what was written, because something changed the
    /// file under this handle, is [`Error::Damaged`] and changes nothing.
    pub fn pages_unverified(&self) -> u64 {
        self.engine.pages_unverified()
    }

    /// What this handle did: syncs, checkpoints, how long they took, how full the journal is.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// filter.add("sheep")?;
    /// filter.sync()?;
    /// let stats = filter.stats();
    /// assert_eq!((stats.syncs, stats.checkpoints), (1, 0));
    /// assert!(stats.journal_records < stats.journal_capacity);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn stats(&self) -> FilterStats {
        self.engine.stats()
    }

    /// What recovery found, if the file's last writer had crashed.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.engine.recovery()
    }

    /// Whether an earlier write or sync failed, so that this handle changes nothing any more.
    pub fn is_poisoned(&self) -> bool {
        self.engine.is_poisoned()
    }
}

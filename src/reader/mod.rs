//! A filter opened for reading.

mod answer;
mod at_once;
mod batch;
mod checked;
mod count;
#[cfg(feature = "files")]
mod follow;
mod open;
mod options;
#[cfg(feature = "files")]
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub use checked::ReaderStats;
#[cfg(feature = "files")]
pub use follow::{Followed, Follower};
pub use options::{Access, ReadOptions};

use crate::error::{Error, Result};
use crate::file::{Health, Segments, Snapshot};
use crate::format::Shape;
use crate::geometry::{CellKind, Geometry};
use crate::hash::Hasher;
use crate::kernel::{Cells, FastPath, LateFastPath, hash_fast};
use crate::plan::{Estimate, Occupancy, rate_together};
use crate::storage::FileMap;
#[cfg(feature = "files")]
use crate::storage::FileMedium;
use checked::CheckedPages;
#[cfg(feature = "files")]
use watch::Watch;

/// A filter file opened for reading only.
///
/// Takes no lock and never writes the file. Keys that a writer adds, in this process or another,
/// are seen as soon as their `add` has returned. The file of a crashed writer is read as recovery
/// would leave it.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// use bloomfile::{Options, Reader};
///
/// let filter = Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// let reader = Reader::open(&path)?;
/// assert!(!reader.contains(b"new"));
/// filter.add(b"new")?;
/// assert!(reader.contains(b"new"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub struct Reader {
    /// The way of look-ups once the data of one segment, as the file has them, say it all and every page
    /// is checked.
    fast: LateFastPath,
    /// The same for keys; none in a keyed file, whose hash takes another way.
    fast_unkeyed: LateFastPath,
    /// The same for keys of a keyed file.
    fast_keyed: LateFastPath,
    /// Every page is known to be what was written, or is trusted.
    all_checked: AtomicBool,
    /// One segment for good, as the file has it.
    simple: bool,
    hasher: Hasher,
    /// The data as the file has it.
    segments: Segments,
    /// What is known of the pages; `None` where they are trusted.
    checked: Option<Box<CheckedPages>>,
    /// The data with the journal of an open slot in it, newest segment first, where the file does
    /// not hold all of that yet: good until a slot is written, which a writer does once it has
    /// recovered the file itself.
    replayed: Option<Vec<Cells<FileMap>>>,
    /// What tells when the slots change; `None` where that does not matter.
    #[cfg(feature = "files")]
    watch: Option<Box<Watch>>,
    snapshot: Snapshot,
    /// `None` for bytes that came from elsewhere.
    #[cfg(feature = "files")]
    file: Option<FileMedium>,
    /// The name that the file was opened by, for errors; `None` for bytes that came from elsewhere.
    path: Option<Box<Path>>,
}

impl Reader {
    /// Opens a file: reads its headers and page table, maps its data.
    ///
    /// The file stays mapped while it is open. Cutting it short under the map, which no bloomfile
    /// program ever does, raises SIGBUS in this process, as it does for every mapped file.
    #[cfg(feature = "files")]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ReadOptions::new().open(path)
    }

    /// A filter file that is in memory already: received over a network, say, or compiled into the
    /// program. Its data are copied, and every page is checked; the bytes are not needed any more
    /// after that.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?;
    /// # filter.add("sheep")?;
    /// # filter.close()?;
    /// let received = std::fs::read(&path).unwrap();
    /// let reader = bloomfile::Reader::from_bytes(received)?;
    /// assert!(reader.contains("sheep"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Result<Self> {
        ReadOptions::new().from_bytes(bytes)
    }

    /// A reader of segments that were mapped or copied.
    fn new(
        snapshot: Snapshot,
        hasher: Hasher,
        segments: Segments,
        replayed: Option<Vec<Cells<FileMap>>>,
        checked: Option<CheckedPages>,
    ) -> Self {
        let superblock = &snapshot.loaded.superblock;
        let simple = replayed.is_none() && superblock.shape() == Shape::Fixed;
        let reader = Reader {
            fast: LateFastPath::new(FastPath::None),
            fast_unkeyed: LateFastPath::new(FastPath::None),
            fast_keyed: LateFastPath::new(FastPath::None),
            all_checked: AtomicBool::new(false),
            simple,
            hasher,
            segments,
            checked: checked.map(Box::new),
            replayed,
            #[cfg(feature = "files")]
            watch: None,
            snapshot,
            #[cfg(feature = "files")]
            file: None,
            path: None,
        };
        if reader.checked.as_ref().is_none_or(|checked| checked.is_complete()) {
            reader.trust_all_pages();
        }
        reader
    }

    /// No page has to be checked any more.
    fn trust_all_pages(&self) {
        self.all_checked.store(true, Ordering::Release);
        if self.simple {
            let fast = self.segments.first.fast_path();
            self.fast.open(fast);
            if self.hasher.is_keyed() {
                self.fast_keyed.open(self.segments.first.fast_path_keyed());
            } else {
                self.fast_unkeyed.open(fast);
            }
        }
    }

    /// The file, unless this reader was made from bytes.
    #[cfg(feature = "files")]
    pub(crate) fn medium(&self) -> Option<&FileMedium> {
        self.file.as_ref()
    }

    /// The name that the file was opened by.
    #[cfg(feature = "files")]
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Says in an error which file it is about.
    #[cold]
    pub(crate) fn blame(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.at(path),
            None => error,
        }
    }

    /// Whether a key may be in: false is certain, true is wrong at the filter's rate.
    #[inline]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        // Each way by itself, the most frequent one first: a loop over keys is shorter for it.
        let (path, cells) = (&self.fast_unkeyed, &self.segments.first);
        if path.is(FastPath::Wide) {
            return cells.contains_fast(FastPath::Wide, hash_fast(&self.hasher, key));
        }
        if path.is(FastPath::Simd) {
            return cells.contains_fast(FastPath::Simd, hash_fast(&self.hasher, key));
        }
        self.contains_by_call(key)
    }

    /// The way of keys of a keyed file, and of those that have no fast one.
    #[inline(never)]
    fn contains_by_call(&self, key: &[u8]) -> bool {
        if self.fast_keyed.get() == FastPath::None {
            return self.contains_key_slow(key);
        }
        self.segments.first.contains_keyed(&self.hasher, key)
    }

    // By itself, so that the other way saves no registers for it.
    #[inline(never)]
    fn contains_key_slow(&self, key: &[u8]) -> bool {
        if self.hasher.is_keyed() {
            self.contains_hash(self.hasher.hash_keyed(key))
        } else {
            self.contains_slow(self.hasher.hash_unkeyed(key))
        }
    }

    /// Whether the key of a hash may be in.
    #[inline]
    pub fn contains_hash(&self, hash: u64) -> bool {
        match self.fast.get() {
            FastPath::None => self.contains_slow(hash),
            fast => self.segments.first.contains_fast(fast, hash),
        }
    }

    /// A look-up where pages are to be checked, or several segments, copies or counters have a say.
    #[inline(never)]
    fn contains_slow(&self, hash: u64) -> bool {
        if self.simple {
            let found = self.segments.first.contains(hash);
            // Asked of the pages, not of the answer, which no processor predicts: with a branch on
            // that every other look-up would wait for its memory before the next one begins.
            if self.all_checked.load(Ordering::Relaxed) {
                return found;
            }
            return found || !self.is_on_checked_page(hash) && !self.make_certain(hash);
        }
        match self.answer_checked(hash) {
            Some(found) => found,
            None => self.contains_checking(hash),
        }
    }

    /// A look-up that checks pages, reads slots or looks into copies first.
    #[inline(never)]
    fn contains_checking(&self, hash: u64) -> bool {
        self.answer(hash).unwrap_or(true)
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
    /// let reader = bloomfile::Reader::open(&path)?;
    /// let mut found = Vec::new();
    /// reader.contains_batch(&["sheep", "wolf", "goat"], &mut found);
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
        // Keys that lie in a slice are found with few registers, and are best hashed one by one.
        self.answer_batch(move |at| hasher.hash_unkeyed(keys[at].as_ref()), found);
    }

    /// As [`contains_batch`](Self::contains_batch), for hashes.
    #[inline]
    pub fn contains_hash_batch(&self, hashes: &[u64], found: &mut Vec<bool>) {
        found.resize(hashes.len(), false);
        self.answer_batch(|at| hashes[at], found);
    }

    #[inline]
    fn answer_batch(&self, hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        if self.simple {
            if self.all_checked.load(Ordering::Acquire) {
                return self.segments.first.contains_batch(hash, found);
            }
            return self.answer_batch_checking(hash, found);
        }
        self.answer_batch_in_segments(hash, found);
    }

    /// A batch, some of whose pages are to be checked.
    #[inline(never)]
    fn answer_batch_checking(&self, mut hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        const PIECE: usize = 1024;
        let mut hashes = [0; PIECE];
        for (piece, found) in found.chunks_mut(PIECE).enumerate() {
            let hashes = &mut hashes[..found.len()];
            for (at, place) in hashes.iter_mut().enumerate() {
                *place = hash(piece * PIECE + at);
            }
            self.segments.first.contains_batch(|at| hashes[at], found);
            for (found, &hash) in found.iter_mut().zip(&*hashes) {
                *found = *found || !self.is_on_checked_page(hash) && !self.make_certain(hash);
            }
        }
    }

    /// Whether `path` still leads to the file that this reader has open: not any more once another was
    /// renamed over it, or it was taken away. Costs one look at the file system, and reads nothing.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::{Options, Reader};
    ///
    /// let options = Options::new().capacity(9).false_positive_rate(0.1).replace(true);
    /// options.start_build(&path)?.finish()?;
    /// let reader = Reader::open(&path)?;
    /// assert!(reader.is_at(&path)?);
    /// options.start_build(&path)?.finish()?;
    /// assert!(!reader.is_at(&path)?);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    #[cfg(feature = "files")]
    pub fn is_at(&self, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let Some(file) = &self.file else { return Ok(false) };
        let found = file.is_at(path).map_err(Error::io("look up the file"));
        found.map_err(|error| error.at(path))
    }

    /// The hasher of this file.
    pub fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// The geometry of the newest segment.
    pub fn geometry(&self) -> &Geometry {
        self.segments.newest().geometry()
    }

    /// What cells are: bits or counters.
    pub fn kind(&self) -> CellKind {
        self.snapshot.loaded.superblock.cells
    }

    /// Segments in use: more than one in a filter that has grown or rotated.
    pub fn segments(&self) -> usize {
        self.segments.active().count
    }

    /// The file's identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.snapshot.loaded.superblock.uuid
    }

    /// How the file was found: clean, being written, or left by a crash; [`Health::Damaged`] once an
    /// answer rested on a damaged page.
    pub fn health(&self) -> Health {
        if self.checked.as_ref().is_some_and(|checked| checked.is_damaged()) {
            Health::Damaged
        } else {
            self.snapshot.health
        }
    }

    /// The pairs kept in the file, as of opening.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.snapshot.loaded.slot.metadata
    }

    /// The number of keys the filter was made for, if that was said.
    pub fn capacity(&self) -> Option<u64> {
        Some(self.snapshot.loaded.superblock.capacity).filter(|&capacity| capacity != 0)
    }

    /// Adds that changed the filter, as of the last checkpoint before opening.
    pub fn adds(&self) -> u64 {
        self.snapshot.loaded.slot.adds()
    }

    /// About how many keys were in it at opening, with the 95 % interval.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let mut builder =
    /// #     bloomfile::Options::new().capacity(99).false_positive_rate(0.01).start_build(&path)?;
    /// builder.extend(["sheep", "goat"]);
    /// builder.finish()?;
    /// let reader = bloomfile::Reader::open(&path)?;
    /// assert!(reader.estimate().contains(2.0) && reader.rate() < 0.01);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn estimate(&self) -> Estimate {
        self.occupancies().map(|(counted, geometry)| counted.keys(geometry)).sum()
    }

    /// What share of absent keys it said "maybe" to at opening.
    pub fn rate(&self) -> f64 {
        let rates: Vec<f64> =
            self.occupancies().map(|(counted, geometry)| counted.rate_now(geometry)).collect();
        rate_together(&rates)
    }

    fn occupancies(&self) -> impl Iterator<Item = (&Occupancy, &Geometry)> {
        let Snapshot { loaded, journalled, .. } = &self.snapshot;
        journalled.iter().zip(loaded.slot.segments.iter().map(|segment| &segment.geometry))
    }

    /// The mark that was last synced before opening.
    pub fn mark(&self) -> u64 {
        self.snapshot.mark()
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("geometry", self.geometry())
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

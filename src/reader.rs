//! A filter opened for reading.

mod answer;
mod open;
mod options;
mod touch;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;

pub use options::{Access, ReadOptions};
pub use touch::ReaderStats;

use crate::engine::{Loaded, PAGE_WORDS, SegmentSet};
use crate::error::{Error, Result};
use crate::examine::{Examined, examine, map_segments};
use crate::format::{CellKind, Shape};
use crate::geometry::Geometry;
use crate::hash::Hasher;
use crate::kernel::Cells;
use crate::report::Health;
use crate::storage::{FileMap, FileMedium, Map, Mapping, Use};
use open::{check_all, listed, must_be_sound, refuse_damage, replay, still_listed, untouched};
use touch::Touched;
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
    medium: FileMedium,
    hasher: Hasher,
    /// One segment of bits for good, as the file has it: look-ups take the shortest way.
    simple: bool,
    /// The data as the file has it.
    segments: SegmentSet<Cells<FileMap>>,
    /// The data with the journal of an open slot in it, newest segment first, where the file does
    /// not hold all of that yet: good until a slot is written, which a writer does once it has
    /// recovered the file itself.
    replayed: Option<Vec<Cells<FileMap>>>,
    /// What tells when the slots change; `None` where that does not matter.
    watch: Option<Box<Watch>>,
    /// What is known of the pages; `None` where they are trusted.
    touched: Option<Box<Touched>>,
    examined: Examined,
}

/// How often a file is copied into memory again because its segments changed.
const COPIES: u32 = 50;

impl Reader {
    /// Opens a file: reads its headers and page table, maps its data.
    ///
    /// The file stays mapped while it is open. Cutting it short under the map, which no bloomfile
    /// program ever does, raises SIGBUS in this process, as it does for every mapped file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ReadOptions::new().open(path)
    }

    fn from_medium(medium: FileMedium, options: &ReadOptions) -> Result<Self> {
        match options.access {
            Access::Mapped => Self::mapped(medium, options),
            Access::Memory => Self::in_memory(medium, options),
        }
    }

    /// Looks keys up in the file.
    fn mapped(medium: FileMedium, options: &ReadOptions) -> Result<Self> {
        let mut examined = examine(&medium)?;
        let Loaded { superblock, slot, .. } = &examined.loaded;
        let segments = map_segments(&medium, superblock, slot, Mapping::ReadOnly)?;
        let must_be_sound = must_be_sound(&examined, options);
        let mut touched = None;
        if must_be_sound || !options.trust {
            touched = Some(untouched(&examined.loaded));
        }
        if let Some(touched) = touched.as_ref().filter(|_| must_be_sound) {
            check_all(&medium, &examined, &segments, touched, false)?;
            refuse_damage(&examined.loaded, touched)?;
        }
        for segment in segments.all() {
            // Both stay in force: what is wanted now is read, what is missed later is not guessed.
            if options.warm_up {
                segment.expect(Use::All);
            }
            segment.expect(Use::LookUps);
        }
        let replayed = replay(&medium, &mut examined, &segments)?;
        let changing = examined.loaded.superblock.shape() != Shape::Fixed;
        let mut watch = None;
        if changing || replayed.is_some() || touched.is_some() {
            watch = Some(Box::new(Watch::new(&medium, examined.loaded.signature)?));
        }
        Ok(Self::new(medium, examined, segments, replayed, watch, touched))
    }

    /// Looks keys up in a copy, which stays as it is, whatever becomes of the file.
    fn in_memory(medium: FileMedium, options: &ReadOptions) -> Result<Self> {
        for _ in 0..COPIES {
            let examined = examine(&medium)?;
            let Loaded { superblock, slot, .. } = &examined.loaded;
            let segments = map_segments(&medium, superblock, slot, Mapping::Memory)?;
            let must_be_sound = must_be_sound(&examined, options);
            let touched = untouched(&examined.loaded);
            if must_be_sound || !options.trust {
                check_all(&medium, &examined, &segments, &touched, true)?;
            }
            if let Some(journalled) = &examined.journalled {
                for (index, changes) in journalled.changes.iter().enumerate() {
                    changes.apply_private(listed(&examined.loaded, &segments, index));
                }
            }
            if !still_listed(&medium, &examined.loaded) {
                continue;
            }
            if must_be_sound {
                refuse_damage(&examined.loaded, &touched)?;
            }
            // Every key may be in a damaged page.
            for (region, page) in touched.damaged() {
                let data = segments.region(region).unwrap_or(&segments.first);
                let words = page as usize * PAGE_WORDS..(page as usize + 1) * PAGE_WORDS;
                words.for_each(|word| data.store(word, u64::MAX));
            }
            touched.prove();
            return Ok(Self::new(medium, examined, segments, None, None, Some(touched)));
        }
        Err(Error::Unsettled)
    }

    fn new(
        medium: FileMedium,
        examined: Examined,
        segments: SegmentSet<Cells<FileMap>>,
        replayed: Option<Vec<Cells<FileMap>>>,
        watch: Option<Box<Watch>>,
        touched: Option<Touched>,
    ) -> Self {
        let superblock = &examined.loaded.superblock;
        let simple = replayed.is_none() && superblock.shape() == Shape::Fixed;
        if simple && touched.as_ref().is_none_or(Touched::is_proven) {
            segments.first.open_shortcut();
        }
        let hasher = Hasher::new(superblock.hash_seed);
        let touched = touched.map(Box::new);
        Reader { medium, hasher, simple, segments, replayed, watch, touched, examined }
    }

    pub(crate) fn medium(&self) -> &FileMedium {
        &self.medium
    }

    /// Whether a key may be in: false is certain, true is wrong at the filter's rate.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        match self.segments.first.shortcut() {
            Some(shortcut) => shortcut.contains(shortcut.hash(&self.hasher, key)),
            None => self.contains_key(key),
        }
    }

    /// As [`contains`](Self::contains), as long as not all pages are checked.
    #[inline(never)]
    fn contains_key(&self, key: &[u8]) -> bool {
        if let Some(shortcut) = self.segments.first.closed_shortcut().filter(|_| self.simple) {
            let hash = shortcut.hash(&self.hasher, key);
            return shortcut.contains(hash) || !self.is_certain(hash);
        }
        self.contains_otherwise(self.hasher.hash_elsewhere(key))
    }

    /// Whether the key of a hash may be in.
    #[inline]
    pub fn contains_hash(&self, hash: u64) -> bool {
        match self.segments.first.shortcut() {
            Some(shortcut) => shortcut.contains(hash),
            None => self.contains_otherwise(hash),
        }
    }

    /// A look-up where not all is known of the pages, or several segments, copies or counters have
    /// a say.
    #[inline(never)]
    fn contains_otherwise(&self, hash: u64) -> bool {
        if self.simple {
            let first = &self.segments.first;
            return first.contains(hash) || !self.is_certain(hash);
        }
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
        let hasher = self.hasher;
        found.resize(keys.len(), false);
        self.fill_batch(|at| hasher.hash(keys[at].as_ref()), found);
    }

    /// As [`contains_batch`](Self::contains_batch), for hashes.
    #[inline]
    pub fn contains_hash_batch(&self, hashes: &[u64], found: &mut Vec<bool>) {
        found.resize(hashes.len(), false);
        self.fill_batch(|at| hashes[at], found);
    }

    #[inline]
    fn fill_batch(&self, mut hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        if self.simple {
            let first = &self.segments.first;
            if self.touched.as_ref().is_none_or(|touched| touched.is_proven()) {
                return first.contains_batch(hash, found);
            }
            return self.fill_checked(hash, found);
        }
        for (at, found) in found.iter_mut().enumerate() {
            *found = self.contains_otherwise(hash(at));
        }
    }

    /// A batch, some of whose pages are to be checked.
    #[inline(never)]
    fn fill_checked(&self, mut hash: impl FnMut(usize) -> u64, found: &mut [bool]) {
        const PIECE: usize = 1024;
        let mut hashes = [0; PIECE];
        for (piece, found) in found.chunks_mut(PIECE).enumerate() {
            let hashes = &mut hashes[..found.len()];
            for (at, place) in hashes.iter_mut().enumerate() {
                *place = hash(piece * PIECE + at);
            }
            self.segments.first.contains_batch(|at| hashes[at], found);
            for (found, &hash) in found.iter_mut().zip(&*hashes) {
                *found = *found || !self.is_certain(hash);
            }
        }
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
        self.examined.loaded.superblock.cells
    }

    /// Segments in use: more than one in a filter that has grown or rotated.
    pub fn segments(&self) -> usize {
        self.segments.active().count
    }

    /// The file's identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.examined.loaded.superblock.uuid
    }

    /// How the file was found: clean, being written, or left by a crash; [`Health::Damaged`] once an
    /// answer rested on a damaged page.
    pub fn health(&self) -> Health {
        match self.touched.as_ref().is_some_and(|touched| touched.is_damaged()) {
            true => Health::Damaged,
            false => self.examined.health,
        }
    }

    /// The pairs kept in the file, as of opening.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.examined.loaded.slot.metadata
    }

    /// The number of keys the filter was made for, if that was said.
    pub fn capacity(&self) -> Option<u64> {
        Some(self.examined.loaded.superblock.capacity).filter(|&capacity| capacity != 0)
    }

    /// Adds that changed the filter, as of the last checkpoint before opening.
    pub fn adds(&self) -> u64 {
        self.examined.loaded.slot.adds()
    }

    /// The mark that was last synced before opening.
    pub fn mark(&self) -> u64 {
        self.examined.mark()
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

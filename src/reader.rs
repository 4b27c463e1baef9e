//! A filter opened for reading.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::engine::{Active, Loaded, SIGNATURE_WORDS, SegmentSet, SlotSignature, load};
use crate::error::{Error, Result};
use crate::examine::{Examined, PAUSE, TRIES, check_file, examine, map_segment, map_segments};
use crate::format::{CellKind, JOURNAL_OFFSET, Shape, region_of};
use crate::geometry::Geometry;
use crate::hash::Hasher;
use crate::kernel::Cells;
use crate::report::Health;
use crate::storage::{FileMap, FileMedium, Map, Mapping, Medium, Use, Words};

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
    /// The data with a crashed writer's journal in it, newest segment first: good until a writer
    /// has recovered the file itself.
    replayed: Option<Vec<Cells<FileMap>>>,
    /// What tells when the slots change; `None` where that does not matter.
    watch: Option<Box<Watch>>,
    examined: Examined,
}

/// Sees a writer write slots.
struct Watch {
    /// The file up to the journal.
    headers: FileMap,
    /// The slots' signature at opening.
    opened: SlotSignature,
    /// The slots' signature when they were last read.
    seen: [[AtomicU64; 2]; 2],
    /// Held while they are read again.
    refresh: Mutex<()>,
}

impl Watch {
    fn signature(&self) -> SlotSignature {
        SIGNATURE_WORDS.map(|slot| slot.map(|word| self.headers.words().load(word)))
    }

    fn seen(&self) -> SlotSignature {
        [0, 1].map(|slot| [0, 1].map(|word| self.seen[slot][word].load(Ordering::Acquire)))
    }

    fn see(&self, signature: SlotSignature) {
        for (seen, signature) in self.seen.iter().flatten().zip(signature.iter().flatten()) {
            seen.store(*signature, Ordering::Release);
        }
    }
}

/// How a file is opened for reading.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?.close()?;
/// use bloomfile::ReadOptions;
///
/// let reader = ReadOptions::new().verify(true).open(&path)?;
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    verify: bool,
    access: Access,
    warm_up: bool,
}

/// Where a reader looks keys up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// In the mapped file: opening reads next to nothing, all processes share the memory, and
    /// what a writer adds is seen at once.
    #[default]
    Mapped,
    /// In a copy in memory of its own, as of opening, in huge pages where the system has them.
    ///
    /// Opening reads all of the file. After that nothing that happens to the file matters: for
    /// media that may fail or go away, and for files that other programs may cut short, where a
    /// mapped look-up would end the process with SIGBUS.
    Memory,
}

impl ReadOptions {
    /// As [`Reader::open`] does it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether every data page is checked before the first look-up; by default only the headers
    /// and the page table are, so that opening takes no longer for a large file.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Whether look-ups are in the mapped file or in a copy in memory.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(9).false_positive_rate(0.1).create(&path)?;
    /// # filter.add(b"sheep")?;
    /// # filter.close()?;
    /// use bloomfile::{Access, ReadOptions};
    ///
    /// let reader = ReadOptions::new().access(Access::Memory).verify(true).open(&path)?;
    /// std::fs::write(&path, "cut short").unwrap();
    /// assert!(reader.contains(b"sheep"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Whether the system is told to read all of a mapped file into its cache right away; by
    /// default each page is read when the first look-up needs it.
    pub fn warm_up(mut self, warm_up: bool) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// Opens a file.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader> {
        let file = File::open(path.as_ref()).map_err(Error::io("open the file"))?;
        Reader::from_medium(FileMedium::new(file), self)
    }
}

impl Reader {
    /// Opens a file: reads its headers and page table, maps its data.
    ///
    /// The file stays mapped while it is open. Cutting it short under the map, which no bloomfile
    /// program ever does, raises SIGBUS in this process, as it does for every mapped file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ReadOptions::new().open(path)
    }

    fn from_medium(medium: FileMedium, options: &ReadOptions) -> Result<Self> {
        let examined = examine(&medium)?;
        let Examined { loaded, health, journalled, .. } = &examined;
        let (superblock, slot) = (&loaded.superblock, &loaded.slot);
        let in_memory = options.access == Access::Memory;
        let mut segments = match options.access {
            Access::Mapped => map_segments(&medium, superblock, slot, Mapping::ReadOnly)?,
            Access::Memory => map_segments(&medium, superblock, slot, Mapping::Memory)?,
        };
        // A clean slot beside a damaged one: the damaged one may be the newer, so the clean one
        // has to prove itself (F-34).
        let doubtful = *health == Health::Clean && loaded.other_slot_damaged;
        if (options.verify && *health != Health::Live) || doubtful {
            segments.all().for_each(|segment| segment.expect(Use::Scan));
            for (index, check) in check_file(&medium, &examined, &segments)?.iter().enumerate() {
                match health {
                    Health::Clean => check.refuse_unless_exact(index)?,
                    _ => check.refuse_damage(index)?,
                }
            }
        }
        if !in_memory {
            for segment in segments.all() {
                // Both stay in force: what is wanted now is read, what is missed later is not
                // guessed.
                if options.warm_up {
                    segment.expect(Use::All);
                }
                segment.expect(Use::LookUps);
            }
        }
        let mut replayed = None;
        if let Some(journalled) = journalled.as_ref().filter(|_| in_memory) {
            for (index, changes) in journalled.changes.iter().enumerate() {
                let region = region_of(superblock, slot, index).unwrap_or(0) as usize;
                changes.apply_private(segments.region(region).unwrap_or(&segments.first));
            }
        } else if let Some(journalled) = journalled {
            let mut copies = Vec::new();
            for (record, changes) in slot.segments.iter().zip(&journalled.changes).rev() {
                let copy = map_segment(
                    &medium,
                    superblock,
                    record.geometry,
                    record.offset,
                    Mapping::Private,
                )?;
                changes.apply_private(&copy);
                copies.push(copy);
            }
            replayed = Some(copies);
        }
        // A copy in memory stays as it is, whatever becomes of the file.
        let changing = superblock.shape() != Shape::Fixed && !in_memory;
        let watch = match changing || replayed.is_some() {
            true => Some(Box::new(Watch {
                headers: medium
                    .map(0..JOURNAL_OFFSET, Mapping::ReadOnly)
                    .map_err(Error::io("map the file"))?,
                opened: loaded.signature,
                seen: loaded.signature.map(|slot| slot.map(AtomicU64::new)),
                refresh: Mutex::new(()),
            })),
            false => None,
        };
        let simple = watch.is_none() && superblock.shape() == Shape::Fixed;
        if simple {
            segments.first.open_shortcut();
        }
        Ok(Reader {
            medium,
            hasher: Hasher::new(superblock.hash_seed),
            simple,
            segments,
            replayed,
            watch,
            examined,
        })
    }

    /// The same file, as it is now.
    pub(crate) fn reopen(&self) -> Result<Self> {
        let medium = self.medium.try_clone().map_err(Error::io("open the file"))?;
        Self::from_medium(medium, &ReadOptions::new())
    }

    pub(crate) fn medium(&self) -> &FileMedium {
        &self.medium
    }

    pub(crate) fn examined(&self) -> &Examined {
        &self.examined
    }

    /// The data of a segment, by its place in the slot that was read at opening.
    pub(crate) fn words_of(&self, index: usize) -> &Words {
        match (&self.replayed, &self.watch) {
            (Some(copies), Some(watch)) if watch.signature() == watch.opened => {
                copies[copies.len() - 1 - index].words()
            }
            _ => {
                let Loaded { superblock, slot, .. } = &self.examined.loaded;
                let region = region_of(superblock, slot, index).unwrap_or(0) as usize;
                self.segments.region(region).unwrap_or(&self.segments.first).words()
            }
        }
    }

    /// Whether a key may be in: false is certain, true is wrong at the filter's rate.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        match self.segments.first.shortcut() {
            Some(shortcut) => shortcut.contains(shortcut.hash(&self.hasher, key)),
            None => self.contains_otherwise(self.hasher.hash_elsewhere(key)),
        }
    }

    /// Whether the key of a hash may be in.
    #[inline]
    pub fn contains_hash(&self, hash: u64) -> bool {
        match self.segments.first.shortcut() {
            Some(shortcut) => shortcut.contains(hash),
            None => self.contains_otherwise(hash),
        }
    }

    #[inline(never)]
    fn contains_otherwise(&self, hash: u64) -> bool {
        if self.simple {
            return self.segments.first.contains(hash);
        }
        let Some(watch) = &self.watch else {
            return self.segments.newest_first().any(|segment| segment.contains(hash));
        };
        let signature = watch.signature();
        if let Some(copies) = &self.replayed
            && signature == watch.opened
        {
            return copies.iter().any(|copy| copy.contains(hash));
        }
        // What cannot be read may hold the key.
        if signature != watch.seen() && self.refresh(watch).is_err() {
            return true;
        }
        self.segments.newest_first().any(|segment| segment.contains(hash))
    }

    /// Reads the slots again after a writer wrote one: it may list another segment.
    #[cold]
    fn refresh(&self, watch: &Watch) -> Result<()> {
        let _one_at_a_time = watch.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tries = TRIES;
        let loaded = loop {
            match load(&self.medium) {
                // A slot in the middle of being written looks damaged: it is read again.
                Ok(loaded) if !loaded.other_slot_damaged || tries == 0 => break loaded,
                Err(error) if tries == 0 => return Err(error),
                _ => {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
            }
        };
        let (superblock, slot) = (&loaded.superblock, &loaded.slot);
        if superblock.shape() == Shape::Growing {
            for (region, record) in slot.segments.iter().enumerate() {
                if self.segments.region(region).is_none() {
                    let (geometry, offset) = (record.geometry, record.offset);
                    let segment =
                        map_segment(&self.medium, superblock, geometry, offset, Mapping::ReadOnly)?;
                    self.segments.add(region, segment);
                }
            }
        }
        self.segments.activate(Active::of(superblock, slot));
        watch.see(loaded.signature);
        Ok(())
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
            return self.segments.first.contains_batch(hash, found);
        }
        for (at, found) in found.iter_mut().enumerate() {
            *found = self.contains_otherwise(hash(at));
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

    /// How the file was found: clean, being written, or left by a crash.
    pub fn health(&self) -> Health {
        self.examined.health
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
        self.examined.loaded.slot.segments.iter().map(|segment| segment.adds).sum()
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

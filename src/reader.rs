//! A filter opened for reading.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::engine::{
    Journalled, Loaded, SIGNATURE_WORDS, SlotSignature, check_pages, load, read_table,
    replay_private, visit_table,
};
use crate::error::{Error, Result};
use crate::format::{JOURNAL_OFFSET, State};
use crate::geometry::Geometry;
use crate::hash::Hasher;
use crate::kernel::Cells;
use crate::report::{Counted, Health};
use crate::storage::{FileMap, FileMedium, Map, Mapping, Medium, Use, Words};

/// How often opening is tried again when a writer changed the headers under it.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

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
    /// The data as the file has it.
    data: Cells<FileMap>,
    /// The data with a crashed writer's journal in it.
    replayed: Option<Box<Replayed>>,
    examined: Examined,
}

/// A private copy of a crashed file's data, good until a writer has recovered the file itself.
struct Replayed {
    data: Cells<FileMap>,
    /// The file up to the journal, to see the slots change.
    headers: FileMap,
    /// The slots' signature when the journal was read.
    signature: SlotSignature,
}

impl Replayed {
    #[inline(never)]
    fn is_current(&self) -> bool {
        SIGNATURE_WORDS.map(|slot| slot.map(|word| self.headers.words().load(word)))
            == self.signature
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
        let cell_bits = loaded.superblock.cells.bits();
        let record = &loaded.slot.segments[0];
        let extent = record.extent(cell_bits);
        let map = |range, mapping| medium.map(range, mapping).map_err(Error::io("map the file"));
        let cells =
            |mapping| Cells::new(record.geometry, map(extent.data()..extent.end(), mapping)?);
        let in_memory = options.access == Access::Memory;
        let data = match options.access {
            Access::Mapped => cells(Mapping::ReadOnly)?,
            Access::Memory => Cells::new(
                record.geometry,
                copy_into_memory(&medium, extent.data()..extent.end())
                    .map_err(Error::io("read the file into memory"))?,
            )?,
        };
        // A clean slot beside a damaged one: the damaged one may be the newer, so the clean one
        // has to prove itself (F-34).
        let doubtful = *health == Health::Clean && loaded.other_slot_damaged;
        if (options.verify && *health != Health::Live) || doubtful {
            data.expect(Use::Scan);
            let table = read_table(&medium, record, cell_bits)?;
            let news = journalled.as_ref().map_or(&[][..], |journalled| &journalled.news);
            let check = check_pages(&record.geometry, data.words(), &table, news);
            match health {
                Health::Clean => check.refuse_unless_exact()?,
                _ => check.refuse_damage()?,
            }
        }
        if !in_memory {
            // Both stay in force: what is wanted now is read, what is missed later is not guessed.
            if options.warm_up {
                data.expect(Use::All);
            }
            data.expect(Use::LookUps);
        }
        let replayed = match journalled {
            None => None,
            Some(journalled) if in_memory => {
                replay_private(&data, journalled);
                None
            }
            Some(journalled) => {
                let headers = map(0..JOURNAL_OFFSET, Mapping::ReadOnly)?;
                let private = cells(Mapping::Private)?;
                replay_private(&private, journalled);
                let signature = loaded.signature;
                Some(Box::new(Replayed { data: private, headers, signature }))
            }
        };
        let hasher = Hasher::new(loaded.superblock.hash_seed);
        Ok(Reader { medium, hasher, data, replayed, examined })
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

    pub(crate) fn words(&self) -> &Words {
        self.data().words()
    }

    /// Whether a key may be in: false is certain, true is wrong at the filter's rate.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.contains_hash(self.hasher.hash(key))
    }

    /// Whether the key of a hash may be in.
    #[inline]
    pub fn contains_hash(&self, hash: u64) -> bool {
        self.data().contains(hash)
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
        self.data().contains_batch(|at| hasher.hash(keys[at].as_ref()), found);
    }

    /// As [`contains_batch`](Self::contains_batch), for hashes.
    #[inline]
    pub fn contains_hash_batch(&self, hashes: &[u64], found: &mut Vec<bool>) {
        found.resize(hashes.len(), false);
        self.data().contains_batch(|at| hashes[at], found);
    }

    /// The data that counts now.
    #[inline]
    fn data(&self) -> &Cells<FileMap> {
        match &self.replayed {
            None => &self.data,
            // Once a writer has recovered the file, the file itself holds all that the copy does
            // and goes on to hold more.
            Some(replayed) if replayed.is_current() => &replayed.data,
            Some(_) => &self.data,
        }
    }

    /// The hasher of this file.
    pub fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        self.data.geometry()
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
        self.examined.loaded.slot.segments[0].adds
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

/// Copies a part of a file into memory of its own.
fn copy_into_memory(medium: &FileMedium, range: Range<u64>) -> io::Result<FileMap> {
    const CHUNK: usize = 1 << 20;
    let length = usize::try_from(range.end - range.start)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let memory = FileMap::anonymous(length)?;
    let mut bytes = vec![0; CHUNK.min(length)];
    for start in (0..length).step_by(CHUNK) {
        let bytes = &mut bytes[..CHUNK.min(length - start)];
        medium.read_at(bytes, range.start + start as u64)?;
        for (at, word) in bytes.as_chunks().0.iter().enumerate() {
            memory.store(start / 8 + at, u64::from_le_bytes(*word));
        }
    }
    Ok(memory)
}

/// A file as someone finds it who does not write it.
pub(crate) struct Examined {
    pub(crate) loaded: Loaded,
    pub(crate) health: Health,
    /// What the journal says, when the writer crashed.
    pub(crate) journalled: Option<Journalled>,
    /// What the page table of each segment counts.
    pub(crate) counted: Vec<Counted>,
}

impl Examined {
    /// The mark that was last synced.
    pub(crate) fn mark(&self) -> u64 {
        let journalled = self.journalled.as_ref().and_then(|journalled| journalled.mark);
        journalled.unwrap_or(self.loaded.slot.mark)
    }
}

/// Reads headers and page table, and tells a live writer from a crashed one.
///
/// A writer may change slots and tables meanwhile, so that what is read does not fit together:
/// then the file is read again.
pub(crate) fn examine(medium: &FileMedium) -> Result<Examined> {
    let mut tries = TRIES;
    loop {
        let result = examine_once(medium);
        let torn = matches!(
            &result,
            Err(Error::Checksum { .. }
                | Error::PageTable { .. }
                | Error::Field { .. }
                | Error::Length { .. }
                | Error::NoSlot
                | Error::SlotLost { .. })
        );
        if !torn || tries == 0 || !is_locked(medium)? {
            return result;
        }
        tries -= 1;
        std::thread::sleep(PAUSE);
    }
}

fn examine_once(medium: &FileMedium) -> Result<Examined> {
    let mut loaded = load(medium)?;
    let mut health = Health::Clean;
    let mut journalled = None;
    if loaded.slot.state == State::Open {
        health = Health::Live;
        if let Some(_unlocked) = SharedLock::take(medium)? {
            // No writer is there, and none can come before this lock is let go: what the headers
            // say now is final.
            loaded = load(medium)?;
            health = Health::Clean;
            if loaded.slot.state == State::Open {
                let read = Journalled::read(medium, &loaded.superblock, &loaded.slot)?;
                read.refuse_hole()?;
                journalled = Some(read);
                health = Health::Crashed;
            }
        }
    }
    let cell_bits = loaded.superblock.cells.bits();
    let mut counted = Vec::new();
    for segment in &loaded.slot.segments {
        let (mut ones, mut pages) = (Counted::new(&segment.geometry, cell_bits), 0..);
        visit_table(medium, segment, cell_bits, |entry| {
            let page = pages.next().unwrap_or_default();
            ones.add(&segment.geometry, cell_bits, page, entry.ones);
        })?;
        counted.push(ones);
    }
    Ok(Examined { loaded, health, journalled, counted })
}

/// Whether a writer has the file.
fn is_locked(medium: &FileMedium) -> Result<bool> {
    Ok(SharedLock::take(medium)?.is_none())
}

/// A shared lock, which no writer's goes with.
struct SharedLock<'a>(&'a File);

impl<'a> SharedLock<'a> {
    /// The lock, unless a writer has the file.
    fn take(medium: &'a FileMedium) -> Result<Option<Self>> {
        match medium.file().try_lock_shared() {
            Ok(()) => Ok(Some(SharedLock(medium.file()))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => {
                Err(Error::Io { action: "ask for a lock on the file", source })
            }
        }
    }
}

impl Drop for SharedLock<'_> {
    fn drop(&mut self) {
        // Closing the file lets it go as well.
        let _ = self.0.unlock();
    }
}

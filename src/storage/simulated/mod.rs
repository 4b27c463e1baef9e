//! A disk whose every write is known, for the crash tests.
//!
//! The *cache* is what the running system sees: a mapping is a view of it. The *disk* is what
//! survives a power cut. Between two syncs the disk may hold, for every 8-byte word that was
//! stored through a map, any value the word has had, and for every 512-byte sector of other
//! writes the old or any newer bytes, or garbage. A sync that fails leaves some of it on the disk,
//! and forgets the rest: the cache still shows it, and no later sync writes it, unless its page is
//! changed again.
//!
//! A kill leaves the cache, in the same boot of the machine; a power cut leaves the disk, in the next
//! boot.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod choices;
mod state;

pub(crate) use choices::{Choices, Keep};

use super::{Map, Mapping, Medium, ReadMedium, Sabotage, Words, WriteMedium};
use state::State;

use crate::format::{BootId, COUNTING, GROWING};
use crate::hash::split_mix;

const PAGE_WORDS: usize = 512;
const SECTOR_WORDS: usize = 64;

/// Where the incompatible features stand in the superblock.
const FEATURES_WORD: usize = 2;

/// How far a file can be extended: some twenty small segments.
const GROWTH_WORDS: usize = 64 * PAGE_WORDS;

/// Called after every change of the cache or the disk.
pub(crate) type Hook = Box<dyn FnMut(&View<'_>) + Send>;

/// The disk together with its cache.
struct Device {
    cache: Vec<AtomicU64>,
    state: Mutex<State>,
    hook: Mutex<Option<Hook>>,
    sabotage: Option<Sabotage>,
    /// Number of the boot of the machine.
    boot: u8,
}

/// What a hook sees: enough to say what a crash at this moment would leave.
pub(crate) struct View<'a> {
    cache: &'a [AtomicU64],
    state: &'a State,
    boot: u8,
}

/// What a crash leaves: a file, and the boot of the machine in which it is found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    words: Vec<u64>,
    boot: u8,
}

impl From<Vec<u64>> for Image {
    fn from(words: Vec<u64>) -> Self {
        Image { words, boot: 1 }
    }
}

impl std::ops::Deref for Image {
    type Target = Vec<u64>;

    fn deref(&self) -> &Vec<u64> {
        &self.words
    }
}

impl std::ops::DerefMut for Image {
    fn deref_mut(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }
}

fn boot_id(number: u8) -> BootId {
    BootId([number; 16])
}

impl View<'_> {
    /// Writes, flushes and syncs so far, but not what was stored through maps.
    #[cfg(not(shuttle))]
    pub(crate) fn calls(&self) -> u64 {
        self.state.calls
    }

    /// What the process would leave behind if it were killed: the cache survives.
    pub(crate) fn killed(&self) -> Image {
        let file = &self.cache[..self.state.length];
        let words = file.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        Image { words, boot: self.boot }
    }

    /// What a power cut would leave.
    pub(crate) fn power_cut(&self, keep: Keep, choices: &mut Choices) -> Image {
        let mut image = self.state.surviving(self.cache, keep, choices);
        let lengths = &self.state.lengths;
        let length = match keep {
            Keep::Nothing => lengths[0],
            Keep::Everything => self.state.length,
            _ => lengths[choices.below(lengths.len() as u64) as usize],
        };
        image.truncate(length);
        // Never 0, which stands for a boot that is not known.
        Image { words: image, boot: self.boot.wrapping_add(1).max(1) }
    }
}

impl Device {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        let mut hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hook) = hook.as_mut() {
            hook(&View { cache: &self.cache, state: &self.state(), boot: self.boot });
        }
    }

    fn stored(&self, word: usize) {
        let value = u64::from_le(self.cache[word].load(Ordering::Relaxed));
        self.state().words.entry(word).or_default().push(value.to_le());
        self.changed();
    }

    fn injected() -> io::Error {
        io::Error::other("injected failure")
    }
}

/// A filter on the simulated disk. Clones share the device, as handles of one file do.
#[derive(Clone)]
pub(crate) struct SimulatedMedium {
    device: Arc<Device>,
}

impl SimulatedMedium {
    /// A device that holds `image`, all of it durable; that of a growing or counting file
    /// has room to grow.
    pub(crate) fn new(image: impl Into<Image>, sabotage: Option<Sabotage>) -> Self {
        let Image { words: mut image, boot } = image.into();
        let length = image.len();
        if u64::from_le(image[FEATURES_WORD]) & u64::from(GROWING | COUNTING) != 0 {
            image.resize(length + GROWTH_WORDS, 0);
        }
        let cache = image.iter().map(|&word| AtomicU64::new(word)).collect();
        let state = State { disk: image, length, lengths: vec![length], ..State::default() };
        SimulatedMedium {
            device: Arc::new(Device {
                cache,
                state: Mutex::new(state),
                hook: Mutex::new(None),
                sabotage,
                boot,
            }),
        }
    }

    /// Watches every change from now on.
    pub(crate) fn watch(&self, hook: Option<Hook>) {
        *self.device.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    /// Lets the write, flush or sync fail that is `calls` calls ahead (1 is the next one).
    pub(crate) fn fail_after(&self, calls: u64, choices: Choices) {
        let mut state = self.device.state();
        state.fail_at = Some(state.calls + calls);
        state.choices = Some(choices);
    }

    /// Lets the next calls find no space behind the end of the file.
    #[cfg(shuttle)]
    pub(crate) fn fail_extending(&self, calls: u64) {
        self.device.state().full = calls;
    }

    /// Lets nothing fail any more.
    pub(crate) fn heal(&self) {
        self.device.state().fail_at = None;
    }

    /// Changes a word behind the back of the file's writer, in the cache and on the disk.
    pub(crate) fn damage(&self, word: usize, value: u64) {
        self.device.cache[word].store(value, Ordering::Relaxed);
        let mut state = self.device.state();
        state.disk[word] = value;
        state.words.remove(&word);
    }

    /// What a crash now would leave.
    pub(crate) fn view<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        let device = &self.device;
        look(&View { cache: &device.cache, state: &device.state(), boot: device.boot })
    }
}

impl ReadMedium for SimulatedMedium {
    fn length(&self) -> io::Result<u64> {
        Ok(self.device.state().length as u64 * 8)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let start = offset as usize;
        if start + bytes.len() > self.device.state().length * 8 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        assert!(start.is_multiple_of(8) && bytes.len().is_multiple_of(8));
        for (word, bytes) in self.device.cache[start / 8..].iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        Ok(())
    }

    fn boot_id(&self) -> BootId {
        boot_id(self.device.boot)
    }

    fn sabotaged(&self, step: Sabotage) -> bool {
        self.device.sabotage == Some(step)
    }
}

impl WriteMedium for SimulatedMedium {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        assert!(offset.is_multiple_of(512) && bytes.len().is_multiple_of(512));
        if self.device.state().call() {
            return Err(Device::injected());
        }
        for (at, sector) in bytes.chunks_exact(512).enumerate() {
            let sector_number = offset as usize / 512 + at;
            let words: Vec<u64> = sector
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
                .collect();
            for (word, value) in words.iter().enumerate() {
                let word = sector_number * SECTOR_WORDS + word;
                self.device.cache[word].store(*value, Ordering::Relaxed);
            }
            self.device.state().sectors.entry(sector_number).or_default().push(words);
        }
        self.device.changed();
        Ok(())
    }
}

impl Medium for SimulatedMedium {
    type Map = SimulatedMap;

    fn read_past_cache(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_at(bytes, offset)?;
        let state = self.device.state();
        let dirty = state.dirty_pages();
        for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
            let at = offset as usize / 8 + at;
            if !dirty.contains(&(at / PAGE_WORDS)) {
                word.copy_from_slice(&state.disk[at].to_ne_bytes());
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.device.state();
        let fail = state.call();
        state.write_back(&self.device.cache, 0..usize::MAX, fail);
        if !fail {
            state.lengths = vec![state.length];
        }
        drop(state);
        self.device.changed();
        if fail { Err(Device::injected()) } else { Ok(()) }
    }

    fn extend(&self, start: u64, end: u64) -> io::Result<()> {
        let (start, end) = (start as usize / 8, end as usize / 8);
        let mut state = self.device.state();
        let full = state.full > 0;
        state.full = state.full.saturating_sub(1);
        if state.call() || full || end > self.device.cache.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        for word in start..end {
            self.device.cache[word].store(0, Ordering::Relaxed);
            state.disk[word] = 0;
        }
        state.words.retain(|&word, _| word < start);
        state.sectors.retain(|&sector, _| sector * SECTOR_WORDS < start);
        state.length = end;
        state.lengths.extend([start, end]);
        drop(state);
        self.device.changed();
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let end = length as usize / 8;
        let mut state = self.device.state();
        if state.call() {
            return Err(Device::injected());
        }
        state.words.retain(|&word, _| word < end);
        state.sectors.retain(|&sector, _| sector * SECTOR_WORDS < end);
        state.length = end;
        state.lengths.push(end);
        drop(state);
        self.device.changed();
        Ok(())
    }

    fn map(&self, range: Range<u64>, mapping: Mapping) -> io::Result<SimulatedMap> {
        let first = range.start as usize / 8;
        let length = (range.end - range.start) as usize / 8;
        assert!(first + length <= self.device.cache.len());
        let cache = &self.device.cache[first..first + length];
        let mut private = None;
        if mapping == Mapping::Private {
            let copy = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
            private = Some(cache.iter().map(copy).collect::<Box<[AtomicU64]>>());
        }
        let start = private.as_deref().unwrap_or(cache).as_ptr();
        // SAFETY: the words are part of the device's cache or of the copy, which the map keeps alive
        // and which are never moved or resized; all access is atomic.
        let words = unsafe { Words::new(start, length) };
        Ok(SimulatedMap { device: Arc::clone(&self.device), private, first, words })
    }

    fn salt(&self) -> u64 {
        // Of the image as well: devices that a crash left behind go different ways. As numbers of
        // the file, so that a campaign goes the same way on every machine.
        let slots = self.device.cache[PAGE_WORDS..3 * PAGE_WORDS].iter();
        slots.fold(self.device.state().calls, |salt, word| {
            split_mix(salt ^ u64::from_le(word.load(Ordering::Relaxed)), 0)
        })
    }
}

/// A mapped part of the simulated disk.
pub(crate) struct SimulatedMap {
    device: Arc<Device>,
    /// The words of a private map.
    private: Option<Box<[AtomicU64]>>,
    first: usize,
    words: Words,
}

impl SimulatedMap {
    fn stored(&self, word: usize) {
        if self.private.is_none() {
            self.device.stored(self.first + word);
        }
    }
}

impl Map for SimulatedMap {
    fn words(&self) -> &Words {
        &self.words
    }

    fn fetch_or(&self, word: usize, bits: u64) -> u64 {
        crate::sync::step();
        let before = self.words.fetch_or(word, bits);
        self.stored(word);
        before
    }

    fn store(&self, word: usize, value: u64) {
        crate::sync::step();
        self.words.store(word, value);
        self.stored(word);
    }

    fn flush(&self, words: Range<usize>) -> io::Result<()> {
        // A disk takes its time: a thread that need not wait for it gets on.
        (0..20).for_each(|_| crate::sync::step());
        let mut state = self.device.state();
        let fail = state.call();
        let pages =
            (self.first + words.start) / PAGE_WORDS..(self.first + words.end).div_ceil(PAGE_WORDS);
        state.write_back(&self.device.cache, pages, fail);
        drop(state);
        self.device.changed();
        if fail { Err(Device::injected()) } else { Ok(()) }
    }
}

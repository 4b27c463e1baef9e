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

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Map, Mapping, Medium, Sabotage, Words};
use crate::format::{BootId, COUNTING, GROWING};
use crate::hash::split_mix;

const PAGE_WORDS: usize = 512;
const SECTOR_WORDS: usize = 64;

/// Where the incompatible features stand in the superblock.
const FEATURES_WORD: usize = 2;

/// How far a file can be extended: some twenty small segments.
const GROWTH_WORDS: usize = 64 * PAGE_WORDS;

/// A seeded source of choices.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    start: u64,
    taken: u64,
}

impl Choices {
    pub(crate) fn new(start: u64) -> Self {
        Choices { start, taken: 0 }
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.taken += 1;
        split_mix(self.start, self.taken)
    }

    /// A number below `range`.
    pub(crate) fn below(&mut self, range: u64) -> u64 {
        crate::geometry::reduce(self.word(), range)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// What of the writes since the last sync a power cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Nothing,
    Everything,
    /// Each word and sector for itself.
    Any,
    /// Each page as a whole, old or new.
    Pages,
    /// As `Any`, and sectors that were being written may hold anything.
    Garbage,
}

impl Keep {
    pub(crate) const ALL: [Keep; 5] =
        [Keep::Nothing, Keep::Everything, Keep::Any, Keep::Pages, Keep::Garbage];
}

/// Called after every change of the cache or the disk.
pub(crate) type Hook = Box<dyn FnMut(&View<'_>) + Send>;

#[derive(Default)]
struct State {
    disk: Vec<u64>,
    /// Words of the file as the system sees it.
    length: usize,
    /// Lengths that the file may have after a power cut.
    lengths: Vec<usize>,
    /// Values of words stored through maps since the last sync of their page.
    words: BTreeMap<usize, Vec<u64>>,
    /// Versions of sectors written since the last sync of their page.
    sectors: BTreeMap<usize, Vec<Vec<u64>>>,
    /// Calls of write, flush and sync so far.
    calls: u64,
    /// The call that fails.
    fail_at: Option<u64>,
    choices: Option<Choices>,
}

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

impl State {
    /// Pages with changes that are not durable.
    fn dirty_pages(&self) -> Vec<usize> {
        let words = self.words.keys().map(|word| word / PAGE_WORDS);
        let sectors = self.sectors.keys().map(|sector| sector * SECTOR_WORDS / PAGE_WORDS);
        let mut pages: Vec<usize> = words.chain(sectors).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    fn surviving(&self, cache: &[AtomicU64], keep: Keep, choices: &mut Choices) -> Vec<u64> {
        let mut image = self.disk.clone();
        for page in self.dirty_pages() {
            let range = page * PAGE_WORDS..(page + 1) * PAGE_WORDS;
            let new = |word: usize| cache[word].load(Ordering::Relaxed);
            match keep {
                Keep::Nothing => {}
                Keep::Everything => range.for_each(|word| image[word] = new(word)),
                Keep::Pages => {
                    if choices.once_in(2) {
                        range.for_each(|word| image[word] = new(word));
                    }
                }
                Keep::Any | Keep::Garbage => {
                    for sector in range.clone().step_by(SECTOR_WORDS) {
                        self.keep_sector(sector / SECTOR_WORDS, keep, choices, &mut image);
                    }
                    for word in range {
                        if let Some(values) = self.words.get(&word) {
                            let pick = choices.below(values.len() as u64 + 1) as usize;
                            if let Some(&value) = values.get(pick) {
                                image[word] = value;
                            }
                        } else if !self.sectors.contains_key(&(word / SECTOR_WORDS))
                            && choices.once_in(2)
                        {
                            // The cache alone has it, after a failed sync; its page is written.
                            image[word] = new(word);
                        }
                    }
                }
            }
        }
        image
    }

    fn keep_sector(&self, sector: usize, keep: Keep, choices: &mut Choices, image: &mut [u64]) {
        let Some(versions) = self.sectors.get(&sector) else { return };
        let start = sector * SECTOR_WORDS;
        let pick = choices.below(versions.len() as u64 + 1) as usize;
        if let Some(version) = versions.get(pick) {
            image[start..start + SECTOR_WORDS].copy_from_slice(version);
        } else if keep == Keep::Garbage && choices.once_in(3) {
            image[start..start + SECTOR_WORDS].fill_with(|| choices.word().to_le());
        }
    }

    /// Brings pages to the disk, or some of them if that fails.
    fn write_back(&mut self, cache: &[AtomicU64], pages: Range<usize>, fail: bool) {
        if fail {
            let mut choices = self.choices.take().unwrap_or_else(|| Choices::new(self.calls));
            let keep = Keep::ALL[choices.below(4) as usize];
            let image = self.surviving(cache, keep, &mut choices);
            for page in self.dirty_pages().into_iter().filter(|page| pages.contains(page)) {
                let range = page * PAGE_WORDS..(page + 1) * PAGE_WORDS;
                self.disk[range.clone()].copy_from_slice(&image[range]);
            }
            self.choices = Some(choices);
        } else {
            for page in self.dirty_pages().into_iter().filter(|page| pages.contains(page)) {
                let range = page * PAGE_WORDS..(page + 1) * PAGE_WORDS;
                for (word, cached) in self.disk[range.clone()].iter_mut().zip(&cache[range]) {
                    *word = cached.load(Ordering::Relaxed);
                }
            }
        }
        self.words.retain(|word, _| !pages.contains(&(word / PAGE_WORDS)));
        self.sectors.retain(|sector, _| !pages.contains(&(sector * SECTOR_WORDS / PAGE_WORDS)));
    }

    /// Counts a call; true when it is the one that shall fail.
    fn call(&mut self) -> bool {
        self.calls += 1;
        self.fail_at == Some(self.calls)
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

impl Medium for SimulatedMedium {
    type Map = SimulatedMap;

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
        if state.call() || end > self.device.cache.len() {
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
        assert_eq!(mapping, Mapping::Shared, "the simulated disk is for writers");
        let first = range.start as usize / 8;
        let length = (range.end - range.start) as usize / 8;
        assert!(first + length <= self.device.cache.len());
        // SAFETY: the words are part of the device's cache, which the map keeps alive and which
        // is never moved or resized; all access is atomic.
        let words = unsafe { Words::new(self.device.cache[first..].as_ptr(), length) };
        Ok(SimulatedMap { device: Arc::clone(&self.device), first, words })
    }

    fn salt(&self) -> u64 {
        // Of the image as well: devices that a crash left behind go different ways. As numbers of
        // the file, so that a campaign goes the same way on every machine.
        let slots = self.device.cache[PAGE_WORDS..3 * PAGE_WORDS].iter();
        slots.fold(self.device.state().calls, |salt, word| {
            split_mix(salt ^ u64::from_le(word.load(Ordering::Relaxed)), 0)
        })
    }

    fn boot_id(&self) -> BootId {
        boot_id(self.device.boot)
    }

    fn sabotaged(&self, step: Sabotage) -> bool {
        self.device.sabotage == Some(step)
    }
}

/// A mapped part of the simulated disk.
pub(crate) struct SimulatedMap {
    device: Arc<Device>,
    first: usize,
    words: Words,
}

impl Map for SimulatedMap {
    fn words(&self) -> &Words {
        &self.words
    }

    fn fetch_or(&self, word: usize, bits: u64) -> u64 {
        crate::sync::step();
        let before = self.words.fetch_or(word, bits);
        self.device.stored(self.first + word);
        before
    }

    fn store(&self, word: usize, value: u64) {
        crate::sync::step();
        self.words.store(word, value);
        self.device.stored(self.first + word);
    }

    fn flush(&self, words: Range<usize>) -> io::Result<()> {
        // A disk takes its time: whoever need not wait for it gets on meanwhile.
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

//! Mapped memory, and memory of a handle's own that takes its place.

use std::io;
use std::ops::Range;
#[cfg(not(feature = "files"))]
use std::sync::atomic::AtomicU64;

#[cfg(feature = "files")]
use memmap2::{Advice, MmapRaw};

use super::{Map, Usage, Words};

/// A mapped part of a file, or a copy of it in memory.
pub(crate) struct FileMap {
    backing: Backing,
    words: Words,
    /// The file behind a map that is written through.
    #[cfg(all(feature = "files", target_vendor = "apple"))]
    file: Option<std::fs::File>,
}

/// What keeps the words of a map alive.
enum Backing {
    #[cfg(feature = "files")]
    Mapped(MmapRaw),
    /// Kept, not read: the words are seen through [`Words`] alone.
    #[cfg(not(feature = "files"))]
    Owned(#[expect(dead_code, reason = "kept alive")] Box<[AtomicU64]>),
}

impl FileMap {
    #[cfg(feature = "files")]
    pub(super) fn new(map: MmapRaw) -> Self {
        // SAFETY: a mapping starts on a page and stays until `map` is dropped, which is when this
        // value is; all access goes through `Words`. A file cut short under the map raises SIGBUS,
        // which no bloomfile program causes (documented at `Filter::open` and `Reader::open`).
        let words = unsafe { Words::new(map.as_ptr().cast(), map.len() / 8) };
        FileMap {
            backing: Backing::Mapped(map),
            words,
            #[cfg(target_vendor = "apple")]
            file: None,
        }
    }

    /// The same, with the file behind it: there an msync ends at the disk's own cache, and only the
    /// file can be synced further.
    #[cfg(all(feature = "files", target_vendor = "apple"))]
    pub(super) fn of_file(self, file: std::fs::File) -> Self {
        FileMap { file: Some(file), ..self }
    }

    /// Memory of its own, all zero, that no file stands behind; in huge pages if the system has
    /// some, so that look-ups all over it miss the address cache less often.
    #[cfg(feature = "files")]
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        let map = memmap2::MmapMut::map_anon(length)?;
        // Advice: where it is not taken, all is as before.
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::HugePage);
        Ok(Self::new(map.into()))
    }

    /// Memory of its own, all zero, where nothing can be mapped.
    #[cfg(not(feature = "files"))]
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        let mut owned = Vec::new();
        let words = length / 8;
        owned.try_reserve_exact(words).map_err(|_| io::ErrorKind::OutOfMemory)?;
        owned.resize_with(words, || AtomicU64::new(0));
        let owned = owned.into_boxed_slice();
        // SAFETY: the words are on the heap, where they stay until the box is dropped, which is when
        // this value is; all access goes through `Words`.
        let words = unsafe { Words::new(owned.as_ptr(), owned.len()) };
        Ok(FileMap { backing: Backing::Owned(owned), words })
    }
}

impl Map for FileMap {
    const DIRECT: bool = true;

    #[inline(always)]
    fn words(&self) -> &Words {
        &self.words
    }

    #[inline(always)]
    fn fetch_or(&self, word: usize, bits: u64) -> u64 {
        self.words.fetch_or(word, bits)
    }

    #[inline(always)]
    fn store(&self, word: usize, value: u64) {
        self.words.store(word, value);
    }

    #[cfg(feature = "files")]
    fn advise(&self, usage: Usage) {
        let Backing::Mapped(map) = &self.backing;
        let advice = match usage {
            Usage::LookUps => Advice::Random,
            Usage::All => Advice::WillNeed,
            #[cfg(target_os = "linux")]
            Usage::Fill => Advice::HugePage,
            #[cfg(not(target_os = "linux"))]
            Usage::Fill => Advice::Normal,
        };
        // Advice: where it is not taken, all is as before.
        let _ = map.advise(advice);
    }

    #[cfg(feature = "files")]
    fn flush(&self, words: Range<usize>) -> io::Result<()> {
        let Backing::Mapped(map) = &self.backing;
        // Writing the same bytes with `pwritev2` and `RWF_DSYNC` is no faster: taken in turn, 2,000
        // times on ext4, both had a median of 4.2 to 4.3 ms on a busy disk.
        super::retry(|| map.flush_range(words.start * 8, words.len() * 8))?;
        #[cfg(target_vendor = "apple")]
        if let Some(file) = &self.file {
            return super::sync_file(file);
        }
        Ok(())
    }

    #[cfg(all(feature = "files", target_os = "linux"))]
    fn reset(&self, _: &impl Map) -> io::Result<()> {
        let Backing::Mapped(map) = &self.backing;
        // SAFETY: a private map of a file: its pages are those of the file again, which are words as
        // well; no reference to them is ever made, only atomics (see `Words`).
        unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) }
    }

    #[cfg(not(feature = "files"))]
    fn flush(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }
}

//! Mapped memory, and memory of a handle's own that takes its place.

use std::io;
use std::ops::Range;
#[cfg(feature = "files")]
use std::sync::Arc;
#[cfg(not(feature = "files"))]
use std::sync::atomic::AtomicU64;

#[cfg(feature = "files")]
use memmap2::MmapRaw;

use super::{Map, Usage, Words};
#[cfg(feature = "files")]
use super::{file::OpenFile, platform};

/// A mapped part of a file, or a copy of it in memory.
pub(crate) struct FileMap {
    backing: Backing,
    words: Words,
    /// The file behind a map that is written through: to make a part of the map durable may take a
    /// sync of the file.
    #[cfg(feature = "files")]
    file: Option<Arc<OpenFile>>,
}

/// What keeps the words of a map alive.
enum Backing {
    #[cfg(feature = "files")]
    Mapped(Arc<MmapRaw>),
    /// Kept, not read: the words are seen through [`Words`] alone.
    #[cfg(not(feature = "files"))]
    Owned(#[expect(dead_code, reason = "kept alive")] Box<[AtomicU64]>),
}

impl FileMap {
    #[cfg(feature = "files")]
    pub(super) fn new(map: Arc<MmapRaw>) -> Self {
        // SAFETY: a mapping starts on a page and stays until `map` is dropped, which is not before
        // this value is; all access goes through `Words`. A file cut short under the map raises
        // SIGBUS, which no bloomfile program causes (documented at `Filter::open` and
        // `Reader::open`).
        let words = unsafe { Words::new(map.as_ptr().cast(), map.len() / 8) };
        FileMap { backing: Backing::Mapped(map), words, file: None }
    }

    /// The same, with the file that is written through it.
    #[cfg(feature = "files")]
    pub(super) fn written_through(map: Arc<MmapRaw>, file: Arc<OpenFile>) -> Self {
        FileMap { file: Some(file), ..Self::new(map) }
    }

    /// Memory of its own, all zero, that no file stands behind; in huge pages if the system has
    /// some, so that look-ups all over it miss the address cache less often.
    #[cfg(feature = "files")]
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        let map = memmap2::MmapMut::map_anon(length)?;
        platform::advise_huge(&map);
        Ok(Self::new(Arc::new(map.into())))
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
        platform::advise(map, usage);
    }

    #[cfg(feature = "files")]
    fn flush(&self, words: Range<usize>) -> io::Result<()> {
        let Backing::Mapped(map) = &self.backing;
        // Where no file is written through a map, there is nothing to make durable.
        let Some(file) = &self.file else { return Ok(()) };
        platform::flush(map, file.file(), words.start * 8..words.end * 8)
    }

    #[cfg(feature = "files")]
    fn reset(&self, data: &impl Map) -> io::Result<()> {
        let Backing::Mapped(map) = &self.backing;
        // SAFETY: no reference to the words is ever made, only atomics (see `Words`).
        if unsafe { platform::discard_changes(map)? } { Ok(()) } else { self.copy_from(data) }
    }

    #[cfg(not(feature = "files"))]
    fn flush(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }
}

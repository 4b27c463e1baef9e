//! The inner loops over mapped words.
//!
//! [`Cells`] joins a geometry with the words that hold its cells. It checks once that they fit;
//! after that nothing on the way of a look-up checks, divides, allocates or locks.

#[macro_use]
mod choice;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[macro_use]
mod functions;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod batch;
mod counting;
mod keyed;
pub(crate) mod loose;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(not(target_arch = "x86_64"))]
mod none;
mod portable;
pub(crate) mod sealed;
mod segments;
#[cfg(test)]
mod tests;

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use neon as simd;
#[cfg(not(target_arch = "x86_64"))]
use none as wide;
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little")
)))]
use none as simd;
#[cfg(target_arch = "x86_64")]
use {avx2 as simd, avx512 as wide};

use choice::Kernel;
pub(crate) use choice::{FastPath, LateFastPath};
pub(crate) use keyed::keyed_in_blocks;
pub(crate) use segments::{Active, HasCells, SegmentSet};

use crate::error::{Error, Result};
use crate::geometry::{CellKind, Geometry, Layout, PAGE_BYTES, reduce};
use crate::hash::Hasher;
use crate::storage::{LINE_WORDS, Map, Usage, Words, prefetch_to_write};

/// Bytes of a block of the `line` layout.
const LINE_BYTES: usize = 8 * LINE_WORDS;

/// From this size on a look-up waits for memory longer than a hash under a secret takes: what counts
/// then is that the hash is few instructions, so that the processor reaches the next look-ups, and
/// below it how soon the hash is known.
const FAR: u64 = 8 << 20;

/// The word and the bit of the cell a hash takes in a row.
#[inline(always)]
pub(crate) fn place(geometry: &Geometry, hash: u64, row: u32) -> (usize, u64) {
    let address = geometry.address(hash, row);
    ((address / 64) as usize, 1 << (address % 64))
}

/// The bytes before the block of a hash, when all lines together have `line_bytes`: the block (F-52)
/// times the bytes of a line, with the multiplication before the rounding, because clearing bits is
/// cheaper than shifting them.
#[inline(always)]
fn line_offset(hash: u64, line_bytes: u64) -> usize {
    reduce(hash, line_bytes) as usize & !(LINE_BYTES - 1)
}

/// The word of a counter and how far it is shifted in it (F-58).
#[inline(always)]
pub(crate) fn counter_place(address: u64) -> (usize, u32) {
    ((address / 16) as usize, (address % 16) as u32 * 4)
}

/// A geometry and the mapped words that hold its cells.
pub(crate) struct Cells<Q: Map> {
    map: Q,
    /// The words of `map`, which fit the geometry.
    words: Words,
    geometry: Geometry,
    /// Bytes of all blocks, in the `line` layout.
    line_bytes: u64,
    /// From one block to the next, and from one row to the next, in cells.
    block_span: u64,
    row_span: u64,
    /// Bytes of a block, if no block is on more than one page.
    block_bytes: Option<NonZeroU64>,
    kernel: Kernel,
    /// What look-ups in sealed pages need to know.
    sealed: Option<Box<sealed::Query>>,
}

impl<Q: Map> Cells<Q> {
    /// Joins the two. Too few words are an error: from here on nothing checks.
    pub(crate) fn new(geometry: Geometry, map: Q) -> Result<Self> {
        let kernel = Kernel::choose(&geometry);
        Self::with_kernel(geometry, map, kernel)
    }

    fn with_kernel(geometry: Geometry, map: Q, kernel: Kernel) -> Result<Self> {
        // SAFETY: the same words as `map` gives, which this value keeps.
        let words = unsafe { Words::new(map.words().as_ptr(), map.words().len()) };
        let (expected, found) = (geometry.pages() * PAGE_BYTES, words.len() as u64 * 8);
        if found < expected {
            return Err(Error::Length { expected, found });
        }
        let (block_span, row_span) = (geometry.block_span(), geometry.row_span());
        let line_bytes = geometry.blocks() * LINE_BYTES as u64;
        let block_bytes = match geometry.layout() {
            Layout::Line | Layout::Page => block_span * u64::from(geometry.cell_kind().bits()) / 8,
            Layout::Rows | Layout::Flat => 0,
            Layout::Sealed => PAGE_BYTES,
        };
        Ok(Cells {
            block_bytes: NonZeroU64::new(block_bytes).filter(|bytes| bytes.get() <= PAGE_BYTES),
            map,
            words,
            geometry,
            line_bytes,
            block_span,
            row_span,
            kernel,
            sealed: (kernel == Kernel::Sealed)
                .then(|| Box::new(sealed::Query::new(geometry.pages(), 0))),
        })
    }

    /// The geometry.
    #[inline(always)]
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The first word of the block of a hash in the `line` layout.
    #[inline(always)]
    fn line(&self, hash: u64) -> usize {
        line_offset(hash, self.line_bytes) / 8
    }

    /// The address of the line of a hash: all of it is there, because the words hold all lines
    /// (`new`).
    #[inline(always)]
    fn line_pointer(&self, hash: u64) -> *const std::sync::atomic::AtomicU64 {
        self.words.as_ptr().wrapping_byte_add(line_offset(hash, self.line_bytes))
    }

    /// The fast path of these cells, if they have one.
    pub(crate) fn fast_path(&self) -> FastPath {
        self.kernel.fast_path()
    }

    /// [`contains`](Self::contains) by the fast path that these cells have, in place instead of by a
    /// call.
    #[inline(always)]
    pub(crate) fn contains_fast(&self, fast: FastPath, hash: u64) -> bool {
        match fast {
            FastPath::Simd => self.contains_simd(hash),
            _ => self.contains_wide(hash),
        }
    }

    /// The fast path of keys of a keyed file, if these cells have one: where they are further away
    /// than the caches, a hash has to be few instructions.
    pub(crate) fn fast_path_keyed(&self) -> FastPath {
        if self.kernel == Kernel::WideLine8 && self.line_bytes >= FAR {
            FastPath::Wide
        } else {
            FastPath::None
        }
    }

    /// [`contains`](Self::contains) for a key of a keyed file, by the fast path that these cells have.
    #[inline(always)]
    pub(crate) fn contains_keyed(&self, hasher: &Hasher, key: &[u8]) -> bool {
        debug_assert_eq!(self.fast_path_keyed(), FastPath::Wide);
        // SAFETY: the choice of the kernel found its instructions; the words hold all lines.
        unsafe { wide::contains_keyed(self.words.as_ptr(), self.line_bytes, hasher, key) }
    }

    /// Whether the cells of all rows are on.
    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        // By far the most frequent kernels first: a jump through a table would cost more than they.
        match self.kernel {
            Kernel::WideLine8 => self.contains_wide(hash),
            Kernel::SimdLine8 => self.contains_simd(hash),
            Kernel::WideCounting => self.counters_contain(hash),
            _ => self.contains_general(hash),
        }
    }

    /// Whether the cells of all rows are on, with the kernel [`Kernel::WideLine8`].
    #[inline(always)]
    fn contains_wide(&self, hash: u64) -> bool {
        debug_assert_eq!(self.kernel, Kernel::WideLine8);
        // SAFETY: the choice of the kernel found its instructions; the words hold all lines.
        unsafe { wide::contains_inline(self.words.as_ptr(), self.line_bytes, hash) }
    }

    /// Whether the cells of all rows are on, with the kernel [`Kernel::SimdLine8`].
    #[inline(always)]
    fn contains_simd(&self, hash: u64) -> bool {
        debug_assert_eq!(self.kernel, Kernel::SimdLine8);
        // SAFETY: as above.
        unsafe { simd::contains_inline(self.words.as_ptr(), self.line_bytes, hash) }
    }

    #[inline]
    fn contains_general(&self, hash: u64) -> bool {
        match self.kernel {
            Kernel::Counting => return self.counters_contain_general(hash),
            Kernel::Sealed => return self.sealed().contains(self.sealed_pages(), hash),
            _ => {}
        }
        with_kernel!(
            self.kernel,
            contains(self.line_pointer(hash), hash),
            portable::line_contains(self, hash),
            portable::drawn_contains(self, hash)
        )
    }

    /// The counter at an address.
    pub(crate) fn counter(&self, address: u64) -> u8 {
        let (word, shift) = counter_place(address);
        (self.words.load(word) >> shift & 15) as u8
    }

    /// The counters of a hash, one for each row.
    pub(crate) fn counters(&self, hash: u64) -> impl Iterator<Item = u8> {
        (0..self.geometry.row_count())
            .map(move |row| self.counter(self.geometry.address(hash, row)))
    }

    /// How often a hash may have been added: the smallest of its counters.
    pub(crate) fn count(&self, hash: u64) -> u8 {
        let Some(smallest) = self.counters(hash).min() else {
            unreachable!("every geometry has a row")
        };
        smallest
    }

    /// The page of a hash, in the layouts that have all cells of a hash on one page.
    #[inline(always)]
    pub(crate) fn only_page(&self, hash: u64) -> Option<u64> {
        let block_bytes = self.block_bytes?.get();
        Some(self.geometry.block(hash) * block_bytes / PAGE_BYTES)
    }

    /// Whether `accept` takes one of the pages with a cell of a hash that is off: each of them is
    /// shown until it does. A hash that has all of its cells on one page has that one shown, whether
    /// one of them is off or not.
    #[inline]
    pub(crate) fn any_off(&self, hash: u64, mut accept: impl FnMut(u64) -> bool) -> bool {
        if let Some(page) = self.only_page(hash) {
            return accept(page);
        }
        (0..self.geometry.row_count()).any(|row| {
            let address = self.geometry.address(hash, row);
            let off = match self.geometry.cell_kind() {
                CellKind::Plain => {
                    self.words.load(address as usize / 64) >> (address % 64) & 1 == 0
                }
                CellKind::Counting => self.counter(address) == 0,
                CellKind::Sealed => unreachable!("all of a look-up is on one page"),
            };
            off && accept(address / self.geometry.cells_per_page())
        })
    }

    /// Whether `accept` takes one of the pages that the cells of a hash are on.
    pub(crate) fn any_page(&self, hash: u64, mut accept: impl FnMut(u64) -> bool) -> bool {
        if let Some(page) = self.only_page(hash) {
            return accept(page);
        }
        (0..self.geometry.row_count()).any(|row| {
            let address = self.geometry.address(hash, row);
            accept(address / self.geometry.cells_per_page())
        })
    }

    /// One bit for each row whose cell is off.
    #[inline]
    pub(crate) fn missing(&self, hash: u64) -> u32 {
        with_kernel!(
            self.kernel,
            missing(self.line_pointer(hash), hash),
            portable::missing(self, hash),
            portable::missing(self, hash)
        )
    }

    /// Asks for the block of a hash to change it, if it is a line.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self, hash: u64) {
        if self.geometry.layout() == Layout::Line {
            prefetch_to_write(self.line_pointer(hash).cast());
        }
    }

    /// Turns on the cells of a hash that are off, and gives one bit for each of their rows. Unless
    /// there are none, `before` gets the same bits first, and then `prepare` a word of each page that
    /// is about to change. The words must be mapped writable.
    ///
    /// When the hash has a block of its [own](Self::own_block), no other thread changes that block at
    /// the same time: so no cell is lost although words are loaded and stored in two steps, which
    /// takes a tenth of the time of an atomic step for each row.
    #[inline(always)]
    pub(crate) fn turn_on(
        &self,
        hash: u64,
        before: impl FnOnce(u32),
        prepare: impl FnMut(usize),
    ) -> u32 {
        if Q::DIRECT && self.kernel == Kernel::WideLine8 {
            self.turn_on_wide(hash, before, prepare)
        } else {
            self.turn_on_general(hash, before, prepare)
        }
    }

    /// [`turn_on`](Self::turn_on) with the kernel [`Kernel::WideLine8`], in place.
    #[inline(always)]
    fn turn_on_wide(
        &self,
        hash: u64,
        before: impl FnOnce(u32),
        mut prepare: impl FnMut(usize),
    ) -> u32 {
        let word = self.line(hash);
        let line = self.words.as_ptr().wrapping_add(word);
        // SAFETY: the choice of the kernel found its instructions; all of the line is there (`new`).
        let mask = unsafe { wide::missing_inline(line, hash) };
        if mask != 0 {
            before(mask);
            prepare(word);
            // SAFETY: as above.
            unsafe { wide::turn_on_inline(line, hash) };
        }
        mask
    }

    #[inline(never)]
    fn turn_on_general(
        &self,
        hash: u64,
        before: impl FnOnce(u32),
        mut prepare: impl FnMut(usize),
    ) -> u32 {
        if matches!(self.kernel, Kernel::Drawn | Kernel::Counting | Kernel::WideCounting) {
            let mask = portable::missing(self, hash);
            if mask != 0 {
                before(mask);
                portable::set_drawn(self, hash, mask, prepare);
            }
            return mask;
        }
        let before = |mask| {
            before(mask);
            prepare(self.line(hash));
        };
        if Q::DIRECT {
            with_kernel!(
                self.kernel,
                turn_on(self.line_pointer(hash), hash, before),
                portable::turn_on(self, hash, before),
                portable::turn_on(self, hash, before)
            )
        } else {
            portable::turn_on(self, hash, before)
        }
    }

    /// Turns on all cells of a hash; true when one of them was off.
    ///
    /// No other thread changes the cells at the same time.
    #[inline]
    pub(crate) fn add(&self, hash: u64) -> bool {
        self.turn_on(hash, |_| {}, |_| {}) != 0
    }

    /// The block of a hash, in the layouts that have enough blocks for threads that change
    /// cells to keep apart by them.
    #[inline(always)]
    pub(crate) fn own_block(&self, hash: u64) -> Option<u64> {
        match self.geometry.layout() {
            Layout::Line | Layout::Page => Some(self.geometry.block(hash)),
            Layout::Rows | Layout::Flat | Layout::Sealed => None,
        }
    }
}

/// The hash of a key for a handle whose look-ups have a fast path: its kernel found the instructions
/// that make the hash fast as well.
#[inline(always)]
pub(crate) fn hash_fast(hasher: &Hasher, key: &[u8]) -> u64 {
    // SAFETY: there is a fast path only where `simd` or `wide` was found, and both ask for BMI2 on
    // x86-64; the other architectures need nothing.
    hasher.hash_by(key, |x| unsafe { simd::diffuse(x) })
}

impl<Q: Map> Map for Cells<Q> {
    const DIRECT: bool = Q::DIRECT;

    #[inline(always)]
    fn words(&self) -> &Words {
        &self.words
    }

    #[inline(always)]
    fn fetch_or(&self, word: usize, bits: u64) -> u64 {
        self.map.fetch_or(word, bits)
    }

    #[inline(always)]
    fn store(&self, word: usize, value: u64) {
        self.map.store(word, value);
    }

    fn advise(&self, usage: Usage) {
        self.map.advise(usage);
    }

    fn flush(&self, words: Range<usize>) -> io::Result<()> {
        self.map.flush(words)
    }

    fn reset(&self, data: &impl Map) -> io::Result<()> {
        self.map.reset(data)
    }
}

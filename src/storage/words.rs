//! Memory that others may write at any time, seen only as atomics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of mapped memory, little-endian in the file.
pub(crate) struct Words {
    start: *const AtomicU64,
    length: usize,
}

// SAFETY: `Words` is only ever a view of atomics that outlive it; its owners say so where they
// make one.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// A view of `length` words.
    ///
    /// # Safety
    /// `start` is aligned to 8 bytes and points to `length` words that stay readable for as long
    /// as the result is used, and that is accessed as atomics only or from other processes.
    pub(crate) unsafe fn new(start: *const AtomicU64, length: usize) -> Self {
        debug_assert!(start.is_aligned());
        Words { start, length }
    }

    /// Number of words.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The address of the first word, for kernels that load more than one at once.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const AtomicU64 {
        self.start
    }

    /// Asks for the cache line of a word, which may lie behind the last one.
    #[inline(always)]
    pub(crate) fn prefetch(&self, word: usize) {
        prefetch(self.start.wrapping_add(word));
    }

    /// The word at a place.
    #[inline(always)]
    pub(crate) fn load(&self, word: usize) -> u64 {
        u64::from_le(self.atomic(word).load(Ordering::Relaxed))
    }

    /// The words at some places, with one check for all where the places are constants.
    #[inline(always)]
    pub(crate) fn load_each<const N: usize>(&self, places: [usize; N]) -> [u64; N] {
        assert!(places.iter().all(|&word| word < self.len()), "beyond the words");
        // SAFETY: just checked.
        places.map(|word| unsafe { self.load_unchecked(word) })
    }

    /// As [`load`](Self::load), without a check.
    ///
    /// # Safety
    /// `word` is below [`len`](Self::len).
    #[inline(always)]
    pub(crate) unsafe fn load_unchecked(&self, word: usize) -> u64 {
        debug_assert!(word < self.length);
        // SAFETY: in bounds by this function's contract, alive and atomic by that of `new`.
        u64::from_le(unsafe { &*self.start.add(word) }.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn atomic(&self, word: usize) -> &AtomicU64 {
        assert!(word < self.length);
        // SAFETY: in bounds by the assertion, alive and atomic by the contract of `new`.
        unsafe { &*self.start.add(word) }
    }

    /// Turns bits of a word on and tells what it was. The words must be mapped writable.
    #[inline(always)]
    pub(crate) fn fetch_or(&self, word: usize, bits: u64) -> u64 {
        // Release: a thread that sees the bits also sees the journal record written before them.
        u64::from_le(self.atomic(word).fetch_or(bits.to_le(), Ordering::Release))
    }

    /// Sets a word. The words must be mapped writable.
    #[inline(always)]
    pub(crate) fn store(&self, word: usize, value: u64) {
        self.atomic(word).store(value.to_le(), Ordering::Release);
    }

    /// Copies words into bytes, as they stand in the file.
    pub(crate) fn copy(&self, first: usize, bytes: &mut [u8]) {
        for (at, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.load(first + at).to_le_bytes());
        }
    }
}

/// Asks for a cache line. A hint: any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(_address: *const AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch of any address only ever is a hint.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(_address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch of any address only ever is a hint.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) _address,
            options(nostack, readonly, preserves_flags),
        );
    }
}

/// Asks for a cache line to change it: no other core has it then. A hint: any address is allowed.
#[inline(always)]
pub(crate) fn prefetch_to_write(_address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address only ever is a hint, and processors that do not know this
    // one do nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw [{address}]",
            address = in(reg) _address,
            options(nostack, readonly, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch of any address only ever is a hint.
    unsafe {
        std::arch::asm!(
            "prfm pstl1keep, [{address}]",
            address = in(reg) _address,
            options(nostack, readonly, preserves_flags),
        );
    }
}

//! The inner loops for each kind of processor, and which to take.

#[macro_use]
mod functions;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(not(target_arch = "x86_64"))]
mod none;
mod portable;

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

use super::banding::System;
use super::shape::{PARTS, Shape};
use super::{PageBytes, PageInMap};

/// Environment variable that, set to `portable`, keeps handles from using SIMD instructions, and,
/// set to `simd`, from using the widest ones.
const KERNEL_VARIABLE: &str = "BLOOMFILE_KERNEL";

/// Calls a function of a kernel's module.
macro_rules! with_kernel {
    ($kernel:expr, $name:ident ( $($argument:expr),* )) => {
        match $kernel {
            Kernel::Portable => portable::$name($($argument),*),
            // SAFETY: this kernel is chosen only where its instructions were found (`Kernel::found`).
            Kernel::Simd => unsafe { simd::$name($($argument),*) },
            // SAFETY: as above.
            Kernel::Wide => unsafe { wide::$name($($argument),*) },
        }
    };
}

/// The inner loops that suit this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// For any processor.
    Portable,
    /// AVX2, NEON.
    Simd,
    /// AVX-512.
    Wide,
}

impl Kernel {
    /// All that this processor has the instructions for.
    pub(super) fn found() -> impl Iterator<Item = Self> {
        [
            Some(Kernel::Portable),
            simd::found().then_some(Kernel::Simd),
            wide::found().then_some(Kernel::Wide),
        ]
        .into_iter()
        .flatten()
    }

    /// The best one that the environment allows.
    pub(super) fn choose() -> Self {
        let most = match std::env::var_os(KERNEL_VARIABLE) {
            Some(name) if name == "portable" => Kernel::Portable,
            Some(name) if name == "simd" => Kernel::Simd,
            _ => Kernel::Wide,
        };
        Self::found()
            .filter(|&kernel| kernel as u8 <= most as u8)
            .last()
            .unwrap_or(Kernel::Portable)
    }

    /// Bands the equations of sorted values, of which `below[j]` are in parts below part j; false if
    /// their rows depend on one another.
    pub(super) fn band(
        self,
        values: &[u64],
        below: &[u32; PARTS + 1],
        shape: &Shape,
        bends: &[i8; PARTS + 1],
        system: &mut System,
    ) -> bool {
        with_kernel!(self, band(values, below, shape, bends, system))
    }

    /// Solves a banded system and writes the words behind the header.
    pub(super) fn solve(self, system: &System, shape: &Shape, page: &mut PageBytes) {
        with_kernel!(self, solve(system, shape, page));
    }

    /// Whether a page may hold a value.
    #[inline]
    pub(super) fn contains(self, page: &PageInMap, value: u64) -> bool {
        with_kernel!(self, contains(page, value))
    }

    /// Whether the page of each hash, given by `hash` in order, may hold it.
    #[inline]
    pub(super) fn contains_batch(
        self,
        pages: &[PageInMap],
        hash: impl FnMut(usize) -> u64,
        found: &mut [bool],
    ) {
        with_kernel!(self, contains_batch(pages, hash, found));
    }
}

/// Asks for the cache line of a word of 32 bits of a page.
#[inline(always)]
pub(super) fn prefetch(page: &PageInMap, word: u32) {
    let address = page.as_ptr().wrapping_byte_add(4 * word as usize);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch of any address only ever is a hint.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch of any address only ever is a hint.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, readonly, preserves_flags),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

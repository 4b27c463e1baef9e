//! The inner loops of the sealed kind: building a page, look-ups singly and in batches.

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
mod page;
mod portable;
mod query;
#[cfg(test)]
mod tests;

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

use std::sync::atomic::AtomicU64;

pub(crate) use page::{PageOutcome, Scratch, build_page};
pub(crate) use query::Query;

pub(crate) use super::choice::Instructions as Kernel;
use crate::sealed::banding::System;
use crate::sealed::shape::{PARTS, Shape};
use crate::sealed::{PageBytes, PageInMap};

/// Calls a function of a kernel's module.
macro_rules! with_sealed_kernel {
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
        let most = Self::allowed();
        Self::found().filter(|&kernel| kernel <= most).last().unwrap_or(Kernel::Portable)
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
        with_sealed_kernel!(self, band(values, below, shape, bends, system))
    }

    /// Solves a banded system and writes the words behind the header.
    pub(super) fn solve(self, system: &System, shape: &Shape, page: &mut PageBytes) {
        with_sealed_kernel!(self, solve(system, shape, page));
    }

    /// Whether a page may hold a value.
    #[inline]
    pub(super) fn contains(self, page: &PageInMap, value: u64) -> bool {
        with_sealed_kernel!(self, contains(page, value))
    }

    /// Whether the page of each hash, given by `hash` in order, may hold it.
    #[inline]
    pub(super) fn contains_batch(
        self,
        pages: &[PageInMap],
        hash: impl FnMut(usize) -> u64,
        found: &mut [bool],
    ) {
        with_sealed_kernel!(self, contains_batch(pages, hash, found));
    }
}

/// Whether a page that is at hand alone may hold a value.
pub(super) fn page_contains(page: &PageInMap, value: u64) -> bool {
    portable::contains(page, value)
}

/// Asks for the cache line of a word of 32 bits of a page.
#[inline(always)]
fn prefetch(page: &PageInMap, word: u32) {
    let line: *const AtomicU64 = page.as_ptr();
    crate::storage::prefetch(line.wrapping_byte_add(4 * word as usize));
}

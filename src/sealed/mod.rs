//! The sealed kind: a set that is never added to, near the information limit, one page per look-up.
//!
//! Each page of 4,096 bytes holds a *standard ribbon* system of its own: the keys that fall into the
//! page are linear equations over bits, each with a band of 64 coefficients somewhere in the page's
//! slots, and the page stores a solution. A key is perhaps present when the solution fulfils its
//! equation in every column. A page chooses the number of its slots for the keys that it got, so that
//! the uneven load of pages costs nothing: fuller pages have fewer columns.
//!
//! | part | what it is |
//! | --- | --- |
//! | `shape` | blocks and columns of a page, and where a band starts |
//! | `header` | what the first bytes of a page say, and which pages there are |
//! | `banding`, `solution` | the equations of a page's keys → its words |
//! | `place` | hash → the words of its page to look at |
//! | `plan`, `rate` | capacity and rate → number of pages, and what to expect of it |
//!
//! Everything here is pure: bytes and words in memory, no files. Kernels build pages and look keys up
//! in them (`kernel::sealed`), the builder makes files of them (`builder::sealed`).

pub(crate) mod banding;
pub(crate) mod header;
pub(crate) mod place;
mod plan;
mod rate;
pub(crate) mod shape;
pub(crate) mod solution;

pub(crate) use header::{EMPTY_PAGE_CRC, Header, MAYBE_PAGE_CRC};
pub(crate) use plan::pages_for;
pub use plan::{HIGHEST_SEALED_RATE, LOWEST_SEALED_RATE};
pub(crate) use rate::{rate_of_filter, rate_of_keys};

use std::sync::atomic::AtomicU64;

use crate::geometry::{PAGE_BYTES, SEALED_PAGE_BITS, reduce};
use crate::hash::split_mix;

/// Words of 64 bits in a page.
pub(crate) const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// A page as bytes of our own.
pub(crate) type PageBytes = [u8; PAGE_BYTES as usize];

/// A page in mapped memory, little-endian, which other processes may write at any time.
pub(crate) type PageInMap = [AtomicU64; PAGE_WORDS];

const _: () = assert!((shape::WORDS * shape::BLOCK_SLOTS) as u64 == SEALED_PAGE_BITS);

/// The page of a hash among the `pages` of a filter (F-140).
#[inline(always)]
pub(crate) fn page_of(hash: u64, pages: u64) -> u64 {
    reduce(hash, pages)
}

/// What a page knows of a key: a bijection of the hash, so that keys which are neighbours in the
/// order of hashes, as those of one page are, are none in their page (F-140).
#[inline(always)]
pub(crate) fn value_of(hash: u64) -> u64 {
    split_mix(hash, 0)
}

/// The coefficients of a key from its start on; the first is always 1 (F-143).
#[inline(always)]
pub(crate) fn row_of(value: u64) -> u64 {
    split_mix(value, 0) | 1
}

/// What the columns of a key's equation must give: column k bit k (F-143).
#[inline(always)]
pub(crate) fn fingerprint_of(value: u64) -> u32 {
    value as u32
}

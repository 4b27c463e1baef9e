//! Laws of the sealed kind.

#![allow(clippy::unwrap_used, reason = "tests")]

mod builds;
mod headers;
mod pages;
mod queries;
mod rates;
mod reference;
#[cfg(unix)]
mod speed;
mod worked;

use std::sync::atomic::AtomicU64;

use crate::hash::split_mix;
use crate::sealed::{PAGE_WORDS, PageBytes, PageInMap};

/// Distinct values without a pattern.
fn values(number: u64, seed: u64) -> Vec<u64> {
    (0..number).map(|at| split_mix(split_mix(seed, 0), at)).collect()
}

/// The words of a page as look-ups see them.
fn in_map(page: &PageBytes) -> Box<PageInMap> {
    let word = |at: usize| u64::from_ne_bytes(page[8 * at..8 * at + 8].try_into().unwrap());
    let words: Box<[AtomicU64]> = (0..PAGE_WORDS).map(|at| AtomicU64::new(word(at))).collect();
    words.try_into().unwrap()
}

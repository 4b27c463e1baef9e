//! In the place of a SIMD module where this project has none: never found, so never called.

use std::sync::atomic::AtomicU64;

use super::Cells;
use super::segments::Lines;
use crate::hash::{Hasher, LANES};
use crate::storage::Map;

pub(super) const fn found() -> bool {
    false
}

pub(super) unsafe fn contains<const ROWS: usize>(_: *const AtomicU64, _: u64) -> bool {
    unreachable!()
}

pub(super) unsafe fn contains_batch<const ROWS: usize>(
    _: &Cells<impl Map>,
    _: impl FnMut(usize) -> u64,
    _: &mut [bool],
) {
    unreachable!()
}

pub(super) unsafe fn contains_in_any(_: &[Lines], _: &[Lines], _: u64) -> bool {
    unreachable!()
}

pub(super) unsafe fn counters_contain(_: *const AtomicU64, _: u64) -> bool {
    unreachable!()
}

pub(super) unsafe fn missing<const ROWS: usize>(_: *const AtomicU64, _: u64) -> u32 {
    unreachable!()
}

pub(super) unsafe fn contains_inline(_: *const AtomicU64, _: u64, _: u64) -> bool {
    unreachable!()
}

pub(super) unsafe fn missing_inline(_: *const AtomicU64, _: u64) -> u32 {
    unreachable!()
}

pub(super) unsafe fn turn_on_inline(_: *const AtomicU64, _: u64) {
    unreachable!()
}

pub(super) unsafe fn turn_on<const ROWS: usize>(
    _: *const AtomicU64,
    _: u64,
    _: impl FnOnce(u32),
) -> u32 {
    unreachable!()
}

// Where there is a narrower SIMD module, that one hashes.
#[cfg(not(all(target_arch = "aarch64", target_endian = "little")))]
pub(super) unsafe fn diffuse(_: u64) -> u64 {
    unreachable!()
}

pub(super) unsafe fn hash_keyed(_: &Hasher, _: [&[u8]; LANES]) -> [u64; LANES] {
    unreachable!()
}

pub(super) unsafe fn contains_keyed(_: *const AtomicU64, _: u64, _: &Hasher, _: &[u8]) -> bool {
    unreachable!()
}

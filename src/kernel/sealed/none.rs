//! In the place of a SIMD module where this project has none: never found, so never called.

use crate::sealed::banding::System;
use crate::sealed::shape::{PARTS, Shape};
use crate::sealed::{PageBytes, PageInMap};

pub(super) const fn found() -> bool {
    false
}

pub(super) unsafe fn band(
    _: &[u64],
    _: &[u32; PARTS + 1],
    _: &Shape,
    _: &[i8; PARTS + 1],
    _: &mut System,
) -> bool {
    unreachable!()
}

pub(super) unsafe fn solve(_: &System, _: &Shape, _: &mut PageBytes) {
    unreachable!()
}

pub(super) unsafe fn contains(_: &PageInMap, _: u64) -> bool {
    unreachable!()
}

pub(super) unsafe fn contains_batch(_: &[PageInMap], _: impl FnMut(usize) -> u64, _: &mut [bool]) {
    unreachable!()
}

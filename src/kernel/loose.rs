//! Look-ups in pages that are at hand one by one: read over a network, say, with most of the file
//! never read at all.

use std::sync::atomic::{AtomicU64, Ordering};

use super::counter_place;
use crate::geometry::{CellKind, Geometry};
use crate::sealed::{PageInMap, page_of, value_of};

/// One page of data.
pub(crate) struct LoosePage(Box<PageInMap>);

impl LoosePage {
    /// A copy of a page's bytes; what they lack is zero.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let page = Box::new([const { AtomicU64::new(0) }; crate::sealed::PAGE_WORDS]);
        for (word, bytes) in page.iter().zip(bytes.as_chunks::<8>().0) {
            // Words are kept as they stand in the file, which is what kernels expect.
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        LoosePage(page)
    }

    /// A word of it.
    pub(crate) fn word(&self, word: usize) -> u64 {
        u64::from_le(self.0[word % self.0.len()].load(Ordering::Relaxed))
    }
}

/// What some pages say of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A cell is off, on a page that is sound.
    Off,
    /// All cells are on, and all their pages sound.
    On,
    /// It would take this page to tell, which is not sound.
    Unsound(u64),
}

/// Shows the page of each cell of a hash, some perhaps several times.
pub(crate) fn pages_of(geometry: &Geometry, hash: u64, mut visit: impl FnMut(u64)) {
    if geometry.cell_kind() == CellKind::Sealed {
        return visit(page_of(hash, geometry.pages()));
    }
    let mut last = None;
    for row in 0..geometry.row_count() {
        let page = geometry.address(hash, row) / geometry.cells_per_page();
        if last.replace(page) != Some(page) {
            visit(page);
        }
    }
}

/// Looks a hash up; `page` gives the pages that [`pages_of`] shows, if they are sound.
pub(crate) fn look_up<'a>(
    geometry: &Geometry,
    hash: u64,
    mut page: impl FnMut(u64) -> Option<&'a LoosePage>,
) -> Found {
    if geometry.cell_kind() == CellKind::Sealed {
        let number = page_of(hash, geometry.pages());
        return match page(number) {
            None => Found::Unsound(number),
            Some(page) if super::sealed::page_contains(&page.0, value_of(hash)) => Found::On,
            Some(_) => Found::Off,
        };
    }
    let mut found = Found::On;
    for row in 0..geometry.row_count() {
        let address = geometry.address(hash, row);
        let number = address / geometry.cells_per_page();
        let Some(page) = page(number) else {
            if found == Found::On {
                found = Found::Unsound(number);
            }
            continue;
        };
        let address = address % geometry.cells_per_page();
        let on = match geometry.cell_kind() {
            CellKind::Plain => page.word(address as usize / 64) >> (address % 64) & 1,
            CellKind::Counting => {
                let (word, shift) = counter_place(address);
                page.word(word) >> shift & 15
            }
            CellKind::Sealed => unreachable!("it has no rows"),
        };
        if on == 0 {
            return Found::Off;
        }
    }
    found
}

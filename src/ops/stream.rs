//! Going through the pages of a result, on all cores and in bounded memory.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::fold;
use super::source::{PAGE, Source};
use crate::error::Result;
use crate::file::split_on_all_cores;
use crate::format::PageEntry;
use crate::geometry::Geometry;
use crate::plan::Occupancy;

/// Pages of the result that a thread works on at once: few enough for its cache.
const PAGES_AT_ONCE: u64 = 32;

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the inputs that have been read.
    pub bytes_done: u64,
    /// Bytes of the inputs in all.
    pub bytes_total: u64,
}

/// What wants to know how far an operation has come; called from any of its threads.
pub(crate) type Listener<'a> = Option<&'a (dyn Fn(Progress) + Sync)>;

/// How the pages of the inputs become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Union,
    Intersection,
}

/// Does `work` for a few pages after the other of a result of this geometry, on all cores, until
/// one fails. Each thread has what `state` made for it, which is handed back in order.
pub(super) fn each_few_pages<'a, S: Send, I: Borrow<Source<'a>> + Sync>(
    geometry: &Geometry,
    sources: &[I],
    listener: Listener<'_>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Range<u64>) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let pages = geometry.pages();
    let total: u64 = sources.iter().map(|source| source.borrow().pages()).sum();
    let done = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let thread = |range: Range<u64>| {
        let mut state = state();
        let mut start = range.start;
        while start < range.end && !failed.load(Ordering::Relaxed) {
            let few = start..(start + PAGES_AT_ONCE).min(range.end);
            start = few.end;
            let count = few.end - few.start;
            work(&mut state, few).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            let done = done.fetch_add(count, Ordering::Relaxed) + count;
            if let Some(listener) = listener {
                // A page of the result stands for the same share of every input.
                let read = (u128::from(total) * u128::from(done) / u128::from(pages)) as u64;
                let [bytes_done, bytes_total] = [read, total].map(|pages| pages * PAGE as u64);
                listener(Progress { bytes_done, bytes_total });
            }
        }
        Ok(state)
    };
    split_on_all_cores(pages, total.div_ceil(pages), thread).into_iter().collect()
}

/// Shows the pages that a rule makes of the inputs, a few at a time: the number of the first one,
/// their bytes, and what a page table says of them. Tells how full the result is.
pub(crate) fn combine<'a, I: Borrow<Source<'a>> + Sync>(
    geometry: &Geometry,
    sources: &[I],
    rule: Rule,
    listener: Listener<'_>,
    show: impl Fn(u64, &[u8], &[PageEntry]) -> Result<()> + Sync,
) -> Result<Occupancy> {
    let buffer = || vec![0; PAGES_AT_ONCE as usize * PAGE];
    let state = || (Occupancy::new(geometry), buffer(), buffer());
    let threads = each_few_pages(geometry, sources, listener, state, |state, pages| {
        let (counted, result, input) = state;
        let length = (pages.end - pages.start) as usize * PAGE;
        let (result, input) = (&mut result[..length], &mut input[..length]);
        result.fill(0);
        for (at, source) in sources.iter().map(I::borrow).enumerate() {
            if rule == Rule::Union || at == 0 {
                source.read_folded(geometry, pages.clone(), result)?;
                continue;
            }
            input.fill(0);
            source.read_folded(geometry, pages.clone(), input)?;
            fold::intersect(source.cells(), result, input);
        }
        let entries: Vec<PageEntry> = result
            .chunks_exact(PAGE)
            .map(|page| PageEntry::of(page, geometry.cell_kind()))
            .collect();
        for (page, entry) in pages.clone().zip(&entries) {
            counted.add(geometry, page, entry.ones);
        }
        show(pages.start, result, &entries)
    })?;
    let mut all = Occupancy::new(geometry);
    threads.iter().for_each(|(counted, _, _)| all.add_all(counted));
    Ok(all)
}

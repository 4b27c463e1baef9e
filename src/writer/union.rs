//! Keys that come as bits: another filter's pages, taken into this one.

use std::sync::atomic::Ordering;

use byteorder::{ByteOrder, LittleEndian as Le};

use super::{Engine, lock};
use crate::error::Result;
use crate::file::PAGE_WORDS;
use crate::format::Doubts;
use crate::geometry::PAGE_BYTES;
use crate::storage::{Map, Medium, sabotage};
use crate::sync::stripe_of_thread;

/// What taking bits in did to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageChange {
    /// The ones it has now.
    pub(crate) ones: u32,
    /// Those of them that are new.
    pub(crate) set: u32,
}

impl<M: Medium> Engine<M> {
    /// Turns on the bits of whole pages, from `first_page` on, and tells what that did to each.
    ///
    /// The bits are not logged. Until a checkpoint has made them durable the journal therefore
    /// counts as full: an add that finds its bits set by this call leaves no record of its own,
    /// and a sync after it has to be a checkpoint, or a power cut could take that key away.
    pub(crate) fn or_pages(&self, first_page: u64, bytes: &[u8]) -> Result<Vec<PageChange>> {
        // All of them: an add is alone in changing the block whose stripe it holds, and no
        // checkpoint may come between the next line and the bits.
        self.ensure_begun()?;
        let _stripes = self.all_stripes()?;
        if !sabotage!(self.medium, UnloggedUnion) {
            self.journal.stop_logging();
        }
        let pages = bytes.chunks_exact(PAGE_BYTES as usize).enumerate();
        Ok(pages
            .map(|(at, page)| self.or_page((first_page as usize + at) * PAGE_WORDS, page))
            .collect())
    }

    fn or_page(&self, start: usize, page: &[u8]) -> PageChange {
        let segment = self.segments.newest();
        let data = &segment.data;
        let mut change = PageChange::default();
        for (at, bytes) in page.chunks_exact(8).enumerate() {
            let bits = Le::read_u64(bytes);
            let mut old = data.words().load(start + at);
            if bits & !old != 0 {
                segment.prepare(start + at);
                old = data.fetch_or(start + at, bits);
            }
            self.cells_left.use_up((bits & !old).count_ones());
            change.ones += (old | bits).count_ones();
            change.set += (bits & !old).count_ones();
        }
        change
    }

    /// Sets what the slot tells of doubtful pages, by what it tells now; durable with the next
    /// checkpoint. It has to be set before bits of such pages come in, or a crash between the two
    /// would leave the bits without the doubts.
    pub(crate) fn set_doubts(&self, of: impl FnOnce(Doubts) -> Doubts) {
        let mut committed = lock(&self.committed);
        let before = committed.slot.doubts();
        committed.slot.set_doubts(of(before));
        committed.changed |= committed.slot.doubts() != before;
    }

    /// Counts keys that came as bits among the adds.
    pub(crate) fn count_adds(&self, adds: u64) {
        if let Ok(stripe) = self.stripes.hold(stripe_of_thread()) {
            stripe.count(adds);
            // They take places that a filter which grows, rotates or refuses has.
            self.filled.fetch_add(adds, Ordering::Relaxed);
        }
    }
}

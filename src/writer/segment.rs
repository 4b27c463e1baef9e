//! The data of one segment, mapped for writing.

use std::sync::atomic::Ordering;

use super::pages::PageStates;
use super::proof::Effects;
use crate::error::{Error, Result};
use crate::format::Extent;
use crate::geometry::{CellKind, Geometry};
use crate::kernel::{Cells, HasCells};
use crate::storage::{Map, Mapping, Medium, Usage};
use crate::sync::{AtomicU64, Mutex, lock};

/// A segment of a writer.
pub(crate) struct Segment<M: Medium> {
    /// The data of the file.
    pub(crate) data: Cells<M::Map>,
    /// Of counters: the data with all changes in it, synced or not. A private map, so that what is
    /// not synced stays out of the file (F-130).
    pub(super) current: Option<Cells<M::Map>>,
    pub(super) pages: PageStates,
    /// What changes of counters did to the pages, since the last boundary and before it.
    pub(super) effects: Mutex<[Effects; 2]>,
    pub(super) keys: KeyCounts,
}

/// Keys that came to a counting segment less those that went: numbers that wrap. A slot says what
/// came before its boundary, and no more: what came after that is counted when it is replayed.
#[derive(Default)]
pub(super) struct KeyCounts {
    /// Since the last sync.
    pub(super) unsynced: AtomicU64,
    /// In groups that a sync has ended, since the last boundary.
    synced: AtomicU64,
    /// In front of a boundary whose slot is not written yet.
    frozen: AtomicU64,
}

impl KeyCounts {
    /// A sync ends a group. Called with all stripes held.
    pub(super) fn end_group(&self) {
        let keys = self.unsynced.swap(0, Ordering::Relaxed);
        self.synced.fetch_add(keys, Ordering::Relaxed);
    }

    fn freeze(&self) {
        let keys = self.synced.swap(0, Ordering::Relaxed);
        self.frozen.fetch_add(keys, Ordering::Relaxed);
    }

    pub(super) fn frozen(&self) -> i64 {
        self.frozen.load(Ordering::Relaxed).cast_signed()
    }

    /// All that was synced since the last slot.
    pub(super) fn synced(&self) -> i64 {
        self.frozen().wrapping_add(self.synced.load(Ordering::Relaxed).cast_signed())
    }

    /// A slot counts what was frozen.
    pub(super) fn forget_frozen(&self) {
        self.frozen.store(0, Ordering::Relaxed);
    }

    /// The segment is no longer listed.
    pub(super) fn clear(&self) {
        [&self.unsynced, &self.synced, &self.frozen]
            .into_iter()
            .for_each(|keys| keys.store(0, Ordering::Relaxed));
    }
}

impl<M: Medium> Segment<M> {
    /// Maps a segment.
    pub(super) fn map(medium: &M, geometry: Geometry, extent: Extent) -> Result<Self> {
        let range = extent.data()..extent.end();
        let map = |mapping| {
            let map = medium.map(range.clone(), mapping).map_err(Error::io("map the data"))?;
            // Or else the first add to a page of a new file would have the system fill many others.
            map.advise(Usage::LookUps);
            Cells::new(geometry, map)
        };
        let mut current = None;
        if geometry.cell_kind() == CellKind::Counting {
            current = Some(map(Mapping::Private)?);
        }
        // Adds to counters note what they do there, and must not find that there is no memory.
        let mut effects = <[Effects; 2]>::default();
        if current.is_some() {
            effects.iter_mut().try_for_each(|effects| effects.reserve(extent.pages))?;
        }
        Ok(Segment {
            data: map(Mapping::Shared)?,
            current,
            pages: PageStates::new(extent.pages, geometry.cell_kind())?,
            effects: Mutex::new(effects),
            keys: KeyCounts::default(),
        })
    }

    /// The cells as this handle sees them.
    #[inline(always)]
    pub(super) fn seen(&self) -> &Cells<M::Map> {
        self.current.as_ref().unwrap_or(&self.data)
    }

    /// Called before a word of the data changes.
    #[inline(always)]
    pub(super) fn prepare(&self, word: usize) {
        self.pages.prepare(self.data.words(), word);
    }

    /// What changed since the last boundary belongs to the checkpoint that is about to be written.
    pub(super) fn freeze(&self) {
        self.pages.freeze();
        self.keys.freeze();
        let effects = &mut *lock(&self.effects);
        effects[1].clear();
        effects.swap(0, 1);
    }

    /// Forgets changes of counters that are not in the data.
    pub(super) fn forget_changes(&self) -> Result<()> {
        match &self.current {
            Some(current) => current.reset(&self.data).map_err(Error::io("map the data")),
            None => Ok(()),
        }
    }
}

impl<M: Medium> HasCells for Segment<M> {
    type Map = M::Map;

    #[inline(always)]
    fn cells(&self) -> &Cells<M::Map> {
        self.seen()
    }
}

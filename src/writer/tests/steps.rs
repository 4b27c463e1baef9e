//! A checkpoint in steps, so that other things can happen between them.

use crate::Result;
use crate::storage::Medium;
use crate::sync::{MutexGuard, lock};
use crate::writer::{Committed, Engine};

impl<M: Medium> Engine<M> {
    /// The slot as it was last written, with metadata as they were last set.
    pub(super) fn committed(&self) -> MutexGuard<'_, Committed> {
        lock(&self.committed)
    }

    /// Draws the boundary of a checkpoint; one that is under way is finished first.
    pub(super) fn begin_checkpoint(&self) -> Result<()> {
        self.refuse_if_dead()?;
        self.ensure_begun()?;
        let mut lead = self.lead()?;
        let mut tables = lock(&self.tables);
        self.finish_frozen(&mut tables)?;
        self.boundary_round(&mut lead, &mut tables)
    }

    /// Computes some of the entries that the checkpoint under way still has to.
    pub(super) fn compute_some_entries(&self, most: usize) {
        use crate::storage::Map;
        for segment in self.segments.all() {
            segment.pages.compute_some(segment.data.words(), most);
        }
    }

    /// Writes what remains of the checkpoint under way.
    pub(super) fn finish_checkpoint(&self) -> Result<()> {
        self.refuse_if_dead()?;
        self.finish_frozen(&mut lock(&self.tables))
    }

    /// Prepares the next segment of a filter that grows or rotates.
    pub(super) fn prepare_ahead(&self) -> Result<()> {
        self.refuse_if_dead()?;
        self.ensure_begun()?;
        self.prepare_segment(|_| true)
    }

    /// Whether adds went unlogged that no slot describes yet.
    pub(super) fn is_unlogged(&self) -> bool {
        let frozen = lock(&self.tables).frozen.as_ref().is_some_and(|frozen| frozen.unlogged);
        frozen || self.journal.is_unlogged()
    }

    /// Whether the next add may go unlogged.
    pub(super) fn is_nearly_unlogged(&self) -> bool {
        self.is_unlogged() || !self.journal.has_room(3)
    }

    /// Changes of counters that are not in the data.
    pub(super) fn unsynced(&self) -> u64 {
        self.journal.unsynced() + lock(&self.spill).len() as u64
    }
}

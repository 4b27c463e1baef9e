//! Deltas that an open filter takes in.

use std::path::Path;

use super::Filter;
use crate::error::{Error, Result};
use crate::ops::{DeltaSummary, apply_in_place};

impl Filter {
    /// Takes a delta in, durably: it ends in a checkpoint, with the mark and the metadata that the delta
    /// leads to. Readers see the keys come; identity and journal stay as they are.
    ///
    /// A delta that is damaged, or for another version, is refused before the first bit changes: what
    /// the filter will hold is held against the digest that the delta promises. So is one that clears
    /// cells, that is for a counting filter or for several segments ([`Error::NotInPlace`]): a crash in
    /// the middle of it, or a reader that asks then, would miss keys.
    /// [`DeltaOperation::apply`](crate::ops::DeltaOperation::apply) makes a new file of those. What is
    /// left by a crash in the middle holds the old keys, synced or not, if it holds any of the new ones;
    /// applied again, the delta goes on from there. Other threads may ask and add at the same time: keys
    /// that they add before the check make the file another version, and are kept if they come after it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name| folder.path().join(name);
    /// use bloomfile::{Filter, Options, ops::{DeltaOperation, digest}};
    ///
    /// Options::new().capacity(1000).false_positive_rate(0.01).create(at("old"))?.close()?;
    /// std::fs::copy(at("old"), at("new")).unwrap();
    /// let new = Filter::open(at("new"))?;
    /// new.add("sheep")?;
    /// new.close()?;
    /// DeltaOperation::new().make(at("old"), at("new"), at("delta"))?;
    ///
    /// let filter = Filter::open(at("old"))?;
    /// filter.apply_delta(at("delta"))?;
    /// assert!(filter.contains("sheep"));
    /// filter.close()?;
    /// assert_eq!(digest(at("old"))?, digest(at("new"))?);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn apply_delta(&self, delta: impl AsRef<Path>) -> Result<DeltaSummary> {
        let applied = apply_in_place(&self.engine, delta.as_ref());
        applied.map_err(|error: Error| match error.path() {
            Some(_) => error,
            None => self.blame(error),
        })
    }
}

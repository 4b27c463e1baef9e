//! The secret of a keyed filter.

use super::Options;
use crate::hash::Key;

impl Options {
    /// The secret of a keyed filter, for keys that strangers choose: see [`Key`]. It is not kept in
    /// the file, and has to be given whenever keys are added or asked for. Only filters with the same
    /// secret can be merged. A keyed filter has no other seed than 0.
    pub fn key(mut self, key: &Key) -> Self {
        self.key = Some(key.clone());
        self
    }
}

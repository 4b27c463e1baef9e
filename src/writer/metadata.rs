//! The pairs of the metadata: set in memory, written with the next slot.

use super::{Engine, lock};
use crate::error::Result;
use crate::format::{Metadata, encode_metadata};
use crate::storage::Medium;

impl<M: Medium> Engine<M> {
    /// The pairs as they were last set.
    pub(crate) fn metadata(&self) -> Metadata {
        lock(&self.committed).slot.metadata.clone()
    }

    /// Sets a pair of the metadata, or removes it; durable with the next checkpoint.
    pub(crate) fn set_metadata(&self, key: &str, value: Option<&str>) -> Result<()> {
        self.refuse_if_dead()?;
        // Read and replaced under one lock, or pairs that other threads set would be lost.
        let mut committed = lock(&self.committed);
        let mut metadata = committed.slot.metadata.clone();
        match value {
            Some(value) => metadata.insert(key.to_owned(), value.to_owned()),
            None => metadata.remove(key),
        };
        encode_metadata(&metadata)?;
        committed.changed |= committed.slot.metadata != metadata;
        committed.slot.metadata = metadata;
        Ok(())
    }

    /// Sets all pairs of the metadata; durable with the next checkpoint.
    #[cfg(feature = "digest")]
    pub(crate) fn replace_metadata(&self, metadata: Metadata) -> Result<()> {
        self.refuse_if_dead()?;
        encode_metadata(&metadata)?;
        let mut committed = lock(&self.committed);
        committed.changed |= committed.slot.metadata != metadata;
        committed.slot.metadata = metadata;
        Ok(())
    }
}

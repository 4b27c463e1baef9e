//! What a sealed filter may be asked to be.

use std::path::Path;

use super::Options;
use crate::builder::sealed::{DEFAULT_MEMORY, LEAST_MEMORY};
use crate::builder::{Builder, SealedSize};
use crate::error::{Error, Result};
use crate::format::WhenFull;
use crate::geometry::{CellKind, Geometry, Layout};
use crate::plan::Plan;
use crate::storage::Target;

/// Why a sealed filter cannot be created without its keys.
pub(super) const UNCHANGING: &str = "nothing can be added to it, so that it is built from all of its \
                                     keys at once: use start_build";

impl Options {
    /// Whether a sealed filter is asked for, however that was said.
    pub(super) fn is_sealed(&self) -> bool {
        let geometry = self.geometry.map(|geometry| geometry.layout());
        [self.layout, geometry].contains(&Some(Layout::Sealed))
            || self.kind == Some(CellKind::Sealed)
    }

    /// Refuses what does not go with a sealed filter, and what goes with nothing else.
    pub(super) fn check_sealed(&self) -> Result<()> {
        if !self.is_sealed() {
            return match self.memory {
                Some(bytes) => {
                    Err(Error::parameter("memory", bytes, "it goes with a sealed filter"))
                }
                None => Ok(()),
            };
        }
        let refuse = |name, value: String, reason: &str| Err(Error::parameter(name, value, reason));
        let geometry = self.geometry.map(|geometry| geometry.layout());
        if let Some(other) =
            [self.layout, geometry].into_iter().flatten().find(|&layout| layout != Layout::Sealed)
        {
            return refuse("layout", other.to_string(), "a sealed filter has its own");
        }
        if let Some(kind) = self.kind.filter(|&kind| kind == CellKind::Counting) {
            return refuse("kind", kind.name().into(), "a sealed filter has no cells");
        }
        if let Some(rows) = self.rows {
            return refuse("rows", rows.to_string(), "a sealed filter has none; give a rate");
        }
        if self.when_full.is_some_and(|when_full| when_full != WhenFull::Allow) {
            return refuse("when full", "set".into(), "nothing is added to a sealed filter");
        }
        if self.generations != 0 {
            let reason = "a sealed filter is never changed";
            return refuse("generations", self.generations.to_string(), reason);
        }
        if let Some(bytes) = self.journal_bytes.filter(|&bytes| bytes != 0) {
            return refuse("journal size", bytes.to_string(), "a sealed filter has no journal");
        }
        match self.memory.filter(|&bytes| bytes < LEAST_MEMORY) {
            Some(bytes) => refuse("memory", bytes.to_string(), "it must be at least 32 MiB"),
            None => Ok(()),
        }
    }

    /// As [`start_build`](Self::start_build), for a sealed filter.
    pub(super) fn start_sealed(&self, path: &Path) -> Result<Builder> {
        self.check_sealed()?;
        let (size, plan) = match (self.capacity, self.rate) {
            (None, Some(rate)) if self.geometry.is_none() => {
                // Refuses a rate that there is no plan for before any key is taken.
                Plan::new(1, rate, Some(Layout::Sealed))?;
                (SealedSize::Counted(rate), Plan::exact(Geometry::sealed(1)?, None))
            }
            _ => {
                let plan = self.plan()?;
                (SealedSize::Planned(plan.clone()), plan)
            }
        };
        let superblock = self.superblock(&plan)?;
        let metadata = self.metadata_map()?;
        let memory = self.memory.unwrap_or(DEFAULT_MEMORY);
        let identity_from_contents = self.uuid.is_none();
        let start = || {
            let target = Target::new(path, self.replace)?;
            let hasher = superblock.hasher(self.key.as_ref())?;
            let identity = identity_from_contents;
            let builder =
                Builder::new_sealed(target, superblock, size, memory, metadata, identity)?;
            Ok(builder.hashing_with(hasher))
        };
        start().map_err(|error: Error| error.at(path))
    }
}

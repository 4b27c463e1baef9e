//! What a slot tells of pages that are in doubt, and what becomes of that in files made of others.

use super::slot::Slot;

/// Numbers of pages whose cells may not be what their keys say (F-94, F-99).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubts {
    /// Accepted although nothing explained all of their cells: they may lack some.
    pub(crate) unverifiable: u64,
    /// Filled by repairs: they have more than their keys set.
    pub(crate) repaired: u64,
}

impl Doubts {
    /// Those of two files whose cells come together in one.
    pub(crate) fn with(self, other: Self) -> Self {
        Doubts {
            unverifiable: self.unverifiable.saturating_add(other.unverifiable),
            repaired: self.repaired.saturating_add(other.repaired),
        }
    }

    /// As they are in a file of this many pages, into which all cells go: several pages of the inputs
    /// may come to one there, and one page may have been counted by several recoveries.
    pub(crate) fn within(self, pages: u64) -> Self {
        Doubts { unverifiable: self.unverifiable.min(pages), repaired: self.repaired.min(pages) }
    }
}

impl Slot {
    pub(crate) fn doubts(&self) -> Doubts {
        Doubts { unverifiable: self.unverifiable_pages, repaired: self.repaired_pages }
    }

    pub(crate) fn set_doubts(&mut self, doubts: Doubts) {
        self.unverifiable_pages = doubts.unverifiable;
        self.repaired_pages = doubts.repaired;
    }
}

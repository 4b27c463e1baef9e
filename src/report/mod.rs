//! What is said of files: recovery, inspection, verification.

mod counted;
mod explain;
mod inspect;
mod loads;
mod pages;
mod repair;
mod verify;

pub(crate) use counted::Counted;
pub use explain::{Detail, Explained, explain};
pub(crate) use inspect::uuid_text;
pub use inspect::{Inspection, SegmentInspection, inspect};
pub use loads::{BlockLoads, LoadBin, block_loads};
pub use pages::{PageInspection, inspect_pages};
pub use repair::{Repair, repair};
pub use verify::{Verification, verify};

/// How a file is found by someone who does not write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Health {
    /// Closed in good order.
    Clean,
    /// Being written by a process right now.
    Live,
    /// Its writer did not get to close it; the next one recovers it.
    Crashed,
    /// A [`Reader`](crate::Reader) came upon pages that are not what was written.
    Damaged,
}

impl Health {
    /// One sentence on what that means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Health::Clean => "closed in good order",
            Health::Live => "being written by another process right now",
            Health::Crashed => {
                "left open by a writer that crashed; opening it for writing recovers it"
            }
            Health::Damaged => {
                "has damaged pages, for which every answer is \"maybe\"; restore the file from a copy, or run repair"
            }
        }
    }
}

/// What recovery found and did when a crashed file was opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Recovery {
    /// Records found in the journal: an add each, or in a counting file the change of one counter.
    pub records_replayed: u64,
    /// Records lost from the end of the journal, none of which had been synced.
    pub records_missing: u64,
    /// Pages that were exactly what checksums and journal said.
    pub pages_exact: u64,
    /// Pages that hold more than checksums and journal explain, so that they could not be verified:
    /// after a power cut, or because the journal was full. They were kept; most likely what they hold
    /// are keys that were added and not synced, but damage cannot be told from that.
    pub pages_unverifiable: u64,
    /// The mark that was last synced.
    pub mark: u64,
}

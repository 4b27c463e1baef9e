//! What a user is told of files: what they are, how full, whether they are sound, and what each byte
//! is.

mod explain;
mod inspect;
mod loads;
mod pages;
mod verify;

pub use explain::{Detail, Explained, explain_bytes};
pub use inspect::{Inspection, SealedInspection, SegmentInspection, inspect_bytes};
pub use loads::{BlockLoads, LoadBin, block_loads_bytes, crowding_bytes};
pub use pages::{PageInspection, inspect_pages_bytes};
pub use verify::{Verification, verify_bytes};
#[cfg(feature = "files")]
pub use {
    explain::explain,
    inspect::inspect,
    loads::{block_loads, crowding},
    pages::inspect_pages,
    verify::verify,
};
pub(crate) use {
    explain::{DataPages, explain_medium},
    inspect::inspect_snapshot,
    loads::{loads_from, sealed_loads},
    verify::verification_of,
};

pub use crate::file::Health;

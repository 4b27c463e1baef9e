//! Union, intersection and folding of files; comparing two; asking many.
//!
//! Everything here streams over the mapped inputs a few pages at a time, on all cores, verifies
//! every page it reads, and publishes its result at once when it is whole.

mod compare;
mod compatible;
#[cfg(feature = "digest")]
mod delta;
mod derivation;
#[cfg(feature = "files")]
mod derive;
#[cfg(feature = "digest")]
mod digest;
#[cfg(feature = "files")]
mod export;
mod fold;
#[cfg(feature = "files")]
mod in_place;
#[cfg(feature = "files")]
mod maintain;
mod many;
#[cfg(feature = "files")]
mod provenance;
#[cfg(feature = "files")]
mod repair;
#[cfg(feature = "files")]
mod segments;
mod source;
mod stream;

pub(crate) use compare::Comparer;
#[cfg(feature = "files")]
pub use compare::compare;
pub use compare::{
    Comparison, Contents, PageComparison, PageRun, ParameterPair, Relation, compare_bytes,
};
#[cfg(all(feature = "digest", feature = "files"))]
pub(crate) use delta::apply_in_place;
#[cfg(all(feature = "digest", feature = "files"))]
pub use delta::{DeltaOperation, inspect_delta};
#[cfg(feature = "digest")]
pub use delta::{DeltaSummary, apply_delta_bytes};
pub use derivation::{Derivation, InputSummary};
#[cfg(feature = "files")]
pub use derive::SetOperation;
#[cfg(all(feature = "digest", feature = "files"))]
pub use digest::digest;
#[cfg(feature = "digest")]
pub use digest::{Digest, digest_bytes};
pub(crate) use fold::Folding;
#[cfg(feature = "files")]
pub use in_place::Absorbed;
#[cfg(feature = "files")]
pub(crate) use in_place::union_into;
#[cfg(all(feature = "digest", feature = "files"))]
pub use maintain::apply_delta;
#[cfg(feature = "files")]
pub use maintain::{Rotation, recover, rotate};
pub use many::Readers;
#[cfg(feature = "files")]
pub use repair::{Repair, repair};
pub use stream::Progress;

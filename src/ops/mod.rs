//! Union, intersection and folding of files; comparing two; asking many.
//!
//! Everything here streams over the mapped inputs a few pages at a time, on all cores, verifies
//! every page it reads, and publishes its result at once when it is whole.

mod compare;
mod compatible;
mod derivation;
mod derive;
mod export;
mod fold;
mod growing;
mod in_place;
mod many;
mod provenance;
mod source;
mod stream;

pub use compare::{
    Comparison, Contents, PageComparison, PageRun, ParameterPair, Relation, compare,
};
pub use derivation::{Derivation, InputSummary};
pub use derive::SetOperation;
pub use in_place::Absorbed;
pub(crate) use in_place::union_into;
pub use many::{Except, Readers};
pub use stream::Progress;

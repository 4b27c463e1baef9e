//! Which filters can be combined, and at which size.

use std::borrow::Borrow;

use super::source::Source;
use crate::error::{Error, Result};
use crate::format::Superblock;
use crate::geometry::{CellKind, Geometry};

/// What filters must have in common to be combined, in the order in which it is compared.
pub(super) struct Parameters([(&'static str, String); 6]);

impl Parameters {
    pub(super) fn new(superblock: &Superblock, geometry: &Geometry, segments: usize) -> Self {
        Parameters([
            ("segments", segments.to_string()),
            ("kind", superblock.cells.name().to_owned()),
            ("secret key", key_name(superblock)),
            ("seed", superblock.hash_seed.to_string()),
            ("layout", geometry.layout().to_string()),
            ("rows", geometry.row_count().to_string()),
        ])
    }

    pub(super) fn of(source: &Source<'_>) -> Self {
        Self::new(source.superblock(), source.geometry(), source.segments())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(&'static str, String)> {
        self.0.iter()
    }

    /// An error that names the first parameter that differs.
    pub(super) fn refuse_other(&self, other: &Parameters) -> Result<()> {
        match self.iter().zip(other.iter()).find(|(left, right)| left != right) {
            None => Ok(()),
            Some(((parameter, left), (_, right))) => {
                Err(Error::Incompatible { parameter, left: left.clone(), right: right.clone() })
            }
        }
    }
}

/// The secret of a file, as far as it may be told.
pub(super) fn key_name(superblock: &Superblock) -> String {
    superblock.key_fingerprint().unwrap_or_else(|| "none".into())
}

/// The size that all inputs fold to, which is that of the smallest; an error that names the first
/// parameter in which an input differs from the first one.
pub(super) fn common_geometry<'a>(sources: &[impl Borrow<Source<'a>>]) -> Result<Geometry> {
    let sources = || sources.iter().map(Borrow::borrow);
    let Some(first) = sources().next() else {
        return Err(Error::parameter("number of inputs", 0, "there must be at least one"));
    };
    let parameters = Parameters::of(first);
    for source in sources() {
        parameters.refuse_other(&Parameters::of(source)).map_err(|error| source.blame(error))?;
    }
    let geometries = sources().map(|source| *source.geometry());
    let smallest = geometries.min_by_key(Geometry::foldable).unwrap_or(*first.geometry());
    for source in sources() {
        factor_to(&smallest, source).map_err(|error| source.blame(error))?;
    }
    Ok(smallest)
}

/// The factor by which an input folds to a geometry that is like its own but for the size.
pub(super) fn factor_to(geometry: &Geometry, source: &Source<'_>) -> Result<u64> {
    factor(geometry, source.geometry())
}

/// The factor by which a geometry folds to a smaller one.
pub(super) fn factor(geometry: &Geometry, from: &Geometry) -> Result<u64> {
    for (parameter, left, right) in [
        ("layout", geometry.layout().to_string(), from.layout().to_string()),
        ("rows", geometry.row_count().to_string(), from.row_count().to_string()),
    ] {
        if left != right {
            return Err(Error::Incompatible { parameter, left, right });
        }
    }
    let [target, size] = [geometry, from].map(Geometry::foldable);
    if from.cell_kind() == CellKind::Counting && size != target {
        return Err(Error::Incompatible {
            parameter: geometry.fold_unit(),
            left: target.to_string(),
            right: format!("{size}, and counters cannot be folded"),
        });
    }
    if !size.is_multiple_of(target) {
        return Err(Error::Incompatible {
            parameter: geometry.fold_unit(),
            left: target.to_string(),
            right: format!("{size}, which is no multiple"),
        });
    }
    Ok(size / target)
}

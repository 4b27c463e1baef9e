//! Which filters can be combined, and at which size.

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
pub(super) fn common_geometry(sources: &[Source<'_>]) -> Result<Geometry> {
    let Some(first) = sources.first() else {
        return Err(Error::parameter("number of inputs", 0, "there must be at least one"));
    };
    let parameters = Parameters::of(first);
    for source in sources {
        parameters.refuse_other(&Parameters::of(source)).map_err(|error| source.blame(error))?;
    }
    let geometries = sources.iter().map(|source| *source.geometry());
    let smallest = geometries.min_by_key(Geometry::foldable).unwrap_or(*first.geometry());
    for source in sources {
        factor_to(&smallest, source).map_err(|error| source.blame(error))?;
    }
    Ok(smallest)
}

/// The factor by which an input folds to a geometry that is like its own but for the size.
pub(super) fn factor_to(geometry: &Geometry, source: &Source<'_>) -> Result<u64> {
    let [target, size] = [geometry, source.geometry()].map(Geometry::foldable);
    if source.cells() == CellKind::Counting && size != target {
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

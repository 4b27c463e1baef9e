//! The union of an open filter with a file.

use std::sync::{Mutex, PoisonError};

use super::compatible::{Parameters, factor_to};
use super::derive::union_adds;
use super::source::Source;
use super::stream::{Rule, combine};
use crate::error::{Error, Result};
use crate::format::most_adds;
use crate::geometry::CellKind;
use crate::plan::{Estimate, Occupancy};
use crate::reader::Reader;
use crate::storage::{Medium, unpoisoned};
use crate::writer::Engine;

/// What [`Filter::union_from`](crate::Filter::union_from) did.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Absorbed {
    /// How many of the file's blocks, or of the cells of a row, became one; 1 when it has the
    /// filter's size.
    pub folded_by: u64,
    /// Cells of the filter that were turned on.
    pub cells_set: u64,
    /// Estimated number of keys in the filter now.
    pub keys: Estimate,
    /// Its false positive rate now.
    pub rate: f64,
    /// Pages of a live or crashed file that hold more bits than its checksums and journal explain.
    pub pages_unverified: u64,
}

/// Takes all keys of a reader's file into an open filter, durably.
pub(crate) fn union_into<M: Medium>(engine: &Engine<M>, reader: &Reader) -> Result<Absorbed> {
    engine.refuse_if_dead()?;
    let sources = [Source::of_reader(reader)?];
    let [source] = &sources;
    if engine.superblock.cells == CellKind::Counting {
        let reason = "counters of a file are added up by merging it into a new one";
        return Err(Error::parameter("kind", "counting", reason));
    }
    let (superblock, geometry) = (&engine.superblock, engine.segments.newest().data.geometry());
    Parameters::new(superblock, geometry, engine.segments.active().count)
        .refuse_other(&Parameters::of(source))
        .map_err(|error| source.blame(error))?;
    let folded_by = factor_to(geometry, source).map_err(|error| source.blame(error))?;
    // Twice over the input: the filter must not change before all of it is known to be sound.
    combine(geometry, &sources, Rule::Union, None, |_, _, _| Ok(()))?;
    let pages_unverified = source.unverified();
    let taken_in = source.doubts().within(geometry.pages());
    engine.set_doubts(|doubts| doubts.with(taken_in));
    let state = Mutex::new((Occupancy::new(geometry), 0));
    combine(geometry, &sources, Rule::Union, None, |first, bytes, _| {
        let changes = engine.or_pages(first, bytes)?;
        let (counted, set) = &mut *unpoisoned(&state);
        for (page, change) in (first..).zip(changes) {
            counted.add(geometry, page, change.ones);
            *set += u64::from(change.set);
        }
        Ok(())
    })?;
    let (counted, cells_set) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let keys = counted.keys(geometry);
    // Only its own adds are what the filter knows of: what a file claims is no more than a limit.
    let (own, claimed) = (engine.adds(), source.adds());
    let most = source.adds_are_known().then(|| own.saturating_add(claimed));
    let ones = counted.ones.iter().sum();
    engine.count_adds(union_adds(own, most, keys.value).min(most_adds(ones)).saturating_sub(own));
    engine.checkpoint()?;
    let rate = counted.rate_now(geometry);
    Ok(Absorbed { folded_by, cells_set, keys, rate, pages_unverified })
}

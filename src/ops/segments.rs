//! The union of files of several segments, or of sizes that do not fold into one another: the result
//! has a segment for each geometry.

use super::compatible::{factor, key_name};
use super::derivation::{Derivation, InputSummary, Made, summary};
use super::derive::{SetOperation, doubts, largest, sum, union_adds};
use super::provenance;
use super::source::Source;
use super::stream::{Rule, combine};
use crate::error::{Error, Result};
use crate::file::write_pages;
use crate::file::{finish_slot, new_slot};
use crate::format::{MAX_SEGMENTS, SegmentRecord, Shape, Superblock, WhenFull};
use crate::geometry::Geometry;
use crate::plan;
use crate::storage::{PendingFile, Target};

/// Inputs that become one segment.
struct Group<'a> {
    geometry: Geometry,
    sources: Vec<&'a Source<'static>>,
}

impl Group<'_> {
    /// Keys that the segment is for: as many as the least of the inputs, at the size it has here.
    fn capacity(&self) -> u64 {
        let of = |source: &&Source<'_>| {
            let factor = source.geometry().foldable() / self.geometry.foldable();
            Some(source.capacity()?.div_ceil(factor))
        };
        self.sources.iter().filter_map(of).min().unwrap_or(0)
    }

    /// Keys that are in, as far as can be told before they are read.
    fn keys(&self) -> u64 {
        self.sources.iter().map(|source| source.tabled().keys(source.geometry()).value as u64).sum()
    }
}

impl SetOperation<'_> {
    /// Joins files, each given by its segments.
    pub(super) fn union_of_segments(
        &self,
        files: Vec<Vec<Source<'static>>>,
        operation: String,
        target: Target,
    ) -> Result<Derivation> {
        let groups = groups(&files)?;
        let superblock = self.with_journal(superblock(&files, &groups))?;
        let mut end = superblock.base();
        let mut records = Vec::new();
        for group in &groups {
            let record = SegmentRecord {
                geometry: group.geometry,
                capacity: group.capacity(),
                offset: end,
                table: 0,
                // Found while the pages are written; nothing of an input, whichever is first.
                table_crc: 0,
                ones: 0,
                adds: 0,
                region: records.len(),
            };
            end = record.extent().end();
            records.push(record);
        }
        let pending = PendingFile::new(target, end)?;
        let medium = pending.medium()?;
        let (mut keys, mut rates) = (Vec::new(), Vec::new());
        for (record, Group { geometry, sources }) in records.iter_mut().zip(&groups) {
            let extent = record.extent();
            let write = |first: u64, bytes: &[u8], entries: &[_]| {
                write_pages(&medium, &extent, first, bytes, entries)
            };
            let counted = combine(geometry, sources, Rule::Union, self.listener(), write)?;
            let here = counted.keys(geometry);
            let adds: Vec<u64> = sources.iter().map(|source| source.adds()).collect();
            let known = sources.iter().all(|source| source.adds_are_known());
            record.adds = union_adds(largest(&adds), known.then(|| sum(&adds)), here.value);
            keys.push(here);
            rates.push(counted.rate_now(geometry));
        }
        let heads: Vec<&Source<'_>> = files.iter().map(|file| &file[0]).collect();
        let metadata = provenance::metadata(&operation, &heads, &vec![1; heads.len()])?;
        let pages = records.iter().map(|record| record.geometry.pages()).sum();
        let mut slot = new_slot(records, end, metadata);
        let sources: Vec<&Source<'_>> = files.iter().flatten().collect();
        slot.set_doubts(doubts(&sources, Rule::Union, pages));
        let (superblock, slot) = finish_slot(&medium, superblock, slot, true)?;
        let inputs = files.iter().map(|file| file_summary(file, &groups));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        // The result may replace one of them, and not every system replaces a file that is open.
        drop(groups);
        drop(files);
        pending.publish()?;
        let keys = keys.into_iter().sum();
        let made = Made { operation, keys, rate: plan::rate_together(&rates) };
        Ok(made.derivation(&superblock, &slot, inputs))
    }
}

/// An error that names the first parameter in which a file differs from the first one, and what no
/// size makes up for.
pub(super) fn refuse_differences(files: &[Vec<Source<'static>>]) -> Result<()> {
    let parameters = |file: &[Source<'static>]| {
        let superblock = file[0].superblock();
        [
            ("kind", superblock.cells.name().to_owned()),
            ("secret key", key_name(superblock)),
            ("seed", superblock.hash_seed.to_string()),
        ]
    };
    let Some(first) = files.first().map(|file| parameters(file)) else {
        return Err(Error::parameter("number of inputs", 0, "there must be at least one"));
    };
    for file in files {
        if file[0].superblock().shape() != Shape::Growing {
            file[0].refuse_uncombinable().map_err(|error| file[0].blame(error))?;
        }
        let other = parameters(file);
        let differing = first.iter().zip(&other).find(|(left, right)| left != right);
        if let Some(((parameter, left), (_, right))) = differing {
            let (left, right) = (left.clone(), right.clone());
            return Err(file[0].blame(Error::Incompatible { parameter, left, right }));
        }
    }
    Ok(())
}

/// The segments of all files by their geometry, the smallest first. Where that are more than a file
/// may have, those that differ least are folded together.
fn groups<'a>(files: &'a [Vec<Source<'static>>]) -> Result<Vec<Group<'a>>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for source in files.iter().flatten() {
        let geometry = *source.geometry();
        match groups.iter_mut().find(|group| group.geometry == geometry) {
            Some(group) => group.sources.push(source),
            None => groups.push(Group { geometry, sources: vec![source] }),
        }
    }
    let size = |geometry: &Geometry| {
        (geometry.cells(), geometry.layout().to_string(), geometry.row_count())
    };
    groups.sort_by_key(|group| size(&group.geometry));
    while groups.len() > MAX_SEGMENTS {
        let pairs = (0..groups.len()).flat_map(|large| (0..large).map(move |small| (large, small)));
        let folds = pairs.filter_map(|(large, small)| {
            let factor = factor(&groups[small].geometry, &groups[large].geometry).ok()?;
            Some((factor, large, small))
        });
        let Some((_, large, small)) = folds.min() else {
            let reason = format!(
                "a file has at most {MAX_SEGMENTS} segments, and none of these folds into another; \
                 build one from the keys"
            );
            return Err(Error::parameter("sizes of the inputs", groups.len(), reason));
        };
        let folded = groups.remove(large);
        groups[small].sources.extend(folded.sources);
    }
    Ok(groups)
}

/// The superblock of a result; its identity is still to come.
fn superblock(files: &[Vec<Source<'static>>], groups: &[Group<'_>]) -> Superblock {
    let first = files[0][0].superblock();
    let journals = files.iter().map(|file| file[0].superblock().journal_bytes);
    let joined = Superblock {
        read_only_compatible: 0,
        compatible: 0,
        uuid: [0; 16],
        journal_bytes: journals.max().unwrap_or(0),
        when_full: WhenFull::Grow,
        ..first.clone()
    };
    let alike = |file: &Vec<Source<'_>>| {
        let other = file[0].superblock();
        other.shape() == Shape::Growing
            && (other.capacity, other.target_rate) == (first.capacity, first.target_rate)
    };
    if files.iter().all(alike) {
        return joined;
    }
    // If it grows, by a segment for as many keys as are in all others (F-131).
    let capacity = |group: &Group<'_>| match group.capacity() {
        0 => group.keys(),
        capacity => capacity,
    };
    let all = groups.iter().map(capacity).fold(0, u64::saturating_add);
    let rate = |group: &Group<'_>| plan::false_positive_rate(&group.geometry, capacity(group));
    let rates: Vec<f64> = groups.iter().map(rate).collect();
    Superblock {
        capacity: all.div_ceil(1 << groups.len()).max(1),
        target_rate: plan::rate_together(&rates).clamp(plan::LOWEST_RATE, 0.5),
        ..joined
    }
}

/// What is said of a file with several segments.
fn file_summary(file: &[Source<'_>], groups: &[Group<'_>]) -> Result<InputSummary> {
    let part = |source: &Source<'_>| {
        let is_here = |group: &&Group<'_>| {
            group.sources.iter().any(|other| std::ptr::addr_eq(*other, source))
        };
        let group = groups.iter().find(is_here);
        let size = group.map_or(source.geometry(), |group| &group.geometry);
        summary(source, source.geometry().foldable() / size.foldable())
    };
    let parts = file.iter().map(part).collect::<Result<Vec<_>>>()?;
    let together = |rate: fn(&InputSummary) -> f64| {
        plan::rate_together(&parts.iter().map(rate).collect::<Vec<_>>())
    };
    let (rate, rate_folded) = (together(|part| part.rate), together(|part| part.rate_folded));
    let keys = parts.iter().map(|part| part.keys).sum();
    let pages_unverified = parts.iter().map(|part| part.pages_unverified).sum();
    let newest = parts[parts.len() - 1].clone();
    Ok(InputSummary { keys, rate, rate_folded, pages_unverified, ..newest })
}

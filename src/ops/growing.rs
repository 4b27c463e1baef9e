//! The union of growing filters: segment by segment, where they match.

use super::compatible::key_name;
use super::derivation::{Derivation, InputSummary, Made, summary};
use super::derive::{SetOperation, largest, sum, union_adds, write_pages};
use super::provenance;
use super::source::Source;
use super::stream::{Rule, combine};
use crate::error::{Error, Result};
use crate::file::{finish_slot, new_slot};
use crate::format::{SegmentRecord, Shape, Superblock};
use crate::plan;
use crate::storage::{PendingFile, Target};

impl SetOperation<'_> {
    /// Joins files, each given by its segments.
    pub(super) fn union_of_growing(
        &self,
        files: Vec<Vec<Source<'static>>>,
        operation: String,
        target: Target,
    ) -> Result<Derivation> {
        refuse_differences(&files)?;
        let first = files[0][0].superblock();
        let journals = files.iter().map(|file| file[0].superblock().journal_bytes);
        let superblock = Superblock {
            uuid: [0; 16],
            journal_bytes: journals.max().unwrap_or(0),
            ..first.clone()
        };
        let longest = files.iter().map(Vec::len).max().unwrap_or(0);
        let longest = files.iter().find(|file| file.len() == longest).unwrap_or(&files[0]);
        let mut end = superblock.base();
        let mut records = Vec::new();
        for source in longest {
            let record = SegmentRecord { offset: end, table: 0, ..source.record().clone() };
            end = record.extent().end();
            records.push(record);
        }
        let pending = PendingFile::new(target, end)?;
        let medium = pending.medium()?;
        let (mut keys, mut rates) = (Vec::new(), Vec::new());
        for (index, record) in records.iter_mut().enumerate() {
            let sources: Vec<&Source<'_>> =
                files.iter().filter_map(|file| file.get(index)).collect();
            let (geometry, extent) = (record.geometry, record.extent());
            let show = |first: u64, bytes: &[u8], entries: &[_]| {
                write_pages(&medium, &extent, first, bytes, entries)
            };
            let counted = combine(&geometry, &sources, Rule::Union, self.listener(), show)?;
            let here = counted.keys(&geometry);
            let adds: Vec<u64> = sources.iter().map(|source| source.adds()).collect();
            let known = sources.iter().all(|source| source.adds_are_known());
            record.adds = union_adds(largest(&adds), known.then(|| sum(&adds)), here.value);
            keys.push(here);
            rates.push(counted.rate_now(&geometry));
        }
        let heads: Vec<&Source<'_>> = files.iter().map(|file| &file[0]).collect();
        let metadata = provenance::metadata(&operation, &heads, &vec![1; heads.len()])?;
        let slot = new_slot(records, end, metadata);
        let (superblock, slot) = finish_slot(&medium, superblock, slot, true)?;
        let inputs = files.iter().map(|file| file_summary(file)).collect::<Result<Vec<_>>>()?;
        // The result may replace one of them, and not every system replaces a file that is open.
        drop(files);
        pending.publish()?;
        let keys = keys.into_iter().sum();
        let made = Made { operation, keys, rate: plan::rate_together(&rates) };
        Ok(made.derivation(&superblock, &slot, inputs))
    }
}

/// An error that names the first parameter in which a file differs from the first one.
fn refuse_differences(files: &[Vec<Source<'static>>]) -> Result<()> {
    let first = &files[0];
    for file in files {
        let parameters = [first, file].map(|file| {
            let superblock = file[0].superblock();
            let shape = match superblock.shape() {
                Shape::Fixed => "one segment",
                Shape::Growing => "growing",
                Shape::Rotating(_) => "rotating",
            };
            [
                ("shape", shape.to_owned()),
                ("kind", superblock.cells.name().to_owned()),
                ("secret key", key_name(superblock)),
                ("seed", superblock.hash_seed.to_string()),
                ("capacity", superblock.capacity.to_string()),
                ("target rate", superblock.target_rate.to_string()),
            ]
        });
        let [left, right] = &parameters;
        let named = left.iter().zip(right).find(|(left, right)| left != right);
        let geometries = || {
            first
                .iter()
                .zip(file)
                .map(|(left, right)| (left.geometry().to_string(), right.geometry().to_string()))
                .find(|(left, right)| left != right)
        };
        let differing = named
            .map(|((parameter, left), (_, right))| (*parameter, left.clone(), right.clone()))
            .or_else(|| geometries().map(|(left, right)| ("geometry of a segment", left, right)));
        if let Some((parameter, left, right)) = differing {
            return Err(file[0].blame(Error::Incompatible { parameter, left, right }));
        }
    }
    Ok(())
}

/// What is said of a file with several segments.
fn file_summary(file: &[Source<'_>]) -> Result<InputSummary> {
    let parts = file.iter().map(|source| summary(source, 1)).collect::<Result<Vec<_>>>()?;
    let rate = plan::rate_together(&parts.iter().map(|part| part.rate).collect::<Vec<_>>());
    let keys = parts.iter().map(|part| part.keys).sum();
    let pages_unverified = parts.iter().map(|part| part.pages_unverified).sum();
    let newest = parts[parts.len() - 1].clone();
    Ok(InputSummary { keys, rate, rate_folded: rate, pages_unverified, ..newest })
}

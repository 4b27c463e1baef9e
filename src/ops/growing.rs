//! The union of growing filters: segment by segment, where they match.

use std::path::Path;

use super::derive::{Derivation, InputSummary, SetOperation, summary, union_adds};
use super::provenance;
use super::source::Source;
use super::stream::{Rule, combine};
use crate::engine::{finish_slot, new_slot, write_table_part};
use crate::error::{Error, Result};
use crate::format::{SegmentRecord, Shape, Superblock};
use crate::geometry::PAGE_BYTES;
use crate::plan::Estimate;
use crate::report::uuid_text;
use crate::storage::{Draft, Medium};

impl SetOperation<'_> {
    /// Joins files, each given by its segments.
    pub(super) fn union_of_growing(
        &self,
        files: &[Vec<Source>],
        operation: String,
        output: &Path,
    ) -> Result<Derivation> {
        refuse_differences(files)?;
        let first = files[0][0].superblock();
        let journals = files.iter().map(|file| file[0].superblock().journal_bytes);
        let superblock = Superblock {
            uuid: [0; 16],
            journal_bytes: journals.max().unwrap_or(0),
            ..first.clone()
        };
        let cell_bits = superblock.cells.bits();
        let longest = files.iter().map(Vec::len).max().unwrap_or(0);
        let longest = files.iter().find(|file| file.len() == longest).unwrap_or(&files[0]);
        let mut end = crate::format::first_extent(&superblock, longest[0].geometry()).offset;
        let mut records = Vec::new();
        for source in longest {
            let record = SegmentRecord { offset: end, table: 0, ..source.record().clone() };
            end = record.extent(cell_bits).end();
            records.push(record);
        }
        let draft = Draft::new(output, end, self.replaces())?;
        let medium = draft.medium()?;
        let (mut keys, mut present) = (Estimate { value: 0.0, low: 0.0, high: 0.0 }, 1.0);
        for (index, record) in records.iter_mut().enumerate() {
            let sources: Vec<&Source> = files.iter().filter_map(|file| file.get(index)).collect();
            let (geometry, extent) = (record.geometry, record.extent(cell_bits));
            let show = |first: u64, bytes: &[u8], entries: &[_]| {
                medium
                    .write_at(bytes, extent.data() + first * PAGE_BYTES)
                    .map_err(Error::io("write the new file"))?;
                write_table_part(&medium, &extent, first, entries)
            };
            let counted = combine(&geometry, &sources, Rule::Union, self.listener(), show)?;
            let here = counted.keys(&geometry);
            let adds: Vec<u64> = sources.iter().map(|source| source.adds()).collect();
            let known = sources.iter().all(|source| source.adds_are_known());
            record.adds = union_adds(&adds, known, here.value);
            keys = Estimate {
                value: keys.value + here.value,
                low: keys.low + here.low,
                high: keys.high + here.high,
            };
            present *= 1.0 - counted.rate_now(&geometry);
        }
        let heads: Vec<&Source> = files.iter().map(|file| &file[0]).collect();
        let metadata = provenance::metadata(&operation, &heads, &vec![1; heads.len()])?;
        let slot = new_slot(records, end, metadata);
        let (superblock, slot) = finish_slot(&medium, superblock, slot, true)?;
        draft.publish()?;
        Ok(Derivation {
            operation,
            uuid: uuid_text(&superblock.uuid),
            geometry: slot.segments[slot.segments.len() - 1].geometry,
            file_bytes: slot.file_bytes,
            capacity: Some(superblock.capacity),
            ones: slot.segments.iter().map(|segment| segment.ones).sum(),
            keys,
            rate: 1.0 - present,
            inputs: files.iter().map(|file| file_summary(file)).collect::<Result<Vec<_>>>()?,
        })
    }
}

/// An error that names the first parameter in which a file differs from the first one.
fn refuse_differences(files: &[Vec<Source>]) -> Result<()> {
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
fn file_summary(file: &[Source]) -> Result<InputSummary> {
    let parts = file.iter().map(|source| summary(source, 1)).collect::<Result<Vec<_>>>()?;
    let rate = 1.0 - parts.iter().map(|part| 1.0 - part.rate).product::<f64>();
    let sum = |of: fn(&InputSummary) -> f64| parts.iter().map(of).sum::<f64>();
    let keys = Estimate {
        value: sum(|part| part.keys.value),
        low: sum(|part| part.keys.low),
        high: sum(|part| part.keys.high),
    };
    let pages_unverified = parts.iter().map(|part| part.pages_unverified).sum();
    let newest = parts[parts.len() - 1].clone();
    Ok(InputSummary { keys, rate, rate_folded: rate, pages_unverified, ..newest })
}

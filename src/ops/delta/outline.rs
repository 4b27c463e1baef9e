//! What a delta says of the file that it leads to, and of the one that it applies to.

use crate::error::{Error, Result};
use crate::file::{Health, new_slot};
use crate::format::{
    CHUNK_PAGES, DeltaHeader, NewSegment, SegmentRecord, Shape, Slot, Superblock, region_extent,
    validate_extents,
};
use crate::ops::compatible::key_name;
use crate::ops::digest::{ContentHasher, Digest, segment_groups};
use crate::ops::source::Source;
use crate::random::uuid_text;

/// Most pages of segments without a base, for each page of the old file and of chunks (F-162).
const NEW_PAGES: u64 = 64;

/// The header of a delta that leads from a file to a clean copy of it; digests, tables and chunks are
/// to be filled in.
pub(super) fn outline_of(
    sources: &[Source<'_>],
    journal_bytes: Option<u64>,
) -> Result<DeltaHeader> {
    let snapshot = sources[0].snapshot();
    let mut superblock = snapshot.loaded.superblock.clone();
    if superblock.reserved_in_use() {
        let bits = superblock.read_only_compatible | superblock.compatible;
        return Err(Error::Features { word: "compatible", bits, read_only: true });
    }
    superblock.journal_bytes = journal_bytes.unwrap_or(superblock.journal_bytes);
    let slot = &snapshot.loaded.slot;
    let mut new: Vec<NewSegment> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| {
            let record = SegmentRecord { adds: source.adds(), table: 0, ..source.record().clone() };
            NewSegment { record, base: Some(index) }
        })
        .collect();
    place(&superblock, &mut new);
    Ok(DeltaHeader {
        delta_bytes: 0,
        chunks: 0,
        old_uuid: superblock.uuid,
        old_digest: [0; 32],
        new_digest: [0; 32],
        mark: snapshot.mark(),
        unverifiable_pages: slot.unverifiable_pages,
        repaired_pages: slot.repaired_pages,
        recoveries: slot.recoveries,
        old: sources.iter().map(|source| old_record(source.record())).collect(),
        new,
        metadata: slot.metadata.clone(),
        superblock,
    })
}

/// What a delta says of an old segment.
pub(super) fn old_record(record: &SegmentRecord) -> SegmentRecord {
    SegmentRecord { capacity: 0, adds: 0, offset: 0, table: 0, ..record.clone() }
}

/// Puts each segment in its place (F-163), and tells where the file ends.
fn place(superblock: &Superblock, segments: &mut [NewSegment]) -> u64 {
    let mut end = superblock.base();
    for (region, NewSegment { record, .. }) in segments.iter_mut().enumerate() {
        (record.offset, record.region) = (end, region);
        end = record.extent().end();
    }
    end
}

/// The slot of the file that a delta leads to; an error if there is none like it.
pub(super) fn slot_of(header: &DeltaHeader) -> Result<Slot> {
    let damaged = |reason: String| Error::DamagedDelta { reason };
    let mut placed = header.new.clone();
    let end = place(&header.superblock, &mut placed);
    let offsets = |segments: &[NewSegment]| -> Vec<u64> {
        segments.iter().map(|segment| segment.record.offset).collect()
    };
    if offsets(&placed) != offsets(&header.new) {
        return Err(damaged("a segment is not in its place".into()));
    }
    let records: Vec<SegmentRecord> = placed.into_iter().map(|segment| segment.record).collect();
    let mut slot = new_slot(records, end, header.metadata.clone());
    slot.mark = header.mark;
    slot.unverifiable_pages = header.unverifiable_pages;
    slot.repaired_pages = header.repaired_pages;
    slot.recoveries = header.recoveries;
    if let Shape::Rotating(generations) = header.superblock.shape() {
        slot.file_bytes = region_extent(&header.superblock, &slot, generations as usize).end();
    }
    let length = slot.file_bytes;
    validate_extents(&header.superblock, &mut slot, length)
        .map_err(|error| damaged(error.to_string()))?;
    let pages = |records: &mut dyn Iterator<Item = &SegmentRecord>| -> u64 {
        records.map(|record| record.geometry.pages()).fold(0, u64::saturating_add)
    };
    let without = header.new.iter().filter(|segment| segment.base.is_none());
    let without = pages(&mut without.map(|segment| &segment.record));
    let told = header.chunks.saturating_mul(CHUNK_PAGES);
    let known = pages(&mut header.old.iter()).saturating_add(told);
    if without > known.saturating_mul(NEW_PAGES) {
        return Err(damaged("its new segments are too large".into()));
    }
    Ok(slot)
}

/// What two versions of a file have in common (F-162).
pub(super) fn parameters(superblock: &Superblock) -> [(&'static str, String); 4] {
    let shape = match superblock.shape() {
        Shape::Fixed => "one segment",
        Shape::Growing => "growing",
        Shape::Rotating(_) => "rotating",
    };
    [
        ("kind", superblock.cells.name().to_owned()),
        ("shape", shape.to_owned()),
        ("secret key", key_name(superblock)),
        ("seed", superblock.hash_seed.to_string()),
    ]
}

/// An error unless a file is, as far as its headers tell, the one that a delta applies to.
pub(super) fn refuse_other_version(header: &DeltaHeader, old: &[Source<'_>]) -> Result<()> {
    let other = |parameter, found: String, expected: String| {
        Err(Error::OtherVersion { parameter, found, expected })
    };
    let found = parameters(old[0].superblock());
    for ((parameter, expected), (_, found)) in parameters(&header.superblock).into_iter().zip(found)
    {
        if found != expected {
            return other(parameter, found, expected);
        }
    }
    if old.len() != header.old.len() {
        return other("number of segments", old.len().to_string(), header.old.len().to_string());
    }
    for (source, expected) in old.iter().zip(&header.old) {
        let [geometry, wanted] = [source.geometry(), &expected.geometry];
        if geometry != wanted {
            return other("geometry", geometry.to_string(), wanted.to_string());
        }
        let record = source.record();
        // The table of an open file is not that of the pages with the journal in them.
        if source.health() == Health::Clean
            && (record.table_crc, record.ones) != (expected.table_crc, expected.ones)
        {
            let words = |record: &SegmentRecord| {
                format!("{:08x} ({} cells are set)", record.table_crc, record.ones)
            };
            return other("checksum of its contents", words(record), words(expected));
        }
    }
    Ok(())
}

/// Why a delta led to something else than it promised: it was for another version, or is wrong itself.
pub(super) fn blame_for_result(header: &DeltaHeader, old: &[Source<'_>]) -> Result<Error> {
    let mut all = ContentHasher::new(old[0].superblock());
    for segment in old {
        all.segment(segment.geometry(), &segment_groups(segment)?);
    }
    let (found, expected) = (all.finish(), Digest::from_bytes(header.old_digest));
    if found != expected {
        let [found, expected] = [found, expected].map(|digest| digest.to_string());
        return Ok(Error::OtherVersion { parameter: "digest", found, expected });
    }
    let (from, to) = (uuid_text(&header.old_uuid), uuid_text(&header.superblock.uuid));
    let reason = format!("it does not lead from {from} to what it says of {to}");
    Ok(Error::DamagedDelta { reason })
}

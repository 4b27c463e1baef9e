//! What a file is and how full, from its headers and page tables alone.

use std::collections::BTreeMap;
#[cfg(feature = "files")]
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::file::{Health, Loaded, Snapshot};
use crate::format::{FORMAT_VERSION, SegmentRecord, WhenFull, table_bytes};
use crate::geometry::{CellKind, Geometry};
use crate::plan::{self, Estimate, Occupancy, SealedPages};
use crate::random::uuid_text;
#[cfg(feature = "files")]
use crate::storage::open_to_read;
use crate::storage::{Bytes, ReadMedium};

/// What a file says of itself; made by [`inspect`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use = "inspecting does nothing else than to tell"]
pub struct Inspection {
    /// Version of the format.
    pub format_version: u32,
    /// The file's identity, as text.
    pub uuid: String,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Clean, being written or crashed.
    pub health: Health,
    /// Bits or counters.
    pub kind: CellKind,
    /// What happens at capacity.
    pub when_full: WhenFull,
    /// Name of the hash function.
    pub hash: &'static str,
    /// Seed of the hash; 0 in a keyed file.
    pub seed: u64,
    /// Of a keyed file, the fingerprint of its secret: see [`Key::fingerprint`](crate::Key::fingerprint).
    pub key_fingerprint: Option<String>,
    /// The rate asked for at creation.
    pub target_rate: Option<f64>,
    /// The number of keys asked for at creation.
    pub capacity: Option<u64>,
    /// Length of the journal in bytes.
    pub journal_bytes: u64,
    /// Generations of a rotating filter.
    pub generations: Option<u64>,
    /// Adds after which a rotating filter rotates by itself.
    pub rotate_after: Option<u64>,
    /// Records in the journal of a file that was not closed, which the figures of the segments
    /// count: an add each, or in a counting file the change of a key's counters.
    pub journal_records: u64,
    /// Whether a file that was not closed may have had adds that are in no record, because the
    /// journal had no room or there is none: the figures lack them until the next checkpoint.
    pub journal_full: bool,
    /// Whether one of the two slots is damaged. It may be that of a writer's last checkpoint, so that
    /// the file is refused by readers unless every page is what the other slot says.
    pub slot_damaged: bool,
    /// Number of the last slot written.
    pub sequence: u64,
    /// Number of the last checkpoint.
    pub epoch: u64,
    /// The mark that was last synced.
    pub mark: u64,
    /// Recoveries this file went through.
    pub recoveries: u64,
    /// Pages that recoveries accepted with bits that had not been synced.
    pub unverifiable_pages: u64,
    /// Pages that repairs set to all ones.
    pub repaired_pages: u64,
    /// The segments, oldest first.
    pub segments: Vec<SegmentInspection>,
    /// The user's pairs.
    pub metadata: BTreeMap<String, String>,
}

impl Inspection {
    /// The false positive rate now: that some segment reports an absent key as present.
    pub fn rate_now(&self) -> f64 {
        let rates: Vec<f64> = self.segments.iter().map(|segment| segment.rate_now).collect();
        plan::rate_together(&rates)
    }

    /// The false positive rate of the whole once each segment holds the keys it is for; of a
    /// rotating filter, once each of its generations does, those still to come included.
    pub fn rate_at_capacity(&self) -> Option<f64> {
        let rates = self.segments.iter().map(|segment| segment.rate_at_capacity);
        let rates = rates.collect::<Option<Vec<f64>>>()?;
        Some(match (self.generations, rates.last()) {
            // All are alike (F-28).
            (Some(generations), Some(&each)) => plan::generations_rate(each, generations),
            _ => plan::rate_together(&rates),
        })
    }

    /// Estimated number of keys in all segments, with its 95 % interval.
    pub fn keys(&self) -> Estimate {
        self.segments.iter().map(|segment| segment.keys).sum()
    }
}

/// One geometry and how full it is: as of the last checkpoint, with what the journal says has come
/// since.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SegmentInspection {
    /// Layout, rows, blocks and cells.
    pub geometry: Geometry,
    /// The number of keys this segment is for.
    pub capacity: Option<u64>,
    /// Adds that changed it; of a counting file, as of the last checkpoint.
    pub adds: u64,
    /// Where it starts in the file.
    pub offset: u64,
    /// Data pages.
    pub pages: u64,
    /// Bytes of data.
    pub data_bytes: u64,
    /// Bytes of its two page tables.
    pub table_bytes: u64,
    /// Cells that a key can fall on; of a sealed filter, the bits of its solutions.
    pub cells: u64,
    /// Cells that are set; of a sealed filter, its keys.
    pub ones: u64,
    /// For the `rows` layout, the cells set in each row; for the others, in all.
    pub row_ones: Vec<u64>,
    /// Share of the cells that are set; of a sealed filter, keys for each bit.
    pub fill: f64,
    /// Estimated number of keys in it, with its 95 % interval; of a sealed filter, how many there are.
    pub keys: Estimate,
    /// The false positive rate now.
    pub rate_now: f64,
    /// The false positive rate at capacity.
    pub rate_at_capacity: Option<f64>,
    /// What else there is to say of a sealed one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub sealed: Option<SealedInspection>,
}

/// How the keys of a sealed filter are spread over its pages.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SealedInspection {
    /// Bits of data per key, all of every page counted.
    pub bits_per_key: Option<f64>,
    /// Mean number of keys in a page.
    pub keys_per_page: f64,
    /// Fewest and most keys in a page that tells keys apart.
    pub fewest_keys: u64,
    /// See `fewest_keys`.
    pub most_keys: u64,
    /// Pages without keys: they answer "no".
    pub empty_pages: u64,
    /// Pages that answer "maybe" for every key: too many fell into them, or a repair gave them up.
    pub maybe_pages: u64,
    /// The page that answers "maybe" most often.
    pub worst_page: u64,
    /// Its keys.
    pub worst_page_keys: u64,
    /// Its rate.
    pub worst_page_rate: f64,
}

/// Tells what a file is, from its headers and page tables: no data page is read, so that it takes
/// no longer for a large file.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// filter.add(b"key")?;
/// filter.close()?;
///
/// let inspection = bloomfile::report::inspect(&path)?;
/// assert_eq!(inspection.capacity, Some(1000));
/// assert_eq!(inspection.segments[0].adds, 1);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection> {
    let path = path.as_ref();
    let inspect = || inspect_medium(&open_to_read(path)?);
    inspect().map_err(|error| error.at(path))
}

/// As [`inspect`], for a file whose bytes are in memory.
pub fn inspect_bytes(bytes: impl AsRef<[u8]>) -> Result<Inspection> {
    inspect_medium(&Bytes(bytes.as_ref()))
}

fn inspect_medium(medium: &dyn ReadMedium) -> Result<Inspection> {
    Ok(inspect_snapshot(Snapshot::read(medium)?))
}

/// What a snapshot tells of its file.
pub(crate) fn inspect_snapshot(snapshot: Snapshot) -> Inspection {
    let mark = snapshot.mark();
    let Snapshot { loaded, health, journal, journalled, .. } = snapshot;
    let slot_damaged = loaded.other_slot_damaged;
    let Loaded { superblock, mut slot, .. } = Arc::unwrap_or_clone(loaded);
    let journal_records = journal.as_ref().map_or(0, |journal| journal.keys);
    if let Some(journal) = &journal {
        journal.count_adds(&mut slot);
    }
    let segments = slot
        .segments
        .iter()
        .zip(journalled)
        .map(|(segment, counted)| inspect_segment(segment, counted))
        .collect();
    Inspection {
        format_version: FORMAT_VERSION,
        uuid: uuid_text(&superblock.uuid),
        file_bytes: slot.file_bytes,
        health,
        kind: superblock.cells,
        when_full: superblock.when_full,
        hash: if superblock.key_check.is_some() { "SipHash-2-4" } else { "SeaHash" },
        key_fingerprint: superblock.key_fingerprint(),
        seed: superblock.hash_seed,
        target_rate: Some(superblock.target_rate).filter(|&rate| rate != 0.0),
        capacity: Some(superblock.capacity).filter(|&capacity| capacity != 0),
        generations: Some(superblock.generations).filter(|&generations| generations != 0),
        rotate_after: Some(superblock.rotate_after).filter(|&adds| adds != 0),
        journal_bytes: superblock.journal_bytes,
        journal_records,
        journal_full: journal.is_some_and(|journal| journal.full),
        slot_damaged,
        sequence: slot.sequence,
        epoch: slot.epoch,
        mark,
        recoveries: slot.recoveries,
        unverifiable_pages: slot.unverifiable_pages,
        repaired_pages: slot.repaired_pages,
        segments,
        metadata: slot.metadata,
    }
}

fn inspect_segment(segment: &SegmentRecord, counted: Occupancy) -> SegmentInspection {
    let geometry = segment.geometry;
    let extent = segment.extent();
    let cells = geometry.cells();
    SegmentInspection {
        geometry,
        capacity: Some(segment.capacity).filter(|&capacity| capacity != 0),
        adds: segment.adds,
        offset: segment.offset,
        pages: extent.pages,
        data_bytes: extent.data_bytes(),
        table_bytes: 2 * table_bytes(extent.pages),
        cells,
        ones: counted.ones.iter().sum(),
        fill: counted.ones.iter().sum::<u64>() as f64 / cells as f64,
        keys: counted.keys(&geometry),
        rate_now: counted.rate_now(&geometry),
        rate_at_capacity: (segment.capacity != 0)
            .then(|| plan::false_positive_rate(&geometry, segment.capacity)),
        sealed: counted.sealed.as_ref().map(|pages| inspect_sealed(segment, pages)),
        row_ones: counted.ones,
    }
}

fn inspect_sealed(segment: &SegmentRecord, pages: &SealedPages) -> SealedInspection {
    let (count, keys) = (segment.extent().pages as f64, segment.ones as f64);
    let (worst_page, worst_page_keys) = pages.worst.unwrap_or((0, 0));
    let fewest = pages.by_keys.iter().position(|&pages| pages != 0);
    SealedInspection {
        bits_per_key: (segment.ones != 0)
            .then(|| 8.0 * segment.extent().data_bytes() as f64 / keys),
        keys_per_page: keys / count,
        fewest_keys: fewest.map_or(0, |keys| keys as u64),
        most_keys: pages.by_keys.len().saturating_sub(1) as u64,
        empty_pages: pages.by_keys.first().copied().unwrap_or(0),
        maybe_pages: pages.maybe,
        worst_page,
        worst_page_keys: worst_page_keys.into(),
        worst_page_rate: pages.worst_rate(),
    }
}

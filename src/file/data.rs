//! The cells of a file's segments, as readers hold them: mapped, or copied into memory.

use std::io;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::{Extent, Slot, Superblock, region_count, region_places};
use crate::geometry::Geometry;
use crate::kernel::{Active, Cells, SegmentSet};
use crate::storage::{FileMap, Map, ReadMedium};
#[cfg(feature = "files")]
use crate::storage::{FileMedium, Mapping, Medium};

/// The segments of a reader.
pub(crate) type Segments = SegmentSet<Cells<FileMap>>;

/// Maps a segment of a file that others write.
#[cfg(feature = "files")]
pub(crate) fn map_segment(
    medium: &FileMedium,
    geometry: Geometry,
    offset: u64,
    mapping: Mapping,
) -> Result<Cells<FileMap>> {
    let extent = Extent::of(&geometry, offset);
    let map =
        medium.map(extent.data()..extent.end(), mapping).map_err(Error::io("map the data"))?;
    Cells::new(geometry, map)
}

/// Copies a segment into memory.
pub(crate) fn copy_segment(
    medium: &dyn ReadMedium,
    geometry: Geometry,
    offset: u64,
) -> Result<Cells<FileMap>> {
    let extent = Extent::of(&geometry, offset);
    let copy = copy_into_memory(medium, extent.data()..extent.end())
        .map_err(Error::io("read the file into memory"))?;
    Cells::new(geometry, copy)
}

/// All segments of a file, and the spare region of a rotating one, each made by `make` from its
/// geometry and offset.
pub(crate) fn segments(
    superblock: &Superblock,
    slot: &Slot,
    make: impl Fn(Geometry, u64) -> Result<Cells<FileMap>>,
) -> Result<Segments> {
    let places = region_places(superblock, slot);
    let (geometry, offset) = places[0];
    let mut first = make(geometry, offset)?;
    first.expect_keys(slot.segments[0].ones);
    let set = SegmentSet::new(first, region_count(superblock), Active::of(slot));
    for (region, &(geometry, offset)) in places.iter().enumerate().skip(1) {
        set.add(region, make(geometry, offset)?);
    }
    Ok(set)
}

/// Copies a part of a file into memory of its own.
fn copy_into_memory(medium: &dyn ReadMedium, range: Range<u64>) -> io::Result<FileMap> {
    const CHUNK: usize = 1 << 20;
    let length = usize::try_from(range.end - range.start)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let memory = FileMap::anonymous(length)?;
    let mut bytes = vec![0; CHUNK.min(length)];
    for start in (0..length).step_by(CHUNK) {
        let bytes = &mut bytes[..CHUNK.min(length - start)];
        medium.read_at(bytes, range.start + start as u64)?;
        for (at, word) in bytes.as_chunks().0.iter().enumerate() {
            memory.store(start / 8 + at, u64::from_le_bytes(*word));
        }
    }
    Ok(memory)
}

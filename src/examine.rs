//! A file as someone finds it who does not write it: headers, health, journal, and its maps.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::engine::{
    Active, Checked, Journalled, Loaded, PageCheck, SegmentSet, check_pages, load, read_table,
    region_extents, regions, visit_table,
};
use crate::error::{Error, Result};
use crate::format::{Extent, Slot, State, Superblock, region_of};
use crate::geometry::Geometry;
use crate::kernel::Cells;
use crate::report::{Counted, Health};
use crate::storage::{FileMap, FileMedium, Map, Mapping, Medium};

/// How often headers are read again when a writer changed them meanwhile, and how long apart.
pub(crate) const TRIES: u32 = 50;
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// Copies a part of a file into memory of its own.
fn copy_into_memory(medium: &FileMedium, range: Range<u64>) -> io::Result<FileMap> {
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

/// Maps a segment of a file that others write.
pub(crate) fn map_segment(
    medium: &FileMedium,
    superblock: &Superblock,
    geometry: Geometry,
    offset: u64,
    mapping: Mapping,
) -> Result<Cells<FileMap>> {
    let cell_bits = superblock.cells.bits();
    let extent = Extent { offset, pages: geometry.pages(cell_bits) };
    let range = extent.data()..extent.end();
    let data = match mapping {
        Mapping::Memory => {
            copy_into_memory(medium, range).map_err(Error::io("read the file into memory"))?
        }
        mapping => medium.map(range, mapping).map_err(Error::io("map the data"))?,
    };
    Cells::new(geometry, data, cell_bits)
}

/// Maps all segments of a file, and the spare region of a rotating one.
pub(crate) fn map_segments(
    medium: &FileMedium,
    superblock: &Superblock,
    slot: &Slot,
    mapping: Mapping,
) -> Result<SegmentSet<Cells<FileMap>>> {
    let extents = region_extents(superblock, slot);
    let map = |&(geometry, offset): &(Geometry, u64)| {
        map_segment(medium, superblock, geometry, offset, mapping)
    };
    let active = Active::of(superblock, slot);
    let set = SegmentSet::new(map(&extents[0])?, regions(superblock), active);
    for (region, extent) in extents.iter().enumerate().skip(1) {
        set.add(region, map(extent)?);
    }
    Ok(set)
}

/// Holds every page of an examined file, which nobody writes, against its tables and journal: one
/// check for each segment.
pub(crate) fn check_file(
    medium: &FileMedium,
    examined: &Examined,
    segments: &SegmentSet<Cells<FileMap>>,
) -> Result<Vec<PageCheck>> {
    let Examined { loaded, journalled, .. } = examined;
    let (superblock, slot) = (&loaded.superblock, &loaded.slot);
    let mut checks = Vec::new();
    for (index, record) in slot.segments.iter().enumerate() {
        let region = region_of(superblock, slot, index).unwrap_or(0) as usize;
        let table = read_table(medium, record, superblock.cells.bits())?;
        let changes = journalled.as_ref().map(|journalled| &journalled.changes[index]);
        checks.push(check_pages(Checked {
            geometry: &record.geometry,
            words: segments.region(region).unwrap_or(&segments.first).words(),
            cell_bits: superblock.cells.bits(),
            table: &table,
            before: changes.map_or(&[][..], |changes| &changes.before),
        }));
    }
    Ok(checks)
}

/// A file as someone finds it who does not write it.
pub(crate) struct Examined {
    pub(crate) loaded: Loaded,
    pub(crate) health: Health,
    /// What the journal says, when the writer crashed.
    pub(crate) journalled: Option<Journalled>,
    /// What the page table of each segment counts.
    pub(crate) counted: Vec<Counted>,
}

impl Examined {
    /// The mark that was last synced.
    pub(crate) fn mark(&self) -> u64 {
        let journalled = self.journalled.as_ref().and_then(|journalled| journalled.mark);
        journalled.unwrap_or(self.loaded.slot.mark)
    }
}

/// Reads headers and page table, and tells a live writer from a crashed one.
///
/// A writer may change slots and tables meanwhile, so that what is read does not fit together:
/// then the file is read again.
pub(crate) fn examine(medium: &FileMedium) -> Result<Examined> {
    let mut tries = TRIES;
    loop {
        let result = examine_once(medium);
        let torn = matches!(
            &result,
            Err(Error::Checksum { .. }
                | Error::PageTable { .. }
                | Error::Field { .. }
                | Error::Length { .. }
                | Error::NoSlot
                | Error::SlotLost { .. })
        );
        if !torn || tries == 0 || !is_locked(medium)? {
            return result;
        }
        tries -= 1;
        std::thread::sleep(PAUSE);
    }
}

fn examine_once(medium: &FileMedium) -> Result<Examined> {
    let mut loaded = load(medium)?;
    let mut health = Health::Clean;
    let mut journalled = None;
    if loaded.slot.state == State::Open {
        health = Health::Live;
        if let Some(_unlocked) = SharedLock::take(medium)? {
            // No writer is there, and none can come before this lock is let go: what the headers
            // say now is final.
            loaded = load(medium)?;
            health = Health::Clean;
            if loaded.slot.state == State::Open {
                let read = Journalled::read(medium, &loaded.superblock, &loaded.slot)?;
                read.refuse_hole()?;
                journalled = Some(read);
                health = Health::Crashed;
            }
        }
    }
    let cell_bits = loaded.superblock.cells.bits();
    let mut counted = Vec::new();
    for segment in &loaded.slot.segments {
        let (mut ones, mut pages) = (Counted::new(&segment.geometry, cell_bits), 0..);
        visit_table(medium, segment, cell_bits, |entry| {
            let page = pages.next().unwrap_or_default();
            ones.add(&segment.geometry, cell_bits, page, entry.ones);
        })?;
        counted.push(ones);
    }
    Ok(Examined { loaded, health, journalled, counted })
}

/// Whether a writer has the file.
fn is_locked(medium: &FileMedium) -> Result<bool> {
    Ok(SharedLock::take(medium)?.is_none())
}

/// A shared lock, which no writer's goes with.
struct SharedLock<'a>(&'a File);

impl<'a> SharedLock<'a> {
    /// The lock, unless a writer has the file.
    fn take(medium: &'a FileMedium) -> Result<Option<Self>> {
        match medium.file().try_lock_shared() {
            Ok(()) => Ok(Some(SharedLock(medium.file()))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => {
                Err(Error::Io { action: "ask for a lock on the file", source })
            }
        }
    }
}

impl Drop for SharedLock<'_> {
    fn drop(&mut self) {
        // Closing the file lets it go as well.
        let _ = self.0.unlock();
    }
}

//! A file as someone finds it who does not write it: headers, health, journal, and its maps.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::engine::{
    Active, FilePages, Journalled, Loaded, PageCheck, SegmentSet, check_segment, load,
    region_extents, regions, visit_table,
};
use crate::error::{Error, Result};
use crate::format::{Extent, JOURNAL_OFFSET, SLOT_OFFSETS, SegmentRecord, Slot, State, Superblock};
use crate::geometry::Geometry;
use crate::kernel::Cells;
use crate::report::{Counted, Health};
use crate::storage::{FileMap, FileMedium, Map, Mapping, Medium, try_lock};

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

/// Holds every page of an examined file against its tables and journal: one check for each segment.
pub(crate) fn check_file(medium: &FileMedium, examined: &Examined) -> Result<Vec<PageCheck>> {
    let Examined { loaded, health, journalled, .. } = examined;
    let (superblock, slot) = (&loaded.superblock, &loaded.slot);
    let (journalled, live) = (journalled.as_ref(), *health == Health::Live);
    let check = |(index, record): (usize, &SegmentRecord)| {
        let file = FilePages::new(medium, index, record.extent(superblock.cells.bits()));
        check_segment(medium, (loaded, index), journalled, live, &file)
    };
    slot.segments.iter().enumerate().map(check).collect()
}

/// A file as someone finds it who does not write it.
pub(crate) struct Examined {
    pub(crate) loaded: Loaded,
    pub(crate) health: Health,
    /// What the journal says of an open file, whether a writer has it or had it. `None` as well where
    /// slots were written while it was read: the data are complete then.
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
        let before = slots(medium);
        let result = examine_once(medium);
        let torn = result.as_ref().is_err_and(Error::is_torn);
        // A writer may also have come, torn this and gone.
        let moved = torn && (before != slots(medium) || is_locked(medium)?);
        if !moved || tries == 0 {
            return result;
        }
        tries -= 1;
        std::thread::sleep(PAUSE);
    }
}

/// The bytes of both slots, if they can be read.
fn slots(medium: &FileMedium) -> Option<Vec<u8>> {
    let mut bytes = vec![0; (JOURNAL_OFFSET - SLOT_OFFSETS[0]) as usize];
    medium.read_at(&mut bytes, SLOT_OFFSETS[0]).ok().map(|()| bytes)
}

fn examine_once(medium: &FileMedium) -> Result<Examined> {
    let Found { loaded, health, journalled } = find(medium)?;
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

/// Headers and journal, as far as they belong together.
struct Found {
    loaded: Loaded,
    health: Health,
    journalled: Option<Journalled>,
}

/// How often slots and journal are read again because a slot was written in between.
const JOURNAL_TRIES: u32 = 5;

/// Reads the headers and, of an open file, the journal. Whether a lock is held says what the file is
/// called and nothing else: a writer that recovers holds one before the data are complete, and so
/// may anyone who can read the file (F-107).
fn find(medium: &FileMedium) -> Result<Found> {
    for _ in 0..JOURNAL_TRIES {
        // Before the slots: no writer can then have come, recovered and gone in between.
        let locked = is_locked(medium)?;
        let loaded = load(medium)?;
        if loaded.slot.state == State::Clean {
            return Ok(Found { loaded, health: Health::Clean, journalled: None });
        }
        let read = || Journalled::read(medium, &loaded.superblock, &loaded.slot);
        let mut journalled = read()?;
        // A writer fills records while they are read, so that some seem to be missing in front of
        // a sync that came later. What had been synced is in front of all those, and is missing the
        // second time as well (F-91).
        let hole = journalled.hole;
        if hole.is_some() {
            journalled = read()?;
        }
        if load(medium)?.signature != loaded.signature {
            continue;
        }
        if journalled.hole == hole {
            journalled.refuse_hole()?;
        }
        let health = if locked { Health::Live } else { Health::Crashed };
        return Ok(Found { loaded, health, journalled: Some(journalled) });
    }
    // Slots that move on all the time are a live writer's, and its data are complete.
    let loaded = load(medium)?;
    let health = if loaded.slot.state == State::Clean { Health::Clean } else { Health::Live };
    Ok(Found { loaded, health, journalled: None })
}

/// Whether a writer has the file.
pub(crate) fn is_locked(medium: &FileMedium) -> Result<bool> {
    Ok(SharedLock::take(medium)?.is_none())
}

/// A shared lock, which no writer's goes with.
struct SharedLock<'a>(&'a File);

impl<'a> SharedLock<'a> {
    /// The lock, unless a writer has the file.
    fn take(medium: &'a FileMedium) -> Result<Option<Self>> {
        let taken = try_lock(|| medium.file().try_lock_shared())
            .map_err(Error::io("ask for a lock on the file"))?;
        Ok(taken.then_some(SharedLock(medium.file())))
    }
}

impl Drop for SharedLock<'_> {
    fn drop(&mut self) {
        // Closing the file lets it go as well.
        let _ = self.0.unlock();
    }
}

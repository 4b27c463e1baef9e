//! What opening a file for reading takes.

use std::collections::BTreeSet;

use crate::engine::{
    Belief, FilePages, Follower, Journalled, Loaded, PAGE_WORDS, Pages, SegmentSet, Verdict,
    check_pages, load, read_table_part, region_extents, regions, signature,
};
use crate::error::Result;
use crate::examine::{Examined, PAUSE, map_segment};
use crate::format::{Shape, region_of};
use crate::geometry::PAGE_BYTES;
use crate::kernel::Cells;
use crate::report::Health;
use crate::storage::{FileMap, FileMedium, Map, Mapping, Medium};

use super::ReadOptions;
use super::touch::Touched;

type Segments = SegmentSet<Cells<FileMap>>;

/// A segment by its place in the slot's list.
pub(super) fn listed<'a>(
    loaded: &Loaded,
    segments: &'a Segments,
    index: usize,
) -> &'a Cells<FileMap> {
    let region = region_of(&loaded.superblock, &loaded.slot, index).unwrap_or(0) as usize;
    segments.region(region).unwrap_or(&segments.first)
}

/// Whether a file is refused unless every page is what was written: if that is asked for, or the
/// slots demand it. A clean slot beside a damaged one has to prove itself, because the damaged one
/// may be the newer (F-34).
pub(super) fn must_be_sound(examined: &Examined, options: &ReadOptions) -> bool {
    options.verify || (examined.health == Health::Clean && examined.loaded.other_slot_damaged)
}

/// What is known of the pages of a file that was just opened: nothing.
pub(super) fn untouched(loaded: &Loaded) -> Touched {
    let Loaded { superblock, slot, .. } = loaded;
    let (geometry, offset) = region_extents(superblock, slot)[0];
    let pages = geometry.pages(superblock.cells.bits());
    let follower = Follower::new(loaded.clone());
    let touched = Touched::new(follower, regions(superblock), offset, pages);
    track(&touched, loaded);
    touched
}

/// Takes in the regions that are there.
pub(super) fn track(touched: &Touched, loaded: &Loaded) {
    let extents = region_extents(&loaded.superblock, &loaded.slot);
    for (region, (geometry, offset)) in extents.into_iter().enumerate() {
        touched.add(region, offset, geometry.pages(loaded.superblock.cells.bits()));
    }
}

/// An error if a listed segment has damaged pages.
pub(super) fn refuse_damage(loaded: &Loaded, touched: &Touched) -> Result<()> {
    (0..loaded.slot.segments.len()).try_for_each(|index| {
        let region = region_of(&loaded.superblock, &loaded.slot, index).unwrap_or(0);
        touched.refuse_damage(region as usize, index)
    })
}

/// Checks every page of `segments`, which may be copies of the file; of a copy, pages that had to be
/// read again are brought up to date.
pub(super) fn check_all(
    medium: &FileMedium,
    examined: &Examined,
    segments: &Segments,
    touched: &Touched,
    copies: bool,
) -> Result<()> {
    let Loaded { superblock, slot, .. } = &examined.loaded;
    let mut follower = Follower::new(examined.loaded.clone());
    for (index, record) in slot.segments.iter().enumerate() {
        let region = region_of(superblock, slot, index).unwrap_or(0) as usize;
        let (cell_bits, words) =
            (superblock.cells.bits(), listed(&examined.loaded, segments, index).words());
        let extent = record.extent(cell_bits);
        let file = FilePages::new(medium, index, extent);
        let pages: &dyn Pages = if copies { words } else { &file };
        // The table as a whole was right a moment ago; a writer may have begun another since.
        let entries = |pages| read_table_part(medium, record, cell_bits, pages);
        let journalled = examined.journalled.as_ref();
        let belief = Belief::of(superblock, slot, index, journalled, medium.boot_id());
        let check = check_pages(pages, extent.pages, entries, belief)?;
        // What headers and journal of a moment ago do not explain may be a writer's work since.
        let doubtful: BTreeSet<u64> =
            [check.damaged, check.unverifiable, check.busy].into_iter().flatten().collect();
        for page in 0..extent.pages {
            let mut verdict = Verdict::Exact;
            if doubtful.contains(&page) {
                let mut bytes = [0; PAGE_BYTES as usize];
                let now = || signature(medium);
                let read = |bytes: &mut [u8; PAGE_BYTES as usize]| file.read(page, bytes);
                let judged = follower.judge(medium, now, record.offset, page, &mut bytes, read)?;
                verdict = judged.unwrap_or(Verdict::Unverifiable);
                if copies {
                    let data = listed(&examined.loaded, segments, index);
                    for (at, word) in bytes.as_chunks().0.iter().enumerate() {
                        data.store(page as usize * PAGE_WORDS + at, u64::from_le_bytes(*word));
                    }
                }
            }
            touched.take(region, page, verdict);
        }
    }
    Ok(())
}

/// How often the data of a live writer are held against its journal again.
const LIVE_TRIES: u32 = 3;

/// Copies of the segments with the journal in them, newest first, unless the file has all of that.
///
/// Cells stay as they are under one slot, so that a file which has all of the journal once needs no
/// copy any more. A live writer writes a record just before its cells: they are waited for.
pub(super) fn replay(
    medium: &FileMedium,
    examined: &mut Examined,
    segments: &Segments,
) -> Result<Option<Vec<Cells<FileMap>>>> {
    let Examined { loaded, health, journalled, .. } = examined;
    let Some(journalled) = journalled else { return Ok(None) };
    let (superblock, slot) = (&loaded.superblock, &loaded.slot);
    for tries_left in (0..LIVE_TRIES).rev() {
        let mut changes = journalled.changes.iter().enumerate();
        if changes.all(|(index, changes)| changes.are_in(listed(loaded, segments, index))) {
            return Ok(None);
        }
        if *health != Health::Live || tries_left == 0 {
            break;
        }
        std::thread::sleep(PAUSE);
        // Counters may have changed again since.
        let again = Journalled::read(medium, superblock, slot)?;
        if load(medium)?.signature != loaded.signature {
            // What the slots describe now is in the file.
            return Ok(None);
        }
        *journalled = again;
    }
    let copies = slot.segments.iter().zip(&journalled.changes).rev().map(|(record, changes)| {
        let (geometry, offset) = (record.geometry, record.offset);
        let copy = map_segment(medium, superblock, geometry, offset, Mapping::Private)?;
        changes.apply_private(&copy);
        Ok(copy)
    });
    copies.collect::<Result<_>>().map(Some)
}

/// Whether the segments that a copy was made of were all in use until it was done: a region that a
/// rotation drops may be cleared, and take other keys (F-106).
pub(super) fn still_listed(medium: &FileMedium, copied: &Loaded) -> bool {
    let Shape::Rotating(generations) = copied.superblock.shape() else { return true };
    // A slot in the middle of being written.
    let Ok(Loaded { slot: now, .. }) = load(medium) else { return false };
    let same = now.segments.len() == copied.slot.segments.len()
        && now.segments.iter().zip(&copied.slot.segments).all(|(a, b)| a.offset == b.offset);
    // After as many rotations as there are regions the list is the same again.
    let turns = now.sequence.checked_sub(copied.slot.sequence);
    same && turns.is_some_and(|turns| turns <= generations)
}

//! What opening a file for reading takes.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "files")]
use std::path::Path;
use std::sync::Arc;

use super::checked::CheckedPages;
#[cfg(feature = "files")]
use super::watch::Watch;
use super::{Access, ReadOptions, Reader};
use crate::error::{Error, Result};
use crate::file::{
    FilePages, Health, Loaded, PAGE_WORDS, PageChecker, Pages, Segments, Snapshot, Verdict,
    check_segment_showing, copy_segment, load, segments,
};
#[cfg(feature = "files")]
use crate::file::{JournalContents, PAUSE, map_segment, retry_torn};
use crate::format::{Shape, region_count, region_places};
use crate::hash::Hasher;
use crate::storage::{Bytes, Map, ReadMedium};
#[cfg(feature = "files")]
use crate::{
    kernel::Cells,
    storage::{FileMap, FileMedium, Mapping, Usage, open_to_read},
};

/// How often a file is opened, or copied into memory, again because it changed in between.
const OPENINGS: u32 = 50;

/// How often the data of a live writer are held against its journal again.
#[cfg(feature = "files")]
const LIVE_TRIES: u32 = 3;

impl Reader {
    #[cfg(feature = "files")]
    pub(super) fn open_with(path: &Path, options: &ReadOptions) -> Result<Self> {
        let open = || {
            let medium = open_to_read(path)?;
            match options.access {
                Access::Mapped => Self::mapped(medium, options),
                Access::Memory => {
                    let reader = Self::in_memory(&medium, options)?;
                    Ok(Reader { file: Some(medium), ..reader })
                }
            }
        };
        let reader = open().map_err(|error| error.at(path))?;
        Ok(Reader { path: Some(path.into()), ..reader })
    }

    pub(super) fn from_bytes_with(bytes: &[u8], options: &ReadOptions) -> Result<Self> {
        Self::in_memory(&Bytes(bytes), options)
    }

    /// Looks keys up in the file.
    #[cfg(feature = "files")]
    fn mapped(medium: FileMedium, options: &ReadOptions) -> Result<Self> {
        // All of it again if a writer changed slots between two steps of it.
        let open = || match retry_torn(&medium, || Opened::new(&medium, options)) {
            Err(Error::Busy) => None,
            opened => Some(opened),
        };
        let opened = (0..OPENINGS).find_map(|_| open()).unwrap_or(Err(Error::Busy))?;
        let Opened { snapshot, hasher, segments, checked, replayed } = opened;
        let changing = snapshot.loaded.superblock.shape() != Shape::Fixed;
        let mut watch = None;
        if changing || replayed.is_some() || checked.is_some() {
            watch = Some(Box::new(Watch::new(&medium, &snapshot.loaded)?));
        }
        let reader = Reader::new(snapshot, hasher, segments, replayed, checked);
        Ok(Reader { watch, file: Some(medium), ..reader })
    }

    /// Looks keys up in a copy, which stays as it is, whatever becomes of the file.
    fn in_memory(medium: &dyn ReadMedium, options: &ReadOptions) -> Result<Self> {
        for _ in 0..OPENINGS {
            let snapshot = Snapshot::read(medium)?;
            let Loaded { superblock, slot, .. } = &*snapshot.loaded;
            let hasher = superblock.hasher(options.key.as_ref())?;
            let copies = segments(superblock, slot, |geometry, offset| {
                copy_segment(medium, geometry, offset)
            })?;
            let must_be_sound = must_be_sound(&snapshot, options);
            let checked = nothing_checked(&snapshot.loaded);
            if must_be_sound || !options.trust {
                match check_all(medium, &snapshot, &copies, &checked, must_be_sound, true) {
                    Err(Error::Busy) => continue,
                    checked => checked?,
                }
            }
            if let Some(journal) = &snapshot.journal {
                for (segment, changes) in slot.segments.iter().zip(&journal.changes) {
                    changes.apply_private(copies.get(segment.region));
                }
            }
            if !still_listed(medium, &snapshot.loaded) {
                continue;
            }
            if must_be_sound {
                refuse_damage(&snapshot.loaded, &checked)?;
            }
            // Every key may be in a damaged page.
            for (region, page) in checked.damaged() {
                let data = copies.get(region);
                let words = page as usize * PAGE_WORDS..(page as usize + 1) * PAGE_WORDS;
                words.for_each(|word| data.store(word, u64::MAX));
            }
            let reader = Reader::new(snapshot, hasher, copies, None, Some(checked));
            reader.trust_all_pages();
            return Ok(reader);
        }
        Err(Error::Busy)
    }
}

/// What opening a mapped file finds out.
#[cfg(feature = "files")]
struct Opened {
    snapshot: Snapshot,
    hasher: Hasher,
    segments: Segments,
    checked: Option<CheckedPages>,
    replayed: Option<Vec<Cells<FileMap>>>,
}

#[cfg(feature = "files")]
impl Opened {
    fn new(medium: &FileMedium, options: &ReadOptions) -> Result<Self> {
        let mut snapshot = Snapshot::read_once(medium)?;
        let Loaded { superblock, slot, .. } = &*snapshot.loaded;
        let hasher = superblock.hasher(options.key.as_ref())?;
        let segments = segments(superblock, slot, |geometry, offset| {
            map_segment(medium, geometry, offset, Mapping::ReadOnly)
        })?;
        let must_be_sound = must_be_sound(&snapshot, options);
        let mut checked = None;
        if must_be_sound || !options.trust {
            checked = Some(nothing_checked(&snapshot.loaded));
        }
        if let Some(checked) = checked.as_ref().filter(|_| must_be_sound) {
            check_all(medium, &snapshot, &segments, checked, true, false)?;
            refuse_damage(&snapshot.loaded, checked)?;
        }
        for segment in segments.all() {
            // Both stay in force: what is wanted now is read, what is missed later is not guessed.
            if options.warm_up {
                segment.advise(Usage::All);
            }
            segment.advise(Usage::LookUps);
        }
        let replayed = replay(medium, &mut snapshot, &segments)?;
        Ok(Opened { snapshot, hasher, segments, checked, replayed })
    }
}

/// Whether a file is refused unless every page is what was written: if that is asked for, or the
/// slots demand it. A clean slot beside a damaged one has to prove itself, because the damaged one
/// may be the newer (F-34).
fn must_be_sound(snapshot: &Snapshot, options: &ReadOptions) -> bool {
    options.verify || (snapshot.health == Health::Clean && snapshot.loaded.other_slot_damaged)
}

/// What is known of the pages of a file that was just opened: nothing.
fn nothing_checked(loaded: &Arc<Loaded>) -> CheckedPages {
    let Loaded { superblock, slot, .. } = &**loaded;
    let (geometry, offset) = region_places(superblock, slot)[0];
    let checker = PageChecker::new(Arc::clone(loaded));
    let checked = CheckedPages::new(checker, region_count(superblock), offset, geometry.pages());
    track(&checked, loaded);
    checked
}

/// Adds the regions that are there.
pub(super) fn track(checked: &CheckedPages, loaded: &Loaded) {
    let places = region_places(&loaded.superblock, &loaded.slot);
    for (region, (geometry, offset)) in places.into_iter().enumerate() {
        checked.add(region, offset, geometry.pages());
    }
}

/// An error if a listed segment has damaged pages.
fn refuse_damage(loaded: &Loaded, checked: &CheckedPages) -> Result<()> {
    let mut listed = loaded.slot.segments.iter().enumerate();
    listed.try_for_each(|(index, segment)| checked.refuse_damage(segment.region, index))
}

/// Checks every page of `segments`, which may be copies of the file; of a copy, pages that had to be
/// read again are brought up to date. With `until_damage`, damage ends it.
fn check_all(
    medium: &dyn ReadMedium,
    snapshot: &Snapshot,
    segments: &Segments,
    checked: &CheckedPages,
    until_damage: bool,
    copies: bool,
) -> Result<()> {
    let (journal, live) = (snapshot.journal.as_ref(), snapshot.health == Health::Live);
    for (index, record) in snapshot.loaded.slot.segments.iter().enumerate() {
        let data = segments.get(record.region);
        let extent = record.extent();
        let file = FilePages::new(medium, index, extent);
        let pages: &dyn Pages = if copies { data.words() } else { &file };
        let place = (&*snapshot.loaded, index);
        let renew = |page: u64, bytes: &[u8]| {
            if copies {
                for (at, word) in bytes.as_chunks().0.iter().enumerate() {
                    data.store(page as usize * PAGE_WORDS + at, u64::from_le_bytes(*word));
                }
            }
        };
        let check =
            check_segment_showing(medium, place, journal, live, pages, until_damage, renew)?;
        // Each time a page was read a slot came in between: nothing is known of it, and what has to be
        // sound, or stays as it is, is not taken so.
        if (until_damage || copies) && !check.busy.is_empty() {
            return Err(Error::Busy);
        }
        let exact = check.exact;
        let lost: BTreeSet<u64> = check.lost.into_iter().collect();
        let damaged = check.damaged.into_iter().map(|page| (page, Some(lost.contains(&page))));
        let others = check.unverifiable.into_iter().chain(check.busy).map(|page| (page, None));
        let doubtful: BTreeMap<u64, Option<bool>> = damaged.chain(others).collect();
        // Not so if damage ended it, or a rotation took the segment away.
        let all_judged = exact + doubtful.len() as u64 == extent.pages;
        for page in 0..extent.pages {
            let verdict = match doubtful.get(&page) {
                None if all_judged => Verdict::Exact,
                None => continue,
                Some(None) => Verdict::Unverifiable,
                Some(&Some(lost)) => Verdict::Damaged { lost },
            };
            checked.note(record.region, page, verdict);
        }
        if until_damage && checked.is_damaged() {
            break;
        }
    }
    Ok(())
}

/// Copies of the segments with the journal in them, newest first, unless the file has all of that.
///
/// Cells stay as they are under one slot, so that a file which has all of the journal once needs no
/// copy any more. A live writer writes a record just before its cells: they are waited for.
#[cfg(feature = "files")]
fn replay(
    medium: &FileMedium,
    snapshot: &mut Snapshot,
    segments: &Segments,
) -> Result<Option<Vec<Cells<FileMap>>>> {
    let Snapshot { loaded, health, journal, .. } = snapshot;
    let Some(journal) = journal else { return Ok(None) };
    let (superblock, slot) = (&loaded.superblock, &loaded.slot);
    for tries_left in (0..LIVE_TRIES).rev() {
        let mut changes = slot.segments.iter().zip(&journal.changes);
        if changes.all(|(segment, changes)| changes.are_in(segments.get(segment.region))) {
            return Ok(None);
        }
        if *health != Health::Live || tries_left == 0 {
            break;
        }
        std::thread::sleep(PAUSE);
        // Counters may have changed again since.
        let again = JournalContents::read(medium, superblock, slot)?;
        if load(medium)?.signature != loaded.signature {
            // What the slots describe now is in the file.
            return Ok(None);
        }
        *journal = again;
    }
    let copies = slot.segments.iter().zip(&journal.changes).rev().map(|(record, changes)| {
        let copy = map_segment(medium, record.geometry, record.offset, Mapping::Private)?;
        changes.apply_private(&copy);
        Ok(copy)
    });
    copies.collect::<Result<_>>().map(Some)
}

/// Whether the segments that a copy was made of were all in use until it was done: a region that a
/// rotation drops may be cleared, and take other keys (F-106).
fn still_listed(medium: &dyn ReadMedium, copied: &Loaded) -> bool {
    let Shape::Rotating(generations) = copied.superblock.shape() else { return true };
    // A slot in the middle of being written.
    let Ok(Loaded { slot: now, .. }) = load(medium) else { return false };
    let same = now.segments.len() == copied.slot.segments.len()
        && now.segments.iter().zip(&copied.slot.segments).all(|(a, b)| a.offset == b.offset);
    // After as many rotations as there are regions the list is the same again.
    let turns = now.sequence.checked_sub(copied.slot.sequence);
    same && turns.is_some_and(|turns| turns <= generations)
}

//! How a "no" becomes certain: the pages that it rests on are checked, and the slots are the same
//! after the look-up as before.

use std::sync::atomic::{Ordering, fence};

use super::Reader;
use super::checked::{CheckedPages, ReaderStats};
#[cfg(feature = "files")]
use super::open::track;
#[cfg(feature = "files")]
use super::watch::Watch;
use crate::error::{Error, Result};
use crate::file::{PAGE_WORDS, SlotSignature};
#[cfg(feature = "files")]
use crate::file::{PAUSE, TRIES, load, map_segment};
#[cfg(feature = "files")]
use crate::format::Shape;
#[cfg(feature = "files")]
use crate::kernel::Active;
use crate::kernel::Cells;
use crate::storage::{FileMap, Map};
#[cfg(feature = "files")]
use crate::storage::{Mapping, unpoisoned};

/// How often a look-up starts over because a slot was written while it went on, before it says
/// "maybe".
#[cfg(feature = "files")]
pub(super) const LOOK_UPS: u32 = 100;

/// Hashes of a batch that are asked of one segment after the other.
const PIECE: usize = 256;

/// Whether two signatures are the same.
#[inline(always)]
pub(super) fn are_same([[a, b], [c, d]]: SlotSignature, [[e, f], [g, h]]: SlotSignature) -> bool {
    (a ^ e) | (b ^ f) | (c ^ g) | (d ^ h) == 0
}

impl Reader {
    /// Whether the only segment has all cells of a hash on one page, which is known to be what was
    /// written.
    #[inline]
    pub(super) fn is_on_checked_page(&self, hash: u64) -> bool {
        let Some(checked) = &self.checked else { return true };
        self.segments.first.only_page(hash).is_some_and(|page| checked.is_first_checked(page))
    }

    /// Whether a "no" of the only segment rests on a page that is what was written; pages are checked
    /// that were not yet.
    #[inline(never)]
    pub(super) fn make_certain(&self, hash: u64) -> bool {
        let Some(checked) = &self.checked else { return true };
        let first = &self.segments.first;
        first.any_off(hash, |page| checked.is_first_checked(page))
            || self.check_off(checked, 0, first, hash).is_ok()
    }

    /// Checks the pages on which a "no" may rest, until one is what was written.
    #[cold]
    fn check_off(
        &self,
        checked: &CheckedPages,
        region: usize,
        cells: &Cells<FileMap>,
        hash: u64,
    ) -> Result<()> {
        // Cells that are all on by now were turned on since.
        let mut doubt = Error::Busy;
        let certain = cells.any_off(hash, |page| {
            checked.is_checked(region, page)
                || self.check_page(checked, region, page).map_err(|error| doubt = error).is_ok()
        });
        if certain { Ok(()) } else { Err(doubt) }
    }

    /// An error unless a page is what was written. Copies in memory were checked when they were made.
    #[cfg(feature = "files")]
    fn check_page(&self, checked: &CheckedPages, region: usize, page: u64) -> Result<()> {
        let (Some(watch), Some(medium)) = (&self.watch, &self.file) else {
            return checked.known(region, page);
        };
        let words = self.segments.get(region).words();
        let result = checked.check(medium, || watch.signature(), words, region, page);
        if self.segments.order().all(|region| checked.is_complete_in(region)) {
            // Unless another segment has come by now, which is not checked.
            let _refresh = unpoisoned(&watch.refresh);
            let complete = self.segments.order().all(|region| checked.is_complete_in(region));
            if complete && watch.signature() == watch.seen() {
                self.trust_all_pages();
            }
        }
        result
    }

    #[cfg(not(feature = "files"))]
    fn check_page(&self, checked: &CheckedPages, region: usize, page: u64) -> Result<()> {
        checked.known(region, page)
    }

    /// Whether a hash may be in, or why that cannot be told.
    #[cfg(not(feature = "files"))]
    pub(super) fn answer(&self, hash: u64) -> Result<bool> {
        self.answer_now(hash, None)
    }

    /// Whether a hash may be in, or why that cannot be told.
    #[cfg(feature = "files")]
    pub(super) fn answer(&self, hash: u64) -> Result<bool> {
        let Some(watch) = self.watch.as_ref().filter(|_| !self.simple) else {
            return self.answer_now(hash, None);
        };
        let mut doubt = Error::Busy;
        for _ in 0..LOOK_UPS {
            let signature = watch.signature();
            if !watch.is_seen(signature) {
                self.refresh(watch)?;
                continue;
            }
            let copies = self.replayed.as_ref().filter(|_| signature == watch.opened);
            let answer = self.answer_now(hash, copies.map(Vec::as_slice));
            // Who has seen a word of a region that was cleared sees the slot that dropped it.
            fence(Ordering::Acquire);
            match answer {
                Ok(false) | Err(_) if watch.signature() != signature => {}
                Err(Error::Busy) => doubt = Error::Busy,
                answer => return answer,
            }
        }
        Err(doubt)
    }

    /// As [`answer`](Self::answer), whatever the slots say afterwards.
    fn answer_now(&self, hash: u64, copies: Option<&[Cells<FileMap>]>) -> Result<bool> {
        // A live writer's keys are in the file; those of one that recovers come into it only by and
        // by, and are in the copies until then.
        let mut copies = copies.into_iter().flatten();
        let mut doubt = Ok(());
        // All at once: a few segments take little longer than the slowest of them.
        if self.segments() > 1 {
            self.segments.newest_first().for_each(|cells| cells.prefetch(hash));
        }
        for (back, region) in self.segments.order().enumerate() {
            let cells = self.segments.get(region);
            let copy = copies.next();
            if cells.contains(hash) || copy.is_some_and(|copy| copy.contains(hash)) {
                return Ok(true);
            }
            if let Some(checked) = self.checked.as_ref().filter(|all| !all.is_complete_in(region)) {
                for cells in [Some(cells), copy].into_iter().flatten() {
                    if !cells.any_off(hash, |page| checked.is_checked(region, page)) {
                        let checked = self.check_off(checked, region, cells, hash);
                        doubt = doubt.and(checked.map_err(|error| self.number(error, back)));
                    }
                }
            }
        }
        doubt.map(|()| false)
    }

    /// The short way of a look-up, when all pages are known to be what was written; none where there
    /// is more to be done.
    #[inline(always)]
    pub(super) fn answer_checked(&self, hash: u64) -> Option<bool> {
        // First the segments, then whether their pages are checked: `refresh` takes that back before it
        // names others.
        let turn = self.segments.turn();
        if !self.all_checked.load(Ordering::Acquire)
            || self.replayed.is_some() && self.signature()?.1
        {
            return None;
        }
        if self.segments.contains_at(turn, hash) {
            return Some(true);
        }
        // As for any look-up. The segments are those of the slots that were seen last, and these are
        // the ones in the file: in this order, because who reads other slots names their segments
        // before it says that they were seen.
        fence(Ordering::Acquire);
        (self.signature().is_some() && self.segments.turn() == turn).then_some(false)
    }

    /// A batch in several segments: each segment is asked for all of them, with the memory of later
    /// ones asked for ahead, and what is left in doubt is asked one by one.
    #[inline(never)]
    pub(super) fn answer_batch_in_segments(
        &self,
        mut hash: impl FnMut(usize) -> u64,
        found: &mut [bool],
    ) {
        let mut hashes = [0; PIECE];
        for (piece, found) in found.chunks_mut(PIECE).enumerate() {
            let hashes = &mut hashes[..found.len()];
            for (at, place) in hashes.iter_mut().enumerate() {
                *place = hash(piece * PIECE + at);
            }
            let mut doubtful = [true; PIECE];
            self.answer_piece(hashes, found, &mut doubtful[..hashes.len()]);
            for ((found, &hash), &doubtful) in found.iter_mut().zip(&*hashes).zip(&doubtful) {
                if doubtful && !*found {
                    *found = self.answer(hash).unwrap_or(true);
                }
            }
        }
    }

    /// What the segments hold of some hashes; a "no" that is not `doubtful` is certain.
    fn answer_piece(&self, hashes: &[u64], found: &mut [bool], doubtful: &mut [bool]) {
        found.fill(false);
        let (signature, copies) = match self.signature() {
            Some((signature, false)) => (signature, None),
            Some((signature, true)) => (signature, self.replayed.as_deref()),
            // The slots have changed, and are to be read first.
            None => return,
        };
        let mut copies = copies.into_iter().flatten();
        let mut here = [false; PIECE];
        let here = &mut here[..hashes.len()];
        doubtful.fill(false);
        for region in self.segments.order() {
            for cells in [Some(self.segments.get(region)), copies.next()].into_iter().flatten() {
                cells.contains_batch(|at| hashes[at], here);
                found.iter_mut().zip(&*here).for_each(|(found, &here)| *found |= here);
                let unchecked = self.checked.as_ref().filter(|all| !all.is_complete_in(region));
                let Some(checked) = unchecked else { continue };
                for ((doubtful, &hash), &here) in doubtful.iter_mut().zip(hashes).zip(&*here) {
                    *doubtful |=
                        !here && !cells.any_off(hash, |page| checked.is_checked(region, page));
                }
            }
        }
        // As for a single look-up.
        fence(Ordering::Acquire);
        if self.signature().is_none_or(|(now, _)| now != signature) {
            doubtful.fill(true);
        }
    }

    /// The slots' signature, and whether copies of what a journal said have a say under it; none if
    /// the slots are to be read again.
    #[cfg(feature = "files")]
    #[inline(always)]
    fn signature(&self) -> Option<(SlotSignature, bool)> {
        let Some(watch) = &self.watch else { return Some(Default::default()) };
        let signature = watch.signature();
        watch.is_seen(signature).then(|| (signature, are_same(signature, watch.opened)))
    }

    #[cfg(not(feature = "files"))]
    fn signature(&self) -> Option<(SlotSignature, bool)> {
        Some(Default::default())
    }

    /// Names the segment of a damaged page by its place in the slot's list, where it was asked after
    /// that number of others.
    fn number(&self, error: Error, back: usize) -> Error {
        match error {
            Error::Damaged { count, page, lost, .. } => {
                let segment = (self.segments().saturating_sub(1 + back)) as u32;
                Error::Damaged { count, segment, page, lost }
            }
            error => error,
        }
    }

    /// An error if one of the pages of a hash is damaged; all of them are checked.
    pub(super) fn check_on(&self, region: usize, cells: &Cells<FileMap>, hash: u64) -> Result<()> {
        let Some(checked) = &self.checked else { return Ok(()) };
        let mut result = Ok(());
        cells.any_page(hash, |page| {
            if !checked.is_checked(region, page) {
                result = self.check_page(checked, region, page);
            }
            result.is_err()
        });
        result
    }

    /// As [`contains`](Self::contains), with an error where damage keeps that from being told: it
    /// names the file and the page.
    ///
    /// A reader checks a page when an answer first rests on it. [`contains`](Self::contains) says
    /// "maybe" for every key of a damaged page, so that a "no" is always right.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::{Error, Options, Reader, report::Health};
    ///
    /// let filter = Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
    /// filter.add(b"sheep")?;
    /// filter.close()?;
    /// // The only page is lost:
    /// let mut bytes = std::fs::read(&path).unwrap();
    /// let end = bytes.len();
    /// bytes[end - 4096..].fill(0);
    /// std::fs::write(&path, bytes).unwrap();
    ///
    /// let reader = Reader::open(&path)?;
    /// assert!(reader.contains(b"sheep"));
    /// let error = reader.try_contains(b"sheep").unwrap_err();
    /// assert!(matches!(error.cause(), Error::Damaged { page: 0, .. }));
    /// assert_eq!(error.path(), Some(&*path));
    /// assert_eq!(reader.health(), Health::Damaged);
    /// assert_eq!(reader.stats().pages_damaged, 1);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn try_contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.try_contains_hash(self.hasher.hash(key))
    }

    /// As [`try_contains`](Self::try_contains), for a hash.
    pub fn try_contains_hash(&self, hash: u64) -> Result<bool> {
        self.answer_on_sound_pages(hash).map_err(|error| self.blame(error))
    }

    /// Whether a hash may be in, by pages that are what was written.
    fn answer_on_sound_pages(&self, hash: u64) -> Result<bool> {
        if !self.answer(hash)? {
            return Ok(false);
        }
        let mut doubt = Ok(());
        for (back, region) in self.segments.order().enumerate() {
            let cells = self.segments.get(region);
            match self.check_on(region, cells, hash) {
                Ok(()) if cells.contains(hash) => return Ok(true),
                Ok(()) => {}
                Err(error) => doubt = doubt.and(Err(self.number(error, back))),
            }
        }
        doubt.map(|()| true)
    }

    /// The damage that was found so far, as an error that names the file and the first page.
    pub fn damage(&self) -> Option<Error> {
        let checked = self.checked.as_ref()?;
        let regions: Vec<usize> = self.segments.order().collect();
        let damage = |(index, &region)| checked.refuse_damage(region, index).err();
        regions.iter().rev().enumerate().find_map(damage).map(|error| self.blame(error))
    }

    /// What became of the pages that answers rested on.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # bloomfile::Options::new().capacity(999).false_positive_rate(0.1).create(&path)?.close()?;
    /// let reader = bloomfile::Reader::open(&path)?;
    /// assert_eq!(reader.stats().pages_checked, 0);
    /// assert!(!reader.contains(b"sheep"));
    /// assert_eq!((reader.stats().pages_checked, reader.stats().pages), (1, 1));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn stats(&self) -> ReaderStats {
        let stats = match &self.checked {
            Some(checked) => checked.stats(self.segments.order()),
            None => ReaderStats { pages: self.pages(), ..ReaderStats::default() },
        };
        let pages_kept_unverified = self.snapshot.loaded.slot.unverifiable_pages;
        ReaderStats { pages_kept_unverified, ..stats }
    }

    /// Data pages in the segments in use.
    fn pages(&self) -> u64 {
        let pages = |cells: &Cells<FileMap>| (cells.words().len() / PAGE_WORDS) as u64;
        self.segments.newest_first().map(pages).sum()
    }

    /// Reads the slots again after a writer wrote one: it may list another segment.
    #[cfg(feature = "files")]
    #[cold]
    pub(super) fn refresh(&self, watch: &Watch) -> Result<()> {
        let Some(medium) = &self.file else { return Ok(()) };
        let mut unreadable = unpoisoned(&watch.refresh);
        if watch.signature() == watch.seen() {
            return Ok(());
        }
        // Slots that could not be read are read once more, and not as often for every look-up.
        let mut tries = if *unreadable == Some(watch.signature()) { 0 } else { TRIES };
        let loaded = loop {
            let loaded = load(medium).and_then(|loaded| {
                // A slot in the middle of being written looks damaged.
                if loaded.other_slot_damaged { Err(Error::Busy) } else { Ok(loaded) }
            });
            match loaded {
                Ok(loaded) => break loaded,
                Err(error) if tries == 0 => {
                    *unreadable = Some(watch.signature());
                    return Err(error);
                }
                Err(_) => {
                    tries -= 1;
                    std::thread::sleep(PAUSE);
                }
            }
        };
        let (superblock, slot) = (&loaded.superblock, &loaded.slot);
        if superblock.shape() == Shape::Growing {
            for (region, record) in slot.segments.iter().enumerate() {
                if self.segments.region(region).is_none() {
                    let (geometry, offset) = (record.geometry, record.offset);
                    let segment = map_segment(medium, geometry, offset, Mapping::ReadOnly)?;
                    self.segments.add(region, segment);
                }
            }
        }
        let active = Active::of(slot);
        let others = match superblock.shape() {
            Shape::Rotating(generations) => watch.may_have_come_round(slot, generations),
            _ => false,
        };
        if let Some(checked) = &self.checked
            && (others || active != self.segments.active())
        {
            self.all_checked.store(false, Ordering::Release);
            match superblock.shape() {
                Shape::Rotating(_) => checked.forget(),
                _ => track(checked, &loaded),
            }
        }
        self.segments.activate(active);
        watch.see(&loaded);
        Ok(())
    }
}

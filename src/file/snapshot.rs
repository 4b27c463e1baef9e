//! A file as a reader finds it: headers, health, journal, and how full its page tables say it is.

use std::sync::Arc;
use std::time::Duration;

use super::changes::Changes;
use super::load::{Loaded, load, visit_table};
use super::pages::FilePages;
use super::replay::JournalContents;
use super::scan::{PageCheck, check_segment};
use crate::error::{Error, Result};
use crate::format::{JOURNAL_OFFSET, PageEntry, SLOT_OFFSETS, SegmentRecord, State};
use crate::geometry::Geometry;
use crate::plan::Occupancy;
use crate::storage::ReadMedium;

/// How often headers are read again because a writer changed them while they were read, and how long
/// apart.
pub(crate) const TRIES: u32 = 50;
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// The state in which a reader finds a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Health {
    /// Closed in good order.
    Clean,
    /// Being written by a process right now.
    Live,
    /// Its writer did not get to close it; the next one recovers it.
    Crashed,
    /// A [`Reader`](crate::Reader) came upon pages that are not what was written.
    Damaged,
}

impl Health {
    /// One sentence on what that means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Health::Clean => "closed in good order",
            Health::Live => "being written by another process right now",
            Health::Crashed => {
                "left open by a writer that crashed; opening it for writing recovers it"
            }
            Health::Damaged => {
                "has damaged pages, for which every answer is \"maybe\"; restore the file from a copy, or run repair"
            }
        }
    }
}

/// A file as a reader finds it.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) health: Health,
    /// What the journal says of an open file, whether a writer has it or had it. `None` as well where
    /// slots were written while it was read: the data are complete then.
    pub(crate) journal: Option<JournalContents>,
    /// What the page table of each segment counts.
    pub(crate) occupancy: Vec<Occupancy>,
    /// The same with what the journal says has changed since.
    pub(crate) journalled: Vec<Occupancy>,
}

impl Snapshot {
    /// Reads headers, journal and page tables, and tells a live writer from a crashed one.
    ///
    /// A writer may change slots and tables at the same time, so that what is read does not fit
    /// together: then the file is read again.
    pub(crate) fn read(medium: &dyn ReadMedium) -> Result<Self> {
        retry_torn(medium, || Self::read_once(medium))
    }

    /// As [`read`](Self::read), once: what a writer changes at the same time is a torn error.
    pub(crate) fn read_once(medium: &dyn ReadMedium) -> Result<Self> {
        let headers = Headers::read(medium)?;
        let mut counts = Vec::new();
        for (index, segment) in headers.loaded.slot.segments.iter().enumerate() {
            let mut count = headers.count(index);
            visit_table(medium, segment, |entry| count.add(&headers, entry))?;
            counts.push(count.finish(&headers));
        }
        Ok(headers.with_counts(counts))
    }

    /// The mark that was last synced.
    pub(crate) fn mark(&self) -> u64 {
        let journal = self.journal.as_ref().and_then(|journal| journal.mark);
        journal.unwrap_or(self.loaded.slot.mark)
    }

    /// Holds every page against its table and the journal: one check for each segment.
    pub(crate) fn check_pages(&self, medium: &dyn ReadMedium) -> Result<Vec<PageCheck>> {
        let (journal, live) = (self.journal.as_ref(), self.health == Health::Live);
        let check = |(index, record): (usize, &SegmentRecord)| {
            let pages = FilePages::new(medium, index, record.extent());
            check_segment(medium, (&self.loaded, index), journal, live, &pages)
        };
        self.loaded.slot.segments.iter().enumerate().map(check).collect()
    }
}

/// Reads something until it fits together, or until the slots stay as they are and no writer has the
/// file: then it never will.
pub(crate) fn retry_torn<T>(
    medium: &dyn ReadMedium,
    mut read: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut tries = TRIES;
    loop {
        let before = slot_bytes(medium);
        let result = read();
        let torn = result.as_ref().is_err_and(Error::is_torn);
        // A writer may also have come, torn this and gone.
        let moved = torn && (before != slot_bytes(medium) || is_locked(medium)?);
        if !moved || tries == 0 {
            return result;
        }
        tries -= 1;
        std::thread::sleep(PAUSE);
    }
}

/// The bytes of both slots, if they can be read.
fn slot_bytes(medium: &dyn ReadMedium) -> Option<Vec<u8>> {
    let mut bytes = vec![0; (JOURNAL_OFFSET - SLOT_OFFSETS[0]) as usize];
    medium.read_at(&mut bytes, SLOT_OFFSETS[0]).ok().map(|()| bytes)
}

/// Headers and journal, as far as they belong together.
pub(crate) struct Headers {
    pub(crate) loaded: Loaded,
    pub(crate) health: Health,
    pub(crate) journal: Option<JournalContents>,
}

/// How full a segment is, by the entries of its page table.
pub(crate) struct TableCount {
    /// The segment's place in the slot's list.
    index: usize,
    geometry: Geometry,
    tabled: Occupancy,
    changed: Occupancy,
    page: u64,
}

impl TableCount {
    /// Takes in the entry of the next page of a file with these headers.
    pub(crate) fn add(&mut self, headers: &Headers, entry: PageEntry) {
        let TableCount { geometry, page, .. } = *self;
        self.tabled.add_entry(&geometry, page, entry.ones, entry.crc);
        if let Some(changes) = headers.changes(self.index) {
            let ones = i64::from(entry.ones) + changes.page(page).gained();
            // A file may name cells that are on already: no page has more than all.
            let ones = ones.clamp(0, geometry.page_cells(page) as i64);
            self.changed.add(&geometry, page, ones as u32);
        }
        self.page += 1;
    }

    /// What the table counts, and the same with what the journal says has changed since.
    pub(crate) fn finish(self, headers: &Headers) -> [Occupancy; 2] {
        match headers.changes(self.index) {
            Some(_) => [self.tabled, self.changed],
            None => [self.tabled.clone(), self.tabled],
        }
    }
}

/// How often slots and journal are read again because a slot was written in between.
const JOURNAL_TRIES: u32 = 5;

impl Headers {
    /// Nothing counted yet of the segment with this place in the slot's list.
    pub(crate) fn count(&self, index: usize) -> TableCount {
        let geometry = self.loaded.slot.segments[index].geometry;
        let (tabled, changed) = (Occupancy::new(&geometry), Occupancy::new(&geometry));
        TableCount { index, geometry, tabled, changed, page: 0 }
    }

    /// What the journal of an open file changes in a segment.
    fn changes(&self, index: usize) -> Option<&Changes> {
        self.journal.as_ref().map(|journal| &journal.changes[index])
    }

    /// The snapshot that these headers are part of, with what each table counts.
    pub(crate) fn with_counts(self, counts: Vec<[Occupancy; 2]>) -> Snapshot {
        let Headers { loaded, health, journal } = self;
        let (mut occupancy, mut journalled): (Vec<_>, Vec<_>) =
            counts.into_iter().map(<(_, _)>::from).unzip();
        // Programs have thousands of files open.
        [&mut occupancy, &mut journalled].into_iter().for_each(Vec::shrink_to_fit);
        Snapshot { loaded: Arc::new(loaded), health, journal, occupancy, journalled }
    }

    /// Reads the headers and, of an open file, the journal. Whether a lock is held says what the file
    /// is called and nothing else: a writer that recovers holds one before the data are complete, and
    /// so may any program that can read the file (F-107).
    pub(crate) fn read(medium: &dyn ReadMedium) -> Result<Self> {
        for _ in 0..JOURNAL_TRIES {
            let loaded = load(medium)?;
            if loaded.slot.state == State::Clean {
                return Ok(Headers { loaded, health: Health::Clean, journal: None });
            }
            // After the slots, and before they are looked at once more: the writer of an open slot
            // that counts before and after this holds its lock in between, unless it has ended.
            let locked = is_locked(medium)?;
            let read = || JournalContents::read(medium, &loaded.superblock, &loaded.slot);
            let mut journal = read()?;
            // A writer fills records while they are read, so that some seem to be missing in front of
            // a sync that came later. What had been synced is in front of all those, and is missing
            // the second time as well (F-91).
            let hole = journal.hole;
            if hole.is_some() {
                journal = read()?;
            }
            if load(medium)?.signature != loaded.signature {
                continue;
            }
            if journal.hole == hole {
                journal.refuse_hole()?;
            }
            let health = if locked { Health::Live } else { Health::Crashed };
            return Ok(Headers { loaded, health, journal: Some(journal) });
        }
        // Slots that move on all the time are a live writer's, and its data are complete.
        let loaded = load(medium)?;
        let health = if loaded.slot.state == State::Clean { Health::Clean } else { Health::Live };
        Ok(Headers { loaded, health, journal: None })
    }
}

/// Whether a writer has the file.
pub(crate) fn is_locked(medium: &dyn ReadMedium) -> Result<bool> {
    medium.is_locked().map_err(Error::io("ask for a lock on the file"))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::storage::Bytes;

    const CRASHED: Bytes<'_> = Bytes(include_bytes!("../../tests/golden/crashed.bloom"));

    /// A file that a writer takes after a reader asked for the lock, if it did so before it read the
    /// slots.
    struct Taken(AtomicBool);

    impl ReadMedium for Taken {
        fn length(&self) -> io::Result<u64> {
            CRASHED.length()
        }

        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
            self.0.store(true, Ordering::Relaxed);
            CRASHED.read_at(bytes, offset)
        }

        fn is_locked(&self) -> io::Result<bool> {
            Ok(self.0.load(Ordering::Relaxed))
        }
    }

    /// Who takes a file for crashed believes that its journal explains all there will be under its
    /// slots.
    #[test]
    fn f107_a_writer_that_comes_while_headers_are_read_is_seen() {
        let headers = Headers::read(&Taken(AtomicBool::new(false))).unwrap();
        assert_eq!(headers.health, Health::Live);
        assert_eq!(Headers::read(&CRASHED).unwrap().health, Health::Crashed);
    }
}

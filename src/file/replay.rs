//! What the journal of a crashed file says (F-90, F-91, F-98).

use std::io::ErrorKind;

use super::changes::Changes;
use super::epoch::epoch_of;
use crate::error::{Error, Result};
use crate::format::{
    CounterChange, Epoch, FULL_RECORD, GROUP_NUMBERS, GroupRecord, JOURNAL_OFFSET, RECORD_BYTES,
    RECORD_WORDS, Record, Slot, State, Superblock,
};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};
use crate::storage::ReadMedium;

/// The journal's records, and what they change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JournalContents {
    /// Records that are replayed.
    pub(crate) keys: u64,
    /// The mark of the last sync record with nothing missing in front of it, if there is one.
    pub(crate) mark: Option<u64>,
    /// For each segment of the slot, what is changed in it.
    pub(crate) changes: Vec<Changes>,
    /// The first record that had been synced and cannot be read.
    pub(crate) hole: Option<u64>,
    /// Records missing among those that had not been synced.
    pub(crate) missing: u64,
    /// Records from the first to the last that can be read.
    pub(crate) extent: u64,
    /// Adds may have gone unlogged, because there was no room (F-78) or there is no journal.
    pub(crate) full: bool,
}

impl JournalContents {
    /// Reads the journal's records of the epoch of `slot`.
    pub(crate) fn read(
        medium: &dyn ReadMedium,
        superblock: &Superblock,
        slot: &Slot,
    ) -> Result<Self> {
        Self::read_mending(medium, superblock, slot, |_, _, _| None)
    }

    /// As [`read`](Self::read); words that are no record are shown to `mend`, which may know the
    /// record they were.
    pub(crate) fn read_mending(
        medium: &dyn ReadMedium,
        superblock: &Superblock,
        slot: &Slot,
        mut mend: impl FnMut(Epoch, u32, [u64; RECORD_WORDS]) -> Option<Record>,
    ) -> Result<Self> {
        let epoch = epoch_of(medium, superblock, slot);
        let mut groups = Groups::default();
        let mut replay = Replay::new(superblock, slot);
        let full_record = superblock.full_record();
        let mut full = superblock.journal_bytes == 0;
        let counting = superblock.cells == CellKind::Counting;
        let mut take = |index: u32, words| -> Result<bool> {
            let bad = || Error::Journal { index: index.into() };
            if full_record == Some(index.into()) {
                let record = epoch.decode(index, words);
                if record.is_some_and(|record| record != FULL_RECORD) {
                    return Err(bad());
                }
                full = record.is_some();
                groups.follow(full);
                return Ok(full);
            }
            let record = epoch.decode(index, words).or_else(|| mend(epoch, index, words));
            let known = match record {
                Some(record) if counting => Some(GroupRecord::of(record).ok_or_else(bad)?),
                _ => None,
            };
            groups.take(u64::from(index), record, known);
            if let Some(record) = record {
                replay
                    .take(index, record, known, groups.first_missing.is_none())
                    .ok_or_else(bad)?;
            }
            Ok(record.is_some())
        };
        let end = JOURNAL_OFFSET + superblock.journal_bytes;
        let mut last_is_there = false;
        visit_records(medium, JOURNAL_OFFSET..end, 0, |index, words| {
            last_is_there = take(index, words)?;
            Ok(true)
        })?;
        // Records that found no room stand behind the end of the file (F-79): without those in front
        // of them no group is complete, so that the first one that is missing ends them.
        let capacity = (superblock.journal_bytes / RECORD_BYTES as u64) as u32;
        let length = medium.length().map_err(Error::io("tell the length of the file"))?;
        if counting && slot.state == State::Open && length > slot.file_bytes && last_is_there {
            visit_records(medium, slot.file_bytes..length, capacity, &mut take)?;
        }
        let (keys, changes) = replay.finish()?;
        Ok(JournalContents {
            keys,
            mark: groups.mark,
            changes,
            hole: groups.hole,
            missing: groups.missing_before_last,
            extent: groups.extent,
            full,
        })
    }

    /// The error that a hole in the synced part of the journal is.
    pub(crate) fn refuse_hole(&self) -> Result<()> {
        match self.hole {
            Some(index) => Err(Error::Journal { index }),
            None => Ok(()),
        }
    }
}

/// Shows the records that stand in a range of the file, numbered from `first`, until `take` says that
/// it is enough.
fn visit_records(
    medium: &dyn ReadMedium,
    range: std::ops::Range<u64>,
    first: u32,
    mut take: impl FnMut(u32, [u64; RECORD_WORDS]) -> Result<bool>,
) -> Result<()> {
    const CHUNK: u64 = 1 << 20;
    let length = (range.end - range.start) / PAGE_BYTES * PAGE_BYTES;
    let mut bytes = vec![0; CHUNK.min(length) as usize];
    let mut index = first;
    for start in (0..length).step_by(CHUNK as usize) {
        let chunk = &mut bytes[..CHUNK.min(length - start) as usize];
        match medium.read_at(chunk, range.start + start) {
            // A live writer has taken away what stood behind the end of its file.
            Err(error) if first > 0 && error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            result => result.map_err(Error::io("read the journal"))?,
        }
        for record in chunk.chunks_exact(RECORD_BYTES) {
            let words = [0, 8]
                .map(|at| u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default()));
            if !take(index, words)? {
                return Ok(());
            }
            let Some(next) = index.checked_add(1) else { return Ok(()) };
            index = next;
        }
    }
    Ok(())
}

/// Gathers what records change.
enum Replay<'a> {
    /// Every key record counts, synced or not: its cells may be in the data.
    Plain {
        geometry: &'a Geometry,
        bits: Changes,
        keys: u64,
        /// The last key record: one that is equal to it repeats it, and counts once (F-77).
        last: Option<Record>,
        segments: usize,
    },
    /// Only complete groups count: what is not durable never was in the data.
    Counting {
        slot: &'a Slot,
        /// Changes of groups with nothing missing in front of them, each with the number of its
        /// record, in their order.
        cells: Vec<(u32, CounterChange)>,
        /// How many of them are in groups that a sync record has closed.
        closed: usize,
    },
}

impl<'a> Replay<'a> {
    fn new(superblock: &Superblock, slot: &'a Slot) -> Self {
        let segments = slot.segments.len();
        match superblock.cells {
            CellKind::Plain => Replay::Plain {
                geometry: &slot.segments[segments - 1].geometry,
                bits: Changes::default(),
                keys: 0,
                last: None,
                segments,
            },
            CellKind::Counting => Replay::Counting { slot, cells: Vec::new(), closed: 0 },
        }
    }

    /// Takes a record; `complete` when none is missing in front of it. `None` if the record names
    /// a cell that is not there.
    fn take(
        &mut self,
        index: u32,
        record: Record,
        known: Option<GroupRecord>,
        complete: bool,
    ) -> Option<()> {
        let is_sync = known.is_some_and(|known| known.mark.is_some());
        match (self, record) {
            (Replay::Counting { cells, closed, .. }, _) if is_sync => {
                if complete {
                    *closed = cells.len();
                }
            }
            (Replay::Plain { geometry, bits, keys, last, .. }, Record::Key { hash, mask }) => {
                if last.replace(record) == Some(record) {
                    return Some(());
                }
                *keys += 1;
                let rows = (0..geometry.row_count()).filter(|row| mask >> row & 1 == 1);
                rows.for_each(|row| bits.push_bit(geometry.address(hash, row)));
            }
            (Replay::Counting { slot, cells, .. }, Record::Key { hash, mask }) => {
                let change = CounterChange::decode(hash, mask);
                let geometry = &slot.segments.get(change.segment)?.geometry;
                // A cell that no key reaches would count among the ones (F-75).
                (geometry.is_usable(change.address) && change.old != change.new).then_some(())?;
                // Behind a missing record no group is complete any more.
                if complete {
                    cells.push((index, change));
                }
            }
            (_, Record::Sync { .. }) => {}
        }
        Some(())
    }

    /// How many records count, and what they change in each segment.
    fn finish(self) -> Result<(u64, Vec<Changes>)> {
        match self {
            Replay::Plain { mut bits, keys, segments, .. } => {
                let mut changes = vec![Changes::default(); segments];
                bits.sort();
                changes[segments - 1] = bits;
                Ok((keys, changes))
            }
            Replay::Counting { slot, mut cells, closed } => {
                cells.truncate(closed);
                let mut changes = vec![Changes::of_counters(); slot.segments.len()];
                // Of one cell's records, the first has its old value and the last its new one.
                let cell = |change: &CounterChange| (change.segment, change.address);
                cells.sort_by_key(|(_, change)| cell(change));
                for same in cells.chunk_by(|(_, a), (_, b)| cell(a) == cell(b)) {
                    // Each goes on from the one before it (F-98).
                    let broken = same.windows(2).find(|pair| pair[0].1.new != pair[1].1.old);
                    if let Some(&[_, (index, _)]) = broken {
                        return Err(Error::Journal { index: index.into() });
                    }
                    let ((_, first), (_, last)) = (same[0], same[same.len() - 1]);
                    changes[first.segment].push_counter(first.address, first.old, last.new);
                }
                Ok((closed as u64, changes))
            }
        }
    }
}

/// The order of records: which of the missing ones must have been durable (F-91).
#[derive(Default)]
struct Groups {
    mark: Option<u64>,
    /// First missing record, and how many are missing, so far.
    first_missing: Option<u64>,
    missing: u64,
    /// How many were missing when the last valid record was met: what is missing behind it is free
    /// space.
    missing_before_last: u64,
    /// Records up to and with the last valid one.
    extent: u64,
    /// First missing record in front of the last sync record.
    open_hole: Option<u64>,
    /// First missing record in a group whose sync had returned.
    hole: Option<u64>,
    /// The group that the next record of a counting file belongs to.
    group: u32,
}

impl Groups {
    /// If a record stands behind the last sync record, that sync had returned: nothing in front of
    /// it may be missing.
    fn follow(&mut self, record: bool) {
        if record && self.hole.is_none() {
            self.hole = self.open_hole;
        }
    }

    /// Takes a record; those of a counting file say which group they are of.
    fn take(&mut self, index: u64, record: Option<Record>, known: Option<GroupRecord>) {
        let Some(record) = record else {
            self.first_missing.get_or_insert(index);
            self.missing += 1;
            return;
        };
        self.follow(true);
        if let Some(known) = known {
            // A later group has begun, so the sync record of the one before it was durable.
            if known.group != self.group && self.hole.is_none() {
                self.hole = self.first_missing.or(Some(index));
            }
            self.group = known.group;
        }
        self.missing_before_last = self.missing;
        self.extent = index + 1;
        let mark = match (known, record) {
            (Some(known), _) => known.mark,
            (None, Record::Sync { mark }) => Some(mark),
            (None, Record::Key { .. }) => None,
        };
        if let Some(mark) = mark {
            self.group = (self.group + 1) % GROUP_NUMBERS;
            // A mark without all of its keys would promise what was lost (F-96).
            if self.first_missing.is_none() {
                self.mark = Some(mark);
            }
            self.open_hole = self.first_missing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Option<Record> = Some(Record::Key { hash: 1, mask: 1 });

    fn sync(mark: u64) -> Option<Record> {
        Some(Record::Sync { mark })
    }

    fn groups(records: &[Option<Record>]) -> Groups {
        let mut groups = Groups::default();
        for (index, &record) in records.iter().enumerate() {
            groups.take(index as u64, record, None);
        }
        groups
    }

    /// Records of a counting file: the numbers of their groups, and which are sync records.
    fn counted(records: &[Option<(u32, bool)>]) -> Groups {
        let mut groups = Groups::default();
        for (index, &record) in records.iter().enumerate() {
            let known = record.map(|(group, sync)| GroupRecord { group, mark: sync.then_some(7) });
            groups.take(index as u64, record.map(|_| Record::Key { hash: 1, mask: 1 }), known);
        }
        groups
    }

    /// A sync record whose group another one follows had returned, also when it is the record that
    /// is missing.
    #[test]
    fn f91_a_later_group_shows_that_a_sync_had_returned() {
        let (cell, sync) = (|group| Some((group, false)), |group| Some((group, true)));
        assert_eq!(counted(&[cell(0), sync(0), cell(1), sync(1), None]).hole, None);
        assert_eq!(counted(&[cell(0), None, cell(1)]).hole, Some(1));
        assert_eq!(counted(&[cell(0), None, cell(1), sync(1)]).hole, Some(1));
        assert_eq!(counted(&[None, None, None, sync(1)]).hole, Some(0));
        assert_eq!(counted(&[cell(0), sync(0), None, None, cell(3)]).hole, Some(2));
        // Groups that nothing is missing between, and that do not follow one another.
        assert_eq!(counted(&[cell(0), sync(0), cell(2)]).hole, Some(2));
        assert_eq!(counted(&[cell(0), cell(1)]).hole, Some(1));
        // The last group was being written.
        assert_eq!(counted(&[cell(0), sync(0), None, cell(1), sync(1)]).hole, None);
        assert_eq!(counted(&[cell(0), sync(0), cell(1), None]).hole, None);
        assert_eq!(counted(&[None, cell(0), None, sync(0)]).hole, None);
    }

    #[test]
    fn f96_a_mark_counts_only_with_all_of_its_keys() {
        assert_eq!(groups(&[KEY, sync(5), KEY, KEY, sync(6), None]).mark, Some(6));
        let torn = groups(&[KEY, sync(5), KEY, None, sync(6), None]);
        assert_eq!((torn.mark, torn.hole), (Some(5), None));
    }

    #[test]
    fn f91_a_hole_in_front_of_a_sync_that_returned_is_damage() {
        assert_eq!(groups(&[KEY, None, sync(5), KEY]).hole, Some(1));
        assert_eq!(groups(&[KEY, None, sync(5)]).hole, None);
        assert_eq!(groups(&[KEY, sync(5), None, KEY]).hole, None);
    }
}

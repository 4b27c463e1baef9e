//! What the journal of an open file says (F-90, F-91, F-98).

use std::io::ErrorKind;
use std::ops::Range;

use super::changes::Changes;
use super::epoch::epochs_of;
use super::evidence::HalfEvidence;
use crate::error::{Error, Result, memory};
use crate::format::{
    Change, Epoch, FULL_RECORD, MOST_RECORD_WORDS, Record, Slot, State, Superblock,
};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};
use crate::storage::{ReadMedium, sabotage};

/// The journal's records, and what they change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JournalContents {
    /// Changes that are replayed: adds, in a counting file removals as well.
    pub(crate) keys: u64,
    /// For each segment of the slot, by how much its number of adds changes (F-96, F-98).
    pub(crate) adds: Vec<i64>,
    /// The mark of the last sync record with nothing missing in front of it, if there is one.
    pub(crate) mark: Option<u64>,
    /// For each segment of the slot, what is changed in it.
    pub(crate) changes: Vec<Changes>,
    /// The number, in the whole journal, of the first record that had been synced and cannot be
    /// read.
    pub(crate) hole: Option<u64>,
    /// Whether the slot's epoch has such a one, and whether the next one has.
    pub(crate) holes: [bool; 2],
    /// Records missing among those that are not known to have been synced.
    pub(crate) missing: u64,
    /// Of the slot's epoch and the next one: records from the first to the last that can be read.
    pub(crate) extents: [u64; 2],
    /// Adds may have gone unlogged, because there was no room (F-78) or there is no journal.
    pub(crate) full: bool,
}

impl JournalContents {
    /// Reads the journal's records of the epoch of `slot` and of the one that follows it.
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
        mut mend: impl FnMut(Epoch, u32, &[u64]) -> Option<Record>,
    ) -> Result<Self> {
        let journal = superblock.journal();
        let mut pass = Pass {
            medium,
            replay: Replay::new(superblock, slot),
            halves: <[HalfEvidence; 2]>::default(),
            full: journal.records() == 0,
            mend: &mut mend,
        };
        let numbers = [slot.epoch, slot.epoch.wrapping_add(1)];
        for (at, epoch) in epochs_of(medium, superblock, slot).into_iter().enumerate() {
            if at == 1 && sabotage!(medium, IgnoreNextHalf) {
                break;
            }
            let start = journal.half_offset(numbers[at]);
            let last_is_valid = pass.read(Records {
                at,
                epoch,
                range: start..start + journal.half_bytes(),
                first: 0,
                number: journal.number(numbers[at], 0),
                full_record: journal.full_record(),
                spilled: false,
            })?;
            // Records that found no room stand behind the end of the file (F-79): without those in
            // front of them no group is complete.
            let length = medium.length().map_err(Error::io("tell the length of the file"))?;
            let spilled = superblock.cells == CellKind::Counting
                && at == 0
                && slot.state == State::Open
                && length > slot.file_bytes
                && (last_is_valid || journal.records() == 0);
            if spilled {
                pass.read(Records {
                    at,
                    epoch,
                    range: slot.file_bytes..length,
                    first: journal.records() as u32,
                    number: 2 * journal.records(),
                    full_record: None,
                    spilled,
                })?;
            }
        }
        let Pass { halves: [current, next], replay, full, .. } = pass;
        let hole = current.hole(&next).map(|index| journal.number(numbers[0], index));
        let later = next.hole_within().map(|index| journal.number(numbers[1], index));
        let Replayed { keys, adds, changes } = replay.finish()?;
        Ok(JournalContents {
            keys,
            adds,
            mark: next.mark.or(current.mark),
            changes,
            hole: hole.or(later),
            holes: [hole.is_some(), later.is_some()],
            missing: current.missing_in_front + next.missing_in_front,
            extents: [current.extent, next.extent],
            full,
        })
    }

    /// Counts what is replayed in the slot that it is replayed on.
    pub(crate) fn count_adds(&self, slot: &mut Slot) {
        slot.segments
            .iter_mut()
            .zip(&self.adds)
            .for_each(|(record, &adds)| record.count_signed(adds));
    }

    /// The error that a hole in the synced part of the journal is.
    pub(crate) fn refuse_hole(&self) -> Result<()> {
        match self.hole {
            Some(index) => Err(Error::Journal { index }),
            None => Ok(()),
        }
    }
}

/// Records that stand together in the file.
struct Records {
    /// 0 for those of the slot's epoch, 1 for those of the next.
    at: usize,
    epoch: Epoch,
    range: Range<u64>,
    /// The number of the first one in its epoch, and in the whole journal.
    first: u32,
    number: u64,
    /// The one that says that adds went unlogged.
    full_record: Option<u64>,
    /// They stand behind the end of the file: the first that is missing ends them.
    spilled: bool,
}

/// What may know the record that words of an epoch were, at a place.
type Mend<'a> = dyn FnMut(Epoch, u32, &[u64]) -> Option<Record> + 'a;

/// One pass over the journal.
struct Pass<'a> {
    medium: &'a dyn ReadMedium,
    replay: Replay<'a>,
    halves: [HalfEvidence; 2],
    full: bool,
    /// What may know the record that some words were, which are none any more.
    mend: &'a mut Mend<'a>,
}

impl Pass<'_> {
    /// Reads records; whether the last of them can be read.
    fn read(&mut self, records: Records) -> Result<bool> {
        let Records { at, epoch, first, number, full_record, spilled, .. } = records;
        let mut last_is_valid = false;
        let take = |index: u32, words: &[u64]| {
            let bad = || Error::Journal { index: number + u64::from(index - first) };
            if full_record == Some(index.into()) {
                let record = epoch.decode(index, words);
                if record.is_some_and(|record| record != FULL_RECORD) {
                    return Err(bad());
                }
                self.full |= record.is_some();
                return Ok(true);
            }
            let record = epoch.decode(index, words).or_else(|| (self.mend)(epoch, index, words));
            self.halves[at].note(index.into(), record);
            last_is_valid = record.is_some();
            let Some(record) = record else { return Ok(!spilled) };
            // A mark counts, and a group, if nothing is missing in front of it; how long the epoch
            // before is, the first record of this one says.
            let [current, next] = &self.halves;
            let complete = self.halves[at].first_missing.is_none()
                && (at == 0 || current.is_complete_before(next));
            if let (Record::Sync { mark }, true) = (record, complete) {
                self.halves[at].mark = Some(mark);
            }
            self.replay.apply(record, complete).ok_or_else(bad)?;
            Ok(true)
        };
        let words = epoch.record_words();
        visit_records(self.medium, records.range, first, words, spilled, take)?;
        Ok(last_is_valid)
    }
}

/// Shows the records that stand in a range of the file, numbered from `first`, until `take` says that
/// it is enough. Those behind the end of the file may be taken away by a live writer.
fn visit_records(
    medium: &dyn ReadMedium,
    range: Range<u64>,
    first: u32,
    record_words: usize,
    spilled: bool,
    mut take: impl FnMut(u32, &[u64]) -> Result<bool>,
) -> Result<()> {
    const CHUNK: u64 = 1 << 20;
    let length = (range.end - range.start) / PAGE_BYTES * PAGE_BYTES;
    let mut bytes = memory::buffer(CHUNK.min(length), "read the journal")?;
    let mut index = first;
    let mut words = [0; MOST_RECORD_WORDS];
    for start in (0..length).step_by(CHUNK as usize) {
        let chunk = &mut bytes[..CHUNK.min(length - start) as usize];
        match medium.read_at(chunk, range.start + start) {
            Err(error) if spilled && error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            result => result.map_err(Error::io("read the journal"))?,
        }
        for record in chunk.chunks_exact(8 * record_words) {
            for (word, bytes) in words.iter_mut().zip(record.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            if !take(index, &words[..record_words])? {
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
        /// Of each segment, the counters that complete records change, in the order of the records:
        /// address, old and new value in one word.
        cells: Vec<Vec<u64>>,
        /// Records so far, and by how much the number of keys in each segment changes.
        changes: u64,
        keys: Vec<i64>,
        /// The same of groups that a sync record has closed.
        closed: ClosedGroups,
    },
}

/// What the complete groups of a counting file's journal come to.
struct ClosedGroups {
    /// Counters that they change, in each segment.
    cells: Vec<usize>,
    changes: u64,
    keys: Vec<i64>,
}

/// What records come to.
struct Replayed {
    keys: u64,
    adds: Vec<i64>,
    changes: Vec<Changes>,
}

/// Bits of a counter's word in [`Replay::Counting`] that hold its values.
const VALUE_BITS: u32 = 8;

impl<'a> Replay<'a> {
    fn new(superblock: &Superblock, slot: &'a Slot) -> Self {
        let segments = slot.segments.len();
        match superblock.cells {
            CellKind::Plain | CellKind::Sealed => Replay::Plain {
                geometry: &slot.newest().geometry,
                bits: Changes::default(),
                keys: 0,
                last: None,
                segments,
            },
            CellKind::Counting => Replay::Counting {
                slot,
                cells: vec![Vec::new(); segments],
                changes: 0,
                keys: vec![0; segments],
                closed: ClosedGroups {
                    cells: vec![0; segments],
                    changes: 0,
                    keys: vec![0; segments],
                },
            },
        }
    }

    /// Applies a record; `complete` when none is missing in front of it. `None` if the record says what
    /// no writer writes.
    fn apply(&mut self, record: Record, complete: bool) -> Option<()> {
        match (self, record) {
            (Replay::Plain { geometry, bits, keys, last, .. }, Record::Key { hash, mask }) => {
                if last.replace(record) == Some(record) {
                    return Some(());
                }
                *keys += 1;
                let rows = (0..geometry.row_count()).filter(|row| mask >> row & 1 == 1);
                rows.for_each(|row| bits.push_bit(geometry.address(hash, row)));
            }
            (Replay::Counting { slot, cells, changes, keys, .. }, Record::Change(change)) => {
                let region = change.region as usize;
                let index = slot.segments.iter().position(|it| it.region == region)?;
                let geometry = &slot.segments[index].geometry;
                check_change(&change, geometry)?;
                // Behind a missing record no group is complete any more.
                if complete {
                    *changes += 1;
                    keys[index] += change.keys(geometry.row_count());
                    let rows = 0..geometry.row_count();
                    cells[index].extend(rows.filter_map(|row| {
                        let (old, new) = (change.old(row), change.apply(change.old(row))?);
                        let values = u64::from(old) << 4 | u64::from(new);
                        Some(geometry.address(change.hash, row) << VALUE_BITS | values)
                    }));
                }
            }
            (Replay::Counting { cells, changes, keys, closed, .. }, Record::Sync { .. })
                if complete =>
            {
                *closed = ClosedGroups {
                    cells: cells.iter().map(Vec::len).collect(),
                    changes: *changes,
                    keys: keys.clone(),
                };
            }
            (_, Record::Sync { .. } | Record::Note { .. }) => {}
            // A record of the other kind of file has another length.
            (_, Record::Key { .. } | Record::Change(_)) => return None,
        }
        Some(())
    }

    /// How many changes count, and what they are in each segment.
    fn finish(self) -> Result<Replayed> {
        match self {
            Replay::Plain { mut bits, keys, segments, .. } => {
                let mut changes = vec![Changes::default(); segments];
                bits.sort();
                changes[segments - 1] = bits;
                let mut adds = vec![0; segments];
                adds[segments - 1] = keys.cast_signed();
                Ok(Replayed { keys, adds, changes })
            }
            Replay::Counting { cells, closed, .. } => {
                let segments = cells.into_iter().zip(closed.cells);
                let changes = segments.map(|(mut cells, closed)| {
                    cells.truncate(closed);
                    counter_changes(cells)
                });
                Ok(Replayed {
                    keys: closed.changes,
                    adds: closed.keys,
                    changes: changes.collect::<Result<_>>()?,
                })
            }
        }
    }
}

/// `None` if a change is one that no writer writes: counters that cannot go down, bits without a
/// meaning (F-75).
fn check_change(change: &Change, geometry: &Geometry) -> Option<()> {
    let rows = geometry.row_count();
    let counters = (0..rows).all(|row| change.apply(change.old(row)).is_some());
    let rest = (rows..32).all(|row| change.old(row) == 0);
    (counters && rest && change.stray == 0).then_some(())
}

/// What the counters of a segment were before its first record and are after its last.
fn counter_changes(mut cells: Vec<u64>) -> Result<Changes> {
    let mut changes = Changes::of_counters();
    // Stable: those of one counter stay in the order of their records.
    cells.sort_by_key(|cell| cell >> VALUE_BITS);
    for same in cells.chunk_by(|a, b| a >> VALUE_BITS == b >> VALUE_BITS) {
        let (old, new) = (|cell: u64| (cell >> 4 & 15) as u8, |cell: u64| (cell & 15) as u8);
        // Each goes on from the one before it (F-98).
        if same.windows(2).any(|pair| new(pair[0]) != old(pair[1])) {
            return Err(Error::Journal { index: 0 });
        }
        let (first, last) = (same[0], same[same.len() - 1]);
        changes.push_counter(first >> VALUE_BITS, old(first), new(last));
    }
    Ok(changes)
}

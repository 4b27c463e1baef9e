//! What the journal of a crashed file says (F-90, F-91, F-98).

use std::collections::BTreeMap;

use super::journal::epoch_of;
use super::scan::Patch;
use crate::error::{Error, Result};
use crate::format::{
    CellKind, CounterChange, Epoch, JOURNAL_OFFSET, RECORD_BYTES, RECORD_WORDS, Record, Slot,
    Superblock,
};
use crate::geometry::Geometry;
use crate::kernel;
use crate::storage::{Map, Medium};

/// The journal's records, and what they change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Journalled {
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
    /// No record is free, so that adds may have gone unlogged.
    pub(crate) full: bool,
}

/// What records change in one segment, sorted by word, each word once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// Turns the data into what the page table describes.
    pub(crate) before: Vec<Patch>,
    /// Turns the data into what it has to be.
    pub(crate) after: Vec<Patch>,
}

impl Changes {
    /// Cells that plain records turn on.
    fn of_bits(mut bits: Vec<(usize, u64)>) -> Self {
        bits.sort_unstable_by_key(|&(word, _)| word);
        bits.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 |= later.1;
            }
            same
        });
        let patch = |on: bool| {
            move |&(word, mask): &(usize, u64)| Patch {
                word,
                mask,
                value: if on { mask } else { 0 },
            }
        };
        Changes {
            before: bits.iter().map(patch(false)).collect(),
            after: bits.iter().map(patch(true)).collect(),
        }
    }

    /// A counter, after all counters with lower addresses.
    fn push_counter(&mut self, address: u64, old: u8, new: u8) {
        let (word, shift) = kernel::counter_place(address);
        for (patches, value) in [(&mut self.before, old), (&mut self.after, new)] {
            if patches.last().is_none_or(|patch| patch.word != word) {
                patches.push(Patch { word, mask: 0, value: 0 });
            }
            if let Some(patch) = patches.last_mut() {
                patch.mask |= 15 << shift;
                patch.value |= u64::from(value) << shift;
            }
        }
    }

    /// Makes the data what it has to be, and tells each word that was written.
    pub(crate) fn apply<Q: Map>(&self, data: &Q, mut written: impl FnMut(usize)) {
        for patch in &self.after {
            data.store(patch.word, patch.apply(data.words().load(patch.word)));
            written(patch.word);
        }
    }

    /// As [`apply`](Self::apply), in a private copy: pages that need nothing stay shared with the
    /// file.
    pub(crate) fn apply_private<Q: Map>(&self, data: &Q) {
        for patch in &self.after {
            let before = data.words().load(patch.word);
            let after = patch.apply(before);
            if after != before {
                data.store(patch.word, after);
            }
        }
    }
}

impl Journalled {
    /// Reads the journal's records of the epoch of `slot`.
    pub(crate) fn read<M: Medium>(
        medium: &M,
        superblock: &Superblock,
        slot: &Slot,
    ) -> Result<Self> {
        Self::read_mending(medium, superblock, slot, |_, _, _| None)
    }

    /// As [`read`](Self::read); words that are no record are shown to `mend`, which may know the
    /// record they were.
    pub(super) fn read_mending<M: Medium>(
        medium: &M,
        superblock: &Superblock,
        slot: &Slot,
        mut mend: impl FnMut(Epoch, u32, [u64; RECORD_WORDS]) -> Option<Record>,
    ) -> Result<Self> {
        const CHUNK: usize = 1 << 20;
        let epoch = epoch_of(medium, superblock, slot);
        let length = superblock.journal_bytes as usize;
        let mut groups = Groups::default();
        let mut replay = Replay::new(superblock, slot);
        let mut bytes = vec![0; CHUNK.min(length)];
        let mut index = 0;
        let mut full = true;
        for start in (0..length).step_by(CHUNK) {
            let chunk = &mut bytes[..CHUNK.min(length - start)];
            medium
                .read_at(chunk, JOURNAL_OFFSET + start as u64)
                .map_err(Error::io("read the journal"))?;
            for record in chunk.chunks_exact(RECORD_BYTES) {
                let words = [0, 8].map(|at| {
                    u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default())
                });
                let record = epoch.decode(index, words).or_else(|| mend(epoch, index, words));
                groups.take(u64::from(index), record);
                full = record.is_some();
                if let Some(record) = record {
                    replay
                        .take(record, groups.first_missing.is_none())
                        .ok_or(Error::Journal { index: index.into() })?;
                }
                index += 1;
            }
        }
        let (keys, changes) = replay.finish();
        Ok(Journalled {
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

/// Gathers what records change.
enum Replay<'a> {
    /// Every key record counts, synced or not: its cells may be in the data.
    Plain {
        geometry: &'a Geometry,
        bits: Vec<(usize, u64)>,
        keys: u64,
        /// The last key record: one that is equal to it repeats it, and counts once (F-77).
        last: Option<Record>,
        segments: usize,
    },
    /// Only complete groups count: what is not durable never was in the data.
    Counting {
        slot: &'a Slot,
        /// Changes of the group that no sync record has closed yet.
        open: Vec<CounterChange>,
        /// For each cell by segment and address, its first old and its last new value.
        cells: BTreeMap<(usize, u64), (u8, u8)>,
        records: u64,
    },
}

impl<'a> Replay<'a> {
    fn new(superblock: &Superblock, slot: &'a Slot) -> Self {
        let segments = slot.segments.len();
        match superblock.cells {
            CellKind::Plain => Replay::Plain {
                geometry: &slot.segments[segments - 1].geometry,
                bits: Vec::new(),
                keys: 0,
                last: None,
                segments,
            },
            CellKind::Counting => {
                Replay::Counting { slot, open: Vec::new(), cells: BTreeMap::new(), records: 0 }
            }
        }
    }

    /// Takes a record; `complete` when none is missing in front of it. `None` if the record names
    /// a cell that is not there.
    fn take(&mut self, record: Record, complete: bool) -> Option<()> {
        match (self, record) {
            (Replay::Plain { .. }, Record::Sync { .. }) => {}
            (Replay::Plain { geometry, bits, keys, last, .. }, Record::Key { hash, mask }) => {
                if last.replace(record) == Some(record) {
                    return Some(());
                }
                *keys += 1;
                let rows = (0..geometry.row_count()).filter(|row| mask >> row & 1 == 1);
                bits.extend(rows.map(|row| kernel::place(geometry, hash, row)));
            }
            (Replay::Counting { slot, open, .. }, Record::Key { hash, mask }) => {
                let change = CounterChange::decode(hash, mask);
                let geometry = &slot.segments.get(change.segment)?.geometry;
                (change.address < geometry.blocks() * geometry.block_span(4)).then_some(())?;
                open.push(change);
            }
            (Replay::Counting { open, cells, records, .. }, Record::Sync { .. }) => {
                if !complete {
                    return Some(());
                }
                *records += open.len() as u64;
                for change in open.drain(..) {
                    cells
                        .entry((change.segment, change.address))
                        .and_modify(|(_, new)| *new = change.new)
                        .or_insert((change.old, change.new));
                }
            }
        }
        Some(())
    }

    /// How many records count, and what they change in each segment.
    fn finish(self) -> (u64, Vec<Changes>) {
        match self {
            Replay::Plain { bits, keys, segments, .. } => {
                let mut changes = vec![Changes::default(); segments];
                changes[segments - 1] = Changes::of_bits(bits);
                (keys, changes)
            }
            Replay::Counting { slot, cells, records, .. } => {
                let mut changes = vec![Changes::default(); slot.segments.len()];
                for ((segment, address), (old, new)) in cells {
                    changes[segment].push_counter(address, old, new);
                }
                (records, changes)
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
}

impl Groups {
    fn take(&mut self, index: u64, record: Option<Record>) {
        let Some(record) = record else {
            self.first_missing.get_or_insert(index);
            self.missing += 1;
            return;
        };
        // A record stands behind the last sync record, so that sync had returned: nothing in
        // front of it may be missing.
        if self.hole.is_none() {
            self.hole = self.open_hole;
        }
        self.missing_before_last = self.missing;
        self.extent = index + 1;
        if let Record::Sync { mark } = record {
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
            groups.take(index as u64, record);
        }
        groups
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

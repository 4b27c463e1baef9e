//! The journal, record by record or in runs.

use byteorder::{ByteOrder, LittleEndian as Le};

use super::headers::{Slots, show};
use super::{Detail, Explainer, Walk, span};
use crate::format::{
    COUNTER_MASK_BITS, CounterChange, Epoch, GroupRecord, JOURNAL_OFFSET, RECORD_BYTES,
    RECORD_FIELDS, Record, Slot, State, with_ends,
};
use crate::geometry::{CellKind, MAX_ROWS};

/// What a place in the journal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A record of the epoch that counts.
    Current,
    /// A record of the older slot's epoch.
    Older,
    /// A record of the epoch after the newest slot's: that slot is lost (F-35).
    Newer,
    /// The record that says that adds went unlogged (F-78).
    Full,
    Zeros,
    /// No record of these epochs, with records of the current one behind it.
    Missing,
    /// No record of these epochs, and none behind it.
    Stale,
}

/// The epochs that records can belong to.
struct Epochs {
    current: Option<Epoch>,
    older: Option<Epoch>,
    newer: Vec<Epoch>,
    clean: bool,
}

impl Epochs {
    fn new(slots: &Slots, cells: CellKind) -> Self {
        let epoch = |slot: &Slot| Epoch::new(slot.epoch, slot.salt, mask_width(slot, cells));
        let counting = slots.counting.as_ref();
        let newer = counting.map(|slot| {
            let next = |width| Epoch::new(slot.epoch.wrapping_add(1), slot.next_salt, width);
            (1..=MAX_ROWS).map(next).collect()
        });
        Epochs {
            current: counting.map(epoch),
            older: slots.other.as_ref().map(epoch),
            newer: newer.unwrap_or_default(),
            clean: counting.is_some_and(|slot| slot.state == State::Clean),
        }
    }

    fn place(&self, index: u32, bytes: &[u8]) -> (Place, Option<Record>) {
        let words = [Le::read_u64(bytes), Le::read_u64(&bytes[8..])];
        let decode = |epoch: &Option<Epoch>| epoch.and_then(|epoch| epoch.decode(index, words));
        if words == [0, 0] {
            return (Place::Zeros, None);
        }
        if let Some(record) = decode(&self.current) {
            return (Place::Current, Some(record));
        }
        if let Some(record) = decode(&self.older) {
            return (Place::Older, Some(record));
        }
        // Only the first record tells: the others would match one of so many epochs by chance.
        let newer = (index == 0)
            .then(|| self.newer.iter().find_map(|epoch| epoch.decode(index, words)))
            .flatten();
        match newer {
            Some(record) => (Place::Newer, Some(record)),
            None => (Place::Stale, None),
        }
    }
}

/// Bits of a record's mask (F-71).
fn mask_width(slot: &Slot, cells: CellKind) -> u32 {
    match cells {
        CellKind::Plain => slot.newest().geometry.row_count(),
        CellKind::Counting => COUNTER_MASK_BITS,
    }
}

/// The mark of a record, if it is a sync record (F-74).
fn mark_of(record: Record, cells: CellKind) -> Option<u64> {
    match record {
        Record::Sync { mark } => Some(mark),
        record if cells != CellKind::Plain => GroupRecord::of(record)?.mark,
        Record::Key { .. } => None,
    }
}

/// Neighbours of the same meaning.
struct Run {
    first: u64,
    count: u64,
    place: Place,
    syncs: u64,
    last_mark: u64,
}

impl Explainer<'_> {
    /// The journal, which ends at `end`.
    pub(super) fn journal(&mut self, end: u64, slots: &Slots) -> Walk {
        let epochs = Epochs::new(slots, self.cells);
        // Of a plain file, the last record has a meaning of its own.
        let records = (end - JOURNAL_OFFSET) / RECORD_BYTES as u64;
        let full_record = records.checked_sub(1).filter(|_| self.cells == CellKind::Plain);
        // First the number of the last record that counts: what is no record before it is missing.
        let mut extent = 0;
        self.records(end, |_, index, bytes| {
            let current = matches!(epochs.place(index as u32, bytes), (Place::Current, _));
            if current && full_record != Some(index) {
                extent = index + 1;
            }
            Ok(())
        })?;
        let mut run: Option<Run> = None;
        self.records(end, |this, index, bytes| {
            let (mut place, record) = epochs.place(index as u32, bytes);
            if full_record == Some(index) && place == Place::Current {
                place = Place::Full;
            }
            if index < extent && place != Place::Current {
                place = Place::Missing;
            }
            if this.detail == Detail::Everything && place != Place::Zeros {
                if let Some(run) = run.take() {
                    this.run(&run, epochs.clean)?;
                }
                return this.record(index, bytes, place, record, epochs.clean);
            }
            let mark = record.and_then(|record| mark_of(record, this.cells));
            match &mut run {
                Some(run) if run.place == place => run.count += 1,
                _ => {
                    let next = Run { first: index, count: 1, place, syncs: 0, last_mark: 0 };
                    if let Some(run) = run.replace(next) {
                        this.run(&run, epochs.clean)?;
                    }
                }
            }
            if let (Some(mark), Some(run)) = (mark, &mut run) {
                run.syncs += 1;
                run.last_mark = mark;
            }
            Ok(())
        })?;
        match run {
            Some(run) => self.run(&run, epochs.clean),
            None => Ok(()),
        }
    }

    /// Shows each record's bytes, in bounded memory.
    fn records(&mut self, end: u64, mut visit: impl FnMut(&mut Self, u64, &[u8]) -> Walk) -> Walk {
        const CHUNK: u64 = 1 << 20;
        let mut bytes = vec![0; CHUNK.min(end - JOURNAL_OFFSET) as usize];
        for offset in (JOURNAL_OFFSET..end.min(self.length)).step_by(CHUNK as usize) {
            let chunk = &mut bytes[..CHUNK.min(end - offset) as usize];
            let there = self.read_into(chunk, offset)?;
            let first = (offset - JOURNAL_OFFSET) / RECORD_BYTES as u64;
            chunk[there..].fill(0);
            let records = chunk.chunks_exact(RECORD_BYTES).take(there.div_ceil(RECORD_BYTES));
            for (index, record) in (first..).zip(records) {
                visit(self, index, record)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &Run, clean: bool) -> Walk {
        let (first, count) = (run.first, run.count);
        let range = record_offset(first)..record_offset(first + count);
        let value = match run.place {
            Place::Full => "full record".into(),
            Place::Zeros => "zeros".into(),
            Place::Missing | Place::Stale => "no records of this epoch".into(),
            _ => match (count - run.syncs, run.syncs) {
                (changes, 0) => format!("{changes} {} records", self.change()),
                (changes, syncs) => {
                    let change = self.change();
                    format!(
                        "{changes} {change} records, {syncs} sync records, last mark {}",
                        run.last_mark
                    )
                }
            },
        };
        let field = format!("records {}", span(first, count));
        self.tell(range, "journal", field, value, meaning(run.place, clean))
    }

    /// What records of changes are called in this file (F-75).
    fn change(&self) -> &'static str {
        if self.cells == CellKind::Plain { "key" } else { "cell" }
    }

    /// One record, in its two fields.
    fn record(
        &mut self,
        index: u64,
        bytes: &[u8],
        place: Place,
        record: Option<Record>,
        clean: bool,
    ) -> Walk {
        let what = match record {
            Some(Record::Key { mask, .. }) if self.cells == CellKind::Plain => {
                format!("key record, mask {mask:#b}")
            }
            Some(record) if mark_of(record, self.cells).is_some() => {
                let mark = mark_of(record, self.cells).unwrap_or(0);
                format!("sync record, mark {mark}")
            }
            Some(Record::Key { hash, mask }) => {
                let CounterChange { segment, old, new, .. } = CounterChange::decode(hash, mask);
                format!("cell record, segment {segment}, from {old} to {new}")
            }
            Some(_) if place == Place::Full => "full record".into(),
            Some(Record::Sync { mark }) => format!("sync record, mark {mark}"),
            None => "no record of this epoch".into(),
        };
        let start = record_offset(index);
        for (field, end) in with_ends(&RECORD_FIELDS, RECORD_BYTES) {
            let range = start + field.offset as u64..start + end as u64;
            let value = show(field.form, &bytes[field.offset..end]);
            let note = match field.offset {
                0 => format!("{what}: {}", meaning(place, clean)),
                _ => field.meaning.replace('*', ""),
            };
            self.tell(range, format!("journal, record {index}"), field.name, value, note)?;
        }
        Ok(())
    }
}

fn record_offset(index: u64) -> u64 {
    JOURNAL_OFFSET + index * RECORD_BYTES as u64
}

fn meaning(place: Place, clean: bool) -> &'static str {
    match place {
        Place::Current if clean => "of a closed file: they do not count (F-22)",
        Place::Current => "since the slot that counts; recovery replays them (F-90)",
        Place::Full => "the journal was full: adds went unrecorded (F-78)",
        Place::Older => "of the older slot's epoch: already in the data (F-72)",
        Place::Newer => "wrong: of an epoch whose slot is lost (F-35)",
        Place::Zeros => "free space, as at creation (F-70)",
        Place::Missing => {
            "missing: never synced, or damaged if a sync record and more follow (F-91)"
        }
        Place::Stale => "free space with records of earlier epochs, which do not count (F-72)",
    }
}

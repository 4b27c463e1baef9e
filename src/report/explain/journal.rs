//! The journal, record by record or in runs.

use std::ops::Range;

use super::headers::{Slots, show};
use super::{Detail, Explainer, Walk, span};
use crate::format::{
    COUNTING_RECORD_FIELDS, Epoch, JOURNAL_OFFSET, JournalLayout, MOST_RECORD_WORDS, RECORD_FIELDS,
    Record, Slot, State, with_ends,
};
use crate::geometry::{CellKind, MAX_ROWS};

/// What a place in the journal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A record of the epoch of the slot that counts, or of the one that followed it.
    Current,
    /// A record of the older slot's epoch.
    Older,
    /// A record of an epoch whose slot is lost (F-35).
    Newer,
    /// The record that says that adds went unlogged (F-78).
    Full,
    Zeros,
    /// No record of these epochs, with records of the current one behind it.
    Missing,
    /// No record of these epochs, and none behind it.
    Stale,
}

/// The epochs whose records can be in one half.
struct Epochs {
    half: u64,
    current: Option<Epoch>,
    older: Option<Epoch>,
    newer: Vec<Epoch>,
    clean: bool,
}

impl Epochs {
    fn new(half: u64, slots: &Slots, cells: CellKind) -> Self {
        let here = |number: u64| number % 2 == half;
        let epoch = |slot: &Slot, number: u64, salt: u64| match cells {
            CellKind::Plain => Epoch::plain(number, salt, slot.newest().geometry.row_count()),
            CellKind::Counting => Epoch::counting(number, salt),
            CellKind::Sealed => Epoch::plain(number, salt, 1),
        };
        let mut epochs =
            Epochs { half, current: None, older: None, newer: Vec::new(), clean: false };
        if let Some(slot) = &slots.counting {
            let next = slot.epoch.wrapping_add(1);
            epochs.clean = slot.state == State::Clean;
            epochs.current = Some(if here(slot.epoch) {
                epoch(slot, slot.epoch, slot.salt)
            } else {
                epoch(slot, next, slot.next_salt)
            });
            let after = next.wrapping_add(1);
            let lost = [
                (next, !slot.next_salt),
                (after, slot.salt_after_next),
                (after, !slot.salt_after_next),
            ];
            for (number, salt) in lost.into_iter().filter(|(number, _)| here(*number)) {
                match cells {
                    CellKind::Counting => epochs.newer.push(Epoch::counting(number, salt)),
                    CellKind::Plain | CellKind::Sealed => {
                        let all = (1..=MAX_ROWS).map(|rows| Epoch::plain(number, salt, rows));
                        epochs.newer.extend(all);
                    }
                }
            }
        }
        if let Some(slot) = slots.other.as_ref().filter(|slot| here(slot.epoch)) {
            epochs.older = Some(epoch(slot, slot.epoch, slot.salt));
        }
        epochs
    }

    fn place(&self, index: u32, bytes: &[u8]) -> (Place, Option<Record>) {
        let mut words = [0; MOST_RECORD_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let decode = |epoch: &Option<Epoch>| epoch.and_then(|epoch| epoch.decode(index, &words));
        if words == [0; MOST_RECORD_WORDS] {
            return (Place::Zeros, None);
        }
        if let Some(record) = decode(&self.current) {
            return (Place::Current, Some(record));
        }
        if let Some(record) = decode(&self.older) {
            return (Place::Older, Some(record));
        }
        // Only the first record tells: the others would match one of many epochs by chance.
        let newer = self.newer.iter().filter(|_| index == 0);
        match newer.into_iter().find_map(|epoch| epoch.decode(index, &words)) {
            Some(record) => (Place::Newer, Some(record)),
            None => (Place::Stale, None),
        }
    }
}

/// Neighbours of the same meaning.
struct Run {
    first: u64,
    count: u64,
    place: Place,
    changes: u64,
    syncs: u64,
    last_mark: u64,
}

impl Run {
    fn add(&mut self, record: Option<Record>) {
        self.count += 1;
        match record {
            Some(Record::Key { .. } | Record::Change(_)) => self.changes += 1,
            Some(Record::Sync { mark }) => {
                self.syncs += 1;
                self.last_mark = mark;
            }
            Some(Record::Note { .. }) | None => {}
        }
    }
}

impl Explainer<'_> {
    /// The journal, which ends at `end`.
    pub(super) fn journal(&mut self, end: u64, slots: &Slots) -> Walk {
        let layout = JournalLayout::new(end - JOURNAL_OFFSET, self.cells);
        (0..2).try_for_each(|half| self.half(layout, &Epochs::new(half, slots, self.cells)))
    }

    fn half(&mut self, layout: JournalLayout, epochs: &Epochs) -> Walk {
        let full_record = layout.full_record();
        // First the number of the last record that counts: what is no record before it is missing.
        let mut extent = 0;
        self.records(layout, epochs.half, |_, index, bytes| {
            let current = matches!(epochs.place(index as u32, bytes), (Place::Current, _));
            if current && full_record != Some(index) {
                extent = index + 1;
            }
            Ok(())
        })?;
        let mut run: Option<Run> = None;
        self.records(layout, epochs.half, |this, index, bytes| {
            let (mut place, record) = epochs.place(index as u32, bytes);
            if full_record == Some(index) && place == Place::Current {
                place = Place::Full;
            }
            if index < extent && place != Place::Current {
                place = Place::Missing;
            }
            if this.detail == Detail::Everything && place != Place::Zeros {
                if let Some(run) = run.take() {
                    this.run(layout, epochs, &run)?;
                }
                return this.record(layout, epochs, index, bytes, place, record);
            }
            if run.as_ref().is_none_or(|run| run.place != place) {
                let next =
                    Run { first: index, count: 0, place, changes: 0, syncs: 0, last_mark: 0 };
                if let Some(run) = run.replace(next) {
                    this.run(layout, epochs, &run)?;
                }
            }
            if let Some(run) = &mut run {
                run.add(record);
            }
            Ok(())
        })?;
        match run {
            Some(run) => self.run(layout, epochs, &run),
            None => Ok(()),
        }
    }

    /// Shows each record's bytes of a half, in bounded memory.
    fn records(
        &mut self,
        layout: JournalLayout,
        half: u64,
        mut visit: impl FnMut(&mut Self, u64, &[u8]) -> Walk,
    ) -> Walk {
        const CHUNK: u64 = 1 << 20;
        let size = layout.record_bytes() as usize;
        let start = layout.half_offset(half);
        let end = (start + layout.half_bytes()).min(self.length);
        let mut bytes = vec![0; CHUNK.min(layout.half_bytes()) as usize];
        for offset in (start..end).step_by(CHUNK as usize) {
            let chunk = &mut bytes[..CHUNK.min(end - offset) as usize];
            let there = self.read_into(chunk, offset)?;
            let first = (offset - start) / size as u64;
            for (index, record) in (first..).zip(chunk[..there].chunks(size)) {
                let mut whole = [0; 8 * MOST_RECORD_WORDS];
                whole[..record.len()].copy_from_slice(record);
                visit(self, index, &whole[..size])?;
            }
        }
        Ok(())
    }

    fn run(&mut self, layout: JournalLayout, epochs: &Epochs, run: &Run) -> Walk {
        let (first, count) = (run.first, run.count);
        let value = match run.place {
            Place::Full => "full record".into(),
            Place::Zeros => "zeros".into(),
            Place::Missing | Place::Stale => "no records of this epoch".into(),
            _ => {
                let mut parts = vec![format!("{} {} records", run.changes, self.change())];
                if run.syncs > 0 {
                    parts.push(format!("{} sync records", run.syncs));
                    parts.push(format!("last mark {}", run.last_mark));
                }
                parts.join(", ")
            }
        };
        let field = format!("records {}", span(first, count));
        let name = format!("journal, half {}", epochs.half);
        let range = record_range(layout, epochs.half, first, count);
        let note = self.meaning(run.place, epochs.clean);
        self.tell(range, name, field, value, note)
    }

    /// What records of changes are called in this file (F-75).
    fn change(&self) -> &'static str {
        match self.cells {
            CellKind::Plain | CellKind::Sealed => "key",
            CellKind::Counting => "change",
        }
    }

    /// One record, field by field.
    fn record(
        &mut self,
        layout: JournalLayout,
        epochs: &Epochs,
        index: u64,
        bytes: &[u8],
        place: Place,
        record: Option<Record>,
    ) -> Walk {
        let what = match record {
            Some(_) if place == Place::Full => "full record".into(),
            Some(Record::Key { mask, .. }) => format!("key record, mask {mask:#b}"),
            Some(Record::Change(change)) => {
                let direction = if change.removal { "removal" } else { "add" };
                format!("change record, {direction}, region {}", change.region)
            }
            Some(Record::Sync { mark }) => format!("sync record, mark {mark}"),
            Some(Record::Note { count }) if index == 0 => {
                format!("link, {count} records in the other half")
            }
            Some(Record::Note { count }) => format!("confirmation of {count} records"),
            None => "no record of this epoch".into(),
        };
        let fields: &'static [_] = match self.cells {
            CellKind::Plain | CellKind::Sealed => &RECORD_FIELDS,
            CellKind::Counting => &COUNTING_RECORD_FIELDS,
        };
        let meaning = self.meaning(place, epochs.clean);
        let start = record_range(layout, epochs.half, index, 1).start;
        let name = format!("journal, half {}, record {index}", epochs.half);
        for (field, end) in with_ends(fields, bytes.len()) {
            let range = start + field.offset as u64..start + end as u64;
            let value = show(field.form, &bytes[field.offset..end]);
            let note = match field.offset {
                0 => format!("{what}: {meaning}"),
                _ => field.meaning.replace('*', ""),
            };
            self.tell(range, &name, field.name, value, note)?;
        }
        Ok(())
    }
}

impl Explainer<'_> {
    /// What it means that something stands here.
    fn meaning(&self, place: Place, clean: bool) -> &'static str {
        match place {
            Place::Newer if self.is_overtaken() => "of an epoch that began while this was read",
            _ => meaning(place, clean),
        }
    }
}

fn record_range(layout: JournalLayout, half: u64, first: u64, count: u64) -> Range<u64> {
    let at = |index: u64| layout.half_offset(half) + index * layout.record_bytes();
    at(first)..at(first + count)
}

fn meaning(place: Place, clean: bool) -> &'static str {
    match place {
        Place::Current if clean => "of a closed file: they do not count (F-22)",
        Place::Current => "since the slot that counts; recovery replays them (F-90)",
        Place::Full => "the journal was full: adds went unrecorded (F-78)",
        Place::Older => "of the older slot's epoch: already in the data (F-72)",
        Place::Newer => "wrong: of an epoch whose slot is lost (F-35)",
        Place::Zeros => "free space, as at creation (F-70)",
        Place::Missing => "missing: never synced, or damaged if a later record shows that (F-91)",
        Place::Stale => "free space with records of earlier epochs, which do not count (F-72)",
    }
}

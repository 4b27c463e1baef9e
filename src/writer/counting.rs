//! Counters: logged first, changed in the data only once that is durable (F-76, F-98, F-130).
//!
//! Adding to a counter twice is not the same as adding once, so that replaying must know exactly
//! what the data holds. A change therefore goes to the journal and to a private map of the data,
//! which look-ups through this handle consult; the file's own data change when a sync has made the
//! record durable. All changes since the last sync form one group, which counts with its sync record
//! or not at all: so they never become durable without the mark that goes with them.

use std::sync::atomic::Ordering;

use super::add::Added;
use super::journal::Span;
use super::{Engine, Segment, Tables, lock};
use crate::error::{Error, Result};
use crate::format::{Change, Epoch, Record, SLOTS_TO_CLOSE, STUCK, Shape, Slot, State};
use crate::geometry::{Layout, MAX_ROWS};
use crate::kernel::counter_place;
use crate::storage::{Map, Medium, sabotage};
use crate::sync::{AllStripes, MutexGuard, Refused};

use super::proof::Proof;

/// A group that a sync record has ended.
struct Group {
    /// What has to be made durable.
    span: Span,
    /// What has to be applied to the data then, and the epoch that it was logged in.
    changes: Span,
    epoch: Epoch,
}

impl<M: Medium> Engine<M> {
    /// The regions that may hold a hash, newest first.
    fn holders(&self, hash: u64) -> impl Iterator<Item = usize> {
        let holds = move |&region: &usize| self.segments.get(region).seen().contains(hash);
        self.segments.order().filter(holds)
    }

    /// The stripe under which the counters of a hash change. Where they may be in several segments,
    /// or all over one, all changes take the same.
    fn counting_stripe(&self, hash: u64) -> u64 {
        let first = &self.segments.first.data;
        match self.superblock.shape() {
            Shape::Fixed => first.own_block(hash).unwrap_or(0),
            Shape::Growing | Shape::Rotating(_) => 0,
        }
    }

    /// Changes counters, alone on those of this hash.
    fn change<T>(&self, hash: u64, change: impl Fn() -> Result<T>) -> Result<T> {
        if self.segments.first.current.is_none() {
            let reason = "only a counting filter counts";
            return Err(Error::parameter("kind", "plain", reason));
        }
        self.refuse_if_dead()?;
        loop {
            match self.stripes.hold(self.counting_stripe(hash)) {
                Ok(_stripe) => return change(),
                Err(Refused::Shut) => return Err(self.refusal()),
                Err(Refused::Locked) => self.begin()?,
            }
        }
    }

    /// Adds one to the counters of a hash; true when it was not in.
    pub(super) fn add_counting(&self, hash: u64) -> Result<bool> {
        loop {
            let added = self.change(hash, || {
                let newest = self.segments.active().newest;
                let holder = match self.superblock.shape() {
                    // The counters tell, which are looked at below.
                    Shape::Fixed => None,
                    Shape::Growing | Shape::Rotating(_) => self.holders(hash).next(),
                };
                // A key that an older segment holds is counted there, where its removal will look.
                // A rotating filter counts in the newest: the older ones are going to be dropped.
                let region = match self.superblock.shape() {
                    Shape::Growing => holder.unwrap_or(newest),
                    Shape::Fixed | Shape::Rotating(_) => newest,
                };
                let Some(planned) = self.plan_change(hash, region, false) else {
                    unreachable!("counters can always go up")
                };
                let held = planned.change.was_in(planned.rows);
                if !held && !self.reserve_place() {
                    return Ok(Added::Full);
                }
                self.make_change(&planned);
                if !held {
                    self.segments.get(region).keys.unsynced.fetch_add(1, Ordering::Relaxed);
                }
                Ok(if held || holder.is_some() { Added::Known } else { Added::New })
            })?;
            match added {
                Added::New => return Ok(true),
                Added::Known => return Ok(false),
                Added::Full => self.handle_full()?,
                Added::Moved => {}
            }
        }
    }

    /// Takes one from the counters of a hash.
    pub(crate) fn remove_hash(&self, hash: u64) -> Result<()> {
        self.change(hash, || {
            let region = match self.superblock.shape() {
                // The counters tell, which are looked at below.
                Shape::Fixed => 0,
                Shape::Growing | Shape::Rotating(_) => {
                    let mut holders = self.holders(hash);
                    let region = holders.next().ok_or(Error::NotPresent)?;
                    if holders.next().is_some() {
                        return Err(Error::Ambiguous);
                    }
                    region
                }
            };
            let planned = self.plan_change(hash, region, true).ok_or(Error::NotPresent)?;
            self.make_change(&planned);
            let segment = self.segments.get(region);
            if !planned.change.is_in(planned.rows) {
                segment.keys.unsynced.fetch_sub(1, Ordering::Relaxed);
                if self.limit.is_some() && region == self.segments.active().newest {
                    self.filled.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    }

    /// How often a key may have been added: the smallest of its counters.
    pub(crate) fn count_hash(&self, hash: u64) -> Option<u8> {
        self.segments.first.current.as_ref()?;
        let smallest = |segment: &Segment<M>| segment.seen().count(hash);
        let counts = self.segments.newest_first().map(smallest);
        Some(counts.fold(0, |sum, count| (sum + count).min(STUCK)))
    }

    /// The change of a hash in a region, with the values that its counters have now; `None` if one of
    /// them cannot go down.
    fn plan_change(&self, hash: u64, region: usize, removal: bool) -> Option<PlannedChange> {
        let cells = self.segments.get(region).seen();
        let (rows, flat) =
            (cells.geometry().row_count(), cells.geometry().layout() == Layout::Flat);
        let mut change = Change::new(hash, region, removal);
        let addresses = cells.counter_addresses(hash);
        for row in 0..rows {
            let address = addresses[row as usize];
            // In `flat`, two rows may take the same counter: the second goes on from the first.
            let same = |&before: &u32| flat && addresses[before as usize] == address;
            let old = match (0..row).rev().filter(|_| flat).find(same) {
                Some(before) => change.apply(change.old(before))?,
                None => cells.counter(address),
            };
            change.apply(old)?;
            change.set_old(row, old);
        }
        Some(PlannedChange { change, addresses, rows })
    }

    /// Logs a change, and makes it where this handle looks. Called with the stripe of the hash held.
    fn make_change(&self, planned: &PlannedChange) {
        let PlannedChange { change, .. } = planned;
        let record = Record::Change(*change);
        if !self.journal.log_change(record) {
            lock(&self.spill).push(record);
        }
        let segment = self.segments.get(change.region as usize);
        self.count_cells(change, planned.rows);
        let cells = segment.seen();
        for (word, shift, new) in planned.counters() {
            let before = cells.words().load(word);
            cells.store(word, (before & !(15 << shift)) | (u64::from(new) << shift));
        }
    }

    /// A round's work: all changes so far become durable in one group with the mark, then they are
    /// made in the data.
    pub(super) fn sync_counters(&self, mark: u64) -> Result<()> {
        sabotage!(self.medium, SplitSync => self.split_sync()?);
        let stripes = self.all_stripes()?;
        if !self.fits() {
            drop(stripes);
            self.counters.stalled();
            let mut tables = lock(&self.tables);
            self.finish_frozen(&mut tables)?;
            return self.commit_counters(&mut tables, mark);
        }
        let group = self.end_counting_group(mark);
        // Nothing of a group may be left in the old half, so that a boundary comes with a sync.
        let frozen =
            if self.journal.is_nearly_full() { self.try_switch(&stripes, mark) } else { None };
        drop(stripes);
        self.apply_group(&group)?;
        if let Some(tables) = frozen {
            self.segments.all().for_each(Segment::freeze);
            self.finish_later(tables);
        }
        Ok(())
    }

    /// Whether the changes since the last sync are all in the journal, with room for a sync record.
    fn fits(&self) -> bool {
        self.journal.has_room(1) && lock(&self.spill).is_empty()
    }

    /// Ends a group. Called with all stripes held.
    fn end_counting_group(&self, mark: u64) -> Group {
        let span = self.journal.end_group(mark);
        let changes = self.journal.drain_unapplied(span.records.end);
        self.segments.all().for_each(|segment| segment.keys.end_group());
        Group { span, changes, epoch: self.journal.epoch() }
    }

    /// Makes a group durable, then its changes in the data.
    fn apply_group(&self, group: &Group) -> Result<()> {
        let early = sabotage!(self.medium, CountBeforeLog);
        if early {
            self.apply_changes(group.epoch, &group.changes);
        }
        self.flush_group(&group.span)?;
        if !early {
            self.apply_changes(group.epoch, &group.changes);
        }
        Ok(())
    }

    /// Counts the keys in front of a boundary in the slot that describes it.
    pub(super) fn count_frozen_keys(&self, slot: &mut Slot) {
        for record in &mut slot.segments {
            let keys = &self.segments.get(record.region).keys;
            let ahead = sabotage!(self.medium, CountBehindBoundary);
            record.count_signed(if ahead { keys.synced() } else { keys.frozen() });
        }
    }

    fn apply_changes(&self, epoch: Epoch, changes: &Span) {
        for index in changes.records.clone() {
            if let Some(Record::Change(change)) = self.journal.read_of(changes.half, epoch, index) {
                self.apply_change(&change);
            }
        }
    }

    /// Makes a change in the data of the file. One thread at a time does: the one that leads.
    fn apply_change(&self, change: &Change) {
        let segment = self.segments.get(change.region as usize);
        let data = &segment.data;
        let mut effects = lock(&segment.effects);
        for (word, shift, new) in counters_of(data.geometry(), change) {
            segment.prepare(word);
            let before = data.words().load(word);
            let after = (before & !(15 << shift)) | (u64::from(new) << shift);
            effects[0].add_word(data.geometry(), word, before, after);
            data.store(word, after);
        }
    }

    /// Lets the epoch go on in the other half behind a sync record that has just been written, unless
    /// a checkpoint is under way.
    fn try_switch(&self, stripes: &AllStripes<'_>, mark: u64) -> Option<MutexGuard<'_, Tables>> {
        let mut tables = self.tables.try_lock().ok().filter(|tables| tables.frozen.is_none())?;
        lock(&self.committed).slot.expect_numbers(1 + SLOTS_TO_CLOSE).ok()?;
        self.switch_half(&mut tables, stripes, mark);
        Some(tables)
    }

    /// Draws a boundary, which makes all changes durable with the mark. This thread leads a round.
    pub(super) fn freeze_counters(&self, tables: &mut Tables, mark: u64) -> Result<()> {
        let stripes = self.all_stripes()?;
        if !self.fits() {
            drop(stripes);
            return self.commit_counters(tables, mark);
        }
        let group = self.end_counting_group(mark);
        self.switch_half(tables, &stripes, mark);
        drop(stripes);
        self.apply_group(&group)?;
        self.segments.all().for_each(Segment::freeze);
        Ok(())
    }

    /// A sync of more changes than the journal holds, and the checkpoint that has to follow it. Adds
    /// wait for that.
    fn commit_counters(&self, tables: &mut Tables, mark: u64) -> Result<()> {
        let stripes = self.all_stripes()?;
        let slot = lock(&self.committed).slot.clone();
        // For the checkpoint that follows.
        slot.expect_numbers(1 + SLOTS_TO_CLOSE)?;
        if self.has_unsynced() {
            let mut records = lock(&self.spill).clone();
            records.push(Record::Sync { mark });
            // A segment that was prepared stands where the records go.
            *lock(&self.prepared) = None;
            let (span, records) = self.flush_spill(&slot, records)?;
            let changes = self.journal.drain_unapplied(span.records.end);
            self.apply_changes(self.journal.epoch(), &changes);
            for record in &records {
                if let Record::Change(change) = record {
                    self.apply_change(change);
                }
            }
            lock(&self.spill).clear();
            self.segments.all().for_each(|segment| segment.keys.end_group());
        }
        self.mark.store(mark, Ordering::Release);
        self.commit(tables, &stripes, State::Open, Proof::Needed)
    }

    /// The changes that are not synced, in their order, for an epoch that takes them over. Called with
    /// all stripes held.
    pub(super) fn unsynced_changes(&self) -> Vec<Record> {
        if self.segments.first.current.is_none() {
            return Vec::new();
        }
        let logged = self.journal.drain_unapplied(self.journal.records());
        let epoch = self.journal.epoch();
        let read = |index| self.journal.read_of(logged.half, epoch, index);
        let changes = logged.records.filter_map(read);
        let mut records: Vec<Record> =
            changes.filter(|record| matches!(record, Record::Change(_))).collect();
        records.append(&mut lock(&self.spill));
        records
    }

    /// Logs changes again, in a new epoch. Called with all stripes held.
    pub(super) fn log_again(&self, records: Vec<Record>) {
        let mut records = records.into_iter();
        let rest: Vec<Record> =
            records.by_ref().skip_while(|&record| self.journal.log_change(record)).collect();
        lock(&self.spill).extend(rest);
    }

    /// What the sabotage `SplitSync` is: when the journal could not take all changes, those that are
    /// there become durable under the mark there was before them.
    #[cfg(test)]
    fn split_sync(&self) -> Result<()> {
        if !lock(&self.spill).is_empty() {
            let mut tables = lock(&self.tables);
            self.finish_frozen(&mut tables)?;
            self.commit_counters(&mut tables, self.mark())?;
        }
        Ok(())
    }

    /// Of each segment its offset, and how many keys it holds, synced or not.
    #[cfg(test)]
    pub(super) fn keys_held(&self) -> Vec<(u64, i64)> {
        let slot = lock(&self.committed).slot.clone();
        let held = |record: &crate::format::SegmentRecord| {
            let keys = &self.segments.get(record.region).keys;
            let unsynced = keys.unsynced.load(Ordering::Relaxed).cast_signed();
            (record.offset, record.adds.cast_signed() + keys.synced() + unsynced)
        };
        slot.segments.iter().map(held).collect()
    }

    /// Every counter that is not zero: its segment's offset, its address and its value.
    #[cfg(test)]
    pub(super) fn counters(&self, mut see: impl FnMut(u64, u64, u8)) {
        let slot = lock(&self.committed).slot.clone();
        for record in &slot.segments {
            let cells = self.segments.get(record.region).seen();
            for word in 0..cells.words().len() {
                let mut counters = cells.words().load(word);
                while counters != 0 {
                    let at = counters.trailing_zeros() / 4;
                    let address = word as u64 * 16 + u64::from(at);
                    see(record.offset, address, (counters >> (4 * at) & 15) as u8);
                    counters &= !(15 << (4 * at));
                }
            }
        }
    }
}

/// A change with the counters that it is of.
struct PlannedChange {
    change: Change,
    addresses: [u64; MAX_ROWS as usize],
    rows: u32,
}

impl PlannedChange {
    /// The word of each counter, how far it is shifted in it, and its new value.
    fn counters(&self) -> impl Iterator<Item = (usize, u32, u8)> {
        let counter = |row: u32| {
            let (word, shift) = counter_place(self.addresses[row as usize]);
            Some((word, shift, self.change.apply(self.change.old(row))?))
        };
        (0..self.rows).filter_map(counter)
    }
}

/// The word of each counter of a change, how far it is shifted in it, and its new value.
fn counters_of<'a>(
    geometry: &'a crate::geometry::Geometry,
    change: &'a Change,
) -> impl Iterator<Item = (usize, u32, u8)> + 'a {
    (0..geometry.row_count()).filter_map(|row| {
        let (word, shift) = counter_place(geometry.address(change.hash, row));
        Some((word, shift, change.apply(change.old(row))?))
    })
}

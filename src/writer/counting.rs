//! Counters: logged first, changed in the data only once that is durable (F-76, F-98).
//!
//! Adding to a counter twice is not the same as adding once, so that replaying must know exactly
//! what the data holds. A change therefore lives in an overlay, which look-ups through this handle
//! consult; a sync writes one record for each changed cell, makes them durable, and then changes
//! the data. All changes since the last sync form one group, which counts with its sync record or
//! not at all: so they never become durable without the mark that goes with them.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::add::Added;
use super::{Committed, Engine, Segment, lock};
use crate::error::{Error, Result};
use crate::file::PAGE_WORDS;
use crate::format::{CounterChange, GroupRecord, MAX_COUNT, SLOTS_TO_CLOSE, Shape, State};
use crate::kernel;
use crate::storage::{Map, Medium, Sabotage};
use crate::sync::{AllStripes, AtomicU64};

/// The highest value of a counter: one that got here stays.
pub(crate) const STUCK: u8 = 15;

/// Cells whose values are not those of the data.
#[derive(Default)]
pub(super) struct Overlay {
    pending: Pending,
    /// How many cells are in it: none, and look-ups need no lock.
    count: AtomicU64,
}

type Pending = RwLock<Cells>;

/// New values by region and address, and how many keys came less went since the last checkpoint.
#[derive(Default)]
pub(super) struct Cells {
    values: HashMap<(usize, u64), u8>,
    keys: HashMap<usize, i64>,
}

impl Overlay {
    pub(super) fn is_pending(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Cells> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, Cells> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Medium> Engine<M> {
    fn segment(&self, region: usize) -> &Segment<M> {
        self.segments.get(region)
    }

    /// The value of a counter as this handle sees it.
    fn counter(&self, cells: &Cells, region: usize, address: u64) -> u8 {
        match cells.values.get(&(region, address)) {
            Some(&value) => value,
            None => self.segment(region).data.counter(address),
        }
    }

    /// The addresses of a hash in a region, one for each row.
    fn addresses(&self, region: usize, hash: u64) -> impl Iterator<Item = u64> + use<M> {
        let geometry = *self.segment(region).data.geometry();
        (0..geometry.row_count()).map(move |row| geometry.address(hash, row))
    }

    /// The regions that may hold a hash, newest first.
    fn holders(&self, cells: &Cells, hash: u64) -> Vec<usize> {
        let holds = |&region: &usize| {
            self.addresses(region, hash).all(|address| self.counter(cells, region, address) > 0)
        };
        self.segments.order().filter(holds).collect()
    }

    pub(super) fn contains_counting(&self, cells: &Cells, hash: u64) -> bool {
        !self.holders(cells, hash).is_empty()
    }

    /// Adds one to the cells of a hash; true when it was not in.
    pub(super) fn add_counting(&self, hash: u64) -> Result<bool> {
        loop {
            let outcome = self.change(|cells| {
                let newest = self.segments.active().newest;
                let holders = self.holders(cells, hash);
                // A key that an older segment holds is counted there, where its removal will look.
                // A rotating filter counts in the newest: the older ones are going to be dropped.
                let region = match self.superblock.shape() {
                    Shape::Rotating(_) => newest,
                    _ => holders.first().copied().unwrap_or(newest),
                };
                let new = holders.is_empty();
                if !holders.contains(&region) && !self.reserve_place() {
                    return Ok(Added::Full);
                }
                for address in self.addresses(region, hash) {
                    let value = self.counter(cells, region, address);
                    if value < STUCK {
                        cells.values.insert((region, address), value + 1);
                    }
                }
                if !holders.contains(&region) {
                    *cells.keys.entry(region).or_default() += 1;
                }
                Ok(if new { Added::New } else { Added::Known })
            })?;
            match outcome {
                Added::New => return Ok(true),
                Added::Known => return Ok(false),
                Added::Full => self.handle_full()?,
                Added::Moved => {}
            }
        }
    }

    /// Takes one from the cells of a hash.
    pub(crate) fn remove_hash(&self, hash: u64) -> Result<()> {
        self.change(|cells| {
            let region = match self.holders(cells, hash)[..] {
                [] => return Err(Error::NotPresent),
                [region] => region,
                _ => return Err(Error::Ambiguous),
            };
            // A row that takes the same cell as another takes one more from it.
            let mut values = HashMap::new();
            for address in self.addresses(region, hash) {
                let value =
                    values.entry(address).or_insert_with(|| self.counter(cells, region, address));
                match *value {
                    STUCK => {}
                    0 => return Err(Error::NotPresent),
                    _ => *value -= 1,
                }
            }
            let gone = values.values().any(|&value| value == 0);
            cells.values.extend(values.into_iter().map(|(at, value)| ((region, at), value)));
            if gone {
                *cells.keys.entry(region).or_default() -= 1;
                if self.limit.is_some() && region == self.segments.active().newest {
                    self.filled.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    }

    /// How often a key may have been added: the smallest of its counters.
    pub(crate) fn count_hash(&self, hash: u64) -> Option<u8> {
        let cells = self.overlay.as_ref()?.read();
        let smallest = |region| {
            let counters = self.addresses(region, hash);
            counters.map(|address| self.counter(&cells, region, address)).min().unwrap_or(0)
        };
        Some(self.segments.order().map(smallest).fold(0, |sum, count| (sum + count).min(STUCK)))
    }

    /// Changes counters in the overlay: the data stay as they are until a sync.
    fn change<T>(&self, change: impl Fn(&mut Cells) -> Result<T>) -> Result<T> {
        let Some(overlay) = &self.overlay else {
            let reason = "only a counting filter counts";
            return Err(Error::parameter("kind", "plain", reason));
        };
        self.refuse_if_dead()?;
        if self.medium.sabotaged(Sabotage::SplitSync) {
            self.split_sync(overlay)?;
        }
        let mut cells = overlay.lock();
        self.refuse_if_dead()?;
        let result = change(&mut cells);
        overlay.count.store(cells.values.len() as u64, Ordering::Release);
        result
    }

    /// What [`Sabotage::SplitSync`] is: when the journal could not take all changes, those that are
    /// there become durable under the mark there was before them.
    fn split_sync(&self, overlay: &Overlay) -> Result<()> {
        let mut committed = lock(&self.committed);
        let stripes = self.all_stripes()?;
        let mut cells = overlay.lock();
        let most = crate::geometry::MAX_ROWS as u64;
        if !self.journal.has_room(cells.values.len() as u64 + most + 1) {
            self.log_counters(&mut committed, &mut cells)?;
            self.checkpoint_held(&mut committed, &stripes, State::Open)?;
        }
        Ok(())
    }

    /// A sync: logs all changes with a mark, in one group, then makes them in the data.
    pub(super) fn sync_counters(
        &self,
        committed: &mut Committed,
        stripes: &AllStripes<'_>,
        cells: &mut Cells,
        mark: u64,
    ) -> Result<()> {
        if cells.values.is_empty() && mark == committed.slot.mark {
            return Ok(());
        }
        let beyond = !self.journal.has_room(cells.values.len() as u64 + 1);
        if beyond {
            // For the checkpoint that has to follow.
            committed.slot.expect_numbers(1 + SLOTS_TO_CLOSE)?;
        }
        if beyond && cells.values.is_empty() {
            return self.checkpoint_with_mark(committed, stripes, mark);
        }
        self.log_with_mark(committed, cells, mark)?;
        if beyond { self.checkpoint_held(committed, stripes, State::Open) } else { Ok(()) }
    }

    /// Logs all changes under the mark there is, then makes them in the data. A checkpoint has to
    /// follow.
    pub(super) fn log_counters(&self, committed: &mut Committed, cells: &mut Cells) -> Result<()> {
        if cells.values.is_empty() {
            return Ok(());
        }
        self.log_with_mark(committed, cells, committed.slot.mark)
    }

    /// Forgets changes in a region that is no longer used.
    pub(super) fn forget_region(&self, cells: &mut Cells, region: usize) {
        cells.values.retain(|&(at, _), _| at != region);
        cells.keys.remove(&region);
        if let Some(overlay) = &self.overlay {
            overlay.count.store(cells.values.len() as u64, Ordering::Release);
        }
    }

    fn log_with_mark(&self, committed: &mut Committed, cells: &mut Cells, mark: u64) -> Result<()> {
        let listed = committed.slot.segments.iter().enumerate();
        let listed: HashMap<usize, usize> =
            listed.map(|(index, segment)| (segment.region, index)).collect();
        let mut changes: Vec<(usize, CounterChange)> = cells
            .values
            .iter()
            .filter_map(|(&(region, address), &new)| {
                let old = self.segment(region).data.counter(address);
                let segment = *listed.get(&region)?;
                Some((region, CounterChange { segment, address, old, new }))
            })
            .filter(|(_, change)| change.old != change.new)
            .collect();
        // In the order of the data, so that the same changes give the same journal.
        changes.sort_unstable_by_key(|(_, change)| (change.segment, change.address));
        let early = self.medium.sabotaged(Sabotage::CountBeforeLog);
        if early {
            self.apply_counters(&changes);
        }
        let group = self.journal.group();
        let records = changes.iter().map(|(_, change)| change.record(group));
        let records = records.chain([GroupRecord::sync(group, mark)]);
        let count = changes.len() as u64 + 1;
        if self.journal.has_room(count) {
            records.for_each(|record| self.journal.append(record));
            self.flush_journal()?;
        } else {
            self.log_beyond(&committed.slot, count, records)?;
        }
        self.journal.end_group();
        if !early {
            self.apply_counters(&changes);
        }
        for (region, keys) in cells.keys.drain() {
            if let Some(&index) = listed.get(&region) {
                let segment = &mut committed.slot.segments[index];
                segment.adds = segment.adds.saturating_add_signed(keys).min(MAX_COUNT);
                committed.changed = true;
            }
        }
        cells.values.clear();
        committed.slot.mark = mark;
        if let Some(overlay) = &self.overlay {
            overlay.count.store(0, Ordering::Release);
        }
        Ok(())
    }

    /// How many counters are not as in the data.
    #[cfg(test)]
    pub(super) fn pending(&self) -> u64 {
        self.overlay.as_ref().map_or(0, |overlay| overlay.count.load(Ordering::Relaxed))
    }

    /// Every counter that is not zero: its segment's offset, its address and its value.
    #[cfg(test)]
    pub(super) fn counters(&self, mut see: impl FnMut(u64, u64, u8)) {
        let committed = lock(&self.committed);
        let Some(overlay) = self.overlay.as_ref().map(Overlay::read) else { return };
        for (index, segment) in self.listed_of(&committed.slot).into_iter().enumerate() {
            let record = &committed.slot.segments[index];
            let (region, offset) = (record.region, record.offset);
            for word in 0..segment.data.words().len() {
                let mut counters = segment.data.words().load(word);
                while counters != 0 {
                    let at = counters.trailing_zeros() / 4;
                    let address = word as u64 * 16 + u64::from(at);
                    if !overlay.values.contains_key(&(region, address)) {
                        see(offset, address, (counters >> (4 * at) & 15) as u8);
                    }
                    counters &= !(15 << (4 * at));
                }
            }
            for (&(at, address), &value) in &overlay.values {
                if at == region && value > 0 {
                    see(offset, address, value);
                }
            }
        }
    }

    fn apply_counters(&self, changes: &[(usize, CounterChange)]) {
        let mut effects = lock(&self.effects);
        for &(region, change) in changes {
            let CounterChange { address, new, .. } = change;
            let page = kernel::counter_place(address).0 / PAGE_WORDS;
            effects.entry((region, page)).or_default().add_counter(&change);
            let segment = self.segment(region);
            let (word, shift) = kernel::counter_place(address);
            let before = segment.data.words().load(word);
            let after = (before & !(15 << shift)) | (u64::from(new) << shift);
            segment.data.store(word, after);
            segment.mark_dirty(word);
        }
    }
}

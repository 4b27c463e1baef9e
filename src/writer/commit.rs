//! Syncs, in groups: those that arrive while one flushes share the next (F-85).
//!
//! One thread at a time leads a *round*: it ends a group of records, flushes them with the gate open,
//! and so makes everything durable that was added before the round began. The others wait on a
//! condition for the first round that begins after they came. A thread may lead without a round (to
//! begin a session, or to add a segment): then no group ends. Rounds follow one another, so that the
//! sync record of a round shows that the one before it was durable (F-91).

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use super::journal::Span;
use super::{Engine, lock};
use crate::error::{Error, Result};
use crate::geometry::CellKind;
use crate::storage::{Medium, sabotage};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// The rounds of a writer.
#[derive(Default)]
pub(super) struct Rounds {
    state: Mutex<RoundState>,
    /// Calls that wait for a round with an even number, and for one with an odd number: at any time
    /// only those for the round that is under way and for the next. So the end of one wakes whom it
    /// concerns, and one of the others, which leads the next.
    finished: [Condvar; 2],
    /// Threads that wait for the lead alone.
    idle: Condvar,
}

#[derive(Default)]
struct RoundState {
    started: u64,
    /// The last round that made durable what it began with.
    finished: u64,
    /// A thread leads.
    busy: bool,
    /// The mark of the call that came last, for the next round.
    mark: Option<u64>,
}

/// The lead, which one thread at a time has: it alone ends groups and draws boundaries. It ends with
/// this value.
pub(super) struct Lead<'a> {
    rounds: &'a Rounds,
    round: Option<Round>,
    /// The mark of the call that leads: if its round fails, it alone is told so.
    own: Option<u64>,
}

/// A round that has begun.
struct Round {
    number: u64,
    mark: Option<u64>,
}

impl Lead<'_> {
    /// Begins a round, in which all changes so far become durable: the mark that goes with them, if one
    /// was given. Calls that come from now on wait for the next round.
    pub(super) fn begin_round(&mut self) -> Option<u64> {
        let mut state = lock(&self.rounds.state);
        self.begin_with(&mut state)
    }

    fn begin_with(&mut self, state: &mut RoundState) -> Option<u64> {
        state.started += 1;
        let mark = state.mark.take();
        self.round = Some(Round { number: state.started, mark });
        mark
    }

    /// Whether a mark waits for the next round.
    pub(super) fn has_mark(&self) -> bool {
        lock(&self.rounds.state).mark.is_some()
    }

    /// What the round began with is durable: the calls that wait for it may return.
    pub(super) fn finish_round(&mut self) {
        if let Some(round) = self.round.take() {
            lock(&self.rounds.state).finished = round.number;
            self.rounds.of(round.number).notify_all();
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.rounds.state);
        // A round that came to nothing: the calls that wait for it lead one of their own.
        if let Some(round) = self.round.take() {
            state.mark = state.mark.or(round.mark.filter(|_| round.mark != self.own));
            self.rounds.wake_all();
        }
        state.busy = false;
        self.rounds.of(state.started + 1).notify_one();
        self.rounds.idle.notify_one();
    }
}

fn wait<'a>(condition: &Condvar, state: MutexGuard<'a, RoundState>) -> MutexGuard<'a, RoundState> {
    condition.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Rounds {
    /// Wakes every thread that waits, because there may be no next round.
    fn wake_all(&self) {
        self.finished.iter().chain([&self.idle]).for_each(Condvar::notify_all);
    }

    /// What calls wait on that need a round.
    fn of(&self, round: u64) -> &Condvar {
        &self.finished[(round % 2) as usize]
    }

    fn lead(&self, state: &mut RoundState) -> Lead<'_> {
        state.busy = true;
        Lead { rounds: self, round: None, own: None }
    }
}

impl<M: Medium> Engine<M> {
    /// Makes every add that returned before this call durable.
    ///
    /// `mark` becomes the user's own position; without one the last is kept.
    pub(crate) fn sync(&self, mark: Option<u64>) -> Result<()> {
        self.refuse_if_dead()?;
        let news = || mark.is_some_and(|mark| mark != self.mark());
        if self.stripes.are_locked() && !news() {
            return Ok(());
        }
        self.ensure_begun()?;
        let start = Instant::now();
        let mut state = lock(&self.rounds.state);
        // What may have been added before this call is seen here without a stripe:
        // - by this thread, or by one that it has heard of: what happened before is seen.
        // - by a thread whose cells this one found set when it added the same key, and so wrote no
        //   record: that thread took its record, or found the journal full, before it stored the
        //   cells with release (`Words::store`, and the fences in front of wider stores). The fence
        //   here makes those stores, seen by a relaxed load, order what comes before them.
        fence(Ordering::Acquire);
        let needed = if self.has_unsynced() || news() {
            state.started + 1
        } else if state.busy {
            // The round that is under way has ended the group of all that was added.
            state.started
        } else {
            return Ok(());
        };
        state.mark = mark.or(state.mark);
        while state.finished < needed {
            self.refuse_wait_if_dead()?;
            if state.busy {
                state = wait(self.rounds.of(needed), state);
                continue;
            }
            state.mark = state.mark.or(mark);
            let mut lead = self.rounds.lead(&mut state);
            lead.own = mark;
            let mark = lead.begin_with(&mut state);
            drop(state);
            self.sync_round(mark)?;
            lead.finish_round();
            drop(lead);
            state = lock(&self.rounds.state);
        }
        drop(state);
        self.counters.synced(start.elapsed());
        self.refuse_if_dead()
    }

    /// The lead, once no other thread has it.
    pub(super) fn lead(&self) -> Result<Lead<'_>> {
        let mut state = lock(&self.rounds.state);
        while state.busy {
            state = wait(&self.rounds.idle, state);
            self.refuse_wait_if_dead()?;
        }
        Ok(self.rounds.lead(&mut state))
    }

    /// An error if this handle is dead; then the others that wait are woken, to see it too.
    fn refuse_wait_if_dead(&self) -> Result<()> {
        self.refuse_if_dead().inspect_err(|_| self.rounds.wake_all())
    }

    /// Whether anything was changed since the last sync.
    pub(super) fn has_unsynced(&self) -> bool {
        self.journal.has_unsynced() || !lock(&self.spill).is_empty()
    }

    /// A round: all changes so far become durable with the mark.
    pub(super) fn sync_round(&self, mark: Option<u64>) -> Result<()> {
        let mark = mark.unwrap_or(self.mark());
        if !self.has_unsynced() && mark == self.mark() {
            return Ok(());
        }
        match self.superblock.cells {
            CellKind::Plain => self.sync_bits(mark)?,
            CellKind::Counting => self.sync_counters(mark)?,
            CellKind::Sealed => unreachable!("no writer opens a sealed file"),
        }
        self.mark.store(mark, Ordering::Release);
        self.counters.flushed();
        Ok(())
    }

    fn sync_bits(&self, mark: u64) -> Result<()> {
        let stripes = self.all_stripes()?;
        self.journal.fill_gaps(&self.medium);
        if !self.journal.has_room(1) {
            drop(stripes);
            // Nothing tells what was added without a record: data and tables have to be written.
            self.counters.stalled();
            return self.checkpoint_led(mark);
        }
        let span = self.journal.end_group(mark);
        // The last place is taken: the epoch goes on in the other half, if that is free.
        let full = !self.journal.has_room(2);
        let frozen = if full { self.try_freeze(&stripes, mark) } else { None };
        // From here on adds go on, behind the sync record.
        drop(stripes);
        self.flush_group(&span)?;
        match frozen {
            Some(tables) => self.finish_later(tables),
            None => Ok(()),
        }
    }

    /// Makes a group durable and writes that down.
    pub(super) fn flush_group(&self, span: &Span) -> Result<()> {
        let early = sabotage!(self.medium, ConfirmEarly);
        if early {
            self.journal.confirm(span);
        }
        self.flush_journal(span)?;
        if !early {
            self.journal.confirm(span);
        }
        Ok(())
    }

    /// Makes records durable, or ends this handle's life.
    pub(super) fn flush_journal(&self, span: &Span) -> Result<()> {
        let mut flushed = self.journal.flush(&self.medium, span);
        if flushed.is_err() && sabotage!(self.medium, RetryFailedSync) {
            flushed = self.journal.flush(&self.medium, span);
        }
        flushed.map_err(|error| self.poison_with(Error::Io { action: "sync the journal", error }))
    }
}

//! Syncs, in groups: those that arrive while one flushes share the next (F-85).
//!
//! One thread at a time leads a *round*: it ends a group of records, flushes them with the gate open,
//! and so makes everything durable that was added before the round began. The others wait on a
//! condition for the first round that begins after they came. A thread may lead without a round (to
//! begin a session, or to add a segment): then no group ends. Rounds follow one another, so that the
//! sync record of a round shows that the one before it was durable (F-91).
//!
//! Threads that sync again and again would fall into two groups that wait for each other's flush. So a
//! round begins when the calls that the last one served have come back, or after twice the time that
//! it took.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::journal::Span;
use super::{Engine, lock};
use crate::error::{Error, Result};
use crate::geometry::CellKind;
use crate::storage::{Medium, sabotage};
use crate::sync::{Condvar, Mutex, MutexGuard, wait_until};

/// The longest that a round waits for calls to come back.
const LONGEST_GATHERING: Duration = Duration::from_millis(1);

/// The most rounds that begin at once because others waited in vain.
const MOST_AT_ONCE: u32 = 256;

/// The rounds of a writer.
#[derive(Default)]
pub(super) struct Rounds {
    state: Mutex<RoundState>,
    /// Calls that wait for a round with an even number, and for one with an odd number: unless a round
    /// came to nothing, only those for the round that is under way and for the next. So the end of one
    /// wakes whom it concerns, and one of the others, which leads the next.
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
    /// Calls that the next round will serve.
    calls: u64,
    gathering: Gathering,
}

impl RoundState {
    /// Whether a thread leads, and has begun no round, or ended it.
    fn is_led_without_round(&self) -> bool {
        self.busy && self.started == self.finished
    }

    /// Has the next round serve a call, with its mark, once: the number of that round.
    fn count(&mut self, mark: Option<u64>, is_counted: &mut bool) -> u64 {
        if !std::mem::replace(is_counted, true) {
            self.calls += 1;
            self.mark = mark.or(self.mark);
        }
        self.started + 1
    }
}

/// The calls that are likely to come in a moment, because a round has just let them go.
#[derive(Default)]
struct Gathering {
    /// With those that were waiting then.
    expected: u64,
    /// Until when the next round waits for them, if it does.
    until: Option<Instant>,
    /// The round for which a waiting thread looks at the clock.
    watched: u64,
    /// Rounds that still begin at once, and how many did after the last one that waited in vain.
    at_once: u32,
    in_vain: u32,
}

impl Gathering {
    /// A round that took some time has let calls go, while others were waiting.
    fn expect(&mut self, let_go: u64, waiting: u64, took: Duration) {
        self.expected = let_go + waiting;
        let wait = self.expected > 1 && self.at_once == 0;
        self.until = wait.then(|| Instant::now() + LONGEST_GATHERING.min(2 * took));
        self.at_once = self.at_once.saturating_sub(1);
    }

    /// A round begins, with this many calls. If it waited for few, some do not wait.
    fn end(&mut self, calls: u64) {
        if self.until.take().is_some() {
            let in_vain = 2 * calls <= self.expected;
            self.in_vain = if in_vain { MOST_AT_ONCE.min(2 * self.in_vain + 1) } else { 0 };
            self.at_once = self.in_vain;
        }
    }
}

/// The lead, which one thread at a time has: it alone ends groups and draws boundaries. It ends with
/// this value.
pub(super) struct Lead<'a> {
    rounds: &'a Rounds,
    round: Option<Round>,
    /// A call of `sync` leads the round that it waits for: if that fails, it alone is told so.
    has_own_call: bool,
}

/// A round that has begun.
struct Round {
    number: u64,
    mark: Option<u64>,
    /// Calls that it serves.
    calls: u64,
    began: Instant,
}

impl Lead<'_> {
    /// Begins a round, in which all changes so far become durable: the mark that goes with them, if one
    /// was given. Calls that come from now on wait for the next round.
    pub(super) fn begin_round(&mut self) -> Option<u64> {
        let mut state = lock(&self.rounds.state);
        // It begins whether or not calls have come, and tells nothing of waiting for them.
        state.gathering.until = None;
        self.begin_with(&mut state)
    }

    fn begin_with(&mut self, state: &mut RoundState) -> Option<u64> {
        state.started += 1;
        let mark = state.mark.take();
        let calls = std::mem::take(&mut state.calls);
        state.gathering.end(calls);
        self.round = Some(Round { number: state.started, mark, calls, began: Instant::now() });
        mark
    }

    /// Whether a mark waits for the next round.
    pub(super) fn has_mark(&self) -> bool {
        lock(&self.rounds.state).mark.is_some()
    }

    /// What the round began with is durable: the calls that wait for it may return.
    pub(super) fn finish_round(&mut self) {
        if let Some(round) = self.round.take() {
            let woken = self.rounds.finish(&mut lock(&self.rounds.state), &round);
            self.rounds.wake(woken);
        }
    }

    /// As [`finish_round`](Self::finish_round), and ends the lead: before the calls are woken, which
    /// takes long if there are many, so that the first of them may begin the next round.
    fn finish(mut self) {
        let (rounds, round) = (self.rounds, self.round.take());
        let woken = round.map(|round| rounds.finish(&mut lock(&rounds.state), &round));
        drop(self);
        if let Some(woken) = woken {
            rounds.wake(woken);
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.rounds.state);
        // A round that came to nothing: the calls that wait for it lead one of their own.
        if let Some(round) = self.round.take() {
            // So does the mark, unless it is that of the only call: that one is told of the failure.
            state.calls += round.calls - u64::from(self.has_own_call);
            let is_wanted = !self.has_own_call || round.calls > 1;
            state.mark = state.mark.or(round.mark.filter(|_| is_wanted));
        }
        state.busy = false;
        let next = Woken::after(&state, state.started + 1);
        drop(state);
        match next {
            Woken::All => self.rounds.wake_all(),
            Woken::Of(round) => self.rounds.of(round).notify_one(),
        }
        self.rounds.idle.notify_one();
    }
}

fn wait<'a>(condition: &Condvar, state: MutexGuard<'a, RoundState>) -> MutexGuard<'a, RoundState> {
    condition.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whom the end of a round or of a lead concerns.
enum Woken {
    /// The calls that wait for a round.
    Of(u64),
    /// Every thread that waits: a round came to nothing, and its calls wait as for any other.
    All,
}

impl Woken {
    /// The calls that wait for a round, unless there are some whose round has failed.
    fn after(state: &RoundState, round: u64) -> Self {
        if state.finished < state.started { Woken::All } else { Woken::Of(round) }
    }
}

impl Rounds {
    /// Wakes every thread that waits, because there may be no next round.
    fn wake_all(&self) {
        self.finished.iter().chain([&self.idle]).for_each(Condvar::notify_all);
    }

    fn wake(&self, woken: Woken) {
        match woken {
            Woken::All => self.wake_all(),
            Woken::Of(round) => self.of(round).notify_all(),
        }
    }

    /// What calls wait on that need a round.
    fn of(&self, round: u64) -> &Condvar {
        &self.finished[(round % 2) as usize]
    }

    /// Waits for a round that begins once some more calls have come, or at a time.
    fn wait_for_calls<'a>(
        &'a self,
        mut state: MutexGuard<'a, RoundState>,
        round: u64,
        until: Instant,
    ) -> MutexGuard<'a, RoundState> {
        if state.gathering.watched == round {
            return wait(self.of(round), state);
        }
        state.gathering.watched = round;
        let (mut state, late) = wait_until(self.of(round), &self.state, state, until);
        // Otherwise the round came, and a thread that waits for a later one looks at the clock.
        if state.gathering.watched == round {
            state.gathering.watched = 0;
            if late && state.started < round {
                let calls = state.calls;
                state.gathering.end(calls);
            }
        }
        state
    }

    /// Counts a round as finished; whom that concerns.
    fn finish(&self, state: &mut RoundState, round: &Round) -> Woken {
        let failed = round.number > state.finished + 1;
        state.finished = round.number;
        let waiting = state.calls;
        state.gathering.expect(round.calls, waiting, round.began.elapsed());
        if failed { Woken::All } else { Woken::Of(round.number) }
    }

    fn lead(&self, state: &mut RoundState) -> Lead<'_> {
        state.busy = true;
        Lead { rounds: self, round: None, has_own_call: false }
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
        // Who leads without a round may have changes of counters in hand that are in no journal and
        // under no slot yet: a rollover does.
        let mut is_counted = false;
        let mut needed = if self.has_unsynced() || news() || state.is_led_without_round() {
            state.count(mark, &mut is_counted)
        } else if state.busy {
            // The round that is under way has ended the group of all that was added.
            state.started
        } else {
            return Ok(());
        };
        while state.finished < needed {
            self.refuse_wait_if_dead()?;
            if state.busy {
                state = wait(self.rounds.of(needed), state);
                continue;
            }
            // Or the one after it, if the round that it waited for came to nothing.
            needed = state.count(mark, &mut is_counted);
            if let Some(until) = state.gathering.until
                && state.calls < state.gathering.expected
            {
                state = self.rounds.wait_for_calls(state, needed, until);
                continue;
            }
            let mut lead = self.rounds.lead(&mut state);
            lead.has_own_call = true;
            let mark = lead.begin_with(&mut state);
            drop(state);
            self.sync_round(mark)?;
            lead.finish();
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
        if let Some(tables) = frozen {
            self.finish_later(tables);
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A round that fails is told to the call that led it; the others of the round keep its mark.
    #[test]
    fn a_round_that_fails_drops_no_mark_of_others() {
        let rounds = Rounds::default();
        let fail = |marks: &[Option<u64>]| {
            let mut state = lock(&rounds.state);
            for &mark in marks {
                state.count(mark, &mut false);
            }
            let mut lead = rounds.lead(&mut state);
            lead.has_own_call = true;
            lead.begin_with(&mut state);
            drop(state);
            drop(lead);
            let mut state = lock(&rounds.state);
            (std::mem::take(&mut state.mark), std::mem::take(&mut state.calls))
        };
        assert_eq!(fail(&[Some(6), Some(5)]), (Some(5), 1));
        assert_eq!(fail(&[Some(5), Some(5)]), (Some(5), 1));
        assert_eq!(fail(&[None, Some(5)]), (Some(5), 1));
        assert_eq!(fail(&[Some(5)]), (None, 0), "it was told of the failure");
    }

    #[test]
    fn rounds_that_waited_in_vain_make_others_begin_at_once() {
        let mut gathering = Gathering::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            gathering.expect(1, 1, Duration::from_micros(100));
            waits.push(gathering.until.is_some());
            gathering.end(1);
        }
        let [yes, no] = [true, false];
        assert_eq!(waits, [yes, no, yes, no, no, no, yes, no, no, no, no, no]);
        gathering = Gathering::default();
        for _ in 0..12 {
            gathering.expect(1, 1, Duration::from_micros(100));
            assert!(gathering.until.is_some());
            gathering.end(2);
        }
        gathering.expect(1, 0, Duration::from_micros(100));
        assert!(gathering.until.is_none(), "one thread waits for itself");
    }
}

//! Random histories of a filter, with a crash after every step.

use std::sync::{Arc, Mutex, MutexGuard};

use super::damage::{self, Noticed};
use super::history::history;
use crate::file::load;
use crate::format::{JOURNAL_OFFSET, Shape, State};
use crate::geometry::CellKind;
use crate::hash::split_mix;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Image, Keep, SimulatedMedium, View};
use crate::writer::Engine;

/// What a campaign counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) histories: u64,
    pub(super) power_cuts: u64,
    pub(super) kills: u64,
    /// Crashes in the recovery from a crash, among the above.
    pub(super) nested: u64,
    pub(super) failed_syncs: u64,
    /// Damages of what a power cut left that were refused.
    pub(super) damaged: u64,
    /// The same of what a kill left.
    pub(super) damaged_in_boot: u64,
    /// Damages of which could be said only that the page is not verifiable.
    pub(super) unverifiable: u64,
    pub(super) keys_checked: u64,
    #[cfg(feature = "digest")]
    pub(super) deltas: super::deltas::Counts,
    /// The first thing that was not as it must be.
    pub(super) failure: Option<String>,
}

/// What filters a campaign is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) cells: CellKind,
    pub(super) shape: Shape,
    /// Whether deltas are taken in.
    #[cfg(feature = "digest")]
    pub(super) deltas: bool,
}

impl Kind {
    pub(super) const PLAIN: Kind = Kind::new(CellKind::Plain, Shape::Fixed);
    pub(super) const GROWING: Kind = Kind::new(CellKind::Plain, Shape::Growing);
    pub(super) const ROTATING: Kind = Kind::new(CellKind::Plain, Shape::Rotating(2));
    pub(super) const COUNTING: Kind = Kind::new(CellKind::Counting, Shape::Fixed);
    pub(super) const COUNTING_GROWING: Kind = Kind::new(CellKind::Counting, Shape::Growing);
    pub(super) const COUNTING_ROTATING: Kind = Kind::new(CellKind::Counting, Shape::Rotating(3));

    pub(super) const fn new(cells: CellKind, shape: Shape) -> Self {
        Kind {
            cells,
            shape,
            #[cfg(feature = "digest")]
            deltas: false,
        }
    }

    /// The same, of filters that take deltas in.
    #[cfg(feature = "digest")]
    pub(super) const fn with_deltas(self) -> Self {
        Kind { deltas: true, ..self }
    }
}

/// What the user was told: what a crash must not take back.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Keys added before a sync that returned, with the number of rotations before that.
    pub(super) synced: Vec<(u64, u64)>,
    /// Keys added since.
    pub(super) unsynced: Vec<(u64, u64)>,
    /// Rotations so far, one under way included.
    pub(super) rotations: u64,
    /// Generations that are kept.
    pub(super) generations: u64,
    /// The states that the counters may be in, each with its mark: that of the last sync that
    /// returned, and those of one under way. Nothing in between; `None` in a plain filter.
    pub(super) states: Option<Vec<(u64, u64)>>,
    /// The mark of the last sync that returned, and that of one under way.
    pub(super) marks: Vec<u64>,
    /// Adds of this epoch are more than the journal holds, so that kills need not be exact.
    pub(super) overflowed: bool,
    /// A delta that is being taken in.
    #[cfg(feature = "digest")]
    pub(super) delta: Option<Arc<super::deltas::Delta>>,
}

/// Shared by the history and the hook that watches its disk.
pub(super) struct Campaign {
    pub(super) outcome: Outcome,
    pub(super) told: Told,
    pub(super) choices: Choices,
    pub(super) crashes: u64,
    pub(super) sabotage: Option<Sabotage>,
    /// One step in this number is followed by a crash.
    pub(super) pace: u64,
}

pub(super) type Shared = Arc<Mutex<Campaign>>;

pub(super) fn lock(shared: &Shared) -> MutexGuard<'_, Campaign> {
    shared.lock().unwrap()
}

impl Campaign {
    /// Runs histories until this number of crashes has been tried or something went wrong.
    pub(super) fn run(kind: Kind, seed: u64, crashes: u64, sabotage: Option<Sabotage>) -> Outcome {
        let shared = Arc::new(Mutex::new(Campaign {
            outcome: Outcome::default(),
            told: Told::default(),
            choices: Choices::new(seed),
            crashes,
            sabotage,
            pace: 1,
        }));
        loop {
            {
                let mut campaign = lock(&shared);
                if campaign.is_over() {
                    return campaign.outcome.clone();
                }
                campaign.outcome.histories += 1;
                campaign.told = Told {
                    marks: vec![0],
                    states: (kind.cells == CellKind::Counting).then(|| vec![(0, 0)]),
                    generations: match kind.shape {
                        Shape::Rotating(generations) => generations,
                        _ => 0,
                    },
                    ..Told::default()
                };
                campaign.pace = 1 + campaign.choices.below(16);
            }
            if let Err(failure) = history(kind, &shared) {
                lock(&shared).fail(failure);
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.outcome.failure.is_some()
            || self.outcome.power_cuts + self.outcome.kills >= self.crashes
    }

    pub(super) fn fail(&mut self, failure: String) {
        let seen = format!("history {}: {failure}", self.outcome.histories);
        self.outcome.failure.get_or_insert(seen);
    }

    /// Called after every change of the disk: crash here, or not.
    fn step(&mut self, view: &View<'_>, depth: u32) {
        if self.is_over() || !self.choices.once_in(self.pace << (3 * depth)) {
            return;
        }
        let killed = self.choices.once_in(4);
        let image = if killed {
            self.outcome.kills += 1;
            view.killed()
        } else {
            self.outcome.power_cuts += 1;
            let keep = Keep::ALL[self.choices.below(5) as usize];
            view.power_cut(keep, &mut self.choices)
        };
        if let Err(failure) = clean_files_hold_no_records(&image) {
            return self.fail(failure);
        }
        self.outcome.nested += u64::from(depth > 0);
        let result = if self.choices.once_in(3) {
            damage::check(&image, &mut self.choices, self.sabotage).map(|found| match found {
                Some(Noticed::Refused) if killed => self.outcome.damaged_in_boot += 1,
                Some(Noticed::Refused) => self.outcome.damaged += 1,
                Some(Noticed::Unverifiable) => self.outcome.unverifiable += 1,
                None => {}
            })
        } else {
            self.survive(image, killed && depth == 0, depth)
        };
        if let Err(failure) = result {
            self.fail(failure);
        }
    }

    /// Opens what a crash left and holds it against what the user was told.
    fn survive(&mut self, image: Image, exact: bool, depth: u32) -> Result<(), String> {
        let medium = SimulatedMedium::new(image, self.sabotage);
        let engine = self
            .with_crashes(&medium, depth, || Engine::open(medium.clone()))
            .map_err(|failure| format!("after a crash in recovery: {failure}"))?
            .map_err(|error| format!("a sound file was refused: {error}"))?;
        self.told.hold(&engine, exact)?;
        self.outcome.keys_checked += self.told.synced.len() as u64;
        #[cfg(feature = "digest")]
        if let Some(delta) = self.told.delta.clone() {
            let mut choices = Choices::new(self.choices.word());
            self.outcome.deltas.again += 1;
            return self
                .with_crashes(&medium, depth, || delta.apply_again(&medium, &engine, &mut choices))
                .map_err(|failure| format!("after a crash of a second application: {failure}"))?;
        }
        if self.choices.once_in(4) {
            self.life_after(medium, &engine)?;
        }
        Ok(())
    }

    /// Does something that is watched by a campaign of its own, with the same promises to keep.
    fn with_crashes<T>(
        &mut self,
        medium: &SimulatedMedium,
        depth: u32,
        work: impl FnOnce() -> T,
    ) -> Result<T, String> {
        if depth >= 2 {
            return Ok(work());
        }
        let inner = Arc::new(Mutex::new(Campaign {
            outcome: Outcome::default(),
            told: self.told.clone(),
            choices: Choices::new(self.choices.word()),
            crashes: 2,
            sabotage: self.sabotage,
            pace: 1,
        }));
        watch(medium, &inner, depth + 1);
        let done = work();
        medium.watch(None);
        let inner = lock(&inner).outcome.clone();
        self.outcome.power_cuts += inner.power_cuts;
        self.outcome.kills += inner.kills;
        self.outcome.nested += inner.nested;
        self.outcome.keys_checked += inner.keys_checked;
        self.outcome.damaged += inner.damaged;
        self.outcome.damaged_in_boot += inner.damaged_in_boot;
        self.outcome.unverifiable += inner.unverifiable;
        #[cfg(feature = "digest")]
        self.outcome.deltas.add(inner.deltas);
        inner.failure.map_or(Ok(done), Err)
    }

    /// What is synced after a recovery must survive the next power cut as well.
    fn life_after(
        &mut self,
        medium: SimulatedMedium,
        engine: &Engine<SimulatedMedium>,
    ) -> Result<(), String> {
        let mut told = self.told.clone();
        for _ in 0..self.choices.below(5) {
            let hash = self.choices.word();
            engine.add_hash(hash).map_err(|error| format!("after recovery: {error}"))?;
            told.synced.push((hash, told.rotations));
        }
        engine.sync(Some(77)).map_err(|error| format!("after recovery: {error}"))?;
        told.marks = vec![77];
        if let Some(states) = &mut told.states {
            *states = vec![(state(engine), 77)];
        }
        let keep = Keep::ALL[self.choices.below(5) as usize];
        let image = medium.view(|view| view.power_cut(keep, &mut self.choices));
        self.outcome.power_cuts += 1;
        let engine = Engine::open(SimulatedMedium::new(image, self.sabotage))
            .map_err(|error| format!("after recovery, sync and power cut: {error}"))?;
        told.hold(&engine, false)
    }
}

/// A file that says it is clean has nothing in its journal and ends where its slot says (F-88).
fn clean_files_hold_no_records(image: &Image) -> Result<(), String> {
    let Ok(loaded) = load(&SimulatedMedium::new(image.clone(), None)) else { return Ok(()) };
    if loaded.slot.state != State::Clean {
        return Ok(());
    }
    let words = loaded.superblock.journal_bytes as usize / 8;
    let journal = &image[JOURNAL_OFFSET as usize / 8..][..words];
    let left = journal.iter().filter(|&&word| word != 0).count();
    match left {
        0 => Ok(()),
        _ => Err(format!("{left} words of the journal of a clean file are not zero")),
    }
}

/// A number for the values of all counters and the number of keys of each segment, the same whatever
/// empty segments there are.
pub(super) fn state(engine: &Engine<SimulatedMedium>) -> u64 {
    state_of(engine, |_| true)
}

/// As [`state`], of the segments at some offsets only.
pub(super) fn state_of(engine: &Engine<SimulatedMedium>, counts: impl Fn(u64) -> bool) -> u64 {
    let mut sum = 0u64;
    engine.counters(|offset, address, value| {
        if counts(offset) {
            sum = sum.wrapping_add(split_mix(offset ^ u64::from(value), address));
        }
    });
    for (offset, keys) in engine.keys_held() {
        if counts(offset) && keys != 0 {
            sum = sum.wrapping_add(split_mix(!offset, keys.cast_unsigned()));
        }
    }
    sum
}

impl Told {
    /// Whether a reopened filter keeps every promise.
    pub(super) fn hold(&self, engine: &Engine<SimulatedMedium>, exact: bool) -> Result<(), String> {
        let mark = engine.mark();
        if let Some(states) = &self.states {
            if !states.contains(&(state(engine), mark)) {
                let count = states.len();
                return Err(format!("the counters with mark {mark} are in none of {count} states"));
            }
        } else {
            let kept = self.synced.iter().filter(|(_, rotations)| {
                self.generations == 0 || rotations + self.generations > self.rotations
            });
            let lost = kept.filter(|(hash, _)| !engine.contains_hash(*hash)).count();
            if lost > 0 {
                return Err(format!("{lost} of {} synced keys are lost", self.synced.len()));
            }
        }
        #[cfg(feature = "digest")]
        if let Some(delta) = &self.delta {
            delta.hold(engine, exact)?;
        }
        if !self.marks.contains(&mark) {
            return Err(format!("the mark is {mark} and must be one of {:?}", self.marks));
        }
        match engine.recovery() {
            Some(report) if exact && !self.overflowed && report.pages_unverifiable > 0 => {
                Err(format!("a kill left pages unexplained: {report:?}"))
            }
            _ => Ok(()),
        }
    }
}

/// Lets a campaign crash the system after each step of a disk.
pub(super) fn watch(medium: &SimulatedMedium, shared: &Shared, depth: u32) {
    let shared = Arc::clone(shared);
    medium.watch(Some(Box::new(move |view: &View<'_>| lock(&shared).step(view, depth))));
}

impl Campaign {
    /// A sync returned: what was added counts from now on.
    pub(super) fn synced(&mut self, mark: Option<u64>, engine: &Engine<SimulatedMedium>) {
        let unsynced = std::mem::take(&mut self.told.unsynced);
        self.told.synced.extend(unsynced);
        let mark = mark.unwrap_or(self.told.marks[0]);
        self.told.marks = vec![mark];
        if let Some(states) = &mut self.told.states {
            *states = vec![(state(engine), mark)];
        }
    }

    /// What was done becomes durable, all of it at once, with the mark there is.
    pub(super) fn syncing(&mut self, engine: &Engine<SimulatedMedium>) {
        let mark = self.told.marks[0];
        if let Some(states) = &mut self.told.states {
            states.push((state(engine), mark));
        }
    }

    /// An operation found no space: what it was to make durable is not.
    pub(super) fn withdraw(&mut self, engine: &Engine<SimulatedMedium>) {
        let mark = engine.mark();
        self.told.marks.retain(|&allowed| allowed == mark);
        if let Some(states) = &mut self.told.states {
            states.truncate(1);
        }
    }
}

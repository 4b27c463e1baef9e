//! Random histories of a filter, with a crash after every step.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard};

use super::damage::{self, Noticed};
use crate::engine::{Engine, create_file, file_bytes, load};
use crate::error::Error;
use crate::format::{CellKind, JOURNAL_OFFSET, Metadata, Shape, State, Superblock, WhenFull};
use crate::geometry::Geometry;
use crate::hash::split_mix;
use crate::plan::{Plan, growth_plan};
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Image, Keep, SimulatedMedium, View};
use crate::sync::assume_thread_number;

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
    /// The first thing that was not as it must be.
    pub(super) failure: Option<String>,
}

/// What filters a campaign is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) cells: CellKind,
    pub(super) shape: Shape,
}

/// What the user was told: what a crash must not take back.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Keys added before a sync that returned, with the number of rotations before that.
    synced: Vec<(u64, u64)>,
    /// Keys added since.
    unsynced: Vec<(u64, u64)>,
    /// Rotations so far, one under way included.
    rotations: u64,
    /// Generations that are kept.
    generations: u64,
    /// The states that the counters may be in, each with its mark: that of the last sync that
    /// returned, and those of one under way. Nothing in between; `None` in a plain filter.
    states: Option<Vec<(u64, u64)>>,
    /// The mark of the last sync that returned, and that of one under way.
    marks: Vec<u64>,
    /// Adds of this epoch are more than the journal holds, so that kills need not be exact.
    overflowed: bool,
}

/// Shared by the history and the hook that watches its disk.
pub(super) struct Campaign {
    outcome: Outcome,
    told: Told,
    choices: Choices,
    crashes: u64,
    sabotage: Option<Sabotage>,
    /// One step in so many is followed by a crash.
    pace: u64,
}

type Shared = Arc<Mutex<Campaign>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Campaign> {
    shared.lock().unwrap()
}

impl Campaign {
    /// Runs histories until so many crashes have been tried or something went wrong.
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

    fn is_over(&self) -> bool {
        self.outcome.failure.is_some()
            || self.outcome.power_cuts + self.outcome.kills >= self.crashes
    }

    fn fail(&mut self, failure: String) {
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
        if depth < 2 {
            // The recovery is watched by a campaign of its own, with the same promises to keep.
            let inner = Arc::new(Mutex::new(Campaign {
                outcome: Outcome::default(),
                told: self.told.clone(),
                choices: Choices::new(self.choices.word()),
                crashes: 2,
                sabotage: self.sabotage,
                pace: 1,
            }));
            watch(&medium, &inner, depth + 1);
            let engine = Engine::open(medium.clone());
            medium.watch(None);
            let inner = lock(&inner).outcome.clone();
            self.outcome.power_cuts += inner.power_cuts;
            self.outcome.kills += inner.kills;
            self.outcome.nested += inner.nested;
            self.outcome.keys_checked += inner.keys_checked;
            self.outcome.damaged += inner.damaged;
            self.outcome.damaged_in_boot += inner.damaged_in_boot;
            self.outcome.unverifiable += inner.unverifiable;
            match inner.failure {
                Some(failure) => Err(format!("after a crash in recovery: {failure}")),
                None => self.check(medium, engine, exact),
            }
        } else {
            let engine = Engine::open(medium.clone());
            self.check(medium, engine, exact)
        }
    }

    fn check(
        &mut self,
        medium: SimulatedMedium,
        engine: crate::Result<Engine<SimulatedMedium>>,
        exact: bool,
    ) -> Result<(), String> {
        let engine = engine.map_err(|error| format!("a sound file was refused: {error}"))?;
        self.told.hold(&engine, exact)?;
        self.outcome.keys_checked += self.told.synced.len() as u64;
        if self.choices.once_in(4) {
            self.life_after(medium, &engine)?;
        }
        Ok(())
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

/// A number for the values of all counters, the same whatever empty segments there are.
fn state(engine: &Engine<SimulatedMedium>) -> u64 {
    state_of(engine, |_| true)
}

/// As [`state`], of the segments at some offsets only.
fn state_of(engine: &Engine<SimulatedMedium>, counts: impl Fn(u64) -> bool) -> u64 {
    let mut sum = 0u64;
    engine.counters(|offset, address, value| {
        if counts(offset) {
            sum = sum.wrapping_add(split_mix(offset ^ u64::from(value), address));
        }
    });
    sum
}

impl Told {
    /// Whether a reopened filter keeps every promise.
    fn hold(&self, engine: &Engine<SimulatedMedium>, exact: bool) -> Result<(), String> {
        let mark = engine.committed().slot.mark;
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
fn watch(medium: &SimulatedMedium, shared: &Shared, depth: u32) {
    let shared = Arc::clone(shared);
    medium.watch(Some(Box::new(move |view: &View<'_>| lock(&shared).step(view, depth))));
}

/// A small filter: few pages, so that keys meet in them.
pub(super) fn small_geometry(choices: &mut Choices) -> Geometry {
    match choices.below(5) {
        0 => Geometry::rows(3, 1 + choices.below(40_000)),
        1 => Geometry::flat(1 + choices.below(7) as u32, 64 + choices.below(70_000)),
        2 => Geometry::page(1 + choices.below(32) as u32, 1 + choices.below(4)),
        _ => Geometry::line(1 << choices.below(6), 1 + choices.below(200)),
    }
    .unwrap()
}

/// What a growing filter of a campaign is made for: so little that it grows often.
const GROWING_CAPACITY: u64 = 12;
const GROWING_RATE: f64 = 0.2;

/// A device with an empty plain filter of one segment on it, all durable.
pub(super) fn new_filter(
    geometry: Geometry,
    journal_bytes: u64,
    sabotage: Option<Sabotage>,
) -> SimulatedMedium {
    let kind = Kind { cells: CellKind::Plain, shape: Shape::Fixed };
    new_filter_of(kind, geometry, journal_bytes, sabotage)
}

/// A device with an empty filter on it, all durable.
pub(super) fn new_filter_of(
    kind: Kind,
    geometry: Geometry,
    journal_bytes: u64,
    sabotage: Option<Sabotage>,
) -> SimulatedMedium {
    let growing = kind.shape == Shape::Growing;
    let superblock = Superblock {
        read_only_compatible: 0,
        compatible: 0,
        uuid: [7; 16],
        hash_seed: 0,
        cells: kind.cells,
        when_full: if growing { WhenFull::Grow } else { WhenFull::Allow },
        journal_bytes,
        target_rate: if growing { GROWING_RATE } else { 0.0 },
        capacity: if growing { GROWING_CAPACITY } else { 0 },
        generations: match kind.shape {
            Shape::Rotating(generations) => generations,
            _ => 0,
        },
        rotate_after: 0,
    };
    let plan = match growing {
        true => growth_plan(GROWING_CAPACITY, GROWING_RATE, 0, None).unwrap(),
        false => Plan::exact(geometry, None),
    };
    let image = vec![0; file_bytes(&superblock, &plan) as usize / 8];
    let medium = SimulatedMedium::new(image, sabotage);
    create_file(&medium, &superblock, &plan, Metadata::new()).unwrap();
    // Again, so that the device sees what kind of file it holds.
    SimulatedMedium::new(medium.view(|view| view.killed()), sabotage)
}

/// What happens to the filter of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Add(u64),
    Remove,
    Sync,
    SyncWithMark,
    Checkpoint,
    Rotate,
    /// Some call soon fails; the operations that follow run into it.
    FailSoon,
    /// The writer goes away without closing.
    Abandon,
    Close,
}

impl Operation {
    fn choose(kind: Kind, choices: &mut Choices) -> Self {
        let counting = kind.cells == CellKind::Counting;
        let rotating = matches!(kind.shape, Shape::Rotating(_));
        match choices.below(40) {
            0 => Operation::Add(if kind.shape == Shape::Growing { 40 } else { 300 }),
            1..5 if counting => Operation::Remove,
            5..8 if rotating => Operation::Rotate,
            1..18 => Operation::Add(1),
            18..25 => Operation::Sync,
            25..29 => Operation::SyncWithMark,
            29..32 => Operation::Checkpoint,
            32..35 => Operation::FailSoon,
            35..38 => Operation::Abandon,
            _ => Operation::Close,
        }
    }

    /// Whether what was done before it is durable when it returns.
    fn is_sync(self) -> bool {
        use Operation::{Checkpoint, Close, Rotate, Sync, SyncWithMark};
        matches!(self, Sync | SyncWithMark | Checkpoint | Rotate | Close)
    }
}

/// The life of one filter.
fn history(kind: Kind, shared: &Shared) -> Result<(), String> {
    let (geometry, journal_bytes, operations, sabotage) = {
        let mut campaign = lock(shared);
        let choices = &mut campaign.choices;
        let geometry = small_geometry(choices);
        let least = u64::from(kind.cells == CellKind::Counting);
        let journal_bytes = 4096 * [least, 1, 1, 2][choices.below(4) as usize];
        (geometry, journal_bytes, 10 + choices.below(50), campaign.sabotage)
    };
    let medium = new_filter_of(kind, geometry, journal_bytes, sabotage);
    watch(&medium, shared, 0);
    let mut engine = open(&medium)?;
    for _ in 0..operations {
        if lock(shared).is_over() {
            break;
        }
        let (operation, number) = {
            let choices = &mut lock(shared).choices;
            (Operation::choose(kind, choices), choices.word())
        };
        // A sync of many counters has many steps, of which a few are enough.
        let pace = lock(shared).pace;
        if operation.is_sync() {
            lock(shared).pace = pace * (1 + engine.pending() / 16);
        }
        let result = perform(operation, number, &engine, &medium, shared);
        lock(shared).pace = pace;
        match result {
            Ok(()) if operation.is_sync() => {
                let mark = (operation == Operation::SyncWithMark).then_some(number);
                lock(shared).synced(mark, &engine);
            }
            Ok(()) => {}
            Err(Error::NotPresent | Error::Ambiguous) if operation == Operation::Remove => {}
            // No space for a further segment, or for the changes of a sync: nothing has changed.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::StorageFull => {
                medium.heal();
                lock(shared).withdraw(&engine);
            }
            Err(_) if engine.is_poisoned() => {
                lock(shared).outcome.failed_syncs += 1;
                if engine.add_hash(number).is_ok() || engine.sync(None).is_ok() {
                    return Err("a poisoned handle goes on".into());
                }
            }
            Err(error) => return Err(format!("{operation:?} failed: {error}")),
        }
        let away = matches!(operation, Operation::Abandon | Operation::Close);
        if away || engine.is_poisoned() {
            drop(engine);
            engine = reopen(&medium, shared)?;
        }
        lock(shared).told.overflowed = engine.journal_is_full();
    }
    medium.watch(None);
    Ok(())
}

fn perform(
    operation: Operation,
    number: u64,
    engine: &Engine<SimulatedMedium>,
    medium: &SimulatedMedium,
    shared: &Shared,
) -> crate::Result<()> {
    match operation {
        Operation::Add(count) => add(engine, shared, number, count),
        Operation::Remove => {
            let hash = key(&mut Choices::new(number));
            engine.remove_hash(hash)
        }
        Operation::Sync => {
            lock(shared).syncing(engine);
            engine.sync(None)
        }
        Operation::SyncWithMark => {
            let mut campaign = lock(shared);
            campaign.told.marks.push(number);
            if let Some(states) = &mut campaign.told.states {
                states.push((state(engine), number));
            }
            drop(campaign);
            engine.sync(Some(number))
        }
        Operation::Checkpoint => {
            lock(shared).syncing(engine);
            engine.checkpoint()
        }
        Operation::Rotate => {
            let dropped = state_without_oldest(engine);
            let mut campaign = lock(shared);
            campaign.told.rotations += 1;
            campaign.syncing(engine);
            let mark = campaign.told.marks[0];
            if let Some(states) = &mut campaign.told.states {
                states.push((dropped, mark));
            }
            drop(campaign);
            engine.rotate()
        }
        Operation::FailSoon => {
            medium.fail_after(1 + number % 6, Choices::new(number));
            Ok(())
        }
        Operation::Abandon => Ok(()),
        Operation::Close => {
            lock(shared).syncing(engine);
            engine.close()
        }
    }
}

/// The state that a rotation leads to.
fn state_without_oldest(engine: &Engine<SimulatedMedium>) -> u64 {
    let slot = engine.committed().slot.clone();
    let full = match engine.superblock.shape() {
        Shape::Rotating(generations) => slot.segments.len() as u64 == generations,
        _ => false,
    };
    let oldest = slot.segments[0].offset;
    state_of(engine, |offset| !full || offset != oldest)
}

fn open(medium: &SimulatedMedium) -> Result<Engine<SimulatedMedium>, String> {
    Engine::open(medium.clone()).map_err(|error| format!("a sound file was refused: {error}"))
}

/// Opens the file again after its writer went away without closing it: nothing on the disk
/// changed, the cache is as it was.
fn reopen(medium: &SimulatedMedium, shared: &Shared) -> Result<Engine<SimulatedMedium>, String> {
    medium.heal();
    let engine = open(medium)?;
    let mut campaign = lock(shared);
    campaign.told.hold(&engine, false)?;
    let mark = engine.committed().slot.mark;
    campaign.told.marks = vec![mark];
    campaign.told.unsynced.clear();
    if let Some(states) = &mut campaign.told.states {
        *states = vec![(state(&engine), mark)];
    }
    Ok(engine)
}

/// Threads that the adding one plays the part of.
const ADDERS: u64 = 3;

/// A key of a small universe, so that keys come back.
fn key(choices: &mut Choices) -> u64 {
    crate::hash::mix(choices.below(3000))
}

fn add(
    engine: &Engine<SimulatedMedium>,
    shared: &Shared,
    number: u64,
    count: u64,
) -> crate::Result<()> {
    let mut choices = Choices::new(number);
    let pace = lock(shared).pace;
    lock(shared).pace = pace * count;
    for _ in 0..count {
        let hash = key(&mut choices);
        // While it is being added, the journal may become full.
        let full = engine.journal_is_nearly_full();
        lock(shared).told.overflowed |= full;
        // As one of several threads, which have records of the journal of their own.
        assume_thread_number(Some(choices.below(ADDERS) as usize));
        let result = engine.add_hash(hash);
        assume_thread_number(None);
        let mut campaign = lock(shared);
        if result.is_err() {
            campaign.pace = pace;
            return result.map(drop);
        }
        let rotations = campaign.told.rotations;
        campaign.told.unsynced.push((hash, rotations));
    }
    lock(shared).pace = pace;
    Ok(())
}

impl Campaign {
    /// A sync returned: what was added counts from now on.
    fn synced(&mut self, mark: Option<u64>, engine: &Engine<SimulatedMedium>) {
        let unsynced = std::mem::take(&mut self.told.unsynced);
        self.told.synced.extend(unsynced);
        let mark = mark.unwrap_or(self.told.marks[0]);
        self.told.marks = vec![mark];
        if let Some(states) = &mut self.told.states {
            *states = vec![(state(engine), mark)];
        }
    }

    /// What was done becomes durable, all of it at once, with the mark there is.
    fn syncing(&mut self, engine: &Engine<SimulatedMedium>) {
        let mark = self.told.marks[0];
        if let Some(states) = &mut self.told.states {
            states.push((state(engine), mark));
        }
    }

    /// An operation found no space: what it was to make durable is not.
    fn withdraw(&mut self, engine: &Engine<SimulatedMedium>) {
        let mark = engine.committed().slot.mark;
        self.told.marks.retain(|&allowed| allowed == mark);
        if let Some(states) = &mut self.told.states {
            states.truncate(1);
        }
    }
}

//! Random histories of a filter, with a crash after every step.

use std::sync::{Arc, Mutex, MutexGuard};

use super::damage;
use crate::engine::{Engine, create_file};
use crate::format::{CellKind, Metadata, Superblock, WhenFull, first_extent};
use crate::geometry::Geometry;
use crate::plan::Plan;
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, Keep, SimulatedMedium, View};

/// What a campaign counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) histories: u64,
    pub(super) power_cuts: u64,
    pub(super) kills: u64,
    /// Crashes in the recovery from a crash, among the above.
    pub(super) nested: u64,
    pub(super) failed_syncs: u64,
    pub(super) damaged: u64,
    pub(super) keys_checked: u64,
    /// The first thing that was not as it must be.
    pub(super) failure: Option<String>,
}

/// What the user was told: what a crash must not take back.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Keys added before a sync that returned.
    synced: Vec<u64>,
    /// Keys added since.
    unsynced: Vec<u64>,
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
    pub(super) fn run(seed: u64, crashes: u64, sabotage: Option<Sabotage>) -> Outcome {
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
                campaign.told = Told { marks: vec![0], ..Told::default() };
                campaign.pace = 1 + campaign.choices.below(16);
            }
            if let Err(failure) = history(&shared) {
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
        self.outcome.nested += u64::from(depth > 0);
        let result = if !killed && self.choices.once_in(3) {
            damage::check(&image, &mut self.choices, self.sabotage)
                .map(|count| self.outcome.damaged += count)
        } else {
            self.survive(image, killed && depth == 0, depth)
        };
        if let Err(failure) = result {
            self.fail(failure);
        }
    }

    /// Opens what a crash left and holds it against what the user was told.
    fn survive(&mut self, image: Vec<u64>, exact: bool, depth: u32) -> Result<(), String> {
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
            told.synced.push(hash);
        }
        engine.sync(Some(77)).map_err(|error| format!("after recovery: {error}"))?;
        told.marks = vec![77];
        let keep = Keep::ALL[self.choices.below(5) as usize];
        let image = medium.view(|view| view.power_cut(keep, &mut self.choices));
        self.outcome.power_cuts += 1;
        let engine = Engine::open(SimulatedMedium::new(image, self.sabotage))
            .map_err(|error| format!("after recovery, sync and power cut: {error}"))?;
        told.hold(&engine, false)
    }
}

impl Told {
    /// Whether a reopened filter keeps every promise.
    fn hold(&self, engine: &Engine<SimulatedMedium>, exact: bool) -> Result<(), String> {
        let lost = self.synced.iter().filter(|&&hash| !engine.contains_hash(hash)).count();
        if lost > 0 {
            return Err(format!("{lost} of {} synced keys are lost", self.synced.len()));
        }
        let mark = engine.committed().slot.mark;
        if !self.marks.contains(&mark) {
            return Err(format!("the mark is {mark} and must be one of {:?}", self.marks));
        }
        match engine.recovery() {
            Some(report) if exact && !self.overflowed && report.pages_unsynced > 0 => {
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

/// A device with an empty filter on it, all durable.
pub(super) fn new_filter(
    geometry: Geometry,
    journal_bytes: u64,
    sabotage: Option<Sabotage>,
) -> SimulatedMedium {
    let superblock = Superblock {
        incompatible: 0,
        read_only_compatible: 0,
        compatible: 0,
        uuid: [7; 16],
        hash_seed: 0,
        cells: CellKind::Plain,
        when_full: WhenFull::Allow,
        journal_bytes,
        target_rate: 0.0,
        capacity: 0,
    };
    let bytes = first_extent(&superblock, &geometry).end();
    let medium = SimulatedMedium::zeros(bytes, sabotage);
    let plan = Plan::exact(geometry, None);
    create_file(&medium, &superblock, &plan, Metadata::new()).unwrap();
    crate::storage::Medium::sync(&medium).unwrap();
    medium
}

/// The life of one filter.
fn history(shared: &Shared) -> Result<(), String> {
    let (geometry, journal_bytes, operations, sabotage) = {
        let mut campaign = lock(shared);
        let choices = &mut campaign.choices;
        let geometry = small_geometry(choices);
        let journal_bytes = [0, 4096, 4096, 8192][choices.below(4) as usize];
        (geometry, journal_bytes, 10 + choices.below(50), campaign.sabotage)
    };
    let records = journal_bytes / 16;
    let medium = new_filter(geometry, journal_bytes, sabotage);
    watch(&medium, shared, 0);
    let mut engine = open(&medium)?;
    let mut logged = 0;
    for _ in 0..operations {
        if lock(shared).is_over() {
            break;
        }
        let (operation, number) = {
            let choices = &mut lock(shared).choices;
            (choices.below(40), choices.word())
        };
        let result = match operation {
            0..18 => {
                let count = if operation == 0 { 300 } else { 1 };
                logged += count;
                lock(shared).told.overflowed |= logged >= records;
                add(&engine, shared, number, count)
            }
            18..25 => engine.sync(None),
            25..29 => {
                lock(shared).told.marks.push(number);
                engine.sync(Some(number))
            }
            29..32 => engine.checkpoint(),
            32..35 => {
                // Some call soon fails; the operations that follow run into it.
                medium.fail_after(1 + number % 6, Choices::new(number));
                continue;
            }
            35..38 => {
                drop(engine);
                engine = reopen(&medium, shared)?;
                logged = 0;
                continue;
            }
            _ => match engine.close() {
                Ok(()) => {
                    lock(shared).synced(None);
                    drop(engine);
                    engine = reopen(&medium, shared)?;
                    logged = 0;
                    continue;
                }
                Err(error) => Err(error),
            },
        };
        logged += 1;
        match result {
            Ok(()) if operation >= 18 => {
                lock(shared).synced((25..29).contains(&operation).then_some(number));
                if operation >= 29 {
                    logged = 0;
                    lock(shared).told.overflowed = journal_bytes == 0;
                }
            }
            Ok(()) => {}
            Err(_) if engine.is_poisoned() => {
                lock(shared).outcome.failed_syncs += 1;
                if engine.add_hash(number).is_ok() || engine.sync(None).is_ok() {
                    return Err("a poisoned handle goes on".into());
                }
                drop(engine);
                engine = reopen(&medium, shared)?;
                logged = 0;
            }
            Err(error) => return Err(format!("an operation failed: {error}")),
        }
    }
    medium.watch(None);
    Ok(())
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
    campaign.told.overflowed = false;
    Ok(engine)
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
        // A small universe, so that keys come back.
        let hash = crate::hash::mix(choices.below(5000));
        engine.add_hash(hash)?;
        lock(shared).told.unsynced.push(hash);
    }
    lock(shared).pace = pace;
    Ok(())
}

impl Campaign {
    /// A sync returned: what was added counts from now on.
    fn synced(&mut self, mark: Option<u64>) {
        let unsynced = std::mem::take(&mut self.told.unsynced);
        self.told.synced.extend(unsynced);
        let mark = mark.unwrap_or(self.told.marks[0]);
        self.told.marks = vec![mark];
    }
}

//! What a user of a filter does between two crashes, at random.

use std::io::ErrorKind;

use super::campaign::{Kind, Shared, lock, state, state_of, watch};
use crate::error::Error;
use crate::file::{create_file, file_bytes};
use crate::format::{JOURNAL_STEP, Metadata, Shape, Superblock, WhenFull};
use crate::geometry::{CellKind, Geometry};
use crate::plan::{Plan, growth_plan};
use crate::storage::Sabotage;
use crate::storage::simulated::{Choices, SimulatedMedium};
use crate::sync::assume_thread_number;
use crate::writer::Engine;

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
    let kind = Kind::PLAIN;
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
        // The protocol sees hashes and never keys: some kinds are keyed files, and the others not.
        key_check: (growing || kind.cells == CellKind::Counting).then_some(0x5eed),
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
    let plan = if growing {
        growth_plan(GROWING_CAPACITY, GROWING_RATE, 0, None).unwrap()
    } else {
        Plan::exact(geometry, None)
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
    /// The boundary of a checkpoint, whose rest comes later.
    BeginCheckpoint,
    /// Some of the entries of one.
    ComputeEntries,
    FinishCheckpoint,
    /// The next segment is prepared ahead.
    Prepare,
    Rotate,
    /// A delta from what the filter holds is taken in.
    #[cfg(feature = "digest")]
    ApplyDelta,
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
        #[cfg(feature = "digest")]
        if kind.deltas && choices.once_in(6) {
            return Operation::ApplyDelta;
        }
        match choices.below(48) {
            0 => Operation::Add(if kind.shape == Shape::Growing { 40 } else { 300 }),
            1..5 if counting => Operation::Remove,
            5..8 if rotating => Operation::Rotate,
            1..18 => Operation::Add(1),
            18..25 => Operation::Sync,
            25..29 => Operation::SyncWithMark,
            29..32 => Operation::Checkpoint,
            32..35 => Operation::FailSoon,
            35..38 => Operation::Abandon,
            38..40 => Operation::Close,
            40..43 => Operation::BeginCheckpoint,
            43..45 => Operation::ComputeEntries,
            45..47 => Operation::FinishCheckpoint,
            _ if kind.shape == Shape::Fixed => Operation::Add(3),
            _ => Operation::Prepare,
        }
    }

    /// Whether what was done before it is durable when it returns.
    fn is_sync(self) -> bool {
        use Operation::{BeginCheckpoint, Checkpoint, Close, Rotate, Sync, SyncWithMark};
        matches!(self, Sync | SyncWithMark | Checkpoint | BeginCheckpoint | Rotate | Close)
    }
}

/// The life of one filter.
pub(super) fn history(kind: Kind, shared: &Shared) -> Result<(), String> {
    let (geometry, journal_bytes, operations, sabotage) = {
        let mut campaign = lock(shared);
        let choices = &mut campaign.choices;
        let geometry = small_geometry(choices);
        let journal_bytes = JOURNAL_STEP * [0, 1, 1, 2][choices.below(4) as usize];
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
            lock(shared).pace = pace * (1 + engine.unsynced() / 16);
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
            Err(Error::Io { error, .. }) if error.kind() == ErrorKind::StorageFull => {
                medium.heal();
                lock(shared).withdraw(&engine);
            }
            Err(Error::Io { .. } | Error::Poisoned { .. }) if engine.is_poisoned() => {
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
        lock(shared).told.overflowed = engine.is_unlogged();
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
        Operation::BeginCheckpoint => {
            lock(shared).syncing(engine);
            engine.begin_checkpoint()
        }
        Operation::ComputeEntries => {
            engine.compute_some_entries(1 + (number % 3) as usize);
            Ok(())
        }
        Operation::FinishCheckpoint => engine.finish_checkpoint(),
        Operation::Prepare => engine.prepare_ahead(),
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
        #[cfg(feature = "digest")]
        Operation::ApplyDelta => super::deltas::apply(engine, medium, number, shared),
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
    let mark = engine.mark();
    campaign.told.marks = vec![mark];
    campaign.told.unsynced.clear();
    #[cfg(feature = "digest")]
    {
        campaign.told.delta = None;
    }
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
        let full = engine.is_nearly_unlogged();
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

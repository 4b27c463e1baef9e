//! Deltas that a writer takes in where the file is, with a crash after any step (F-169).
//!
//! What is promised of a crash in the middle: what was synced is there, and nothing that the delta does
//! not lead to; once a cell of the delta is in the file, so is everything that the delta was made from,
//! synced or not; mark and metadata of the delta say that all of it is there; and applied again it leads
//! to the contents that it promises. Deltas that cannot be applied so change nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::campaign::{Shared, lock};
use crate::error::Error;
use crate::geometry::CellKind;
use crate::ops::{DeltaOperation, apply_in_place};
use crate::storage::Map;
use crate::storage::simulated::{Choices, Image, Keep, SimulatedMedium};
use crate::writer::Engine;

/// A delta from what a filter holds, made by the real coder, and what it leads to.
#[derive(Debug)]
pub(super) struct Delta {
    /// With the delta in it.
    folder: tempfile::TempDir,
    /// Words of the data that it was made from, and of those that it leads to.
    old: Vec<u64>,
    new: Vec<u64>,
    mark: u64,
    metadata: BTreeMap<String, String>,
    /// The keys that it brings.
    hashes: Vec<u64>,
    /// Segments before and after.
    segments: [usize; 2],
}

/// The words of the newest segment.
fn contents(engine: &Engine<SimulatedMedium>) -> Vec<u64> {
    let words = engine.segments.newest().data.words();
    (0..words.len()).map(|word| words.load(word)).collect()
}

/// Whether `more` has all cells of `less`.
fn holds(more: &[u64], less: &[u64]) -> bool {
    more.iter().zip(less).all(|(more, less)| less & !more == 0)
}

fn bytes_of(image: &Image) -> Vec<u8> {
    image.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A folder in memory, where the system has one: many deltas are made, and each is synced.
fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.unwrap()
}

impl Delta {
    /// A delta from what a filter holds now to that and some more keys.
    fn make(medium: &SimulatedMedium, choices: &mut Choices) -> crate::Result<Delta> {
        let copy = |image: Image| -> crate::Result<(Engine<SimulatedMedium>, SimulatedMedium)> {
            let medium = SimulatedMedium::new(image, None);
            Ok((Engine::open(medium.clone())?, medium))
        };
        let image = |medium: &SimulatedMedium| medium.view(|view| view.killed());
        let (before, medium) = copy(image(medium))?;
        before.close()?;
        let (after, there) = copy(image(&medium))?;
        let hashes: Vec<u64> = (0..choices.below(40)).map(|_| choices.word()).collect();
        for &hash in &hashes {
            after.add_hash(hash)?;
        }
        let mark = choices.word();
        let metadata = BTreeMap::from([("version".to_owned(), mark.to_string())]);
        after.replace_metadata(metadata.clone())?;
        after.sync(Some(mark))?;
        after.close()?;
        let folder = folder();
        let at = |name| folder.path().join(name);
        std::fs::write(at("old"), bytes_of(&image(&medium))).unwrap();
        std::fs::write(at("new"), bytes_of(&image(&there))).unwrap();
        DeltaOperation::new().make(at("old"), at("new"), at("delta"))?;
        ["old", "new"].into_iter().for_each(|name| std::fs::remove_file(at(name)).unwrap());
        let segments = [&before, &after].map(|engine| engine.segments.active().count);
        let (old, new) = (contents(&before), contents(&after));
        Ok(Delta { folder, old, new, mark, metadata, hashes, segments })
    }

    fn apply(&self, engine: &Engine<SimulatedMedium>) -> crate::Result<()> {
        apply_in_place(engine, &self.folder.path().join("delta")).map(drop)
    }

    /// Whether a reopened filter, on its way from the old contents to the new ones, keeps the promises.
    /// `killed` if no power was cut, so that nothing that was added can be lost.
    pub(super) fn hold(
        &self,
        engine: &Engine<SimulatedMedium>,
        killed: bool,
    ) -> Result<(), String> {
        let now = contents(engine);
        if !holds(&self.new, &now) {
            return Err("the file holds cells that the delta does not lead to".into());
        }
        let brought = now.iter().zip(&self.old).any(|(now, old)| now & !old != 0);
        if (brought || killed) && !holds(&now, &self.old) {
            return Err("a delta is in part of what it was made from".into());
        }
        let named = engine.committed().slot.metadata == self.metadata;
        if (named || engine.mark() == self.mark) && now != self.new {
            return Err("the file says that a delta is in, of which cells are not".into());
        }
        Ok(())
    }

    /// Whether a filter is exactly what the delta leads to.
    fn is_in(&self, engine: &Engine<SimulatedMedium>) -> Result<(), String> {
        if contents(engine) != self.new {
            return Err("a delta was applied, and the contents are not what it leads to".into());
        }
        let metadata = &engine.committed().slot.metadata;
        if engine.mark() != self.mark || *metadata != self.metadata {
            return Err("a delta was applied without its mark or metadata".into());
        }
        Ok(())
    }

    /// Applies the delta again, to what a crash left; and cuts the power when that is done.
    pub(super) fn apply_again(
        &self,
        medium: &SimulatedMedium,
        engine: &Engine<SimulatedMedium>,
        choices: &mut Choices,
    ) -> Result<(), String> {
        let whole = holds(&contents(engine), &self.old);
        let before = medium.view(|view| view.killed());
        match self.apply(engine) {
            Ok(()) => self.is_in(engine)?,
            // Adds were lost that had not been synced before the first cell of the delta came.
            Err(Error::OtherVersion { parameter: "digest", .. }) if !whole => {
                return if medium.view(|view| view.killed()) == before {
                    Ok(())
                } else {
                    Err("a delta was refused, and the file changed all the same".into())
                };
            }
            Err(error) => return Err(format!("a delta cannot be applied again: {error}")),
        }
        let keep = Keep::ALL[choices.below(5) as usize];
        let image = medium.view(|view| view.power_cut(keep, choices));
        let engine = Engine::open(SimulatedMedium::new(image, None))
            .map_err(|error| format!("after a delta and a power cut: {error}"))?;
        self.is_in(&engine)
    }
}

/// What became of the deltas of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) applied: u64,
    /// Changed nothing: the cells are counters, or there are several segments.
    pub(super) refused: u64,
    /// Applied again after a crash in the middle.
    pub(super) again: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Counts) {
        self.applied += other.applied;
        self.refused += other.refused;
        self.again += other.again;
    }
}

/// Makes a delta from what the filter of a history holds, and applies it.
pub(super) fn apply(
    engine: &Engine<SimulatedMedium>,
    medium: &SimulatedMedium,
    number: u64,
    shared: &Shared,
) -> crate::Result<()> {
    let mut choices = Choices::new(number);
    if choices.once_in(4) {
        // A checkpoint is under way that has no page to write.
        for step in [Engine::checkpoint, Engine::begin_checkpoint] {
            lock(shared).syncing(engine);
            step(engine)?;
            lock(shared).synced(None, engine);
        }
    }
    let delta = Arc::new(Delta::make(medium, &mut choices)?);
    if engine.superblock.cells != CellKind::Plain || delta.segments != [1; 2] {
        let before = medium.view(|view| view.killed());
        let refused = delta.apply(engine);
        let untouched = medium.view(|view| view.killed()) == before;
        let mut campaign = lock(shared);
        match refused {
            Err(Error::NotInPlace { .. }) if untouched => campaign.outcome.deltas.refused += 1,
            other => campaign.fail(format!("a delta that cannot be applied so: {other:?}")),
        }
        return Ok(());
    }
    let pace = {
        let mut campaign = lock(shared);
        let pace = campaign.pace;
        campaign.pace = pace * (1 + delta.hashes.len() as u64 / 8);
        campaign.told.delta = Some(Arc::clone(&delta));
        campaign.told.marks.push(delta.mark);
        // Its cells are not logged.
        campaign.told.overflowed = true;
        pace
    };
    let applied = delta.apply(engine);
    let mut campaign = lock(shared);
    campaign.pace = pace;
    applied?;
    if let Err(failure) = delta.is_in(engine) {
        campaign.fail(failure);
    }
    campaign.outcome.deltas.applied += 1;
    let rotations = campaign.told.rotations;
    campaign.told.unsynced.extend(delta.hashes.iter().map(|&hash| (hash, rotations)));
    campaign.synced(Some(delta.mark), engine);
    campaign.told.delta = None;
    Ok(())
}

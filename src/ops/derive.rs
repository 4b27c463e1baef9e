//! New files from old ones: union, intersection, fold.

use std::borrow::Borrow;
use std::path::Path;

use super::compatible::common_geometry;
use super::derivation::{Derivation, Made, summary};
use super::segments::refuse_differences;
use super::source::Source;
use super::stream::{Listener, Progress, Rule, combine};
use super::{fold, provenance};
use crate::error::{Error, Result};
use crate::file::{finish_slot, first_slot, write_pages};
use crate::format::{Doubts, Shape, Superblock, first_extent, journal_length};
use crate::geometry::{CellKind, Geometry};
use crate::plan::Plan;
use crate::storage::{PendingFile, Target};

/// Makes a new file of one or several others.
///
/// The inputs are read page by page, on all cores and in little memory, however large they are.
/// Every page is checked as it is read: a damaged input is refused with [`Error::File`] and no
/// file is made. The result appears under its name when it is whole and durable. An input may be
/// written at the same time: the result holds every key whose `add` had returned before the operation
/// began, and the file of a crashed writer is read as recovery would leave it.
///
/// | of the result | is |
/// | --- | --- |
/// | size | that of the smallest input; each larger one that is a whole multiple is folded. A union of sizes that are no multiples has a segment for each, and grows |
/// | capacity | the smallest of the inputs' capacities, each divided by the factor it is folded by; the target rate goes with it |
/// | adds | of a fold, those of the input; else the number of keys estimated from the bits, held between what the inputs' adds allow |
/// | journal | as large as the largest of the inputs, unless another size is [asked for](Self::journal_bytes) |
/// | metadata | the pairs that all inputs have alike; the others stand beside the inputs' uuids under `provenance` |
/// | uuid | follows from the contents: the same inputs, in any order, give the same bytes |
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Options, Reader, ops::SetOperation};
///
/// for (name, key) in [("monday.bloom", "sheep"), ("tuesday.bloom", "goat")] {
///     let mut day = Options::new().capacity(1000).false_positive_rate(0.01).start_build(at(name))?;
///     day.add(key.as_bytes());
///     day.finish()?;
/// }
/// let days = [at("monday.bloom"), at("tuesday.bloom")];
/// let derivation = SetOperation::new().union(&days, at("week.bloom"))?;
/// assert!(derivation.keys.contains(2.0));
/// let week = Reader::open(at("week.bloom"))?;
/// assert!(week.contains(b"sheep") && week.contains(b"goat"));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct SetOperation<'a> {
    replace: bool,
    journal_bytes: Option<u64>,
    listener: Listener<'a>,
}

impl std::fmt::Debug for SetOperation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetOperation").field("replace", &self.replace).finish_non_exhaustive()
    }
}

impl<'a> SetOperation<'a> {
    /// An operation that replaces nothing and does not tell of its progress.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an existing file of the result's name is replaced; by default it is an error.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Bytes of the result's journal, as of [`Options::journal_bytes`](crate::Options::journal_bytes);
    /// 0 for a file that is shipped and read.
    pub fn journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = Some(bytes);
        self
    }

    /// Tells `listener`, from any of the operation's threads and often, how far it has come.
    pub fn progress(mut self, listener: &'a (dyn Fn(Progress) + Sync)) -> Self {
        self.listener = Some(listener);
        self
    }

    /// The union: what any of the inputs holds, the result holds. Its rate is that of all the
    /// keys in one filter, so it is above those of the inputs.
    ///
    /// Growing filters are joined segment by segment. Where sizes do not fold into one another, each
    /// becomes a segment of its own, the smallest first, of a filter that grows: a look-up asks all of
    /// them, and their rates add up. Filters that are to be joined are best made of the same capacity.
    pub fn union<P: AsRef<Path>>(
        &self,
        inputs: &[P],
        output: impl AsRef<Path>,
    ) -> Result<Derivation> {
        // First of all: if it replaces one of the inputs, nothing may be added to that from here on.
        let target = self.target(output.as_ref())?;
        let all: Vec<Vec<Source<'static>>> =
            inputs.iter().map(|path| Source::open_all(path.as_ref())).collect::<Result<_>>()?;
        let what = format!("union of {}", files(all.len()));
        refuse_differences(&all)?;
        let fixed = |file: &Vec<Source<'_>>| file[0].superblock().shape() == Shape::Fixed;
        let heads: Vec<&Source<'_>> = all.iter().map(|file| &file[0]).collect();
        match common_geometry(&heads) {
            Ok(geometry) if all.iter().all(fixed) => {
                let sources = all.into_iter().flatten().collect();
                self.derive(sources, geometry, Rule::Union, what, target)
            }
            _ => self.union_of_segments(all, what, target),
        }
    }

    /// The intersection: what all of the inputs hold, the result holds, and some keys beside it:
    /// where different keys of different inputs had set the same bits.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name| folder.path().join(name);
    /// use bloomfile::{Options, Reader, ops::SetOperation};
    ///
    /// for (name, keys) in [("a", ["sheep", "goat"]), ("b", ["goat", "cow"])] {
    ///     let mut file = Options::new().capacity(1000).false_positive_rate(0.01).start_build(at(name))?;
    ///     keys.iter().for_each(|key| assert!(file.add(key.as_bytes())));
    ///     file.finish()?;
    /// }
    /// SetOperation::new().intersection(&[at("a"), at("b")], at("both"))?;
    /// let both = Reader::open(at("both"))?;
    /// assert!(both.contains(b"goat") && !both.contains(b"cow"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn intersection<P: AsRef<Path>>(
        &self,
        inputs: &[P],
        output: impl AsRef<Path>,
    ) -> Result<Derivation> {
        let target = self.target(output.as_ref())?;
        let sources = open(inputs)?;
        let what = format!("intersection of {}", files(sources.len()));
        let geometry = common_geometry(&sources)?;
        self.derive(sources, geometry, Rule::Intersection, what, target)
    }

    /// The same keys in a `factor` times smaller file: the very bits that adding them to a file of
    /// that size would have set. The factor must divide the number of blocks, or of the cells of
    /// a row.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name| folder.path().join(name);
    /// # use bloomfile::{Options, geometry::Geometry, ops::SetOperation};
    /// let large = Options::new().geometry(Geometry::line(8, 1200)?).create(at("large"))?;
    /// large.close()?;
    /// let derivation = SetOperation::new().fold(at("large"), 3, at("small"))?;
    /// assert_eq!(derivation.geometry, Geometry::line(8, 400)?);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn fold(
        &self,
        input: impl AsRef<Path>,
        factor: u64,
        output: impl AsRef<Path>,
    ) -> Result<Derivation> {
        let target = self.target(output.as_ref())?;
        let sources = open(&[input])?;
        self.fold_source(sources, factor, target)
    }

    /// Folds to the smallest size at which the keys that are in the file now, as far as their
    /// number can be estimated, have a rate of at most `rate`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name| folder.path().join(name);
    /// # use bloomfile::{Options, ops::SetOperation};
    /// // Room for a million keys; only 1,000 came.
    /// let mut roomy = Options::new().capacity(1_000_000).false_positive_rate(0.01).start_build(at("a"))?;
    /// for key in 0..1000u32 {
    ///     roomy.add(&key.to_le_bytes());
    /// }
    /// roomy.finish()?;
    /// let derivation = SetOperation::new().fold_to_rate(at("a"), 0.01, at("b"))?;
    /// assert!(derivation.inputs[0].folded_by > 200 && derivation.inputs[0].rate_folded <= 0.01);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn fold_to_rate(
        &self,
        input: impl AsRef<Path>,
        rate: f64,
        output: impl AsRef<Path>,
    ) -> Result<Derivation> {
        let target = self.target(output.as_ref())?;
        let sources = open(&[input])?;
        let geometry = *sources[0].geometry();
        let keys = sources[0].counted()?.keys(&geometry).value;
        let factor = fold::factor_for_rate(&geometry, keys, rate)?;
        self.fold_source(sources, factor, target)
    }

    fn fold_source(
        &self,
        sources: Vec<Source<'_>>,
        factor: u64,
        target: Target,
    ) -> Result<Derivation> {
        if factor > 1 && sources.iter().any(|source| source.cells() == CellKind::Counting) {
            let reason = "counters cannot be folded: export the plain filter and fold that";
            return Err(Error::parameter("kind", CellKind::Counting.name(), reason));
        }
        // Refuses files that no operation can take.
        let geometry = common_geometry(&sources)?.folded(factor)?;
        self.derive(sources, geometry, Rule::Union, format!("fold by {factor}"), target)
    }

    /// A result's superblock with the journal that was asked for.
    pub(super) fn with_journal(&self, superblock: Superblock) -> Result<Superblock> {
        let journal_bytes =
            self.journal_bytes.map_or(Ok(superblock.journal_bytes), journal_length)?;
        Ok(Superblock { journal_bytes, ..superblock })
    }

    /// The name that the result is to get.
    pub(super) fn target(&self, output: &Path) -> Result<Target> {
        Target::new(output, self.replace).map_err(|error| error.at(output))
    }

    pub(super) fn listener(&self) -> Listener<'a> {
        self.listener
    }

    fn derive(
        &self,
        sources: Vec<Source<'_>>,
        geometry: Geometry,
        rule: Rule,
        operation: String,
        target: Target,
    ) -> Result<Derivation> {
        let factors: Vec<u64> = sources
            .iter()
            .map(|source| source.geometry().foldable() / geometry.foldable())
            .collect();
        let metadata = provenance::metadata(&operation, &sources, &factors)?;
        let superblock = self.with_journal(superblock(&sources, &factors))?;
        let extent = first_extent(&superblock, &geometry);
        let pending = PendingFile::new(target, extent.end())?;
        let medium = pending.medium()?;
        let counted =
            combine(&geometry, &sources, rule, self.listener, |first, bytes, entries| {
                write_pages(&medium, &extent, first, bytes, entries)
            })?;
        let capacity = Some(superblock.capacity).filter(|&capacity| capacity != 0);
        let plan = Plan::exact(geometry, capacity);
        let keys = counted.keys(&geometry);
        let adds = adds(&sources, rule, keys.value);
        let mut slot = first_slot(&superblock, &plan, metadata);
        slot.segments[0].adds = adds;
        slot.set_doubts(doubts(&sources, rule, extent.pages));
        let (superblock, slot) = finish_slot(&medium, superblock, slot, true)?;
        let inputs = sources.iter().zip(factors);
        let inputs = inputs.map(|(source, factor)| summary(source, factor));
        let inputs = inputs.collect::<Result<_>>()?;
        // The result may replace one of them, and not every system replaces a file that is open.
        drop(sources);
        pending.publish()?;
        let made = Made { operation, keys, rate: counted.rate_now(&geometry) };
        Ok(made.derivation(&superblock, &slot, inputs))
    }
}

fn open<P: AsRef<Path>>(inputs: &[P]) -> Result<Vec<Source<'static>>> {
    inputs.iter().map(|path| Source::open(path.as_ref())).collect()
}

fn files(count: usize) -> String {
    format!("{count} {}", if count == 1 { "file" } else { "files" })
}

/// The superblock of a result; its identity is still to come.
fn superblock(sources: &[Source<'_>], factors: &[u64]) -> Superblock {
    let first = sources[0].superblock();
    // That is how many keys the geometry holds at the rate that was planned for, however many come.
    let (capacity, target_rate) = sources
        .iter()
        .zip(factors)
        .map(|(source, factor)| (source.superblock(), factor))
        .filter(|(superblock, _)| superblock.capacity != 0)
        .map(|(superblock, factor)| ((superblock.capacity / factor).max(1), superblock.target_rate))
        .min_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)))
        .unwrap_or((0, 0.0));
    let journals = sources.iter().map(|source| source.superblock().journal_bytes);
    Superblock {
        read_only_compatible: 0,
        compatible: 0,
        uuid: [0; 16],
        hash_seed: first.hash_seed,
        key_check: first.key_check,
        cells: first.cells,
        when_full: first.when_full,
        journal_bytes: journals.max().unwrap_or(0),
        target_rate,
        capacity,
        generations: 0,
        rotate_after: 0,
    }
}

/// The adds that a result counts: what its bits say, within what the inputs' adds allow.
fn adds(sources: &[Source<'_>], rule: Rule, keys: f64) -> u64 {
    let adds: Vec<u64> = sources.iter().map(Source::adds).collect();
    let known = sources.iter().all(Source::adds_are_known);
    match rule {
        Rule::Union => union_adds(largest(&adds), known.then(|| sum(&adds)), keys),
        Rule::Intersection => {
            let most = adds.into_iter().min().filter(|_| known);
            (keys.round() as u64).min(most.unwrap_or(u64::MAX))
        }
    }
}

/// The doubts of a result with this many pages, whose inputs have all been read: a page that lacks cells
/// in one input lacks them in the result.
pub(super) fn doubts<'a, I: Borrow<Source<'a>>>(sources: &[I], rule: Rule, pages: u64) -> Doubts {
    let each = || sources.iter().map(|source| source.borrow().doubts());
    let sum = each().fold(Doubts::default(), Doubts::with);
    let repaired = match rule {
        Rule::Union => sum.repaired,
        // What was filled in one is as it is in the others.
        Rule::Intersection => each().map(|doubts| doubts.repaired).min().unwrap_or(0),
    };
    Doubts { repaired, ..sum }.within(pages)
}

/// The adds of a union that holds about this number of keys: at least `least`, and no more than `most` if
/// that is known.
pub(super) fn union_adds(least: u64, most: Option<u64>, keys: f64) -> u64 {
    (keys.round() as u64).min(most.unwrap_or(u64::MAX)).max(least)
}

/// The largest of some numbers of adds.
pub(super) fn largest(adds: &[u64]) -> u64 {
    adds.iter().copied().max().unwrap_or(0)
}

/// All of some numbers of adds together.
pub(super) fn sum(adds: &[u64]) -> u64 {
    adds.iter().copied().fold(0, u64::saturating_add)
}

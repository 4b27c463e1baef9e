//! How two files relate.

#[cfg(feature = "files")]
use std::path::Path;
use std::sync::Arc;

use super::compatible::{Parameters, common_geometry, factor_to};
use super::derivation::{InputSummary, summary};
use super::fold::Folding;
use super::source::{PAGE, Source};
use super::stream::each_few_pages;
use crate::error::{Error, Result};
use crate::file::Snapshot;
use crate::format::PageEntry;
use crate::geometry::Geometry;
use crate::plan::{self, Occupancy, Overlap};
use crate::storage::Bytes;

/// Most runs of differing pages that are kept.
const MOST_RUNS: usize = 1000;

/// How two files relate; made by [`compare`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use = "that files differ is told here, not as an error"]
pub struct Comparison {
    /// The first file.
    pub a: InputSummary,
    /// The second file.
    pub b: InputSummary,
    /// What they were made with, side by side.
    pub parameters: Vec<ParameterPair>,
    /// How their bits and keys relate, or why that cannot be told.
    pub contents: Contents,
}

impl Comparison {
    /// Whether both have the same size and the same cells, and so the same answer for every key.
    pub fn is_same(&self) -> bool {
        let folded = self.a.folded_by != 1 || self.b.folded_by != 1;
        match &self.contents {
            Contents::Compared(pages) => pages.relation == Relation::Equal && !folded,
            Contents::Incomparable { .. } => false,
        }
    }
}

/// How the contents of two files relate.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Contents {
    /// They were built so differently that their bits cannot be held against each other.
    Incomparable {
        /// The first parameter that differs.
        reason: String,
    },
    /// What holding the bits against each other gave.
    Compared(Box<PageComparison>),
}

/// What comparing the bits of two files gave, the larger of them folded to the size of the other.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PageComparison {
    /// The geometry at which they were compared.
    pub geometry: Geometry,
    /// Whether the bits of one are all in the other.
    pub relation: Relation,
    /// Estimated sizes and overlap.
    pub overlap: Overlap,
    /// Pages at that geometry.
    pub pages: u64,
    /// Pages that are not alike.
    pub pages_differing: u64,
    /// Which pages are not alike, in runs; the first 1,000 runs at most.
    pub differing: Vec<PageRun>,
}

/// Neighbouring pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PageRun {
    /// The first one.
    pub first: u64,
    /// How many there are.
    pub pages: u64,
}

/// One parameter of two files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ParameterPair {
    /// Its name.
    pub name: &'static str,
    /// Its value in the first file.
    pub a: String,
    /// Its value in the second file.
    pub b: String,
}

impl ParameterPair {
    /// Whether both have the same value.
    pub fn is_same(&self) -> bool {
        self.a == self.b
    }
}

/// Whether the bits of one file are all in another. A filter whose bits include another's answers
/// "maybe" to every key of it; the reverse does not follow: keys are not bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Relation {
    /// The same bits.
    Equal,
    /// The first file has all bits of the second, and more.
    Superset,
    /// The second file has all bits of the first, and more.
    Subset,
    /// Each has bits that the other has not.
    Neither,
}

impl Relation {
    /// One clause on what that means of `A` and `B`.
    pub const fn meaning(self) -> &'static str {
        match self {
            Relation::Equal => "A and B have the same bits",
            Relation::Superset => "A has all bits of B, and more",
            Relation::Subset => "B has all bits of A, and more",
            Relation::Neither => "each has bits that the other has not",
        }
    }
}

/// Compares two files: their parameters, how many keys they hold and share, whether one includes
/// the other, and which pages differ.
///
/// Every page of both is verified on the way: a damaged file is an error.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let at = |name| folder.path().join(name);
/// use bloomfile::{Options, ops::{Contents, Relation, compare}};
///
/// for (name, keys) in [("more", 0..2000u32), ("less", 0..1000)] {
///     let mut file = Options::new().capacity(2000).false_positive_rate(0.01).start_build(at(name))?;
///     for key in keys {
///         file.add(&key.to_le_bytes());
///     }
///     file.finish()?;
/// }
/// let Contents::Compared(pages) = compare(at("more"), at("less"))?.contents else { panic!() };
/// assert_eq!(pages.relation, Relation::Superset);
/// assert!(pages.overlap.jaccard.contains(0.5));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn compare(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Result<Comparison> {
    compare_sources(&[Source::open(a.as_ref())?, Source::open(b.as_ref())?])
}

/// As [`compare`], for files whose bytes are in memory.
pub fn compare_bytes(a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) -> Result<Comparison> {
    let (a, b) = (Bytes(a.as_ref()), Bytes(b.as_ref()));
    compare_sources(&[Source::of_medium(Arc::new(a))?, Source::of_medium(Arc::new(b))?])
}

fn compare_sources(sources: &[Source<'_>; 2]) -> Result<Comparison> {
    let contents = match comparable(sources)? {
        Ok(geometry) => Contents::Compared(Box::new(compare_pages(&geometry, sources)?)),
        Err(reason) => {
            sources.iter().try_for_each(Source::verify)?;
            Contents::Incomparable { reason }
        }
    };
    comparison(sources, contents)
}

/// The geometry at which files are compared, or why they cannot be.
fn comparable(sources: &[Source<'_>; 2]) -> Result<std::result::Result<Geometry, String>> {
    match common_geometry(sources) {
        Ok(geometry) => Ok(Ok(geometry)),
        Err(error) if matches!(error.cause(), Error::Incompatible { .. }) => {
            Ok(Err(error.cause().to_string()))
        }
        Err(error) => Err(error),
    }
}

fn comparison(sources: &[Source<'_>; 2], contents: Contents) -> Result<Comparison> {
    let [a, b] = sources;
    let factor = |source| match &contents {
        Contents::Compared(pages) => factor_to(&pages.geometry, source),
        Contents::Incomparable { .. } => Ok(1),
    };
    let (a, b) = (summary(a, factor(a)?)?, summary(b, factor(b)?)?);
    Ok(Comparison { a, b, parameters: parameters(sources), contents })
}

/// Two files whose pages are read by others, a few at a time.
pub(crate) struct Comparer {
    sources: [Source<'static>; 2],
    /// The geometry at which they are compared, with what was found so far; or why they are not.
    found: std::result::Result<(Geometry, Findings), String>,
}

impl Comparer {
    pub(crate) fn new(files: [Snapshot; 2]) -> Result<Self> {
        let [a, b] = files.map(Source::of_snapshot);
        let sources = [a?, b?];
        let found = comparable(&sources)?;
        let found = found.map(|geometry| (geometry, Findings::new(&geometry)));
        Ok(Comparer { sources, found })
    }

    /// The geometry at which the files are compared; none if they cannot be.
    pub(crate) fn geometry(&self) -> Option<&Geometry> {
        self.found.as_ref().ok().map(|(geometry, _)| geometry)
    }

    /// How the pages of one of the files become those that are compared.
    pub(crate) fn folding(&self, file: usize) -> Option<Folding> {
        Some(Folding::new(self.sources[file].geometry(), self.geometry()?))
    }

    pub(crate) fn note_unverified(&self, file: usize) {
        self.sources[file].note_unverified();
    }

    /// Takes pages of both files, from `first` on.
    pub(crate) fn compare_next(&mut self, first: u64, bytes: &[Vec<u8>; 2]) {
        if let Ok((geometry, found)) = &mut self.found {
            found.compare_next(geometry, first, bytes);
        }
    }

    /// What came of it, once all pages were taken; of files that cannot be compared, checked.
    pub(crate) fn finish(self) -> Result<Comparison> {
        let contents = match self.found {
            Ok((geometry, found)) => Contents::Compared(Box::new(found.told(&geometry))),
            Err(reason) => Contents::Incomparable { reason },
        };
        comparison(&self.sources, contents)
    }
}

fn parameters(sources: &[Source<'_>; 2]) -> Vec<ParameterPair> {
    let [a, b] = sources.each_ref().map(|source| {
        let (superblock, geometry) = (source.superblock(), source.geometry());
        let known = |value: f64| if value == 0.0 { "not given".into() } else { value.to_string() };
        let mut all: Vec<(&'static str, String)> = Parameters::of(source).iter().cloned().collect();
        all.extend([
            ("blocks", geometry.blocks().to_string()),
            ("row bits", geometry.row_cells().to_string()),
            ("capacity", known(superblock.capacity as f64)),
            ("target rate", known(superblock.target_rate)),
            ("journal bytes", superblock.journal_bytes.to_string()),
            ("adds", source.adds().to_string()),
        ]);
        all
    });
    // Of files that are not keyed there is nothing to say.
    let unkeyed =
        |name: &str| name == "secret key" && sources.iter().all(|source| !source.is_keyed());
    let pairs = a.into_iter().zip(b).filter(|((name, _), _)| !unkeyed(name));
    pairs.map(|((name, a), (_, b))| ParameterPair { name, a, b }).collect()
}

/// What one thread has found.
struct Findings {
    /// Of the first file, of the second and of both together.
    counted: [Occupancy; 3],
    a_alone: bool,
    b_alone: bool,
    differing: u64,
    runs: Vec<PageRun>,
}

impl Findings {
    fn new(geometry: &Geometry) -> Self {
        let counted = [(); 3].map(|()| Occupancy::new(geometry));
        let (a_alone, b_alone, differing, runs) = (false, false, 0, Vec::new());
        Findings { counted, a_alone, b_alone, differing, runs }
    }

    fn count(&mut self, geometry: &Geometry, page: u64, ones: [u32; 3]) {
        for (counted, ones) in self.counted.iter_mut().zip(ones) {
            counted.add(geometry, page, ones);
        }
    }

    /// Holds pages of both files against each other, from `first` on.
    fn compare_next(&mut self, geometry: &Geometry, first: u64, bytes: &[Vec<u8>; 2]) {
        let cells = geometry.cell_kind();
        let [a, b] = bytes.each_ref().map(|bytes| bytes.chunks_exact(PAGE));
        for ((page, a), b) in (first..).zip(a).zip(b) {
            if a == b {
                self.count(geometry, page, [PageEntry::ones_of(a, cells); 3]);
                continue;
            }
            let together: Vec<u8> = a.iter().zip(b).map(|(a, b)| a | b).collect();
            let ones = [a, b, &together[..]].map(|page| PageEntry::ones_of(page, cells));
            self.count(geometry, page, ones);
            self.a_alone |= together != b;
            self.b_alone |= together != a;
            self.differs(page);
        }
    }

    /// What all pages say.
    fn told(self, geometry: &Geometry) -> PageComparison {
        let [ones_a, ones_b, ones_union] =
            self.counted.each_ref().map(|counted| counted.sound_ones(geometry));
        PageComparison {
            geometry: *geometry,
            relation: match (self.a_alone, self.b_alone) {
                (false, false) => Relation::Equal,
                (true, false) => Relation::Superset,
                (false, true) => Relation::Subset,
                (true, true) => Relation::Neither,
            },
            overlap: plan::estimate_overlap(geometry, &ones_a, &ones_b, &ones_union),
            pages: geometry.pages(),
            pages_differing: self.differing,
            differing: self.runs,
        }
    }

    fn differs(&mut self, page: u64) {
        self.differing += 1;
        push_run(&mut self.runs, PageRun { first: page, pages: 1 });
    }

    fn join(mut self, other: Findings) -> Findings {
        for (mine, others) in self.counted.iter_mut().zip(&other.counted) {
            mine.add_all(others);
        }
        self.a_alone |= other.a_alone;
        self.b_alone |= other.b_alone;
        self.differing += other.differing;
        other.runs.into_iter().for_each(|run| push_run(&mut self.runs, run));
        self
    }
}

/// Adds a run behind the last one, or to it.
fn push_run(runs: &mut Vec<PageRun>, run: PageRun) {
    let room = runs.len() < MOST_RUNS;
    match runs.last_mut() {
        Some(last) if last.first + last.pages == run.first => last.pages += run.pages,
        _ if room => runs.push(run),
        _ => {}
    }
}

fn compare_pages(geometry: &Geometry, sources: &[Source<'_>; 2]) -> Result<PageComparison> {
    let findings = || Findings::new(geometry);
    let state = || (findings(), [Vec::new(), Vec::new()]);
    let found = each_few_pages(geometry, sources, None, state, |(found, bytes), pages| {
        for (source, bytes) in sources.iter().zip(bytes.iter_mut()) {
            bytes.clear();
            bytes.resize((pages.end - pages.start) as usize * PAGE, 0);
            source.read_folded(geometry, pages.clone(), bytes)?;
        }
        found.compare_next(geometry, pages.start, bytes);
        Ok(())
    })?;
    let found = found.into_iter().map(|(found, _)| found).fold(findings(), Findings::join);
    Ok(found.told(geometry))
}

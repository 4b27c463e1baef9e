//! What a new filter shall be.

mod growth;
mod headers;
mod key;
mod open;
mod parts;
mod sealed;

pub use growth::GrowthStage;

use std::path::Path;

use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::file::{create_file, file_bytes};
use crate::filter::Filter;
use crate::format::WhenFull;
use crate::geometry::{CellKind, Geometry, Layout};
use crate::hash::Key;
use crate::plan::{self, Plan};
use crate::storage::{PendingFile, Target};
use crate::writer::Engine;
use sealed::UNCHANGING;

/// Describes a new filter, then makes it.
///
/// Either a capacity and a rate, from which a geometry is planned, or exact rows:
///
/// ```
/// use bloomfile::{Options, geometry::Layout};
///
/// let plan = Options::new().capacity(10_000_000).false_positive_rate(0.01).plan()?;
/// assert_eq!(plan.geometry().layout(), Layout::Line);
///
/// let plan = Options::new().rows(30).row_bits(2_500_000).plan()?;
/// assert_eq!(plan.geometry().cells(), 75_000_000);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    capacity: Option<u64>,
    rate: Option<f64>,
    rate_of_each: bool,
    layout: Option<Layout>,
    rows: Option<u32>,
    row_bits: Option<u64>,
    geometry: Option<Geometry>,
    seed: u64,
    key: Option<Key>,
    journal_bytes: Option<u64>,
    metadata: Vec<(String, String)>,
    uuid: Option<[u8; 16]>,
    replace: bool,
    kind: Option<CellKind>,
    when_full: Option<WhenFull>,
    generations: u64,
    rotate_after: u64,
    memory: Option<u64>,
}

impl Options {
    /// Nothing chosen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of distinct keys the filter is for.
    pub fn capacity(mut self, keys: u64) -> Self {
        self.capacity = Some(keys);
        self
    }

    /// The share of absent keys that may be reported as present once the filter is at capacity: of
    /// the whole file, however many segments or [generations](Self::generations) it has.
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self.rate_of_each = false;
        self
    }

    /// As [`false_positive_rate`](Self::false_positive_rate), of each
    /// [generation](Self::generations) by itself: a look-up asks all of them, so that the whole file
    /// has up to as many times this rate.
    ///
    /// ```
    /// use bloomfile::Options;
    ///
    /// let options = Options::new().capacity(1_000_000).generations(8);
    /// let whole = options.clone().false_positive_rate(0.01).plan()?;
    /// let each = options.generation_rate(0.01).plan()?;
    /// assert!(whole.expected_rate().unwrap() < 0.00126);
    /// assert!(each.data_bytes() < whole.data_bytes());
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn generation_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self.rate_of_each = true;
        self
    }

    /// The layout; by default `line` down to a rate of 0.1 % and `page` below.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// A filter that is never added to, in about 70 % of the space: its pages are solved for all of
    /// its keys at once. One page is read for a look-up.
    ///
    /// It is [built](Self::start_build), from keys in any order and with repetitions, and neither
    /// written to, merged nor made smaller; a filter of another kind cannot be sealed without its
    /// keys. Without a capacity it gets the size that its distinct keys need for the rate.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("words.bloom");
    /// use bloomfile::{Options, Reader};
    ///
    /// let mut builder = Options::new().sealed(true).false_positive_rate(0.01).start_build(&path)?;
    /// builder.extend(["lorem", "ipsum", "dolor", "ipsum"]);
    /// assert_eq!(builder.finish()?.keys, 3);
    /// let reader = Reader::open(&path)?;
    /// assert!(reader.contains("dolor") && !reader.contains("amet"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn sealed(mut self, sealed: bool) -> Self {
        match (sealed, self.layout) {
            (true, _) => self.layout = Some(Layout::Sealed),
            (false, Some(Layout::Sealed)) => self.layout = None,
            (false, _) => {}
        }
        self
    }

    /// Bytes of memory that the build of a [sealed](Self::sealed) filter takes, at least 32 MiB and
    /// by default 1 GiB. A key takes 8; those that there is no room for are kept in a nameless file of
    /// the temporary folder.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Exactly this many rows (k); goes with [`row_bits`](Self::row_bits).
    pub fn rows(mut self, rows: u32) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Exactly this many bits per row (m), for the layouts `rows` (the default here) and `flat`.
    pub fn row_bits(mut self, bits: u64) -> Self {
        self.row_bits = Some(bits);
        self
    }

    /// Exactly this geometry.
    pub fn geometry(mut self, geometry: Geometry) -> Self {
        self.geometry = Some(geometry);
        self
    }

    /// Seed of the hash. Only filters with the same seed can be merged; the default is 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Bytes for the journal, rounded up to two halves of whole pages; 0 makes every sync a
    /// checkpoint. The default is an eighth of the data, from 8 KiB to 64 MiB, and none in a file
    /// that is [built](Self::start_build).
    pub fn journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = Some(bytes);
        self
    }

    /// A pair to keep in the file: what the keys are, how they were normalised, where they are
    /// from.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// The file's identity; by default a created file gets a random one, and a built file one
    /// that follows from its contents.
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Bits, the default, or counters, from which keys can be taken out again. Counters take four
    /// times the space.
    pub fn kind(mut self, kind: CellKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// What happens when the filter holds as many keys as it was made for; by default adds go on
    /// and the rate rises.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = Some(when_full);
        self
    }

    /// A filter that grows: when it is full, a larger segment is appended, so that the rate of all
    /// together stays below the one asked for. The same as [`WhenFull::Grow`].
    pub fn grow(self) -> Self {
        self.when_full(WhenFull::Grow)
    }

    /// A filter that forgets: this number of generations, each of the capacity asked for, of which
    /// [`Filter::rotate`] drops the oldest. Full, all of them together have the rate asked for.
    pub fn generations(mut self, generations: u64) -> Self {
        self.generations = generations;
        self
    }

    /// Rotates by itself after this number of adds to the newest generation.
    pub fn rotate_after(mut self, adds: u64) -> Self {
        self.rotate_after = adds;
        self
    }

    /// Whether an existing file of that name is replaced; by default it is an error.
    ///
    /// The old file is locked until the new one has its name, so that no writer loses what it adds;
    /// with a writer it gives [`Error::Locked`]. Owner, group and mode stay, a symbolic link is
    /// followed to its file, and what is no regular file is refused.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// What would be made, without making it.
    pub fn plan(&self) -> Result<Plan> {
        self.check_sealed()?;
        if let Some(geometry) = self.geometry {
            return self.exact(geometry);
        }
        match (self.rows, self.row_bits) {
            (None, None) => {}
            (Some(rows), Some(bits)) => {
                let geometry = match self.layout.unwrap_or(Layout::Rows) {
                    Layout::Rows => Geometry::rows(rows, bits)?,
                    Layout::Flat => Geometry::flat(rows, bits)?,
                    other => {
                        let reason = "exact rows go with the layouts rows and flat";
                        return Err(Error::parameter("layout", other, reason));
                    }
                };
                return self.exact(geometry);
            }
            (Some(rows), None) => {
                return Err(Error::parameter("rows", rows, "it needs row bits beside it"));
            }
            (None, Some(bits)) => {
                return Err(Error::parameter("row bits", bits, "it needs rows beside it"));
            }
        }
        let missing = |name| {
            Error::parameter(name, "missing", "give capacity and rate, or rows and row bits")
        };
        let capacity = self.capacity.ok_or_else(|| missing("capacity"))?;
        let rate = self.rate.ok_or_else(|| missing("false positive rate"))?;
        let plan = match self.when_full {
            Some(WhenFull::Grow) => plan::growth_plan(capacity, rate, 0, self.layout)?,
            _ if self.is_sealed() => Plan::new(capacity, rate, Some(Layout::Sealed))?,
            _ if self.generations > 1 && !self.rate_of_each => {
                plan::generation_plan(capacity, rate, self.generations, self.layout)?
            }
            _ => Plan::new(capacity, rate, self.layout)?,
        };
        Ok(plan.with_cells(self.kind.unwrap_or_default()))
    }

    /// Length of the file that [`create`](Self::create) would make, in bytes: data, page tables,
    /// journal and headers.
    ///
    /// ```
    /// use bloomfile::Options;
    ///
    /// let options = Options::new().capacity(1_000_000).false_positive_rate(0.01).journal_bytes(0);
    /// let (all, data) = (options.file_bytes()?, options.plan()?.data_bytes());
    /// assert!(all > data && all < data + 32 * 1024);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn file_bytes(&self) -> Result<u64> {
        let plan = self.plan()?;
        Ok(file_bytes(&self.superblock(&plan)?, &plan))
    }

    fn exact(&self, geometry: Geometry) -> Result<Plan> {
        if let Some(rate) = self.rate {
            let reason = "the size is given exactly, so the rate follows from it";
            return Err(Error::parameter("false positive rate", rate, reason));
        }
        if self.capacity == Some(0) {
            return Err(Error::parameter("capacity", 0, "it must be at least 1"));
        }
        if self.when_full == Some(WhenFull::Grow) {
            let reason = "a filter that grows needs capacity and rate, not an exact size";
            return Err(Error::parameter("when full", "grow", reason));
        }
        let plan = Plan::exact(geometry, self.capacity);
        Ok(plan.with_cells(self.kind.unwrap_or(geometry.cell_kind())))
    }

    /// Creates the file and opens it for writing.
    ///
    /// The file appears under its name only once it is whole and durable; its space is allocated.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// use bloomfile::Options;
    ///
    /// let filter = Options::new()
    ///     .capacity(1000)
    ///     .false_positive_rate(0.001)
    ///     .metadata("keys", "URLs, lower case")
    ///     .create(&path)?;
    /// filter.add(b"example.org")?;
    /// filter.close()?;
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Filter> {
        let plan = self.plan()?;
        if self.is_sealed() {
            return Err(Error::parameter("kind", CellKind::Sealed.name(), UNCHANGING));
        }
        let superblock = self.superblock(&plan)?;
        let metadata = self.metadata_map()?;
        let path = path.as_ref();
        let create = || {
            let target = Target::new(path, self.replace)?;
            let pending = PendingFile::new(target, file_bytes(&superblock, &plan))?;
            create_file(&pending.medium()?, &superblock, &plan, metadata)?;
            // Opened before it has a name: if that fails, no file is there that was not before.
            let engine = Engine::open_new(pending.medium()?)?;
            let hasher = superblock.hasher(self.key.as_ref())?;
            pending.publish()?;
            Ok(Filter::from_engine(engine, hasher, path))
        };
        create().map_err(|error: Error| error.at(path))
    }

    /// Starts a file that is filled in bulk and appears under its name when it is finished.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("words.bloom");
    /// use bloomfile::{Options, Reader};
    ///
    /// let mut builder = Options::new().capacity(3).false_positive_rate(0.01).start_build(&path)?;
    /// for word in ["lorem", "ipsum", "dolor"] {
    ///     builder.add(word.as_bytes());
    /// }
    /// assert!(!path.exists());
    /// builder.finish()?;
    /// assert!(Reader::open(&path)?.contains(b"ipsum"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn start_build(&self, path: impl AsRef<Path>) -> Result<Builder> {
        self.check_buildable()?;
        let path = path.as_ref();
        if self.is_sealed() {
            return self.start_sealed(path);
        }
        let plan = self.plan()?;
        let superblock = self.built_superblock(&plan)?;
        let metadata = self.metadata_map()?;
        let start = || {
            let target = Target::new(path, self.replace)?;
            let pending = PendingFile::new(target, file_bytes(&superblock, &plan))?;
            let hasher = superblock.hasher(self.key.as_ref())?;
            let builder = Builder::new(pending, superblock, &plan, metadata, self.uuid.is_none())?;
            Ok(builder.hashing_with(hasher))
        };
        start().map_err(|error: Error| error.at(path))
    }

    /// Refuses what cannot be loaded in bulk.
    fn check_buildable(&self) -> Result<()> {
        let reason = "it is for filters that are written over time: use create";
        if self.kind == Some(CellKind::Counting) {
            return Err(Error::parameter("kind", "counting in a bulk build", reason));
        }
        if self.generations != 0 {
            return Err(Error::parameter("generations", self.generations, reason));
        }
        if self.when_full.is_some_and(|when_full| when_full != WhenFull::Allow) {
            return Err(Error::parameter("when full", "set in a bulk build", reason));
        }
        Ok(())
    }
}

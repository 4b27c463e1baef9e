//! One part, from keys.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use super::PartPlan;
use crate::builder::sealed::pages::PageCounts;
use crate::builder::sealed::{Collector, DEFAULT_MEMORY, LEAST_MEMORY};
use crate::error::{Error, Result};
use crate::file::{describe_pages, visit_table_bytes};
use crate::format::{
    ENTRY_BYTES, Extent, PART_TABLE_OFFSET, PageEntry, PartContents, page_of_hash, part_table_bytes,
};
use crate::geometry::{CellKind, Geometry, PAGE_BYTES};
use crate::hash::{Hasher, Key};
use crate::kernel::place;
use crate::storage::{
    FileMap, FileMedium, Map, Mapping, Medium, PendingFile, Target, Usage, WriteMedium,
};

/// A part that is going to be built; made by [`PartPlan::part`].
#[derive(Clone, Debug)]
pub struct Part {
    plan: PartPlan,
    part: u64,
    key: Option<Key>,
    replace: bool,
    memory: u64,
    any_order: bool,
}

/// Hashes that are put in order at once, where their order must not matter: 64 MiB of them.
const IN_ORDER: usize = 1 << 23;

impl Part {
    pub(super) fn new(plan: PartPlan, part: u64) -> Self {
        Part { plan, part, key: None, replace: false, memory: DEFAULT_MEMORY, any_order: false }
    }

    /// The secret of a keyed filter.
    pub fn key(mut self, key: &Key) -> Self {
        self.key = Some(key.clone());
        self
    }

    /// Whether an existing file of that name is replaced; by default it is an error.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Bytes of memory that the hashes of a sealed filter take; see
    /// [`Options::memory`](crate::Options::memory).
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Whether keys are brought into the order of their hashes before they are added, 2^23 at a time:
    /// for keys that come in another order each time, as from a shuffle. The bits of a filter do not
    /// depend on the order, but the number of adds that changed it does, by the keys that others hid.
    /// A part of up to 2^23 keys is then the same file whatever their order; a sealed one always is.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name: &str| folder.path().join(name);
    /// let options = bloomfile::Options::new().capacity(1000).false_positive_rate(0.5);
    /// let plan = options.plan_parts(1)?;
    /// for (name, keys) in [("up", Vec::from_iter(0..1000u64)), ("down", (0..1000).rev().collect())] {
    ///     let mut part = plan.part(1).any_order(true).start(at(name))?;
    ///     keys.iter().for_each(|key| assert!(part.add(key.to_le_bytes())));
    ///     part.finish()?;
    /// }
    /// assert_eq!(std::fs::read(at("up")).unwrap(), std::fs::read(at("down")).unwrap());
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn any_order(mut self, any_order: bool) -> Self {
        self.any_order = any_order;
        self
    }

    /// Starts the part's file, which appears under its name when it is finished.
    pub fn start(self, path: impl AsRef<Path>) -> Result<PartBuilder> {
        let path = path.as_ref();
        let Part { plan, part, key, replace, memory, any_order } = self;
        if !(1..=plan.parts()).contains(&part) {
            let reason = format!("there are {}, counted from 1", plan.parts());
            return Err(Error::parameter("part", part, reason));
        }
        if memory < LEAST_MEMORY {
            let reason = format!("it must be at least {} MiB", LEAST_MEMORY >> 20);
            return Err(Error::parameter("memory", memory, reason));
        }
        let start = || {
            let hasher = plan.hasher(key.as_ref())?;
            let pages = plan.pages_of(part);
            let target = Target::new(path, replace)?;
            let pending = PendingFile::new(target, plan.header.part_bytes(part))?;
            let geometry = *plan.header.geometry();
            let work = match geometry.cell_kind() {
                CellKind::Sealed => {
                    Work::Sealed(Collector::of_pages(memory, &pages, geometry.pages()))
                }
                _ if pages.is_empty() => Work::Nothing,
                _ => Work::Bits(map(&pending.medium()?, &pages)?),
            };
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let (taken, adds) = (0, 0);
            let unordered = any_order.then(Vec::new);
            let builder = PartBuilder {
                pending,
                plan,
                part,
                pages,
                geometry,
                hasher,
                work,
                threads,
                taken,
                adds,
                unordered,
            };
            Ok(builder)
        };
        start().map_err(|error: Error| error.at(path))
    }
}

/// Where the data of a part start in its file (F-182).
pub(super) fn data_offset(pages: &Range<u64>) -> u64 {
    PART_TABLE_OFFSET + part_table_bytes(pages.end - pages.start)
}

fn map(medium: &FileMedium, pages: &Range<u64>) -> Result<FileMap> {
    let start = data_offset(pages);
    let end = start + (pages.end - pages.start) * PAGE_BYTES;
    let map = medium.map(start..end, Mapping::Shared).map_err(Error::io("map the data"))?;
    map.advise(Usage::Fill);
    Ok(map)
}

/// Fills one part of a filter; made by [`Part::start`].
///
/// Keys of other parts are left out, so that every machine may be given all keys, or those of its part
/// alone ([`PartPlan::part_of`]). Nothing is visible under the file's name before
/// [`finish`](Self::finish).
#[must_use = "a part that is not finished leaves no file"]
pub struct PartBuilder {
    pending: PendingFile,
    plan: PartPlan,
    part: u64,
    pages: Range<u64>,
    geometry: Geometry,
    hasher: Hasher,
    work: Work,
    threads: usize,
    taken: u64,
    adds: u64,
    /// Hashes that are put in order before they are added.
    unordered: Option<Vec<u64>>,
}

/// What is being filled.
enum Work {
    /// The pages of the part.
    Bits(FileMap),
    /// Hashes, of which pages are made once all are there.
    Sealed(Collector),
    /// A part without pages.
    Nothing,
}

/// What was built; told by [`PartBuilder::finish`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuiltPart {
    /// The part.
    pub part: u64,
    /// Keys that were in it, repetitions included.
    pub taken: u64,
    /// Adds that changed it; of a sealed filter, its distinct keys.
    pub keys: u64,
    /// Its pages.
    pub pages: u64,
    /// Those of them that answer "maybe" for every key; see [`Built::maybe_pages`](crate::Built).
    pub maybe_pages: u64,
    /// Length of its file.
    pub file_bytes: u64,
}

impl PartBuilder {
    /// Adds a key, if it is in this part; whether it is.
    pub fn add(&mut self, key: impl AsRef<[u8]>) -> bool {
        self.add_hash(self.hasher.hash(key))
    }

    /// Adds the hash of a key, if it is in this part; whether it is.
    pub fn add_hash(&mut self, hash: u64) -> bool {
        let page = page_of_hash(&self.geometry, hash);
        if !self.pages.contains(&page) || self.pending.is_forked() {
            return false;
        }
        self.taken += 1;
        match &mut self.work {
            Work::Bits(map) => match &mut self.unordered {
                Some(unordered) => {
                    unordered.push(hash);
                    if unordered.len() == IN_ORDER {
                        self.add_in_order();
                    }
                }
                None => {
                    let new = turn_on(&self.geometry, map, self.pages.start, hash);
                    self.adds += u64::from(new);
                }
            },
            Work::Sealed(hashes) => hashes.add(hash, self.threads),
            Work::Nothing => {}
        }
        true
    }

    /// Adds the hashes that were kept, in their order.
    fn add_in_order(&mut self) {
        let (Work::Bits(map), Some(hashes)) = (&self.work, &mut self.unordered) else { return };
        hashes.sort_unstable();
        for hash in hashes.drain(..) {
            self.adds += u64::from(turn_on(&self.geometry, map, self.pages.start, hash));
        }
    }

    /// Adds those of many keys that are in this part; how many are.
    pub fn add_batch<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> u64 {
        keys.iter().map(|key| u64::from(self.add(key))).sum()
    }

    /// As [`add_batch`](Self::add_batch), for hashes.
    pub fn add_hash_batch(&mut self, hashes: &[u64]) -> u64 {
        hashes.iter().map(|&hash| u64::from(self.add_hash(hash))).sum()
    }

    /// The hasher of the filter.
    pub fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// The plan of the filter.
    pub fn plan(&self) -> &PartPlan {
        &self.plan
    }

    /// Writes checksums and header, makes the part durable and gives it its name.
    pub fn finish(self) -> Result<BuiltPart> {
        let path = self.pending.path().to_owned();
        self.publish().map_err(|error| error.at(&path))
    }

    fn publish(mut self) -> Result<BuiltPart> {
        self.add_in_order();
        let PartBuilder { pending, plan, part, pages, geometry, work, threads, mut adds, .. } =
            self;
        let medium = pending.medium()?;
        let count = pages.end - pages.start;
        let mut maybe_pages = 0;
        // The part's only table is where the first one of a segment is.
        let extent = Extent { offset: PART_TABLE_OFFSET, pages: count };
        match work {
            Work::Bits(map) => {
                describe_pages(&medium, &extent, map.words(), geometry.cell_kind())?;
            }
            Work::Sealed(hashes) => {
                let built = solve(&medium, &geometry, &pages, hashes, threads)?;
                (adds, maybe_pages) = (built.keys, built.maybe_pages);
            }
            Work::Nothing => {}
        }
        let mut contents = PartContents { part, adds, ..PartContents::default() };
        (contents.table_crc, contents.ones) = summary_of_table(&medium, &geometry, &pages)?;
        let header = plan.header.encode(&contents)?;
        medium.write_at(&header, 0).map_err(Error::io("write the part"))?;
        pending.publish()?;
        let file_bytes = plan.header.part_bytes(part);
        let taken = self.taken;
        Ok(BuiltPart { part, taken, keys: adds, pages: count, maybe_pages, file_bytes })
    }
}

/// Turns on the cells of a hash in a map that begins with the page `first`; true when one was off.
/// No other thread changes the cells at the same time.
fn turn_on(geometry: &Geometry, map: &FileMap, first: u64, hash: u64) -> bool {
    let start = (first * PAGE_BYTES / 8) as usize;
    let mut new = false;
    for row in 0..geometry.row_count() {
        let (word, bit) = place(geometry, hash, row);
        let value = map.words().load(word - start);
        if value & bit == 0 {
            map.store(word - start, value | bit);
            new = true;
        }
    }
    new
}

/// Solves the pages of a sealed part, and writes them with their entries; what became of them.
fn solve(
    medium: &FileMedium,
    geometry: &Geometry,
    pages: &Range<u64>,
    hashes: Collector,
    threads: usize,
) -> Result<PageCounts> {
    let (mut hashes, _) = hashes.finish(false, threads)?;
    if pages.is_empty() {
        return Ok(PageCounts::default());
    }
    hashes.build_range(geometry.pages(), pages.clone(), |run| {
        // Runs are numbered from the first page of the range on.
        let start = data_offset(pages) + (run.first - pages.start) * PAGE_BYTES;
        let write = Error::io("write the part");
        medium.write_at(run.pages.as_flattened(), start).map_err(write)?;
        let entries = run.pages.iter().zip(run.outcomes).flat_map(|(page, outcome)| {
            PageEntry { crc: crc32fast::hash(page), ones: outcome.keys }.encode()
        });
        let entries: Vec<u8> = entries.collect();
        let at = PART_TABLE_OFFSET + (run.first - pages.start) * ENTRY_BYTES as u64;
        medium.write_at(&entries, at).map_err(Error::io("write the part"))
    })
}

/// CRC of the page table of a part with these pages and the sum of its ones, in bounded memory.
///
/// The first entry that no page can have is an error, and ends it: the table of a file that comes from
/// others may be a hole of any length (F-39).
pub(super) fn summary_of_table(
    medium: &FileMedium,
    geometry: &Geometry,
    pages: &Range<u64>,
) -> Result<(u32, u64)> {
    let (mut crc, mut ones) = (crc32fast::Hasher::new(), 0);
    let length = part_table_bytes(pages.end - pages.start);
    let range = PART_TABLE_OFFSET..PART_TABLE_OFFSET + length;
    let mut numbers = pages.clone();
    let visited = visit_table_bytes(medium, range, |bytes| {
        crc.update(bytes);
        for entry in bytes.chunks_exact(ENTRY_BYTES).map(PageEntry::decode) {
            // Behind the last one there is padding.
            if let Some(page) = numbers.next().filter(|&page| !entry.is_possible(geometry, page)) {
                return Err(Error::PageEntry { page, crc: entry.crc, ones: entry.ones });
            }
            ones += u64::from(entry.ones);
        }
        Ok(ControlFlow::Continue(()))
    });
    visited.map(drop)?;
    Ok((crc.finalize(), ones))
}

impl<K: AsRef<[u8]>> Extend<K> for PartBuilder {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        keys.into_iter().for_each(|key| {
            self.add(key);
        });
    }
}

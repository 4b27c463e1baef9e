//! How the keys are spread over the blocks, held against the law they should follow.

use std::ops::{ControlFlow, Range};
#[cfg(feature = "files")]
use std::path::Path;

use crate::error::Result;
use crate::file::{Blocks, FilePages, Snapshot, read_table_part, visit_table_until};
use crate::format::SegmentRecord;
use crate::geometry::{Geometry, Layout, SEALED_PAGE_BITS};
use crate::plan::{Crowding, LoadLaw, LoadVerdict};
#[cfg(feature = "files")]
use crate::storage::open_to_read;
use crate::storage::{Bytes, ReadMedium};

/// Pages that [`crowding`] looks at, at most: 64 MiB of data.
const MOST_PAGES: u64 = 1 << 14;

/// How many keys met in the blocks of a segment; made by [`block_loads`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BlockLoads {
    /// The segment, counted from the oldest.
    pub segment: usize,
    /// Blocks that were counted.
    pub blocks: u64,
    /// Mean number of keys in a block.
    pub mean: f64,
    /// The loads' variance as a multiple of what chance gives; near 1 when all is well.
    pub dispersion: f64,
    /// Blocks that hold more keys than chance brings together in any, as keys do that were chosen for
    /// it, or a repair.
    pub crowded: u64,
    /// What to think of it.
    pub verdict: LoadVerdict,
    /// The blocks by their load, from the lowest to the highest.
    pub bins: Vec<LoadBin>,
}

/// Blocks with about the same load.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LoadBin {
    /// Keys in the block: the least and the most that this bin takes. The first and the last bin
    /// take everything beyond as well.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// Blocks that were found in it.
    pub observed: u64,
    /// Blocks that the Poisson law puts into it.
    pub expected: f64,
}

/// Counts the ones of every block and holds the keys they stand for against the Poisson law.
///
/// Keys that hash well fall into blocks like rain: a spread that is wider or narrower than chance
/// gives means that the hashes are bad, or that blocks were damaged or filled by a repair. The
/// `rows` and `flat` layouts have one block only; there stretches of 512 cells take its place.
///
/// All data pages are read, as they are: what the journal of a crashed file holds is not in them.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// use bloomfile::plan::LoadVerdict;
///
/// let options = bloomfile::Options::new().capacity(100_000).false_positive_rate(0.01);
/// let mut builder = options.start_build(&path)?;
/// for key in 0..100_000u32 {
///     builder.add(&key.to_le_bytes());
/// }
/// builder.finish()?;
/// let loads = bloomfile::report::block_loads(&path)?;
/// assert_eq!(loads[0].verdict, LoadVerdict::AsExpected);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn block_loads(path: impl AsRef<Path>) -> Result<Vec<BlockLoads>> {
    let path = path.as_ref();
    let count = || loads_of_medium(&open_to_read(path)?);
    count().map_err(|error| error.at(path))
}

/// As [`block_loads`], for a file whose bytes are in memory.
pub fn block_loads_bytes(bytes: impl AsRef<[u8]>) -> Result<Vec<BlockLoads>> {
    loads_of_medium(&Bytes(bytes.as_ref()))
}

fn loads_of_medium(medium: &dyn ReadMedium) -> Result<Vec<BlockLoads>> {
    let loaded = Snapshot::read(medium)?.loaded;
    let segments = loaded.slot.segments.iter().enumerate();
    segments.map(|(index, segment)| loads_of(medium, index, segment)).collect()
}

fn loads_of(medium: &dyn ReadMedium, index: usize, segment: &SegmentRecord) -> Result<BlockLoads> {
    let counted = if segment.geometry.layout() == Layout::Sealed {
        sealed_loads(medium, segment)?
    } else {
        let pages = FilePages::new(medium, index, segment.extent());
        Blocks::new(&segment.geometry).count(&pages)?
    };
    Ok(loads_from(index, &segment.geometry, &counted))
}

/// What the numbers of blocks of a segment by their ones mean; of a sealed one, those of pages by their
/// keys.
pub(crate) fn loads_from(index: usize, geometry: &Geometry, counted: &[u64]) -> BlockLoads {
    let law = if geometry.layout() == Layout::Sealed {
        LoadLaw::of_keys(counted)
    } else {
        let blocks = Blocks::new(geometry);
        LoadLaw::new(blocks.rows, blocks.row_cells, counted)
    };
    let total: u64 = counted.iter().sum();
    let bins = law.bins().into_iter().map(|Range { start, end }| LoadBin {
        first: start,
        last: end - 1,
        observed: 0,
        expected: 0.0,
    });
    let mut bins: Vec<LoadBin> = bins.collect();
    let expected = law.expected(&bins.iter().map(|bin| bin.last).collect::<Vec<_>>());
    for (bin, share) in bins.iter_mut().zip(expected) {
        bin.expected = share * total as f64;
    }
    for (ones, &count) in counted.iter().enumerate().filter(|(_, count)| **count > 0) {
        let load = law.load(ones as u64).round() as u64;
        let at = bins.partition_point(|bin| bin.last < load).min(bins.len() - 1);
        bins[at].observed += count;
    }
    BlockLoads {
        segment: index,
        blocks: total,
        mean: law.mean(),
        dispersion: law.dispersion(),
        crowded: law.crowded(counted),
        verdict: law.verdict_with(law.crowded(counted)),
        bins,
    }
}

/// How many pages of a sealed segment have how many keys: its page table tells.
pub(crate) fn sealed_loads(medium: &dyn ReadMedium, segment: &SegmentRecord) -> Result<Vec<u64>> {
    let mut counted = Vec::new();
    visit_table_until(medium, segment, |entry| {
        // A page with more than this many bits cannot be solved: how many more does not matter.
        let keys = u64::from(entry.ones).min(SEALED_PAGE_BITS) as usize;
        if keys >= counted.len() {
            counted.resize(keys + 1, 0);
        }
        counted[keys] += 1;
        ControlFlow::Continue(())
    })
    .map(drop)?;
    Ok(counted)
}

/// Looks for blocks that hold more keys than chance brings together: what is left by keys that were
/// chosen to fill them, or by a repair. One result for each segment, oldest first.
///
/// Reads the page tables and of each segment at most 64 MiB of data, those of its fullest pages: so it
/// takes no longer for a large file, of which it may miss single blocks. [`block_loads`] reads all.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// filter.add("sheep")?;
/// filter.close()?;
/// assert_eq!(bloomfile::report::crowding(&path)?[0].crowded, 0);
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn crowding(path: impl AsRef<Path>) -> Result<Vec<Crowding>> {
    let path = path.as_ref();
    let look = || crowding_of_medium(&open_to_read(path)?);
    look().map_err(|error| error.at(path))
}

/// As [`crowding`], for a file whose bytes are in memory.
pub fn crowding_bytes(bytes: impl AsRef<[u8]>) -> Result<Vec<Crowding>> {
    crowding_of_medium(&Bytes(bytes.as_ref()))
}

fn crowding_of_medium(medium: &dyn ReadMedium) -> Result<Vec<Crowding>> {
    let loaded = Snapshot::read(medium)?.loaded;
    let look = |(index, segment): (usize, &SegmentRecord)| {
        if segment.geometry.layout() == Layout::Sealed {
            // Its page table tells the keys of each page, and its pages are its blocks.
            let counted = sealed_loads(medium, segment)?;
            let (blocks, crowded) =
                (segment.geometry.blocks(), LoadLaw::of_keys(&counted).crowded(&counted));
            return Ok(Crowding { blocks, looked_at: blocks, crowded });
        }
        let extent = segment.extent();
        let entries = read_table_part(medium, segment, 0..extent.pages)?;
        let blocks = Blocks::new(&segment.geometry);
        let fullest = blocks.fullest(|page| entries[page as usize].ones, MOST_PAGES);
        blocks.find_crowded(&FilePages::new(medium, index, extent), fullest, segment.adds)
    };
    loaded.slot.segments.iter().enumerate().map(look).collect()
}

//! How the keys are spread over the blocks, held against the law they should follow.

use std::ops::{ControlFlow, Range};
#[cfg(feature = "files")]
use std::path::Path;

use byteorder::{ByteOrder, LittleEndian};

use crate::error::Result;
use crate::file::{FilePages, Pages, Snapshot, split_on_all_cores, visit_table_until};
use crate::format::SegmentRecord;
use crate::geometry::{CellKind, Geometry, LINE_BLOCK_CELLS, Layout, PAGE_BYTES, SEALED_PAGE_BITS};
use crate::plan::{LoadLaw, LoadVerdict};
#[cfg(feature = "files")]
use crate::storage::open_to_read;
use crate::storage::{Bytes, ReadMedium};

/// Blocks that are counted in one go.
const GROUP: u64 = 64;

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
    let slot = Snapshot::read(medium)?.loaded.slot;
    let segments = slot.segments.iter().enumerate();
    segments.map(|(index, segment)| loads_of(medium, index, segment)).collect()
}

fn loads_of(medium: &dyn ReadMedium, index: usize, segment: &SegmentRecord) -> Result<BlockLoads> {
    let (counted, law) = if segment.geometry.layout() == Layout::Sealed {
        let counted = sealed_loads(medium, segment)?;
        let law = LoadLaw::of_keys(&counted);
        (counted, law)
    } else {
        let blocks = Blocks::new(&segment.geometry);
        let counted = blocks.count(&FilePages::new(medium, index, segment.extent()))?;
        let law = LoadLaw::new(blocks.rows, blocks.row_cells, &counted);
        (counted, law)
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
    Ok(BlockLoads {
        segment: index,
        blocks: total,
        mean: law.mean(),
        dispersion: law.dispersion(),
        verdict: law.verdict(),
        bins,
    })
}

/// How many pages of a sealed segment have how many keys: its page table tells.
fn sealed_loads(medium: &dyn ReadMedium, segment: &SegmentRecord) -> Result<Vec<u64>> {
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

/// The blocks of a geometry, or what takes their place.
struct Blocks {
    /// Rows and cells of each row of one block.
    rows: u32,
    row_cells: u64,
    /// All of them, whole or not.
    blocks: u64,
    /// Words from one to the next.
    words: u64,
    /// Of so many blocks in a row of the data, the first so many are whole.
    whole: (u64, u64),
    cells: CellKind,
}

impl Blocks {
    fn new(geometry: &Geometry) -> Self {
        let (rows, row_cells, span) = match geometry.layout() {
            Layout::Rows | Layout::Flat => (1, LINE_BLOCK_CELLS, LINE_BLOCK_CELLS),
            Layout::Page | Layout::Line | Layout::Sealed => {
                (geometry.row_count(), geometry.row_cells(), geometry.block_span())
            }
        };
        let (blocks, whole) = match geometry.layout() {
            Layout::Rows | Layout::Flat => {
                let stretches = geometry.block_span() / span;
                let in_row = match geometry.layout() {
                    Layout::Rows => geometry.row_span() / span,
                    _ => stretches,
                };
                (stretches, (in_row, geometry.row_cells() / span))
            }
            Layout::Page | Layout::Line | Layout::Sealed => (geometry.blocks(), (1, 1)),
        };
        let words = span * u64::from(geometry.cell_kind().bits()) / 64;
        Blocks { rows, row_cells, blocks, words, whole, cells: geometry.cell_kind() }
    }

    /// How many blocks have how many ones.
    fn count(&self, pages: &FilePages<'_>) -> Result<Vec<u64>> {
        let cells = (u64::from(self.rows) * self.row_cells) as usize;
        // Groups of blocks that begin and end with a page.
        let group_words = (GROUP * self.words).next_multiple_of(PAGE_BYTES / 8);
        let (group, group_pages) = (group_words / self.words, group_words * 8 / PAGE_BYTES);
        let groups = self.blocks.div_ceil(group);
        let parts = split_on_all_cores(groups, group_pages, |groups| {
            let mut counted = vec![0; cells + 1];
            let mut bytes = vec![0; (group_words * 8) as usize];
            for number in groups {
                let blocks = number * group..((number + 1) * group).min(self.blocks);
                let words = (blocks.end - blocks.start) * self.words;
                let bytes = &mut bytes[..(words * 8).next_multiple_of(PAGE_BYTES) as usize];
                pages.read(number * group_pages, bytes)?;
                for (block, bytes) in blocks.zip(bytes.chunks_exact(self.words as usize * 8)) {
                    if block % self.whole.0 < self.whole.1 {
                        let words = bytes.chunks_exact(8).map(LittleEndian::read_u64);
                        let ones: u32 = words.map(|word| self.ones(word)).sum();
                        // More than there are cells means damage between the rows.
                        counted[(ones as usize).min(cells)] += 1;
                    }
                }
            }
            Ok(counted)
        });
        let mut counted = vec![0; cells + 1];
        for part in parts {
            counted.iter_mut().zip(part?).for_each(|(sum, count)| *sum += count);
        }
        Ok(counted)
    }

    /// Cells of a word that are not zero.
    fn ones(&self, word: u64) -> u32 {
        match self.cells {
            CellKind::Plain | CellKind::Sealed => word.count_ones(),
            CellKind::Counting => {
                ((word | word >> 1 | word >> 2 | word >> 3) & 0x1111_1111_1111_1111).count_ones()
            }
        }
    }
}

//! How the keys are spread over the blocks, a part of the file at a time.

use std::sync::Arc;

use super::file::Shared;
use super::pieces::Pieces;
use super::{PAGES_AT_ONCE, Step, Task};
use crate::error::Result;
use crate::file::{Blocks, FilePages};
use crate::geometry::{Layout, PAGE_BYTES};
use crate::report::{BlockLoads, loads_from, sealed_loads};

/// Counts the ones of every block; made by [`RangeFile::block_loads`](super::RangeFile::block_loads).
pub struct Measuring {
    shared: Arc<Shared>,
    pieces: Pieces,
    /// Segment and group of blocks that come next.
    next: (usize, u64),
    /// Of that segment, how many blocks have how many ones.
    counted: Vec<u64>,
    done: Vec<BlockLoads>,
    /// Pages of segments that are done.
    pages: u64,
}

impl Measuring {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let pieces = Pieces::new(shared.length);
        Measuring { shared, pieces, next: (0, 0), counted: Vec::new(), done: Vec::new(), pages: 0 }
    }

    /// How many pages were counted so far.
    pub fn checked(&self) -> u64 {
        let (segment, group) = self.next;
        let here = self.shared.segments().get(segment);
        let pages = here.map_or(1, |record| Blocks::new(&record.geometry).group_pages());
        self.pages + group * pages
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.shared.segments().iter().map(|segment| segment.geometry.pages()).sum()
    }
}

impl Task for Measuring {
    type Output = Vec<BlockLoads>;

    fn step(&mut self) -> Result<Step<Vec<BlockLoads>>> {
        loop {
            let (index, group) = self.next;
            let Some(record) = self.shared.segments().get(index) else {
                return Ok(Step::Done(std::mem::take(&mut self.done)));
            };
            let whole = if record.geometry.layout() == Layout::Sealed {
                match self.pieces.run(|pieces| sealed_loads(pieces, record))? {
                    Step::Need(ranges) => return Ok(Step::Need(ranges)),
                    Step::Done(counted) => self.counted = counted,
                }
                true
            } else {
                let (blocks, extent) = (Blocks::new(&record.geometry), record.extent());
                let pages = blocks.group_pages();
                let end = blocks.groups().min(group + (PAGES_AT_ONCE / pages).max(1));
                let start = extent.data() + group * pages * PAGE_BYTES;
                let bytes = (end - group) * pages * PAGE_BYTES;
                let needed = self.pieces.need_one(start..start + bytes);
                if !needed.is_empty() {
                    return Ok(Step::Need(needed));
                }
                let counted = self.pieces.run(|pieces| {
                    blocks.count_groups(&FilePages::new(pieces, index, extent), group..end)
                })?;
                match counted {
                    Step::Need(ranges) => return Ok(Step::Need(ranges)),
                    Step::Done(counted) => {
                        self.counted.resize(counted.len(), 0);
                        self.counted.iter_mut().zip(counted).for_each(|(sum, more)| *sum += more);
                    }
                }
                self.next.1 = end;
                end == blocks.groups()
            };
            self.pieces.clear();
            if whole {
                self.done.push(loads_from(index, &record.geometry, &self.counted));
                self.counted.clear();
                self.pages += record.geometry.pages();
                self.next = (index + 1, 0);
            }
        }
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        self.pieces.give(start, bytes)
    }
}

//! What the page table says of pages.

use std::ops::Range;
use std::sync::Arc;

use super::file::Shared;
use super::pieces::Pieces;
use super::{Step, Task};
use crate::error::{Error, Result};
use crate::file::read_table_part;
use crate::report::PageInspection;

/// Tells what the page table says of pages; made by
/// [`RangeFile::list_pages`](super::RangeFile::list_pages).
///
/// The table as a whole was checked at opening.
pub struct Listing {
    shared: Arc<Shared>,
    pieces: Pieces,
    segment: usize,
    pages: Range<u64>,
}

impl Listing {
    pub(super) fn new(shared: Arc<Shared>, segment: usize, pages: Range<u64>) -> Result<Self> {
        let count = shared.segments().len();
        let Some(record) = shared.segments().get(segment) else {
            let reason = format!("the file has {count} segments");
            return Err(Error::parameter("segment", segment, reason));
        };
        let there = record.geometry.pages();
        if pages.start > pages.end || pages.end > there {
            let reason = format!("the segment has {there} pages");
            return Err(Error::parameter("pages", format!("{pages:?}"), reason));
        }
        let pieces = Pieces::new(shared.length);
        Ok(Listing { shared, pieces, segment, pages })
    }
}

impl Task for Listing {
    type Output = Vec<PageInspection>;

    fn step(&mut self) -> Result<Step<Vec<PageInspection>>> {
        let Listing { shared, pieces, segment, pages } = self;
        let (segment, record) = (*segment, &shared.segments()[*segment]);
        pieces.run(|pieces| {
            let entries = read_table_part(pieces, record, pages.clone())?;
            let pages = pages.clone().zip(entries);
            Ok(pages
                .map(|(page, entry)| PageInspection::of(record, segment, page, entry))
                .collect())
        })
    }

    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()> {
        self.pieces.give(start, bytes)
    }
}

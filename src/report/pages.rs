//! The pages of a file as its page tables describe them.

use std::ops::ControlFlow;
#[cfg(feature = "files")]
use std::path::Path;

use crate::error::Result;
use crate::file::{load, retry_torn, visit_table_until};
use crate::format::{PageEntry, SegmentRecord};
#[cfg(feature = "files")]
use crate::storage::open_to_read;
use crate::storage::{Bytes, ReadMedium};

/// What the page table says of one data page; made by [`inspect_pages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PageInspection {
    /// The segment, counted from the oldest.
    pub segment: usize,
    /// The page, counted from the segment's first.
    pub page: u64,
    /// CRC-32 of the page.
    pub crc: u32,
    /// Cells that are set.
    pub ones: u32,
    /// Cells that a key can fall on.
    pub cells: u64,
}

impl PageInspection {
    /// What an entry of a segment's page table says.
    pub(crate) fn of(
        record: &SegmentRecord,
        segment: usize,
        page: u64,
        PageEntry { crc, ones }: PageEntry,
    ) -> Self {
        PageInspection { segment, page, crc, ones, cells: record.geometry.page_cells(page) }
    }

    /// Share of the cells that are set.
    pub fn fill(&self) -> f64 {
        match self.cells {
            0 => 0.0,
            cells => f64::from(self.ones) / cells as f64,
        }
    }
}

/// Shows what the page tables say of every data page, as of the last checkpoint, until `visit` breaks
/// it off. No data page is read.
///
/// Tables are read as they are shown: one that breaks it off costs headers and what was shown. An error
/// may so come after some pages: that the checksum of a table does not match is known at its end.
///
/// ```
/// use std::ops::ControlFlow;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// # filter.add(b"key")?;
/// # filter.close()?;
/// let mut ones = 0;
/// bloomfile::report::inspect_pages(&path, |page| {
///     ones += page.ones;
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(ones, 8, "one for each row");
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[cfg(feature = "files")]
pub fn inspect_pages(
    path: impl AsRef<Path>,
    visit: impl FnMut(PageInspection) -> ControlFlow<()>,
) -> Result<()> {
    let path = path.as_ref();
    let inspect = || inspect_pages_of(&open_to_read(path)?, visit);
    inspect().map_err(|error| error.at(path))
}

/// As [`inspect_pages`], for a file whose bytes are in memory.
pub fn inspect_pages_bytes(
    bytes: impl AsRef<[u8]>,
    visit: impl FnMut(PageInspection) -> ControlFlow<()>,
) -> Result<()> {
    inspect_pages_of(&Bytes(bytes.as_ref()), visit)
}

fn inspect_pages_of(
    medium: &dyn ReadMedium,
    mut visit: impl FnMut(PageInspection) -> ControlFlow<()>,
) -> Result<()> {
    let loaded = retry_torn(medium, || load(medium))?;
    for (segment, record) in loaded.slot.segments.iter().enumerate() {
        let mut page = 0;
        let flow = visit_table_until(medium, record, |entry| {
            let inspection = PageInspection::of(record, segment, page, entry);
            page += 1;
            visit(inspection)
        })?;
        if flow.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

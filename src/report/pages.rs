//! The pages of a file as its page tables describe them.

use std::ops::ControlFlow;
use std::path::Path;

use crate::engine::visit_table;
use crate::error::Result;
use crate::examine::examine;
use crate::storage::open_to_read;

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
    /// Share of the cells that are set.
    pub fn fill(&self) -> f64 {
        match self.cells {
            0 => 0.0,
            cells => f64::from(self.ones) / cells as f64,
        }
    }
}

/// Shows what the page tables say of every data page, as of the last checkpoint. No data page is
/// read.
///
/// ```
/// use std::ops::ControlFlow;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
/// # filter.add(b"key")?;
/// # filter.close()?;
/// let mut ones = 0;
/// bloomfile::inspect_pages(&path, |page| {
///     ones += page.ones;
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(ones, 8, "one for each row");
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn inspect_pages(
    path: impl AsRef<Path>,
    mut visit: impl FnMut(PageInspection) -> ControlFlow<()>,
) -> Result<()> {
    let medium = open_to_read(path.as_ref())?;
    let loaded = examine(&medium)?.loaded;
    let cell_bits = loaded.superblock.cells.bits();
    let mut flow = ControlFlow::Continue(());
    for (segment, record) in loaded.slot.segments.iter().enumerate() {
        let mut page = 0;
        visit_table(&medium, record, cell_bits, |entry| {
            let cells = record.geometry.page_cells(page, cell_bits);
            let inspection =
                PageInspection { segment, page, crc: entry.crc, ones: entry.ones, cells };
            if flow.is_continue() {
                flow = visit(inspection);
            }
            page += 1;
        })?;
    }
    Ok(())
}

//! The plain filter of a counting one: counters at home, bits for the others.

use std::path::Path;

use super::derivation::{Derivation, Made, summary};
use super::derive::SetOperation;
use super::provenance;
use super::source::{PAGE, Source};
use crate::error::{Error, Result};
use crate::file::{finish_slot, first_slot, split_on_all_cores, write_pages};
use crate::format::{PageEntry, Superblock, WhenFull, first_extent};
use crate::geometry::CellKind;
use crate::plan::Occupancy;
use crate::plan::Plan;
use crate::storage::PendingFile;

/// Pages of counters that make one page of bits.
const PAGES_EACH: u64 = 4;

impl SetOperation<'_> {
    /// The plain filter of a counting one: a bit for every counter that is not zero, in the same
    /// geometry, so that it can be merged with plain filters built the same way. It is a quarter
    /// of the size, and the form in which hosts exchange what they hold.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let at = |name| folder.path().join(name);
    /// use bloomfile::{CellKind, Options, Reader, ops::SetOperation};
    ///
    /// let options = Options::new().capacity(1000).false_positive_rate(0.01);
    /// let home = options.clone().kind(CellKind::Counting).create(at("home"))?;
    /// home.add(b"sheep")?;
    /// home.add(b"wolf")?;
    /// home.remove(b"wolf")?;
    /// home.close()?;
    /// SetOperation::new().export(at("home"), at("digest"))?;
    ///
    /// let digest = Reader::open(at("digest"))?;
    /// assert!(digest.contains(b"sheep") && !digest.contains(b"wolf"));
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn export(&self, input: impl AsRef<Path>, output: impl AsRef<Path>) -> Result<Derivation> {
        let target = self.target(output.as_ref())?;
        let source = Source::open(input.as_ref())?;
        if source.cells() != CellKind::Counting {
            let reason = "only a counting filter is exported: a plain one can be copied";
            return Err(source.blame(Error::parameter("kind", source.cells().name(), reason)));
        }
        let sources = [source];
        let [source] = &sources;
        let geometry = source.geometry().with_cells(CellKind::Plain);
        let operation = "export of the counters".to_owned();
        let metadata = provenance::metadata(&operation, &sources, &[1])?;
        let superblock = Superblock {
            cells: CellKind::Plain,
            when_full: WhenFull::Allow,
            uuid: [0; 16],
            ..source.superblock().clone()
        };
        let extent = first_extent(&superblock, &geometry);
        let pending = PendingFile::new(target, extent.end())?;
        let medium = pending.medium()?;
        let parts = split_on_all_cores(extent.pages, PAGES_EACH, |pages| {
            let mut counted = Occupancy::new(&geometry);
            for page in pages {
                let mut bytes = [0; PAGE];
                source.read_as_bits(page, &mut bytes)?;
                let entry = PageEntry::of(&bytes, CellKind::Plain);
                counted.add(&geometry, page, entry.ones);
                write_pages(&medium, &extent, page, &bytes, &[entry])?;
            }
            Ok(counted)
        });
        let mut counted = Occupancy::new(&geometry);
        for part in parts {
            counted.add_all(&part?);
        }
        let capacity = Some(superblock.capacity).filter(|&capacity| capacity != 0);
        let plan = Plan::exact(geometry, capacity);
        let keys = counted.keys(&geometry);
        let mut slot = first_slot(&superblock, &plan, metadata);
        slot.segments[0].adds = source.adds();
        slot.set_doubts(source.doubts().within(extent.pages));
        let (superblock, slot) = finish_slot(&medium, superblock, slot, true)?;
        let inputs = vec![summary(source, 1)?];
        // The result may replace it, and not every system replaces a file that is open.
        drop(sources);
        pending.publish()?;
        let made = Made { operation, keys, rate: counted.rate_now(&geometry) };
        Ok(made.derivation(&superblock, &slot, inputs))
    }
}

impl Source<'_> {
    /// Turns on, in a page of bits, those whose counters are not zero.
    fn read_as_bits(&self, page: u64, into: &mut [u8; PAGE]) -> Result<()> {
        let [bit_pages, counter_pages] = [CellKind::Plain, CellKind::Counting]
            .map(|cells| self.geometry().with_cells(cells).row_pages());
        let (row, place) = (page / bit_pages, page % bit_pages);
        // Rows start on pages, and the counters of a row may end before its page of bits does.
        let first = row * counter_pages + place * PAGES_EACH;
        let end = (first + PAGES_EACH).min((row + 1) * counter_pages);
        self.read(first..end, |page, counters| {
            let start = (page - first) as usize * PAGE / PAGES_EACH as usize;
            for (at, pair) in counters.iter().enumerate() {
                let bits = u8::from(pair & 0x0f != 0) | u8::from(pair & 0xf0 != 0) << 1;
                into[start + at / 4] |= bits << (at % 4 * 2);
            }
        })
    }
}

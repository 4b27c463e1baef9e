//! A file at an address that is inspected: headers and page tables are read.

use std::cell::Cell;
use std::ops::ControlFlow;

use bloomfile::Error;
use bloomfile::ranges::{Explaining, RangeReader, Source, run};
use bloomfile::report::{Explained, Inspection, PageInspection};

use super::object::{FIRST, Object, VERSIONS, failure, is_change};
use crate::failure::Result;

/// Entries of page tables that are read at once.
const ENTRIES: u64 = 1 << 17;

/// A file at an address, as it was opened.
pub(crate) struct InspectedFile {
    address: String,
    reader: RangeReader<Object>,
    changed: Cell<bool>,
}

impl InspectedFile {
    pub(crate) fn open(address: &str) -> Result<Self> {
        let reader = with_one_version(address, RangeReader::open)?;
        Ok(InspectedFile { address: address.to_owned(), reader, changed: Cell::new(false) })
    }

    /// Whether it turned out that the file is another one by now.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.get()
    }

    pub(crate) fn inspect(&self) -> Inspection {
        self.reader.inspect()
    }

    /// What the page tables say of every page, as they were when the file was opened.
    pub(crate) fn pages(
        &self,
        take: &mut dyn FnMut(PageInspection) -> ControlFlow<()>,
    ) -> Result<()> {
        let file = self.reader.file();
        for (segment, inspection) in self.inspect().segments.iter().enumerate() {
            let pages = inspection.geometry.pages();
            for start in (0..pages).step_by(ENTRIES as usize) {
                let part = start..pages.min(start + ENTRIES);
                let listing = file.list_pages(segment, part);
                let rows = listing.and_then(|listing| run(listing, self.reader.source()));
                let failed = |error| {
                    self.changed.set(is_change(&error));
                    failure(&self.address, &error)
                };
                for page in rows.map_err(failed)? {
                    if take(page).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// What each byte of a file is, damaged or not; none of its data is read.
    pub(crate) fn explain(
        address: &str,
        take: &mut dyn FnMut(Explained) -> ControlFlow<()>,
    ) -> Result<()> {
        let explained = with_one_version(address, |object| {
            let length = object.length();
            let length = length.map_err(|error| Error::Io { action: "tell its length", error })?;
            run(Explaining::new(length), &object)
        })?;
        for row in explained {
            if take(row).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Does work on a version of the file, and again if it was replaced while that was done.
fn with_one_version<T>(address: &str, work: impl Fn(Object) -> bloomfile::Result<T>) -> Result<T> {
    let mut versions = 0;
    loop {
        versions += 1;
        match work(Object::open(address, FIRST)?) {
            Ok(value) => return Ok(value),
            Err(error) if is_change(&error) && versions < VERSIONS => {}
            Err(error) => return Err(failure(address, &error)),
        }
    }
}

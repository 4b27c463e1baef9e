//! Rules of format-spec.md, read from the bytes of files by means of this test alone; and which rule
//! is named by which test.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cells;
#[cfg(feature = "digest")]
mod deltas;
mod headers;
mod journal;
mod named;
mod protocol;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use bloomfile::{CellKind, Error, Filter, Options, Reader, geometry::Geometry};
use support::*;

/// A file of some kind in a folder of its own.
struct Sample {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl Sample {
    fn path(&self) -> PathBuf {
        self.folder.path().join("filter")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    /// What a reader says of other bytes.
    fn read(&self, bytes: &[u8]) -> Result<(), Error> {
        Reader::from_bytes(bytes).map(drop).map_err(Error::into_cause)
    }

    /// What a writer says of other bytes.
    fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let path = self.folder.path().join("other");
        std::fs::write(&path, bytes).unwrap();
        Filter::open(path).map(drop).map_err(Error::into_cause)
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn add(filter: &Filter, keys: std::ops::Range<u64>) {
    keys.for_each(|number| assert!(filter.add(key(number)).is_ok()));
}

/// Options of every kind of file that a writer changes.
fn kinds() -> Vec<(&'static str, Options)> {
    let exact = |geometry| Options::new().geometry(geometry).journal_bytes(16384);
    let planned = || Options::new().capacity(100).false_positive_rate(0.01).journal_bytes(16384);
    vec![
        ("line", exact(Geometry::line(8, 200).unwrap())),
        ("page", exact(Geometry::page(7, 3).unwrap())),
        ("rows", exact(Geometry::rows(3, 40_000).unwrap())),
        ("flat", exact(Geometry::flat(4, 50_000).unwrap())),
        ("counting", exact(Geometry::line(4, 100).unwrap()).kind(CellKind::Counting)),
        ("growing", planned().grow()),
        ("rotating", planned().generations(3)),
        ("counting growing", planned().grow().kind(CellKind::Counting)),
    ]
}

/// A file with 300 keys, which is some segments of one that grows, and the writer that has it.
fn written(name: &'static str, options: &Options) -> (Sample, Filter) {
    let sample = Sample { folder: tempfile::tempdir().unwrap(), name };
    let filter = options.create(sample.path()).unwrap();
    for start in [0, 100, 200] {
        add(&filter, start..start + 100);
        if name == "rotating" && start > 0 {
            filter.rotate().unwrap();
        }
    }
    filter.sync().unwrap();
    (sample, filter)
}

/// The same, closed.
fn closed(name: &'static str, options: &Options) -> Sample {
    let (sample, filter) = written(name, options);
    filter.close().unwrap();
    sample
}

fn samples() -> Vec<Sample> {
    kinds().iter().map(|(name, options)| closed(name, options)).collect()
}

fn sample(wanted: &str) -> Sample {
    let kinds = kinds();
    let (name, options) = kinds.iter().find(|(name, _)| *name == wanted).unwrap();
    closed(name, options)
}

/// A number of a header that starts at `start`.
fn number(bytes: &[u8], structure: &str, start: usize, name: &str) -> u64 {
    let field = field(structure, name);
    read(bytes, start + field.offset, field.size)
}

/// The bytes with another number in a header, whose checksum is right again.
fn with(bytes: &[u8], structure: &str, start: usize, name: &str, value: u64) -> Vec<u8> {
    let (mut bytes, field) = (bytes.to_vec(), field(structure, name));
    write(&mut bytes, start + field.offset, field.size, value);
    fix_header(&mut bytes, start - start % PAGE);
    bytes
}

/// The offset and the length of each listed segment, in the order of the slot.
fn extents(bytes: &[u8]) -> Vec<(usize, usize)> {
    let extent = |part: Part| {
        let offset = number(bytes, "segment", part.record, "offset") as usize;
        (offset, 2 * part.table_bytes + part.pages * PAGE)
    };
    parts(bytes).into_iter().map(extent).collect()
}

fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

//! What Windows does differently: files that are mapped, locks that keep others from reading.

#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;

use bloomfile::{
    CellKind, Error, Filter, Options, Reader,
    report::{Health, inspect, verify},
};
use common::Folder;

fn options() -> Options {
    Options::new().capacity(10_000).false_positive_rate(0.001).journal_bytes(8192)
}

fn build(path: &Path, key: &str) -> Result<(), Error> {
    let mut builder = options().replace(true).start_build(path)?;
    builder.add(key);
    builder.finish().map(drop)
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// F-100: the lock of a writer is on a byte that no file has, so that others read all of the file.
#[test]
fn f100_a_locked_file_is_read() {
    let folder = Folder::new();
    let path = folder.at("filter");
    let filter = options().create(&path).unwrap();
    filter.add(b"key").unwrap();
    filter.sync().unwrap();
    assert!(matches!(Filter::open(&path).map_err(Error::into_cause), Err(Error::Locked)));
    assert!(Reader::open(&path).unwrap().contains(b"key"));
    assert_eq!(inspect(&path).unwrap().health, Health::Live);
    assert_eq!(std::fs::read(&path).unwrap().len() as u64, length(&path));
    filter.close().unwrap();
    assert_eq!(inspect(&path).unwrap().health, Health::Clean);
    assert!(Filter::open(&path).is_ok());
}

/// F-104: a file that is mapped is replaced, or an error says why it is not; readers keep what they
/// have in both cases, and nothing is left behind.
#[test]
fn f104_a_mapped_file_is_replaced_or_kept() {
    let folder = Folder::new();
    let path = folder.at("filter");
    build(&path, "old").unwrap();
    let reader = Reader::open(&path).unwrap();
    let replaced = match build(&path, "new") {
        Ok(()) => true,
        Err(error) => {
            assert!(error.to_string().contains("has open or mapped"), "{error}");
            false
        }
    };
    println!("a mapped file was {}", if replaced { "replaced" } else { "kept" });
    assert!(reader.contains(b"old") && !reader.contains(b"new"));
    assert_eq!(Reader::open(&path).unwrap().contains(b"new"), replaced);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    drop(reader);
    build(&path, "newer").unwrap();
    assert!(Reader::open(&path).unwrap().contains(b"newer"));
    // A writer that has the file keeps it.
    let filter = Filter::open(&path).unwrap();
    assert!(matches!(build(&path, "newest").map_err(Error::into_cause), Err(Error::Locked)));
    filter.close().unwrap();
}

/// F-79: a mapped file is not cut; what stood behind its end is gone when it was closed, and does not
/// count where a reader kept it mapped.
#[test]
fn f79_a_long_group_is_cut_off_when_the_file_is_closed() {
    let folder = Folder::new();
    let path = folder.at("filter");
    let filter = options().kind(CellKind::Counting).create(&path).unwrap();
    let whole = length(&path);
    let add = |filter: &Filter, from: u32| {
        for number in from..from + 2_000 {
            filter.add(number.to_le_bytes()).unwrap();
        }
        filter.sync().unwrap();
    };
    add(&filter, 0);
    assert!(length(&path) > whole, "the group had room in the journal");
    filter.close().unwrap();
    assert_eq!(length(&path), whole);

    let filter = Filter::open(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    add(&filter, 2_000);
    filter.close().unwrap();
    assert!(length(&path) > whole, "the reader's map was no obstacle");
    assert!(verify(&path).unwrap().is_sound());
    drop(reader);
    let filter = Filter::open(&path).unwrap();
    assert!((0..4_000_u32).all(|number| filter.contains(number.to_le_bytes())));
    add(&filter, 4_000);
    filter.close().unwrap();
    assert_eq!(length(&path), whole);
}

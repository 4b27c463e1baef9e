//! What a look-up reads from the disk when nothing of the file is in the cache.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(missing_docs, reason = "tests")]

use std::fs::File;
use std::path::Path;

use bloomfile::{
    Options, Reader,
    geometry::{Geometry, PAGE_BYTES},
};
use rustix::fs::{Advice, fadvise};

/// Bytes that this process has had the disk read.
fn bytes_read() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

/// Drops the file from the page cache.
fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Pages that look-ups of present keys read, each from a cold file.
fn pages_read(path: &Path, geometry: Geometry) -> Option<Vec<u64>> {
    let mut builder = Options::new().geometry(geometry).replace(true).start_build(path).unwrap();
    let keys: Vec<[u8; 8]> = (0..8u64).map(u64::to_le_bytes).collect();
    builder.add_batch(&keys);
    builder.finish().unwrap();
    keys.iter()
        .map(|key| {
            forget(path);
            let reader = Reader::open(path).unwrap();
            let before = bytes_read()?;
            // All rows of a present key are looked at.
            assert!(reader.contains(key));
            Some((bytes_read()? - before) / PAGE_BYTES)
        })
        .collect()
}

#[test]
fn a_cold_look_up_reads_one_page_or_one_for_each_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cold.bloom");
    let Some(line) = pages_read(&path, Geometry::line(8, 1 << 18).unwrap()) else {
        return println!("skipped: the system does not count what is read");
    };
    if line.iter().all(|&pages| pages == 0) {
        return println!("skipped: the file is not on a disk that can be made cold");
    }
    assert_eq!(line, [1; 8], "line");
    let page = pages_read(&path, Geometry::page(10, 1 << 12).unwrap()).unwrap();
    assert_eq!(page, [1; 8], "page");
    let rows = pages_read(&path, Geometry::rows(5, 1 << 24).unwrap()).unwrap();
    assert_eq!(rows, [5; 8], "rows");
    let sealed = pages_read(&path, Geometry::sealed(1 << 12).unwrap()).unwrap();
    assert_eq!(sealed, [1; 8], "sealed");
}

//! Opening and inspecting read no data pages, however large the file is: after the file has been
//! dropped from the page cache, none of its data is brought back but for
//! what the kernel reads ahead.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::path::Path;

use bloomfile::{Geometry, Options, Reader, inspect, verify};
use memmap2::MmapOptions;
use rustix::fs::{Advice, fadvise};

const DATA_BYTES: usize = 256 << 20;

/// The kernel reads ahead of the page table it is asked for: into the first data pages, by as much
/// as the device is set to, at most 16 MiB here.
const READ_AHEAD_PAGES: usize = 4096;

/// Data pages that are in the page cache.
fn cached(path: &Path) -> usize {
    let file = File::open(path).unwrap();
    let data = file.metadata().unwrap().len() - DATA_BYTES as u64;
    let map = MmapOptions::new().offset(data).len(DATA_BYTES).map_raw_read_only(&file).unwrap();
    let mut resident = vec![0u8; DATA_BYTES / 4096];
    // SAFETY: the range is mapped, and the vector has a byte for each page of it; pages of more
    // than 4,096 bytes need fewer.
    let result =
        unsafe { libc::mincore(map.as_mut_ptr().cast(), DATA_BYTES, resident.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    resident.iter().filter(|&&page| page & 1 == 1).count()
}

#[test]
fn inspect_and_open_read_no_data_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    let geometry = Geometry::line(8, DATA_BYTES as u64 / 64).unwrap();
    let mut builder = Options::new().geometry(geometry).build(&path).unwrap();
    for number in 0..1000u32 {
        builder.add(&number.to_le_bytes());
    }
    builder.finish().unwrap();
    fadvise(File::open(&path).unwrap(), 0, None, Advice::DontNeed).unwrap();
    let left = cached(&path);
    if left != 0 {
        eprintln!("skipped: {left} pages stay in the cache of this file system");
        return;
    }

    let inspection = inspect(&path).unwrap();
    assert_eq!(inspection.segments[0].adds, 1000);
    assert!(inspection.segments[0].ones > 7000);
    assert!(cached(&path) <= READ_AHEAD_PAGES, "inspect read data pages");

    let reader = Reader::open(&path).unwrap();
    assert!(cached(&path) <= READ_AHEAD_PAGES, "opening read data pages");

    // The measure works: whoever does read the data is seen.
    assert!(reader.contains(&7u32.to_le_bytes()));
    assert!(verify(&path).unwrap().is_sound());
    assert_eq!(cached(&path), DATA_BYTES / 4096);
}

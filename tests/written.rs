//! The data of new files and new segments are written, not only allocated (F-80).
//!
//! Some file systems keep a note of space that was allocated and never written, which a first write
//! takes back; where that note is not journalled and changing it fails, a page that a sync
//! acknowledged reads as zeros after a power cut, and nothing reports it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bloomfile::{CellKind, Filter, Options};

// The type is signed with some C libraries.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// What is in the cache gets its place first.
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;

/// Extents that are asked for at a time.
const EXTENTS: usize = 64;

/// `struct fiemap` of `linux/fiemap.h` with room for extents.
#[repr(C)]
struct FileExtents {
    start: u64,
    length: u64,
    flags: u32,
    found: u32,
    room: u32,
    reserved: u32,
    extents: [FileExtent; EXTENTS],
}

/// `struct fiemap_extent`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FileExtent {
    in_file: u64,
    on_disk: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

/// The extents of a file, and whether each was only allocated.
fn extents(file: &File) -> io::Result<Vec<(Range<u64>, bool)>> {
    let mut all: Vec<(Range<u64>, bool)> = Vec::new();
    loop {
        let mut map = FileExtents {
            start: all.last().map_or(0, |(range, _)| range.end),
            length: u64::MAX,
            flags: FIEMAP_FLAG_SYNC,
            found: 0,
            room: EXTENTS as u32,
            reserved: 0,
            extents: [FileExtent::default(); EXTENTS],
        };
        map.length -= map.start;
        // SAFETY: reads and fills a `struct fiemap` with `room` extents behind it, which `map` is.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let found = &map.extents[..map.found as usize];
        all.extend(found.iter().map(|extent| {
            let range = extent.in_file..extent.in_file + extent.length;
            (range, extent.flags & FIEMAP_EXTENT_UNWRITTEN != 0)
        }));
        if found.last().is_none_or(|extent| extent.flags & FIEMAP_EXTENT_LAST != 0) {
            return Ok(all);
        }
    }
}

/// Whether the file system tells what was only allocated.
fn tells(folder: &Path) -> bool {
    let path = folder.join("allocated");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    // SAFETY: passes no memory.
    let allocated = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 1 << 16) } == 0;
    let tells = allocated && extents(&file).is_ok_and(|all| all.iter().any(|(_, only)| *only));
    std::fs::remove_file(&path).unwrap();
    if !tells {
        println!("skipped: this file system does not tell which parts of a file were written");
    }
    tells
}

/// What of the file is in a hole, or was only allocated.
fn unwritten(path: &Path) -> Option<String> {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut end = 0;
    for (range, only_allocated) in extents(&file).unwrap() {
        if range.start != end {
            return Some(format!("a hole from {end} to {}", range.start));
        }
        if only_allocated {
            return Some(format!("{range:?} of {length} bytes were only allocated"));
        }
        end = range.end;
    }
    (end < length).then(|| format!("a hole from {end} on"))
}

fn assert_written(path: &Path, what: &str) {
    assert_eq!(unwritten(path), None, "{what}");
}

#[test]
fn f80_new_files_and_segments_are_written_and_not_only_allocated() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !tells(folder.path()) {
        return;
    }
    let path = folder.path().join("filter");
    let options = |capacity| {
        Options::new().capacity(capacity).false_positive_rate(0.01).journal_bytes(1 << 20)
    };
    for (what, options) in [
        ("plain", options(1_000_000)),
        ("without a journal", options(1_000_000).journal_bytes(0)),
        ("counting", options(300_000).kind(CellKind::Counting)),
        ("rotating", options(300_000).generations(2)),
    ] {
        let filter = options.clone().create(&path).unwrap();
        assert_written(&path, &format!("{what}, created"));
        filter.add(b"key").unwrap();
        let rotated = filter.rotate().is_ok();
        assert_eq!(rotated, what == "rotating");
        filter.close().unwrap();
        assert_written(&path, &format!("{what}, closed"));
        std::fs::remove_file(&path).unwrap();
    }
    let mut builder = options(1_000_000).start_build(&path).unwrap();
    assert!(builder.add(b"key"));
    builder.finish().unwrap();
    assert_written(&path, "built");
    std::fs::remove_file(&path).unwrap();

    let filter = options(20_000).grow().create(&path).unwrap();
    let created = std::fs::metadata(&path).unwrap().len();
    let mut number = 0u64;
    let mut add_until = |done: &dyn Fn() -> bool| {
        while !done() {
            filter.add(number.to_le_bytes()).unwrap();
            number += 1;
        }
        filter.sync().unwrap();
    };
    // A further segment is prepared before it is needed.
    add_until(&|| filter.adds() > 16_000);
    let end = Instant::now() + Duration::from_secs(20);
    let prepared = || std::fs::metadata(&path).unwrap().len() > created;
    while !prepared() || unwritten(&path).is_some() {
        assert!(Instant::now() < end, "prepared: {}, {:?}", prepared(), unwritten(&path));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(filter.segments(), 1);
    add_until(&|| filter.segments() == 2);
    assert_written(&path, "grown once");
    add_until(&|| filter.segments() == 3);
    assert_written(&path, "grown twice");
    filter.close().unwrap();
    assert_written(&path, "grown and closed");
}

/// A copy that a program made by allocating all of it and writing what is not zero, which was read
/// before it is opened.
#[test]
fn f82_a_writer_writes_what_was_only_allocated() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !tells(folder.path()) {
        return;
    }
    let (path, copy) = (folder.path().join("filter"), folder.path().join("copy"));
    let options = Options::new().capacity(1_000_000).false_positive_rate(0.01);
    let filter = options.journal_bytes(1 << 20).create(&path).unwrap();
    assert!((0..20u32).all(|key| filter.add(key.to_le_bytes()).unwrap()));
    filter.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = File::create_new(&copy).unwrap();
    // SAFETY: passes no memory.
    let allocated = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes.len() as i64) };
    assert_eq!(allocated, 0);
    for (page, content) in bytes.chunks(4096).enumerate() {
        if content.iter().any(|&byte| byte != 0) {
            file.write_all_at(content, 4096 * page as u64).unwrap();
        }
    }
    assert!(unwritten(&copy).is_some());
    assert_eq!(std::fs::read(&copy).unwrap(), bytes);
    Filter::open(&copy).unwrap().close().unwrap();
    assert_written(&copy, "opened");
    assert_eq!(std::fs::read(&copy).unwrap(), bytes);
}

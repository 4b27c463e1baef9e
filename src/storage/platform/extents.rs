//! Which parts of a file were allocated and never written, on Linux: a look into the cache, which is
//! how holes are found, takes such a part for written as soon as it has been read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use super::super::retry;

// The type is signed with some C libraries.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// What was changed in the cache alone gets its place first.
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;

/// Extents that are asked for at a time.
const EXTENTS: usize = 64;

/// `struct fiemap` of `linux/fiemap.h` with room for extents.
#[derive(Default)]
#[repr(C)]
struct FileExtents {
    start: u64,
    length: u64,
    flags: u32,
    found: u32,
    room: u32,
    reserved: u32,
    extents: [[FileExtent; 32]; EXTENTS / 32],
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

/// The parts of a file from `start` to `end` that were allocated and never written; none where the
/// file system does not tell. No other thread may be writing there.
pub(crate) fn unwritten(file: &File, start: u64, end: u64) -> io::Result<Vec<Range<u64>>> {
    // What the cache has yet to write is found at first: then it is written, to know better.
    let found = find(file, start, end, 0)?;
    if found.is_empty() { Ok(found) } else { find(file, start, end, FIEMAP_FLAG_SYNC) }
}

fn find(file: &File, start: u64, end: u64, flags: u32) -> io::Result<Vec<Range<u64>>> {
    let mut unwritten = Vec::new();
    let mut at = start;
    while at < end {
        let mut map = FileExtents {
            start: at,
            length: end - at,
            flags,
            room: EXTENTS as u32,
            ..FileExtents::default()
        };
        let asked = retry(|| {
            // SAFETY: reads and fills a `struct fiemap` with `room` extents behind it, which `map` is.
            let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
            if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
        match asked.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) => {}
            // The file system failed to write, not to tell.
            Err(Some(libc::EIO | libc::ENOSPC | libc::EDQUOT)) => asked?,
            Err(_) => return Ok(Vec::new()),
        }
        let found = &map.extents.as_flattened()[..map.found as usize];
        for extent in found.iter().filter(|extent| extent.flags & FIEMAP_EXTENT_UNWRITTEN != 0) {
            let range = extent.in_file.max(start)..(extent.in_file + extent.length).min(end);
            if !range.is_empty() {
                unwritten.push(range);
            }
        }
        match found.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => {
                at = last.in_file + last.length;
            }
            _ => break,
        }
    }
    Ok(unwritten)
}

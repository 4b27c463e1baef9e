//! Space on the disk: every byte of a file has its place there before a writer maps it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::retry;

/// Extends a file to `length` with zeros that have their place on the disk.
pub(super) fn allocate(file: &File, length: u64) -> io::Result<()> {
    let start = retry(|| file.metadata())?.len();
    if start < length && !reserve(file, start, length)? {
        write_zeros(file, start, length)?;
    }
    Ok(())
}

/// Writes zeros to every part of a file from `start` on that holds nothing yet, and leaves the rest
/// as it is.
///
/// A hole under a map is a signal when the disk is full. Space that is allocated but was never
/// written is not enough either: when a page of it is written for the first time, the file system
/// has to note that it counts from now on. If that fails, some report no error to the sync that the
/// page was part of, and the page reads as zeros later (ext4 without a journal, after a write error
/// that passed).
pub(super) fn fill(file: &File, start: u64) -> io::Result<()> {
    let length = retry(|| file.metadata())?.len();
    if start < length {
        // All of it first: without the space nothing is written.
        reserve(file, start, length)?;
    }
    let mut at = start;
    while let Some(hole) = next_hole(file, at, length)? {
        write_zeros(file, hole.start, hole.end)?;
        at = hole.end;
    }
    Ok(())
}

/// Puts blocks where there are none, and leaves what is there; false where the file system cannot.
#[cfg(target_os = "linux")]
fn reserve(file: &File, start: u64, end: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    retry(|| match fallocate(file, FallocateFlags::empty(), start, end - start) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    })
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// The next part of a file from `start` on that was never written.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn next_hole(file: &File, start: u64, length: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    let find = |from| {
        retry(|| match seek(file, from) {
            Ok(at) => Ok(Some(at)),
            // Nothing of the kind up to the end, or a file system that does not tell.
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error.into()),
        })
    };
    if start >= length {
        return Ok(None);
    }
    let hole = find(SeekFrom::Hole(start))?.filter(|&hole| hole < length);
    let Some(hole) = hole else { return Ok(None) };
    let end = find(SeekFrom::Data(hole))?.map_or(length, |data| data.min(length));
    Ok(Some(hole..end))
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn next_hole(_: &File, _: u64, _: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    Ok(None)
}

/// Writes zeros from `start` to `end`.
fn write_zeros(file: &File, start: u64, end: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let zeros = vec![0; CHUNK.min(end - start) as usize];
    let mut at = start;
    while at < end {
        let length = CHUNK.min(end - at);
        file.write_all_at(&zeros[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

//! Space on the disk: every byte of a file has its place there before a writer maps it.

use std::fs::File;
use std::io;

use super::{platform, retry};

/// Extends a file to `length` with zeros that have their place on the disk.
pub(super) fn allocate(file: &File, length: u64) -> io::Result<()> {
    let start = retry(|| file.metadata())?.len();
    if start < length && !platform::reserve(file, start, length)? {
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
pub(super) fn fill_holes(file: &File, start: u64) -> io::Result<()> {
    let length = retry(|| file.metadata())?.len();
    if start < length {
        // All of it first: without the space nothing is written.
        platform::reserve(file, start, length)?;
    }
    let mut at = start;
    while let Some(hole) = platform::next_hole(file, at, length)? {
        write_zeros(file, hole.start, hole.end)?;
        at = hole.end;
    }
    Ok(())
}

/// As [`fill_holes`] for all of a file, whatever the cache holds of it: what was allocated and read
/// since, through a map say, counts as written when holes are looked for. No other thread may be
/// writing.
pub(super) fn fill_unwritten(file: &File) -> io::Result<()> {
    fill_holes(file, 0)?;
    let length = retry(|| file.metadata())?.len();
    for part in platform::unwritten(file, 0, length)? {
        write_zeros(file, part.start, part.end)?;
    }
    Ok(())
}

/// Cuts off what stands behind `length`; false where the system does not cut a file that is mapped,
/// and zeros stand there instead.
pub(super) fn cut(file: &File, length: u64) -> io::Result<bool> {
    let end = retry(|| file.metadata())?.len();
    if length >= end || platform::set_len(file, length)? {
        return Ok(true);
    }
    write_zeros(file, length, end)?;
    Ok(false)
}

/// Writes zeros from `start` to `end`.
fn write_zeros(file: &File, start: u64, end: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let zeros = vec![0; CHUNK.min(end - start) as usize];
    let mut at = start;
    while at < end {
        let length = CHUNK.min(end - at);
        platform::write_all_at(file, &zeros[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

//! What is done where a system has nothing special to offer.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapMut, MmapRaw};

/// Reads whole pages, as the cache has them.
pub(crate) fn read_past_cache(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    super::read_exact_at(file, bytes, offset)
}

/// The first offset from `offset` on that is not known to be in a hole.
pub(crate) fn data_from(_: &File, offset: u64) -> io::Result<u64> {
    Ok(offset)
}

/// Puts blocks where there are none; false: they come with the zeros that are written then.
pub(crate) fn reserve(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// The next part of a file that was never written: none is known.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn next_hole(_: &File, _: u64, _: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    Ok(None)
}

/// A file that has no name: there is no such thing.
pub(crate) fn create_unnamed(_: &Path, _private: bool) -> Option<File> {
    None
}

/// Gives a file without a name one: there are no such files.
pub(crate) fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes a private map of a file what the file is; false: it is copied word by word then.
///
/// # Safety
///
/// The memory changes: there must be no reference to it.
pub(crate) unsafe fn discard_changes(_: &MmapRaw) -> io::Result<bool> {
    Ok(false)
}

/// Asks for huge pages.
pub(crate) fn advise_huge(_: &MmapMut) {}

/// A word that is zero in a child after a fork: memory is not cleared there.
pub(crate) fn cleared_on_fork() -> Option<&'static AtomicU64> {
    None
}

/// The parts of a file that were allocated and never written: nothing tells of them.
pub(crate) fn unwritten(_: &File, _: u64, _: u64) -> io::Result<Vec<std::ops::Range<u64>>> {
    Ok(Vec::new())
}

//! Unix systems that nothing more is known of.

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::{Advice, MmapRaw};

use super::super::retry;
use crate::format::BootId;

/// A sync of the file may leave what was changed through a map.
pub(crate) const SYNC_COVERS_MAPS: bool = false;

/// Makes what a file holds durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    retry(|| file.sync_data())
}

/// As [`sync_data`], with all that the system knows of the file.
pub(crate) fn sync_all(file: &File) -> io::Result<()> {
    retry(|| file.sync_all())
}

/// Makes a part of a map durable.
pub(crate) fn flush(map: &MmapRaw, _: &File, bytes: Range<usize>) -> io::Result<()> {
    retry(|| map.flush_range(bytes.start, bytes.len()))
}

/// Hands what was changed through a map to the cache that a sync of the file is about.
pub(crate) fn write_back(map: &MmapRaw) -> io::Result<()> {
    retry(|| map.flush())
}

/// Which boot of the machine this is: the system does not tell.
pub(crate) fn boot() -> Option<BootId> {
    None
}

/// What suits memory that is written all over for the first time.
pub(crate) const FILL: Advice = Advice::Normal;

//! Parts of files that were never written, on systems that tell.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::super::retry;

/// The next part of a file from `start` on that was never written.
pub(crate) fn next_hole(file: &File, start: u64, length: u64) -> io::Result<Option<Range<u64>>> {
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

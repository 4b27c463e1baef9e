//! macOS and its relatives.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::{Advice, MmapRaw};
use rustix::io::Errno;

use super::super::boot::uuid;
use super::super::retry;
use crate::format::BootId;

/// A sync of the file may leave what was changed through a map.
pub(crate) const SYNC_COVERS_MAPS: bool = false;

/// Makes what a file holds durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    sync_all(file)
}

/// As [`sync_data`], with all that the system knows of the file.
pub(crate) fn sync_all(file: &File) -> io::Result<()> {
    // `fsync` ends at the disk's own cache.
    let synced = retry(|| Ok(rustix::fs::fcntl_fullfsync(file)?));
    let unknown = |error: &io::Error| {
        matches!(
            Errno::from_io_error(error),
            Some(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY)
        )
    };
    match synced {
        // A file system that has nothing stronger.
        Err(error) if unknown(&error) => retry(|| Ok(rustix::fs::fsync(file)?)),
        result => result,
    }
}

/// Makes a part of a map durable.
pub(crate) fn flush(map: &MmapRaw, file: &File, bytes: Range<usize>) -> io::Result<()> {
    retry(|| map.flush_range(bytes.start, bytes.len()))?;
    // That ended at the disk's own cache: only the file can be synced further.
    sync_all(file)
}

/// Hands what was changed through a map to the cache that a sync of the file is about.
pub(crate) fn write_back(map: &MmapRaw) -> io::Result<()> {
    retry(|| map.flush())
}

/// What suits memory that is written all over for the first time.
pub(crate) const FILL: Advice = Advice::Normal;

/// Which boot of the machine this is.
pub(crate) fn boot() -> Option<BootId> {
    unsafe extern "C" {
        fn sysctlbyname(
            name: *const c_char,
            old: *mut c_void,
            old_length: *mut usize,
            new: *mut c_void,
            new_length: usize,
        ) -> c_int;
    }
    let mut text = [0u8; 64];
    let mut length = text.len();
    // SAFETY: the name ends with a zero, `length` is that of the buffer, which the call fills no
    // further than that, and nothing is set.
    let result = unsafe {
        sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    let text = CStr::from_bytes_until_nul(&text).ok().filter(|_| result == 0)?;
    uuid(text.to_str().ok()?)
}

//! A filter in a real file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memmap2::{MmapOptions, MmapRaw};

use super::lock::SharedLock;
use super::{FileMap, Mapping, Medium, Owner, ReadMedium, boot, retry, space};
use crate::format::BootId;

/// An open file.
pub(crate) struct FileMedium {
    file: File,
    owner: Owner,
}

impl FileMedium {
    pub(crate) fn new(file: File) -> Self {
        FileMedium { file, owner: Owner::this_process() }
    }

    /// Another handle on the same file, with the same locks.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(FileMedium { file: retry(|| self.file.try_clone())?, owner: self.owner })
    }
}

#[cfg(target_os = "linux")]
const PAGE: usize = crate::geometry::PAGE_BYTES as usize;

/// A page whose address suits direct reads.
#[cfg(target_os = "linux")]
#[derive(Clone)]
#[repr(align(4096))]
struct Aligned([u8; PAGE]);

/// Another handle of the same file, whose reads go past the page cache.
#[cfg(target_os = "linux")]
fn open_direct(file: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

impl ReadMedium for FileMedium {
    fn length(&self) -> io::Result<u64> {
        Ok(retry(|| self.file.metadata())?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    #[cfg(target_os = "linux")]
    fn data_from(&self, offset: u64) -> io::Result<u64> {
        // The position of the file, which this moves, is never used.
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(at) => Ok(at),
            Err(rustix::io::Errno::NXIO) => self.length(),
            // A file system that cannot tell has no holes that matter.
            Err(_) => Ok(offset),
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        Ok(SharedLock::take(&self.file)?.is_none())
    }

    fn boot_id(&self) -> BootId {
        boot::boot_id()
    }
}

impl Medium for FileMedium {
    type Map = FileMap;

    fn read_past_cache(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Ok(direct) = open_direct(&self.file) {
            let mut pages = vec![Aligned([0; PAGE]); bytes.len() / PAGE];
            let read = pages.iter_mut().zip(0..).try_for_each(|(page, at)| {
                direct.read_exact_at(&mut page.0, offset + at * PAGE as u64)
            });
            if read.is_ok() {
                for (page, bytes) in pages.iter().zip(bytes.chunks_exact_mut(PAGE)) {
                    bytes.copy_from_slice(&page.0);
                }
                return Ok(());
            }
        }
        // A file system without direct reads, one in memory for instance.
        self.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn fill_holes(&self) -> io::Result<()> {
        space::fill(&self.file, 0)
    }

    #[inline(always)]
    fn is_forked(&self) -> bool {
        self.owner.is_another_process()
    }

    fn sync(&self) -> io::Result<()> {
        #[cfg(target_vendor = "apple")]
        return super::sync_file(&self.file);
        // fdatasync writes dirty mapped pages as well: the kernel keeps one cache for both.
        #[cfg(not(target_vendor = "apple"))]
        retry(|| self.file.sync_data())
    }

    fn extend(&self, start: u64, end: u64) -> io::Result<()> {
        if self.length()? > start {
            retry(|| self.file.set_len(start))?;
        }
        space::allocate(&self.file, end)?;
        space::fill(&self.file, start)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn map(&self, range: Range<u64>, mapping: Mapping) -> io::Result<FileMap> {
        let length = usize::try_from(range.end - range.start).map_err(|_| {
            io::Error::new(io::ErrorKind::OutOfMemory, "the file is larger than the address space")
        })?;
        let mut options = MmapOptions::new();
        options.offset(range.start).len(length);
        let map = match mapping {
            Mapping::Shared => options.map_raw(&self.file)?,
            Mapping::ReadOnly => options.map_raw_read_only(&self.file)?,
            // SAFETY: no reference to the memory is ever made, only atomics (see `Words`).
            Mapping::Private => MmapRaw::from(unsafe { options.map_copy(&self.file)? }),
        };
        let map = FileMap::new(map);
        #[cfg(target_vendor = "apple")]
        let map = if mapping == Mapping::Shared {
            map.of_file(retry(|| self.file.try_clone())?)
        } else {
            map
        };
        Ok(map)
    }
}

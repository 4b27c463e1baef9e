//! A filter in a real file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memmap2::{MmapOptions, MmapRaw};

use super::{FileMap, Mapping, Medium};

/// An open file.
pub(crate) struct FileMedium {
    file: File,
}

impl FileMedium {
    pub(crate) fn new(file: File) -> Self {
        FileMedium { file }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Medium for FileMedium {
    type Map = FileMap;

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync writes dirty mapped pages as well: the kernel keeps one cache for both.
        self.file.sync_data()
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
        Ok(FileMap::new(map))
    }
}

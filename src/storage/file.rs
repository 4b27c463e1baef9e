//! A filter in a real file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use memmap2::{MmapOptions, MmapRaw};

use super::lock::{SharedLock, leads_to};
use super::{
    FileMap, Mapping, Medium, Owner, ReadMedium, WriteMedium, boot, platform, retry, space,
    unpoisoned,
};
use crate::format::BootId;

/// An open file, and the maps through which it is written.
pub(super) struct OpenFile {
    file: File,
    maps: Mutex<Vec<Weak<MmapRaw>>>,
    /// Where the file ends once it can be cut there: not before the last map is gone, on systems that
    /// do not cut a file that is mapped.
    end: Mutex<Option<u64>>,
}

impl OpenFile {
    pub(super) fn new(file: File) -> Arc<Self> {
        Arc::new(OpenFile { file, maps: Mutex::default(), end: Mutex::default() })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Makes what was written to the file durable, through maps too.
    pub(super) fn sync_data(&self) -> io::Result<()> {
        self.write_back()?;
        platform::sync_data(&self.file)
    }

    /// As [`sync_data`](Self::sync_data), with all that the system knows of the file.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.write_back()?;
        platform::sync_all(&self.file)
    }

    /// Where a sync of the file is not one of its maps (F-112): makes it so.
    fn write_back(&self) -> io::Result<()> {
        if platform::SYNC_COVERS_MAPS {
            return Ok(());
        }
        let maps: Vec<_> = {
            let mut maps = unpoisoned(&self.maps);
            maps.retain(|map| map.strong_count() > 0);
            maps.iter().filter_map(Weak::upgrade).collect()
        };
        maps.iter().try_for_each(|map| platform::write_back(map))
    }

    /// A map through which the file is written is one of those that a sync is about.
    fn add_map(&self, map: &Arc<MmapRaw>) {
        unpoisoned(&self.maps).push(Arc::downgrade(map));
    }

    /// Extends the file from `start` to `end` with zeros that have their place on the disk.
    fn extend(&self, start: u64, end: u64) -> io::Result<()> {
        self.cut(start)?;
        *unpoisoned(&self.end) = None;
        space::allocate(&self.file, end)?;
        space::fill_holes(&self.file, start)
    }

    /// Cuts off what stands behind `length`: now, or as soon as the file is not mapped any more; until
    /// then it is zeros.
    fn cut(&self, length: u64) -> io::Result<()> {
        let cut = space::cut(&self.file, length)?;
        *unpoisoned(&self.end) = (!cut).then_some(length);
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // The maps of this process are gone: each holds this. If another one has the file mapped, it
        // stays as it is: what stands behind its end does not count.
        if let Some(length) = *unpoisoned(&self.end) {
            let _ = platform::set_len(&self.file, length);
        }
    }
}

/// An open file.
#[derive(Clone)]
pub(crate) struct FileMedium {
    file: Arc<OpenFile>,
    owner: Owner,
}

impl FileMedium {
    pub(super) fn new(file: Arc<OpenFile>) -> Self {
        FileMedium { file, owner: Owner::this_process() }
    }

    /// A file that this process alone knows.
    pub(crate) fn of_temporary(file: File) -> Self {
        Self::new(OpenFile::new(file))
    }

    /// Whether a name leads to this very file.
    pub(crate) fn is_at(&self, path: &Path) -> io::Result<bool> {
        leads_to(path, self.file())
    }

    /// The file, for what is not read or written.
    fn file(&self) -> &File {
        self.file.file()
    }
}

impl ReadMedium for FileMedium {
    fn length(&self) -> io::Result<u64> {
        Ok(retry(|| self.file().metadata())?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        platform::read_exact_at(self.file(), bytes, offset)
    }

    fn data_from(&self, offset: u64) -> io::Result<u64> {
        platform::data_from(self.file(), offset)
    }

    fn is_locked(&self) -> io::Result<bool> {
        Ok(SharedLock::try_lock(self.file())?.is_none())
    }

    fn boot_id(&self) -> BootId {
        boot::boot_id()
    }
}

impl WriteMedium for FileMedium {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        platform::write_all_at(self.file(), bytes, offset)
    }
}

impl Medium for FileMedium {
    type Map = FileMap;

    fn read_past_cache(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        platform::read_past_cache(self.file(), bytes, offset)
    }

    fn fill_holes(&self) -> io::Result<()> {
        space::fill_unwritten(self.file())
    }

    #[inline(always)]
    fn is_forked(&self) -> bool {
        self.owner.is_another_process()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn extend(&self, start: u64, end: u64) -> io::Result<()> {
        self.file.extend(start, end)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.cut(length)
    }

    fn map(&self, range: Range<u64>, mapping: Mapping) -> io::Result<FileMap> {
        let length = usize::try_from(range.end - range.start).map_err(|_| {
            io::Error::new(io::ErrorKind::OutOfMemory, "the file is larger than the address space")
        })?;
        let mut options = MmapOptions::new();
        options.offset(range.start).len(length);
        let map = match mapping {
            Mapping::Shared => {
                let map = Arc::new(options.map_raw(self.file())?);
                self.file.add_map(&map);
                return Ok(FileMap::written_through(map, Arc::clone(&self.file)));
            }
            Mapping::ReadOnly => options.map_raw_read_only(self.file())?,
            // SAFETY: no reference to the memory is ever made, only atomics (see `Words`).
            Mapping::Private => MmapRaw::from(unsafe { options.map_copy(self.file())? }),
        };
        Ok(FileMap::new(map.into()))
    }
}

//! New files: made under a temporary name, allocated, synced, then renamed into place.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::NamedTempFile;

use super::FileMedium;
use crate::error::{Error, Result};

/// A file that nobody sees until it is [published](Draft::publish); dropping it leaves no trace.
pub(crate) struct Draft {
    temporary: NamedTempFile,
    target: PathBuf,
    replace: bool,
    /// Held for as long as the temporary name may be there.
    _listed: Listed,
}

/// Temporary names of all drafts of this process.
static DRAFTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A name in [`DRAFTS`].
struct Listed(PathBuf);

impl Listed {
    fn new(path: &Path) -> Self {
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        Listed(path.to_owned())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// Removes the temporary files of everything that this process is making and has not published:
/// for a process that is about to end without unwinding, as on Ctrl-C. What was being made fails
/// or is lost; files that have their names are left alone.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let builder = bloomfile::Options::new().capacity(9).false_positive_rate(0.1).build(&path)?;
/// assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
/// bloomfile::discard_unfinished();
/// assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
/// assert!(builder.finish().is_err());
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn discard_unfinished() {
    for path in DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // Gone already, or nothing can be done about it at this point.
        let _ = std::fs::remove_file(path);
    }
}

impl Draft {
    /// Starts a file of `length` bytes, all of them on the disk and zero.
    pub(crate) fn new(target: &Path, length: u64, replace: bool) -> Result<Self> {
        check_target(target, replace)?;
        let name = target.file_name().ok_or_else(|| {
            Error::parameter("path", target.display(), "it must end in a file name")
        })?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        let temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            // Opened here, so that an error does not name a file that the user never heard of.
            .make_in(folder(target), |path| {
                OpenOptions::new().read(true).write(true).create_new(true).open(path)
            })
            .map_err(Error::io("create a file in the folder"))?;
        // Locked before anyone can see it: whoever creates a file is its first writer.
        temporary.as_file().try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::Locked,
            TryLockError::Error(source) => Error::Io { action: "lock the file", source },
        })?;
        allocate(temporary.as_file(), length).map_err(Error::io("allocate space for the file"))?;
        let _listed = Listed::new(temporary.path());
        Ok(Draft { temporary, target: target.to_owned(), replace, _listed })
    }

    /// The file, to be filled.
    pub(crate) fn medium(&self) -> Result<FileMedium> {
        let file = self.temporary.as_file().try_clone().map_err(Error::io("open the new file"))?;
        Ok(FileMedium::new(file))
    }

    /// Makes the file durable and gives it its name, at once and for good.
    pub(crate) fn publish(self) -> Result<FileMedium> {
        self.temporary.as_file().sync_all().map_err(Error::io("sync the new file"))?;
        let folder = folder(&self.target).to_owned();
        let renamed = if self.replace {
            check_target(&self.target, true)?;
            self.temporary.persist(&self.target)
        } else {
            self.temporary.persist_noclobber(&self.target)
        };
        let file = renamed.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists,
            _ => Error::Io { action: "rename the new file into place", source: error.error },
        })?;
        sync_folder(&folder).map_err(Error::io("sync the folder"))?;
        Ok(FileMedium::new(file))
    }
}

/// Refuses a target that must not be replaced, before any work is done for it.
fn check_target(target: &Path, replace: bool) -> Result<()> {
    match std::fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::Io { action: "look up the target", source }),
        Ok(_) if !replace => return Err(Error::Exists),
        Ok(metadata) if metadata.is_dir() => {
            return Err(Error::parameter("path", target.display(), "it is a folder"));
        }
        Ok(_) => {}
    }
    // Replacing a file under its writer would throw away what that writer goes on to add.
    if let Ok(file) = OpenOptions::new().read(true).open(target)
        && let Err(TryLockError::WouldBlock) = file.try_lock()
    {
        return Err(Error::Locked);
    }
    Ok(())
}

/// The folder of a path.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a rename or a new name in a folder durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Extends a file to `length` with real blocks: a hole under a map is a signal when the disk is
/// full.
pub(super) fn allocate(file: &File, length: u64) -> io::Result<()> {
    let start = file.metadata()?.len();
    if start < length && !fill_holes(file, start, length)? {
        write_zeros(file, start, length)?;
    }
    Ok(())
}

/// Puts real blocks where there are none, and leaves what is there; false where the file system
/// cannot.
pub(super) fn fill_holes(file: &File, start: u64, end: u64) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(file, FallocateFlags::empty(), start, end - start) {
            Ok(()) => return Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, end);
    Ok(false)
}

/// Writes zeros from `start` to `end`.
fn write_zeros(file: &File, start: u64, end: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let zeros = vec![0; CHUNK as usize];
    let mut at = start;
    while at < end {
        let length = CHUNK.min(end - at);
        file.write_all_at(&zeros[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

//! The folder for the versions between the one that is there and the newest: the results of all deltas
//! but the last.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::pending::Unkept;

/// How its name begins; the rest is random.
const PREFIX: &str = ".bloomfile-pull";

/// A file in it, locked for as long as the pull that made it lives.
const LOCK: &str = "lock";

/// The folder, which goes with this value, when the process is interrupted, and if it is killed with the
/// next pull to its place.
pub(super) struct Between {
    // In this order: Windows removes no file that is open.
    _lock: File,
    folder: Unkept,
}

impl Between {
    /// Makes one in a folder.
    pub(super) fn new(place: &Path) -> io::Result<Self> {
        loop {
            let folder = Unkept::folder_in(place, PREFIX)?;
            if let Some(lock) = hold(folder.path())? {
                return Ok(Between { _lock: lock, folder });
            }
            // Another pull has just taken it for one that was left behind.
        }
    }

    /// The place of a version.
    pub(super) fn version(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        // First, so that a folder whose versions are all gone is empty, and goes in one step.
        let _ = std::fs::remove_file(self.folder.path().join(LOCK));
    }
}

/// The lock of a new folder; `None` if another process has taken lock or folder away.
fn hold(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let lock = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match lock.try_lock() {
        // A file that is not there any more protects nothing.
        Ok(()) => Ok(path.exists().then_some(lock)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        // Where there are no locks, no pull gets that of another one.
        Err(std::fs::TryLockError::Error(_)) => Ok(Some(lock)),
    }
}

/// Removes what pulls that were killed have left in a folder. One that is still used has a lock.
pub(super) fn remove_abandoned(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_one {
            // One that is not the user's to remove is no reason not to pull.
            let _ = remove_unless_held(&entry.path());
        }
    }
}

fn remove_unless_held(folder: &Path) -> io::Result<()> {
    let path = folder.join(LOCK);
    match std::fs::symlink_metadata(&path) {
        // What is no regular file is not a pull's, and opening it may never return.
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) => {}
        // Killed before it made the lock, or about to make it: then it makes another folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return std::fs::remove_dir(folder);
        }
        Err(error) => return Err(error),
    }
    let lock = OpenOptions::new().write(true).open(&path)?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    std::fs::remove_dir_all(folder)
}

//! Finding a file by its name, and the lock that makes a process its only writer (F-100).

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::file::OpenFile;
use super::{FileMedium, platform, retry};
use crate::error::{Error, Result};

/// How often, and how long apart, a process tries for the lock while another writer has it. A lock
/// may outlive its holder for a moment: in a process that is being started from it.
const WRITER_TRIES: u32 = 5;
const WRITER_PAUSE: Duration = Duration::from_millis(10);

/// How long a process waits for the lock while only readers are in the way, and how often it asks.
/// They hold it while they read the journal of a crashed file, which may be 1 GiB.
const READERS_PATIENCE: Duration = Duration::from_secs(30);
const READERS_PAUSE: Duration = Duration::from_millis(2);

/// How often a file is opened again because its name had come to lead to another one.
pub(super) const OPEN_TRIES: u32 = 100;

/// Opens a file to read it.
pub(crate) fn open_to_read(path: &Path) -> Result<FileMedium> {
    let file = open_regular(OpenOptions::new().read(true), path, "open the file")?;
    Ok(FileMedium::new(OpenFile::new(file)))
}

/// Opens a file with the writer's lock on it: the file that has this name, for as long as the lock
/// is held (F-104).
pub(crate) fn open_for_writing(path: &Path) -> Result<FileMedium> {
    const ACTION: &str = "open the file for writing";
    for _ in 0..OPEN_TRIES {
        let file = open_regular(OpenOptions::new().read(true).write(true), path, ACTION)?;
        lock(&file)?;
        // It may have been replaced before the lock was taken: what was added to it then would be
        // in a file without a name.
        if leads_to(path, &file).map_err(Error::io(ACTION))? {
            return Ok(FileMedium::new(OpenFile::new(file)));
        }
    }
    Err(Error::Io { action: ACTION, error: replaced_too_often() })
}

pub(super) fn replaced_too_often() -> io::Error {
    io::Error::other("each time it was opened, its name came to lead to another file")
}

/// Opens what must be a regular file. Anything else is refused without opening it: that could wait
/// for ever, or do something to a device.
pub(super) fn open_regular(
    options: &OpenOptions,
    path: &Path,
    action: &'static str,
) -> Result<File> {
    refuse_other_kinds(&retry(|| std::fs::metadata(path)).map_err(Error::io(action))?)?;
    let file = platform::open(options, path, true).map_err(Error::io(action))?;
    refuse_other_kinds(&retry(|| file.metadata()).map_err(Error::io(action))?)?;
    Ok(file)
}

fn refuse_other_kinds(metadata: &Metadata) -> Result<()> {
    match platform::kind(metadata) {
        None => Ok(()),
        Some(kind) => Err(Error::NotABloomfile { kind: format!("it is {kind}") }),
    }
}

/// Whether a name leads to this very file.
pub(super) fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let mine = platform::identity(file)?;
    match platform::identity_at(path) {
        Ok(found) => Ok(found == mine),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes the writer's lock.
pub(super) fn lock(file: &File) -> Result<()> {
    lock_within(file, READERS_PATIENCE)
}

fn lock_within(file: &File, patience: Duration) -> Result<()> {
    const ACTION: &str = "lock the file";
    let start = Instant::now();
    let mut tries = WRITER_TRIES;
    loop {
        if platform::try_lock(file).map_err(Error::io(ACTION))? {
            return Ok(());
        }
        // A shared lock goes with those of readers, and with no writer's.
        if platform::try_lock_shared(file).map_err(Error::io(ACTION))? {
            platform::unlock(file).map_err(Error::io(ACTION))?;
            if start.elapsed() >= patience {
                let reason = format!(
                    "processes that read it have held a lock on it for {} seconds",
                    patience.as_secs()
                );
                let error = io::Error::new(io::ErrorKind::TimedOut, reason);
                return Err(Error::Io { action: ACTION, error });
            }
            std::thread::sleep(READERS_PAUSE);
            continue;
        }
        tries -= 1;
        if tries == 0 {
            return Err(Error::Locked);
        }
        std::thread::sleep(WRITER_PAUSE);
    }
}

/// A shared lock, which goes with no writer's.
pub(super) struct SharedLock<'a>(&'a File);

impl<'a> SharedLock<'a> {
    /// The lock, unless a writer has the file.
    pub(super) fn try_lock(file: &'a File) -> io::Result<Option<Self>> {
        Ok(platform::try_lock_shared(file)?.then_some(SharedLock(file)))
    }
}

impl Drop for SharedLock<'_> {
    fn drop(&mut self) {
        // Closing the file lets it go as well.
        let _ = platform::unlock(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader's lock is waited for, and is not called a writer's (F-100).
    #[test]
    fn the_locks_of_readers_and_writers_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "some bytes").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (other, mine) = (open(), open());
        let patience = Duration::from_millis(100);

        assert!(platform::try_lock_shared(&other).unwrap());
        let error = lock_within(&mine, patience).unwrap_err();
        assert!(error.to_string().contains("processes that read it"), "{error}");
        platform::unlock(&other).unwrap();

        assert!(platform::try_lock(&other).unwrap());
        assert!(matches!(lock_within(&mine, patience), Err(Error::Locked)));
        platform::unlock(&other).unwrap();

        // Readers that come and go: longer than a writer is waited for.
        assert!(platform::try_lock_shared(&other).unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock_within(&mine, Duration::from_secs(60)));
            std::thread::sleep(3 * WRITER_TRIES * WRITER_PAUSE);
            assert!(!waiting.is_finished());
            platform::unlock(&other).unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert!(!platform::try_lock_shared(&other).unwrap());
    }
}

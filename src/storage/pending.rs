//! New files: made without a name where the system can do that, synced, then given their name.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

use super::lock::{OPEN_TRIES, replaced_too_often, try_lock};
use super::{FileMedium, Owner, Target, retry, space, sync_file};
use crate::error::{Error, Result};

/// A file that no other process sees until it is [published](PendingFile::publish); dropping it leaves no
/// trace.
pub(crate) struct PendingFile {
    target: Target,
    file: File,
    /// The temporary name, where the file has to have one.
    name: Option<TemporaryName>,
    owner: Owner,
    /// How often unfinished files had been discarded when this one was begun.
    discards: u64,
}

/// The unfinished files of this process.
struct Unfinished {
    /// Temporary names, and the process that gave them.
    names: Vec<(PathBuf, Owner)>,
    /// How often all were discarded.
    discards: u64,
}

/// Held while a file is given its name: it is either discarded before that or not at all.
static UNFINISHED: Mutex<Unfinished> = Mutex::new(Unfinished { names: Vec::new(), discards: 0 });

fn unfinished() -> MutexGuard<'static, Unfinished> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name that is gone when this is.
struct TemporaryName {
    path: Option<TempPath>,
    owner: Owner,
}

impl TemporaryName {
    fn new(unfinished: &mut Unfinished, path: TempPath) -> Self {
        let owner = Owner::this_process();
        unfinished.names.push((path.to_path_buf(), owner));
        TemporaryName { path: Some(path), owner }
    }

    /// Renames the file, over another one or not.
    fn rename(&mut self, unfinished: &mut Unfinished, to: &Path, replace: bool) -> io::Result<()> {
        let name = self.path.as_ref().map(|path| path.to_path_buf());
        while let Some(path) = self.path.take() {
            let renamed = if replace { path.persist(to) } else { path.persist_noclobber(to) };
            let Err(failed) = renamed else { break };
            self.path = Some(failed.path);
            if failed.error.kind() != io::ErrorKind::Interrupted {
                return Err(failed.error);
            }
        }
        unfinished.names.retain(|(listed, _)| Some(listed) != name.as_ref());
        Ok(())
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        let Some(mut path) = self.path.take() else { return };
        if self.owner.is_another_process() {
            // The file is the parent's.
            path.disable_cleanup(true);
        } else {
            unfinished().names.retain(|(listed, _)| listed.as_path() != &*path);
        }
    }
}

/// Gives up everything that this process is making and has not published: for a process that is
/// about to end without unwinding, as on Ctrl-C. Nothing of it is left in the file system, and what
/// goes on to make it fails; files that have their names are left alone.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// let builder = bloomfile::Options::new().capacity(9).false_positive_rate(0.1).start_build(&path)?;
/// bloomfile::process::discard_unfinished();
/// assert!(builder.finish().is_err());
/// assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn discard_unfinished() {
    let mut unfinished = unfinished();
    unfinished.discards += 1;
    for (path, _) in unfinished.names.iter().filter(|(_, owner)| !owner.is_another_process()) {
        // Gone already, or nothing can be done about it at this point.
        let _ = std::fs::remove_file(path);
    }
}

impl PendingFile {
    /// Starts a file of `length` bytes, all of them zero, with space for them on the disk.
    pub(crate) fn new(target: Target, length: u64) -> Result<Self> {
        let (file, name) = match create_unnamed(target.folder()) {
            Some(file) => (file, None),
            None => create_named(&target).map(|(file, name)| (file, Some(name)))?,
        };
        Self::with_file(target, file, name, length)
    }

    fn with_file(
        target: Target,
        file: File,
        name: Option<TemporaryName>,
        length: u64,
    ) -> Result<Self> {
        let discards = unfinished().discards;
        let pending = PendingFile { target, file, name, owner: Owner::this_process(), discards };
        pending.target.pass_on_access(&pending.file)?;
        // Before any other process can see it: its creator is its first writer.
        match try_lock(|| pending.file.try_lock()) {
            Ok(true) => {}
            Ok(false) => return Err(Error::Locked),
            Err(error) => return Err(Error::Io { action: "lock the file", error }),
        }
        space::allocate(&pending.file, length).map_err(Error::io("allocate space for the file"))?;
        Ok(pending)
    }

    /// The name that the file is to get.
    pub(crate) fn path(&self) -> &Path {
        self.target.path()
    }

    /// Whether this process is a child of the one that began the file.
    pub(crate) fn is_forked(&self) -> bool {
        self.owner.is_another_process()
    }

    /// The file, to be filled.
    pub(crate) fn medium(&self) -> Result<FileMedium> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let file = retry(|| self.file.try_clone()).map_err(Error::io("open the new file"))?;
        Ok(FileMedium::new(file))
    }

    /// Makes the file durable and gives it its name, at once and for good.
    pub(crate) fn publish(mut self) -> Result<FileMedium> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        space::fill(&self.file, 0).map_err(Error::io("allocate space for the file"))?;
        sync_file(&self.file).map_err(Error::io("sync the new file"))?;
        self.give_name()?;
        // Once more: that it has a name is known to the file itself, too.
        sync_file(&self.file).map_err(Error::io("sync the new file"))?;
        sync_folder(self.target.folder()).map_err(Error::io("sync the folder"))?;
        let file = retry(|| self.file.try_clone()).map_err(Error::io("open the new file"))?;
        Ok(FileMedium::new(file))
    }

    fn give_name(&mut self) -> Result<()> {
        const ACTION: &str = "give the new file its name";
        for _ in 0..OPEN_TRIES {
            // Another program may have moved or removed the file that was to be replaced.
            if self.target.replaces() && !self.target.is_current()? {
                self.target.lock_old()?;
                self.target.pass_on_access(&self.file)?;
            }
            match self.try_to_give_name() {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::Io { action: ACTION, error });
                }
                // A file came in between: that one is to be replaced then.
                Err(_) if self.target.replaces() => {}
                Err(_) => return Err(Error::Exists),
            }
        }
        Err(Error::Io { action: ACTION, error: replaced_too_often() })
    }

    fn try_to_give_name(&mut self) -> io::Result<()> {
        let mut unfinished = unfinished();
        if unfinished.discards != self.discards {
            return Err(io::Error::other("it was discarded before it was finished"));
        }
        let replaces = self.target.old().is_some();
        if self.name.is_none() {
            if !replaces {
                return link(&self.file, self.target.path());
            }
            // A link cannot take the place of a file, so there is a second name for a moment.
            let linked = builder().make_in(self.target.folder(), |path| link(&self.file, path))?;
            self.name = Some(TemporaryName::new(&mut unfinished, linked.into_temp_path()));
        }
        let Some(name) = &mut self.name else { return Ok(()) };
        name.rename(&mut unfinished, self.target.path(), replaces)
    }
}

/// A file in a folder that has no name, so that nothing is left of it when this process ends;
/// `None` where there is no such thing, or no way to name the file later.
#[cfg(target_os = "linux")]
fn create_unnamed(folder: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(folder).ok()?;
    std::fs::symlink_metadata(path_of(&file)).ok()?;
    Some(file)
}

#[cfg(not(target_os = "linux"))]
fn create_unnamed(_: &Path) -> Option<File> {
    None
}

/// A name of an open file that leads to it wherever it is.
#[cfg(target_os = "linux")]
fn path_of(file: &File) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a file without a name one that no other has.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    let from = path_of(file);
    retry(|| Ok(linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW)?))
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What makes temporary names.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    // Short, and without the target's own name, which may be as long as names can be.
    builder.prefix(".bloomfile-").suffix(".tmp").rand_bytes(12);
    builder
}

/// A file with a temporary name.
fn create_named(target: &Target) -> Result<(File, TemporaryName)> {
    // What replaces a file must not be readable to more than that one, not even unfinished.
    let mode = if target.old().is_some() { 0o600 } else { 0o666 };
    let mut unfinished = unfinished();
    let (file, path) = builder()
        // Opened here, so that an error does not name a file that the user never heard of.
        .make_in(target.folder(), |path| {
            OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)
        })
        .map_err(Error::io("create a file in the folder"))?
        .into_parts();
    Ok((file, TemporaryName::new(&mut unfinished, path)))
}

/// Makes a new name in a folder durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    sync_file(&File::open(folder)?)
}

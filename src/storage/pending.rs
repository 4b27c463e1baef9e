//! New files: made without a name where the system can do that, synced, then given their name.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use tempfile::TempPath;

use super::file::OpenFile;
use super::lock::{OPEN_TRIES, replaced_too_often};
use super::{FileMedium, Owner, Target, platform, space, unpoisoned};
use crate::error::{Error, Result};

/// A file that no other process sees until it is [published](PendingFile::publish); dropping it leaves no
/// trace.
pub(crate) struct PendingFile {
    target: Target,
    file: Arc<OpenFile>,
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

impl Unfinished {
    fn forget(&mut self, name: &Path) {
        self.names.retain(|(listed, _)| listed != name);
    }
}

/// Held while a file is given its name: it is either discarded before that or not at all.
static UNFINISHED: Mutex<Unfinished> = Mutex::new(Unfinished { names: Vec::new(), discards: 0 });

fn unfinished() -> MutexGuard<'static, Unfinished> {
    unpoisoned(&UNFINISHED)
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

    /// Renames the file over the one that the target has.
    fn replace(&mut self, unfinished: &mut Unfinished, target: &mut Target) -> io::Result<()> {
        let Some(path) = &mut self.path else { return Ok(()) };
        let to = target.path().to_owned();
        platform::replace(path, &to, || target.close_old())?;
        path.disable_cleanup(true);
        unfinished.forget(path);
        self.path = None;
        Ok(())
    }

    /// Renames the file; an error if there is another one of that name.
    fn rename(&mut self, unfinished: &mut Unfinished, to: &Path) -> io::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        let name = path.to_path_buf();
        match platform::rename_new(path, to) {
            Ok(()) => unfinished.forget(&name),
            Err((path, error)) => {
                self.path = Some(path);
                return Err(error);
            }
        }
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
            unfinished().forget(&path);
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
        // What replaces a file must not be readable to more than that one, not even unfinished.
        let private = target.has_old();
        Self::create(target, length, private)
    }

    /// As [`new`](Self::new), for its owner alone.
    pub(super) fn new_private(target: Target, length: u64) -> Result<Self> {
        Self::create(target, length, true)
    }

    fn create(target: Target, length: u64, private: bool) -> Result<Self> {
        let (file, name) = match platform::create_unnamed(target.folder(), private) {
            Some(file) => (file, None),
            None => create_named(&target, private).map(|(file, name)| (file, Some(name)))?,
        };
        Self::with_file(target, OpenFile::new(file), name, length)
    }

    fn with_file(
        target: Target,
        file: Arc<OpenFile>,
        name: Option<TemporaryName>,
        length: u64,
    ) -> Result<Self> {
        let discards = unfinished().discards;
        let pending = PendingFile { target, file, name, owner: Owner::this_process(), discards };
        pending.target.pass_on_access(pending.file.file())?;
        // Before any other process can see it: its creator is its first writer.
        match platform::try_lock(pending.file.file()) {
            Ok(true) => {}
            Ok(false) => return Err(Error::Locked),
            Err(error) => return Err(Error::Io { action: "lock the file", error }),
        }
        space::allocate(pending.file.file(), length)
            .map_err(Error::io("allocate space for the file"))?;
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
        Ok(FileMedium::new(Arc::clone(&self.file)))
    }

    /// Makes the file durable and gives it its name, at once and for good.
    pub(crate) fn publish(mut self) -> Result<FileMedium> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        space::fill_unwritten(self.file.file())
            .map_err(Error::io("allocate space for the file"))?;
        self.file.sync_all().map_err(Error::io("sync the new file"))?;
        self.give_name()?;
        // Once more: that it has a name is known to the file itself, too.
        self.file.sync_all().map_err(Error::io("sync the new file"))?;
        platform::sync_folder(self.target.folder()).map_err(Error::io("sync the folder"))?;
        Ok(FileMedium::new(Arc::clone(&self.file)))
    }

    fn give_name(&mut self) -> Result<()> {
        const ACTION: &str = "give the new file its name";
        for _ in 0..OPEN_TRIES {
            // Another program may have moved or removed the file that was to be replaced.
            if self.target.replaces() && !self.target.is_current()? {
                self.target.lock_old()?;
                self.target.pass_on_access(self.file.file())?;
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
        let replaces = self.target.has_old();
        if self.name.is_none() {
            let file = self.file.file();
            if !replaces {
                return platform::link(file, self.target.path());
            }
            // A link cannot take the place of a file, so there is a second name for a moment.
            let linked =
                builder().make_in(self.target.folder(), |path| platform::link(file, path))?;
            self.name = Some(TemporaryName::new(&mut unfinished, linked.into_temp_path()));
        }
        let Some(name) = &mut self.name else { return Ok(()) };
        if replaces {
            name.replace(&mut unfinished, &mut self.target)
        } else {
            name.rename(&mut unfinished, self.target.path())
        }
    }
}

/// What makes temporary names.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    // Short, and without the target's own name, which may be as long as names can be.
    builder.prefix(".bloomfile-").suffix(".tmp").rand_bytes(12);
    builder
}

/// A file with a temporary name.
fn create_named(target: &Target, private: bool) -> Result<(File, TemporaryName)> {
    let mut unfinished = unfinished();
    let (file, path) = builder()
        // Opened here, so that an error does not name a file that the user never heard of.
        .make_in(target.folder(), |path| platform::create_new(path, private))
        .map_err(Error::io("create a file in the folder"))?
        .into_parts();
    Ok((file, TemporaryName::new(&mut unfinished, path)))
}

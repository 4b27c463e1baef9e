//! Files that the command writes beside filters: pages for a browser, manual pages. They appear
//! under their names when they are whole, and replace nothing that was not meant to go.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::failure::{Failure, Result};
use crate::{platform, text};

/// Pending files of this process that have no name of their own yet.
static PENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Takes half-written files away, for a process that is about to end.
pub(crate) fn discard() {
    let pending = pending();
    // Folders after what was made in them.
    for path in pending.iter().rev() {
        delete(path);
    }
    // Never given back: a thread that goes on must not name in public what was taken away.
    std::mem::forget(pending);
}

fn delete(path: &Path) {
    // Gone already, or nothing can be done about it at this point. A folder is most often empty.
    let _ = std::fs::remove_file(path)
        .or_else(|_| std::fs::remove_dir(path))
        .or_else(|_| std::fs::remove_dir_all(path));
}

/// A file or folder under a name of its own that goes unless it is kept: when this is dropped, and when
/// the process is asked to end.
pub(crate) struct Unkept {
    path: PathBuf,
    listed: Option<Listed>,
}

impl Unkept {
    pub(crate) fn new(path: PathBuf) -> Self {
        let listed = Some(Listed::new(&path));
        Unkept { path, listed }
    }

    /// A new folder for what is needed in between.
    pub(crate) fn folder_in(folder: &Path, prefix: &str) -> io::Result<Self> {
        let make = || tempfile::Builder::new().prefix(prefix).tempdir_in(folder);
        let (made, listed) = Listed::make(make, |made| made.path())?;
        Ok(Unkept { path: made.keep(), listed: Some(listed) })
    }

    /// A new folder of this name, which is empty: what was there goes.
    pub(crate) fn empty_folder(path: PathBuf) -> io::Result<Self> {
        let make = || {
            delete(&path);
            std::fs::create_dir(&path).map(|()| path)
        };
        let (path, listed) = Listed::make(make, PathBuf::as_path)?;
        Ok(Unkept { path, listed: Some(listed) })
    }

    /// Gives the file another name.
    pub(crate) fn renamed(self, to: PathBuf) -> io::Result<Self> {
        let rename = || loop {
            match std::fs::rename(&self.path, &to) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done.map(|()| to),
            }
        };
        let (path, listed) = Listed::make(rename, PathBuf::as_path)?;
        self.keep();
        Ok(Unkept { path, listed: Some(listed) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file stays.
    pub(crate) fn keep(mut self) {
        self.listed = None;
    }
}

impl Drop for Unkept {
    fn drop(&mut self) {
        if self.listed.is_some() {
            delete(&self.path);
        }
    }
}

/// Where a file is to be written.
pub(crate) struct Target {
    /// As the user named it.
    path: PathBuf,
    /// The same behind symbolic links: what they lead to is replaced, not the link.
    place: PathBuf,
    /// What stands there, if something does.
    old: Option<Metadata>,
    force: bool,
}

impl Target {
    /// Refuses what must not be replaced, before any work is done for it: anything without `force`,
    /// and in any case what is not a regular file, and the `source` that is being read.
    pub(crate) fn new(path: &Path, source: Option<&Path>, force: bool) -> Result<Self> {
        let refuse = |message: &str| Err(Failure::about(text::path(path), message));
        let unknown = |error: io::Error| {
            Failure::about(text::path(path), format!("cannot look up the target: {error}"))
        };
        let old = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unknown(error)),
        };
        if let Some(old) = &old {
            // A source that is not there is another file; the command tells of it when it reads it.
            if source.is_some_and(|source| platform::is_same(source, path).unwrap_or(false)) {
                return refuse("is the filter itself; choose another name for the page");
            }
            if !old.is_file() {
                return refuse("is not a regular file; choose another name");
            }
            if !force {
                return refuse("already exists; choose another name, or replace it with --force");
            }
        } else if path.is_symlink() {
            return refuse("is a symbolic link to a file that is not there; choose another name");
        }
        let place = match old {
            Some(_) => path.canonicalize().map_err(unknown)?,
            None => path.to_owned(),
        };
        Ok(Target { path: path.to_owned(), place, old, force })
    }

    /// Writes the file, whole or not at all.
    pub(crate) fn write(self, bytes: &[u8]) -> Result<()> {
        let folder = match self.place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        self.prepare(&folder, bytes)?.publish()
    }

    /// Writes what is to stand there, durably, under a name that nothing looks for, in a folder of the same
    /// file system: all of the work that may fail for want of space.
    pub(crate) fn prepare(self, folder: &Path, bytes: &[u8]) -> Result<Prepared> {
        match self.try_prepare(folder, bytes) {
            Ok((file, listed)) => Ok(Prepared { file, listed, target: self }),
            Err(error) => Err(self.failure(&error)),
        }
    }

    fn try_prepare(
        &self,
        folder: &Path,
        bytes: &[u8],
    ) -> io::Result<(NamedTempFile<File>, Listed)> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".bloomfile").suffix(".tmp");
        // Opened here, so that an error does not name a file that the user never heard of.
        let open = |path: &Path| platform::create_new(path, self.old.as_ref());
        let (mut file, listed) =
            Listed::make(|| builder.make_in(folder, open), |file| file.path())?;
        file.as_file_mut().write_all(bytes)?;
        if let Some(old) = &self.old {
            platform::pass_on_access(old, file.as_file())?;
        }
        file.as_file().sync_all()?;
        Ok((file, listed))
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let path = text::path(&self.path);
        match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::about(
                path,
                "already exists; choose another name, or replace it with --force",
            ),
            _ => Failure::about(path, format!("cannot be written: {error}")),
        }
    }
}

/// A file that is whole and lacks only its name; without one it goes when this is dropped.
pub(crate) struct Prepared {
    file: NamedTempFile<File>,
    /// After the file: an interrupt in between finds it gone, or takes it away.
    listed: Listed,
    target: Target,
}

impl Prepared {
    /// Gives the file its name.
    pub(crate) fn publish(self) -> Result<()> {
        self.publish_with(Vec::new())
    }

    /// Gives the file its name, with which those that it names stay; without it they go.
    ///
    /// For [`discard`] all of that is one step, before or after it: files that went under the new name, or
    /// stayed without it, would be what no later call expects.
    pub(crate) fn publish_with(self, named: Vec<Unkept>) -> Result<()> {
        let Prepared { mut file, listed, target } = self;
        let mut pending = pending();
        let renamed = loop {
            let renamed = if target.force {
                file.persist(&target.place)
            } else {
                file.persist_noclobber(&target.place)
            };
            match renamed {
                Err(error) if error.error.kind() == io::ErrorKind::Interrupted => file = error.file,
                renamed => break renamed,
            }
        };
        // A network may lose the answer, and not the call: then there is no file to be renamed any more.
        let may_be_named = match &renamed {
            Ok(_) => true,
            Err(error) => !error.file.path().exists(),
        };
        if may_be_named {
            pending.retain(|path| named.iter().all(|unkept| unkept.path != *path));
        }
        drop(pending);
        if may_be_named {
            named.into_iter().for_each(Unkept::keep);
        }
        let result = renamed.map(drop).map_err(|error| target.failure(&error.error));
        // After the file, which is gone or has its name now.
        drop(listed);
        result
    }
}

/// A name in [`PENDING`].
struct Listed(PathBuf);

impl Listed {
    fn new(path: &Path) -> Self {
        pending().push(path.to_owned());
        Listed(path.to_owned())
    }

    /// Lists what is made, so that an interrupt finds either nothing or what it has to take away.
    fn make<T>(
        make: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> io::Result<(T, Self)> {
        let mut pending = pending();
        let made = make()?;
        let path = path(&made).to_owned();
        pending.push(path.clone());
        Ok((made, Listed(path)))
    }
}

fn pending() -> MutexGuard<'static, Vec<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Listed {
    fn drop(&mut self) {
        pending().retain(|path| *path != self.0);
    }
}

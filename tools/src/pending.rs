//! Files that the command writes beside filters: pages for a browser, manual pages. They appear
//! under their names when they are whole, and replace nothing that was not meant to go.

use std::fs::Metadata;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::failure::{Failure, Result};
use crate::{platform, text};

/// Pending files of this process that have no name of their own yet.
static PENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Takes half-written files away, for a process that is about to end.
pub(crate) fn discard() {
    for path in PENDING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // Gone already, or nothing can be done about it at this point.
        let _ = std::fs::remove_file(path);
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
        let path = text::path(&self.path);
        self.try_write(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::about(
                path,
                "already exists; choose another name, or replace it with --force",
            ),
            _ => Failure::about(path, format!("cannot be written: {error}")),
        })
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<()> {
        let folder = match self.place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut file = tempfile::Builder::new()
            .prefix(".bloomfile")
            .suffix(".tmp")
            // Opened here, so that an error does not name a file that the user never heard of.
            .make_in(folder, |path| platform::create_new(path, self.old.as_ref()))?;
        let _listed = Listed::new(file.path());
        file.as_file_mut().write_all(bytes)?;
        if let Some(old) = &self.old {
            platform::pass_on_access(old, file.as_file())?;
        }
        file.as_file().sync_all()?;
        loop {
            let renamed = if self.force {
                file.persist(&self.place)
            } else {
                file.persist_noclobber(&self.place)
            };
            match renamed {
                Ok(_) => return Ok(()),
                Err(error) if error.error.kind() == io::ErrorKind::Interrupted => file = error.file,
                Err(error) => return Err(error.error),
            }
        }
    }
}

/// A name in [`PENDING`].
struct Listed(PathBuf);

impl Listed {
    fn new(path: &Path) -> Self {
        PENDING.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        Listed(path.to_owned())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        PENDING.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

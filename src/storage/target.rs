//! The name that a new file is to get, and the file that has it until then.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::lock::{OPEN_TRIES, leads_to, lock, replaced_too_often};
use super::{platform, retry};
use crate::error::{Error, Result};

/// Where a new file goes. If a file is to be replaced, this has its writer's lock: nothing is added
/// to it from now on that the new one would take away (F-104).
pub(crate) struct Target {
    /// The name, links followed.
    path: PathBuf,
    replace: bool,
    /// The file that has the name.
    old: Option<File>,
}

impl Target {
    /// Looks at a name before any work is done for it. What must not be replaced is refused.
    pub(crate) fn new(path: &Path, replace: bool) -> Result<Self> {
        if path.file_name().is_none() {
            return Err(Error::parameter("path", path.display(), "it must end in a file name"));
        }
        let mut target = Target { path: path.to_owned(), replace, old: None };
        match retry(|| std::fs::symlink_metadata(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::Io { action: "look up the target", error }),
            Ok(_) if !replace => return Err(Error::Exists),
            Ok(found) => {
                if found.is_symlink() {
                    target.path = follow(path)?;
                }
                target.lock_old()?;
            }
        }
        Ok(target)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn replaces(&self) -> bool {
        self.replace
    }

    /// Whether there is a file that goes when the new one gets the name.
    pub(super) fn has_old(&self) -> bool {
        self.old.is_some()
    }

    /// Closes the file that has the name, and so lets its lock go.
    pub(super) fn close_old(&mut self) {
        self.old = None;
    }

    /// The folder that the name is in.
    pub(super) fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Whether the name still leads to the file that is locked, or to none if there was none.
    pub(super) fn is_current(&self) -> Result<bool> {
        let current =
            match &self.old {
                Some(old) => leads_to(&self.path, old),
                None => retry(|| std::fs::symlink_metadata(&self.path)).map(|_| false).or_else(
                    |error| match error.kind() {
                        io::ErrorKind::NotFound => Ok(true),
                        _ => Err(error),
                    },
                ),
            };
        current.map_err(Error::io("look up the target"))
    }

    /// Locks the file that has the name now, if there is one.
    pub(super) fn lock_old(&mut self) -> Result<()> {
        const ACTION: &str = "open the file that is to be replaced";
        for _ in 0..OPEN_TRIES {
            self.old = None;
            let found = match retry(|| std::fs::symlink_metadata(&self.path)) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(Error::Io { action: "look up the target", error }),
            };
            if found.is_symlink() {
                self.path = follow(&self.path)?;
                continue;
            }
            if let Some(kind) = platform::kind(&found) {
                let reason = format!("it is {kind}, and only files are replaced");
                return Err(Error::parameter("path", self.path.display(), reason));
            }
            // What cannot be opened cannot be locked, and might have a writer.
            let old = match open_any(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                result => result.map_err(Error::io(ACTION))?,
            };
            lock(&old)?;
            if leads_to(&self.path, &old).map_err(Error::io(ACTION))? {
                self.old = Some(old);
                return Ok(());
            }
        }
        Err(Error::Io { action: ACTION, error: replaced_too_often() })
    }

    /// Gives a new file the rights of the one that it replaces.
    pub(super) fn pass_on_access(&self, file: &File) -> Result<()> {
        let Some(old) = &self.old else { return Ok(()) };
        const ACTION: &str = "keep owner and mode of the file that is to be replaced";
        platform::pass_on_access(old, file).map_err(Error::io(ACTION))
    }
}

/// What a symbolic link leads to.
fn follow(link: &Path) -> Result<PathBuf> {
    retry(|| std::fs::canonicalize(link)).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "it is a symbolic link that leads nowhere".into(),
            _ => format!("it is a symbolic link that cannot be followed ({error})"),
        };
        Error::parameter("path", link.display(), reason)
    })
}

/// Opens a file in a way that it can be locked. For writing if possible: over a network only such a
/// file may be.
fn open_any(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    match platform::open(options.clone().write(true), path, false) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::ExecutableFileBusy
            ) =>
        {
            platform::open(&options, path, false)
        }
        result => result,
    }
}

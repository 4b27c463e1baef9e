//! What Linux, macOS and other Unix systems have in common.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use memmap2::{Advice, MmapRaw};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown};
use tempfile::TempPath;

use super::super::{Usage, retry};
use super::{FILL, Identity, sync_all};

/// Fills `bytes` from `offset`; an end before that is an error.
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Sets the length of a file; false where that cannot be done because a part that would go is mapped.
pub(crate) fn set_len(file: &File, length: u64) -> io::Result<bool> {
    retry(|| file.set_len(length)).map(|()| true)
}

/// Opens what should be a regular file; a symbolic link as its last part only with `follow`. Without
/// waiting, in case it has become a pipe.
pub(crate) fn open(options: &OpenOptions, path: &Path, follow: bool) -> io::Result<File> {
    let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    options.clone().custom_flags((OFlags::NONBLOCK | link).bits() as i32).open(path)
}

/// Creates a file to be written and read; with `private` for its owner alone.
pub(crate) fn create_new(path: &Path, private: bool) -> io::Result<File> {
    let mode = if private { 0o600 } else { 0o666 };
    OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)
}

/// What something is that is not a regular file.
pub(crate) fn kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// Which file an open one is.
pub(crate) fn identity(file: &File) -> io::Result<Identity> {
    retry(|| file.metadata()).map(|found| identity_from(&found))
}

/// Which file a name leads to.
pub(crate) fn identity_at(path: &Path) -> io::Result<Identity> {
    retry(|| std::fs::metadata(path)).map(|found| identity_from(&found))
}

fn identity_from(found: &Metadata) -> Identity {
    Identity { volume: found.dev(), number: found.ino().into() }
}

/// Takes the exclusive lock, unless another handle has one.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    taken(|| file.try_lock())
}

/// Takes a shared lock, unless another handle has the exclusive one.
pub(crate) fn try_lock_shared(file: &File) -> io::Result<bool> {
    taken(|| file.try_lock_shared())
}

fn taken(mut lock: impl FnMut() -> Result<(), TryLockError>) -> io::Result<bool> {
    retry(|| match lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    })
}

/// Lets the lock of a handle go.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    retry(|| file.unlock())
}

/// Gives a new file the owner, group and mode of another.
pub(crate) fn pass_on_access(old: &File, new: &File) -> io::Result<()> {
    let (from, to) = (retry(|| old.metadata())?, retry(|| new.metadata())?);
    // The owner first: a change of it takes some bits of the mode away.
    let owner = (from.uid() != to.uid()).then(|| Uid::from_raw(from.uid()));
    let group = (from.gid() != to.gid()).then(|| Gid::from_raw(from.gid()));
    if owner.is_some() || group.is_some() {
        retry(|| Ok(fchown(new, owner, group)?))?;
    }
    let mode = Mode::from_raw_mode((from.permissions().mode() & 0o7777) as _);
    retry(|| Ok(fchmod(new, mode)?))
}

/// Gives a file the name of another, at once. Those that have the other open keep it; `_let_go` is
/// for systems that want it closed.
pub(crate) fn replace(from: &Path, to: &Path, _let_go: impl FnOnce()) -> io::Result<()> {
    retry(|| std::fs::rename(from, to))
}

/// Gives a file with a temporary name another one that no file has; an error if one does.
pub(crate) fn rename_new(path: TempPath, to: &Path) -> Result<(), (TempPath, io::Error)> {
    let mut path = path;
    loop {
        match path.persist_noclobber(to) {
            Ok(()) => return Ok(()),
            Err(failed) if failed.error.kind() == io::ErrorKind::Interrupted => path = failed.path,
            Err(failed) => return Err((failed.path, failed.error)),
        }
    }
}

/// Makes a new name in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    sync_all(&File::open(folder)?)
}

/// Tells what a map is about to be used for.
pub(crate) fn advise(map: &MmapRaw, usage: Usage) {
    let advice = match usage {
        Usage::LookUps => Advice::Random,
        Usage::All => Advice::WillNeed,
        Usage::Fill => FILL,
    };
    // Advice: where it is not taken, all is as before.
    let _ = map.advise(advice);
}

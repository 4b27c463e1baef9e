//! Windows.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::FileExt;
use std::os::windows::io::AsHandle;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that names the folder for temporary files.
pub(crate) const TEMPORARY_FOLDER: &str = "TMP";

/// What ends input from a terminal.
pub(crate) const END_OF_INPUT: &str = "Ctrl-Z and Enter at the start of a line";

/// Exit status of a process that Ctrl-C ended, the same on all systems.
const INTERRUPTED: i32 = 130;

/// Reads from a place in a file, as far as one call goes. This moves the position of the file, which
/// is not used.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(bytes, offset)
}

/// The key that an argument is: its text in UTF-8. `None` if it is no text, half a surrogate pair.
pub(crate) fn key_of(argument: OsString) -> Option<Vec<u8>> {
    argument.into_string().ok().map(String::into_bytes)
}

/// Another handle of standard input.
pub(crate) fn standard_input() -> io::Result<File> {
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

/// Whether two names lead to the same file. A hard link counts as another: the name that is replaced
/// then leaves the other one where it is.
pub(crate) fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(one.canonicalize()? == other.canonicalize()?)
}

/// Creates a file to be written. It has the rights that its folder passes on to all files.
pub(crate) fn create_new(path: &Path, _old: Option<&Metadata>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Gives a new file what its creation could not give it of the one that it replaces: nothing, rights
/// come from the folder.
pub(crate) fn pass_on_access(_old: &Metadata, _new: &File) -> io::Result<()> {
    Ok(())
}

/// Makes the names in a folder durable: there is no call for that, the file system keeps their order.
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Calls `end` with an exit status, in a thread of its own, when the process is asked to end by
/// Ctrl-C or Ctrl-Break. The flag is set by the first; a second one ends the process. A window that
/// is closed ends the process at once: what was synced is there, and the next run recovers the file.
pub(crate) fn watch(
    interrupted: &Arc<AtomicBool>,
    end: impl FnOnce(i32) + Send + 'static,
) -> io::Result<()> {
    let interrupted = Arc::clone(interrupted);
    let mut end = Some(end);
    ctrlc::set_handler(move || match end.take() {
        Some(end) => {
            interrupted.store(true, Ordering::Relaxed);
            // The thread of the handler has to be there for the second one.
            let started = std::thread::Builder::new().spawn(move || end(INTERRUPTED));
            if started.is_err() {
                std::process::exit(INTERRUPTED);
            }
        }
        None => std::process::exit(INTERRUPTED),
    })
    .map_err(io::Error::other)
}

/// Limits raise no signals: a write that fails is an error, and memory that cannot be had ends the
/// process with a status of the system's.
pub(crate) fn survive_limits() {}

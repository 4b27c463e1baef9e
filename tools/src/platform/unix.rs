//! Unix.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::EXIT_ERROR;

/// The variable that names the folder for temporary files.
pub(crate) const TEMPORARY_FOLDER: &str = "TMPDIR";

/// What ends input from a terminal.
pub(crate) const END_OF_INPUT: &str = "Ctrl-D at the start of a line";

/// Reads from a place in a file, as far as one call goes.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}

/// The key that an argument is: its bytes.
pub(crate) fn key_of(argument: OsString) -> Option<Vec<u8>> {
    Some(argument.into_vec())
}

/// Another handle of standard input.
pub(crate) fn standard_input() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Whether two names lead to the same file.
pub(crate) fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let [one, other] = [one, other].map(std::fs::metadata);
    let (one, other) = (one?, other?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Creates a file to be written: as any new one, or with the mode of the one that it replaces.
pub(crate) fn create_new(path: &Path, old: Option<&Metadata>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode(old)).open(path)
}

/// Gives a new file what its creation could not give it of the one that it replaces.
pub(crate) fn pass_on_access(old: &Metadata, new: &File) -> io::Result<()> {
    // Creation takes the bits of the umask away.
    new.set_permissions(Permissions::from_mode(mode(Some(old))))
}

fn mode(old: Option<&Metadata>) -> u32 {
    old.map_or(0o666, |old| old.permissions().mode() & 0o777)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Calls `end` with an exit status, in a thread of its own, when the process is asked to end: by
/// Ctrl-C, the polite kill or the end of its terminal. The flag is set by the first signal; a second
/// one ends the process.
pub(crate) fn watch(
    interrupted: &Arc<AtomicBool>,
    end: impl FnOnce(i32) + Send + 'static,
) -> io::Result<()> {
    let ignored = ignored();
    let signals = [SIGHUP, SIGINT, SIGTERM].into_iter();
    let signals: Vec<i32> = signals.filter(|&signal| !ignored(signal)).collect();
    // Between the moment in which a signal no longer ends the process and the one in which all of its
    // actions are known, it would do nothing. It waits until they are; threads take over what their
    // parent holds back, so that this ends before there is one.
    let held: SigSet =
        signals.iter().map(|&signal| Signal::try_from(signal)).collect::<Result<_, _>>()?;
    let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let came = register(&signals, interrupted);
    before.thread_set_mask()?;
    let mut came = came?;
    std::thread::Builder::new().spawn(move || {
        if let Some(signal) = came.forever().next() {
            end(status(signal));
        }
    })?;
    Ok(())
}

/// The signals that come from now on, each of which sets the flag; where it is set already, the process
/// ends.
fn register(signals: &[i32], interrupted: &Arc<AtomicBool>) -> io::Result<Signals> {
    for &signal in signals {
        // Looks at the flag before the next line's action sets it: the first signal passes.
        flag::register_conditional_shutdown(signal, status(signal), Arc::clone(interrupted))?;
        flag::register(signal, Arc::clone(interrupted))?;
    }
    Signals::new(signals)
}

/// Exit status of a process that ends because of a signal, as shells show it.
fn status(signal: i32) -> i32 {
    128 + signal
}

/// Tells the signals that this process was started to ignore: by `nohup`, or in the background of a
/// script. Those stay ignored.
fn ignored() -> impl Fn(i32) -> bool {
    // Where the system has no such file, they are taken for wanted, but for the one that nohup is
    // about.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(1 << (SIGHUP - 1));
    move |signal| mask >> (signal - 1) & 1 == 1
}

/// Turns the signals that limits of the process raise into errors: a file that would grow beyond
/// `ulimit -f` makes its write fail, and memory that cannot be had, which is told on standard
/// error, ends the process with the status of an error.
pub(crate) fn survive_limits() {
    // Where it cannot be done, the signals end the process as they did before.
    let _ = flag::register(SIGXFSZ, Arc::default());
    let aborts = Arc::new(AtomicBool::new(true));
    let _ = flag::register_conditional_shutdown(SIGABRT, EXIT_ERROR.into(), aborts);
}

//! For programs that end, or are ended, in the middle of things.

use std::io;

pub use crate::storage::discard_unfinished;

/// From now on, a mapped page that cannot be read ends the process with a message and an exit
/// status instead of the signal SIGBUS.
///
/// Look-ups and adds touch the mapped file directly. Where its disk fails, or where another program
/// cuts the file short (copies over it, say, instead of renaming), the system has no error to
/// return and raises SIGBUS. This is for programs that should then say which file it was, on
/// standard error after `program: `, and exit with `status`; it concerns the whole process and
/// every file that it has mapped, and is not undone. Programs that have to go on read their files
/// with [`Access::Memory`](crate::reader::Access::Memory), which maps nothing.
///
/// The handler does nothing but read the process's own list of maps, write and exit. A SIGBUS that
/// is not about a mapped file goes to the handler that was there before. The name is known on Linux
/// only. On Windows nothing changes: there a mapped file cannot be cut short, and a disk that fails
/// ends the process with an exception.
///
/// ```
/// bloomfile::process::catch_bus_errors("myprogram", 2)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn catch_bus_errors(program: &'static str, status: i32) -> io::Result<()> {
    crate::storage::catch_bus_errors(program, status)
}

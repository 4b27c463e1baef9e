//! Codes, and a message for each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bloomfile::Error;

/// Nothing went wrong.
pub const BLOOMFILE_OK: c_int = 0;
/// A NULL where something must be, a handle of another kind or one that was closed, a number that
/// stands for nothing, text that is not UTF-8, offsets that are in no order.
pub const BLOOMFILE_ERROR_ARGUMENT: c_int = -1;
/// A parameter that makes no sense, or that does not go with the others.
pub const BLOOMFILE_ERROR_PARAMETER: c_int = -2;
/// The operating system refused or failed something: see bloomfile_error_os.
pub const BLOOMFILE_ERROR_IO: c_int = -3;
/// There is no such file.
pub const BLOOMFILE_ERROR_NOT_FOUND: c_int = -4;
/// A file of that name is there already.
pub const BLOOMFILE_ERROR_EXISTS: c_int = -5;
/// The file is something else.
pub const BLOOMFILE_ERROR_NOT_A_BLOOMFILE: c_int = -6;
/// The file takes a newer bloomfile.
pub const BLOOMFILE_ERROR_VERSION: c_int = -7;
/// The file's bytes were changed or lost.
pub const BLOOMFILE_ERROR_DAMAGED: c_int = -8;
/// Another process, or another handle of this one, has the file open for writing.
pub const BLOOMFILE_ERROR_LOCKED: c_int = -9;
/// A writer changed the file each time it was read: try again.
pub const BLOOMFILE_ERROR_BUSY: c_int = -10;
/// An earlier call on this handle failed: close it, and open the file again.
pub const BLOOMFILE_ERROR_POISONED: c_int = -11;
/// The handle belongs to the process that this one was forked from.
pub const BLOOMFILE_ERROR_FORKED: c_int = -12;
/// The filter holds as many keys as it was made for, and refuses more.
pub const BLOOMFILE_ERROR_FULL: c_int = -13;
/// The file is sealed, and cannot be changed.
pub const BLOOMFILE_ERROR_SEALED: c_int = -14;
/// The file takes a secret key, another one, or none; or a key file cannot be used.
pub const BLOOMFILE_ERROR_KEY: c_int = -15;
/// The key to be taken out is certainly not in.
pub const BLOOMFILE_ERROR_NOT_PRESENT: c_int = -16;
/// More than one segment seems to hold the key to be taken out.
pub const BLOOMFILE_ERROR_AMBIGUOUS: c_int = -17;
/// The file that is there is not what the options would make.
pub const BLOOMFILE_ERROR_DIFFERENT: c_int = -18;
/// The filters were not made alike, and cannot be combined.
pub const BLOOMFILE_ERROR_INCOMPATIBLE: c_int = -19;
/// The file has no numbers left for a writer: make a new one of it.
pub const BLOOMFILE_ERROR_NUMBERS_SPENT: c_int = -20;
/// A bug of this library. What was being done is not done, or not all of it.
pub const BLOOMFILE_ERROR_INTERNAL: c_int = -21;
/// An error that this version of the interface has no code for: see its message.
pub const BLOOMFILE_ERROR_OTHER: c_int = -22;

/// What a call of this library may give back instead of an answer.
pub(crate) struct Failure {
    code: c_int,
    /// The system's number, or 0.
    os: c_int,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Box<Failure>>;

impl Failure {
    /// A call that cannot be meant like that.
    #[cold]
    pub(crate) fn argument(message: impl Into<String>) -> Box<Self> {
        Box::new(Failure { code: BLOOMFILE_ERROR_ARGUMENT, os: 0, message: message.into() })
    }

    #[cold]
    fn panic(panic: &(dyn Any + Send)) -> Box<Self> {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
        let message =
            format!("a bug in bloomfile: {}", text.unwrap_or("a panic without a message"));
        Box::new(Failure { code: BLOOMFILE_ERROR_INTERNAL, os: 0, message })
    }
}

impl From<Error> for Box<Failure> {
    #[cold]
    fn from(error: Error) -> Self {
        let os = match error.cause() {
            Error::Io { error, .. } | Error::Page { error, .. } => error.raw_os_error(),
            _ => None,
        };
        let (code, message) = (code(&error), error.to_string());
        Box::new(Failure { code, os: os.unwrap_or(0), message })
    }
}

fn code(error: &Error) -> c_int {
    match error.cause() {
        Error::Io { error, .. } if error.kind() == io::ErrorKind::NotFound => {
            BLOOMFILE_ERROR_NOT_FOUND
        }
        Error::Io { .. } | Error::Page { .. } => BLOOMFILE_ERROR_IO,
        Error::Parameter { .. } => BLOOMFILE_ERROR_PARAMETER,
        Error::NotABloomfile { .. } => BLOOMFILE_ERROR_NOT_A_BLOOMFILE,
        Error::Version { .. } | Error::Features { .. } => BLOOMFILE_ERROR_VERSION,
        Error::NumbersSpent { .. } => BLOOMFILE_ERROR_NUMBERS_SPENT,
        Error::Locked => BLOOMFILE_ERROR_LOCKED,
        Error::Busy => BLOOMFILE_ERROR_BUSY,
        Error::Exists => BLOOMFILE_ERROR_EXISTS,
        Error::Poisoned { .. } => BLOOMFILE_ERROR_POISONED,
        Error::Forked => BLOOMFILE_ERROR_FORKED,
        Error::Full { .. } => BLOOMFILE_ERROR_FULL,
        Error::Sealed { .. } => BLOOMFILE_ERROR_SEALED,
        Error::KeyNeeded { .. }
        | Error::WrongKey { .. }
        | Error::NotKeyed
        | Error::KeyFile { .. } => BLOOMFILE_ERROR_KEY,
        Error::NotPresent => BLOOMFILE_ERROR_NOT_PRESENT,
        Error::Ambiguous => BLOOMFILE_ERROR_AMBIGUOUS,
        Error::Different { .. } => BLOOMFILE_ERROR_DIFFERENT,
        Error::Incompatible { .. } => BLOOMFILE_ERROR_INCOMPATIBLE,
        cause if cause.is_damage() => BLOOMFILE_ERROR_DAMAGED,
        _ => BLOOMFILE_ERROR_OTHER,
    }
}

/// The last failure of a thread, its message as C reads it.
struct Last {
    code: c_int,
    os: c_int,
    message: CString,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Keeps a failure for the functions that tell of it; its code.
#[cold]
fn keep(failure: Failure) -> c_int {
    let Failure { code, os, message } = failure;
    // A NUL can come from a file's name; nothing behind it could be read.
    let message = CString::new(message.replace('\0', "\u{fffd}")).unwrap_or_default();
    // In a thread that is ending there is no place for it any more; the code tells all the same.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(Last { code, os, message }));
    code
}

/// Makes a call that C made: its answer, or the code of what went wrong. A panic ends here.
#[inline(always)]
pub(crate) fn guard(call: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => keep(*failure),
        Err(panic) => keep(*Failure::panic(&*panic)),
    }
}

/// As [`guard`], for a call that answers nothing.
pub(crate) fn guard_done(call: impl FnOnce() -> Result<()>) -> c_int {
    guard(|| call().map(|()| BLOOMFILE_OK))
}

/// What the last call that failed in this thread said: a sentence that names the file and says what to
/// do. "" if none has failed. Not to be freed; it stays as it is until the next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn bloomfile_error_message() -> *const c_char {
    let message = LAST.try_with(|last| last.borrow().as_ref().map(|last| last.message.as_ptr()));
    message.ok().flatten().unwrap_or(c"".as_ptr())
}

/// The code of the last call that failed in this thread; BLOOMFILE_OK if none has.
#[unsafe(no_mangle)]
pub extern "C" fn bloomfile_error_code() -> c_int {
    let code = LAST.try_with(|last| last.borrow().as_ref().map(|last| last.code));
    code.ok().flatten().unwrap_or(BLOOMFILE_OK)
}

/// What the system said to the last call that failed in this thread: a value of errno, or 0 if it was
/// not the system that refused.
#[unsafe(no_mangle)]
pub extern "C" fn bloomfile_error_os() -> c_int {
    LAST.try_with(|last| last.borrow().as_ref().map(|last| last.os)).ok().flatten().unwrap_or(0)
}

/// The name of a code, "locked" say; "unknown" for other numbers. Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn bloomfile_error_name(code: c_int) -> *const c_char {
    let name: &CStr = match code {
        BLOOMFILE_OK => c"ok",
        BLOOMFILE_ERROR_ARGUMENT => c"argument",
        BLOOMFILE_ERROR_PARAMETER => c"parameter",
        BLOOMFILE_ERROR_IO => c"io",
        BLOOMFILE_ERROR_NOT_FOUND => c"not found",
        BLOOMFILE_ERROR_EXISTS => c"exists",
        BLOOMFILE_ERROR_NOT_A_BLOOMFILE => c"not a bloomfile",
        BLOOMFILE_ERROR_VERSION => c"version",
        BLOOMFILE_ERROR_DAMAGED => c"damaged",
        BLOOMFILE_ERROR_LOCKED => c"locked",
        BLOOMFILE_ERROR_BUSY => c"busy",
        BLOOMFILE_ERROR_POISONED => c"poisoned",
        BLOOMFILE_ERROR_FORKED => c"forked",
        BLOOMFILE_ERROR_FULL => c"full",
        BLOOMFILE_ERROR_SEALED => c"sealed",
        BLOOMFILE_ERROR_KEY => c"key",
        BLOOMFILE_ERROR_NOT_PRESENT => c"not present",
        BLOOMFILE_ERROR_AMBIGUOUS => c"ambiguous",
        BLOOMFILE_ERROR_DIFFERENT => c"different",
        BLOOMFILE_ERROR_INCOMPATIBLE => c"incompatible",
        BLOOMFILE_ERROR_NUMBERS_SPENT => c"numbers spent",
        BLOOMFILE_ERROR_INTERNAL => c"internal",
        BLOOMFILE_ERROR_OTHER => c"other",
        _ => c"unknown",
    };
    name.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_at_the_border() {
        let code = guard(|| panic!("on purpose, {}", "for the test"));
        assert_eq!((code, bloomfile_error_code()), (BLOOMFILE_ERROR_INTERNAL, code));
        // SAFETY: it is a text of this thread, and nothing fails before it is read.
        let message = unsafe { CStr::from_ptr(bloomfile_error_message()) };
        assert_eq!(message, c"a bug in bloomfile: on purpose, for the test");
    }

    #[test]
    fn each_thread_has_its_own_message() {
        guard(|| Err(Failure::argument("one \0 two")));
        assert_eq!(std::thread::spawn(|| bloomfile_error_code()).join().ok(), Some(BLOOMFILE_OK));
        // SAFETY: as above.
        let message = unsafe { CStr::from_ptr(bloomfile_error_message()) };
        assert_eq!(message, c"one \u{fffd} two");
    }
}

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
/// The file was written or replaced while it was read: open it again.
pub const BLOOMFILE_ERROR_CHANGED: c_int = -23;
/// The file was replaced by one that was made in another way.
pub const BLOOMFILE_ERROR_REPLACED: c_int = -24;
/// The file is no part of a filter.
pub const BLOOMFILE_ERROR_NOT_A_PART: c_int = -25;
/// The file is no delta.
pub const BLOOMFILE_ERROR_NOT_A_DELTA: c_int = -26;
/// The delta is for another file, or for another version of it.
pub const BLOOMFILE_ERROR_OTHER_VERSION: c_int = -27;
/// The delta cannot be applied to an open filter: make a new file with it.
pub const BLOOMFILE_ERROR_NOT_IN_PLACE: c_int = -28;
/// What would be made in memory is longer than was allowed.
pub const BLOOMFILE_ERROR_TOO_LONG: c_int = -29;

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
        Error::NotAPart { .. } => BLOOMFILE_ERROR_NOT_A_PART,
        Error::NotADelta { .. } => BLOOMFILE_ERROR_NOT_A_DELTA,
        Error::OtherVersion { .. } => BLOOMFILE_ERROR_OTHER_VERSION,
        Error::NotInPlace { .. } => BLOOMFILE_ERROR_NOT_IN_PLACE,
        Error::TooLong { .. } => BLOOMFILE_ERROR_TOO_LONG,
        Error::NumbersSpent { .. } => BLOOMFILE_ERROR_NUMBERS_SPENT,
        Error::Locked => BLOOMFILE_ERROR_LOCKED,
        Error::Busy => BLOOMFILE_ERROR_BUSY,
        Error::Changed => BLOOMFILE_ERROR_CHANGED,
        Error::Replaced { .. } => BLOOMFILE_ERROR_REPLACED,
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
#[expect(clippy::boxed_local, reason = "nothing is moved to the stack of a call that did not fail")]
fn keep(failure: Box<Failure>) -> c_int {
    let Failure { code, os, message } = *failure;
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
        Ok(Err(failure)) => keep(failure),
        Err(panic) => keep(Failure::panic(&*panic)),
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
        BLOOMFILE_ERROR_CHANGED => c"changed",
        BLOOMFILE_ERROR_REPLACED => c"replaced",
        BLOOMFILE_ERROR_NOT_A_PART => c"not a part",
        BLOOMFILE_ERROR_NOT_A_DELTA => c"not a delta",
        BLOOMFILE_ERROR_OTHER_VERSION => c"other version",
        BLOOMFILE_ERROR_NOT_IN_PLACE => c"not in place",
        BLOOMFILE_ERROR_TOO_LONG => c"too long",
        _ => c"unknown",
    };
    name.as_ptr()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// One error of each variant, and the code that C gets for it.
    fn one_of_each() -> Vec<(Error, c_int)> {
        let io = |kind: io::ErrorKind| io::Error::from(kind);
        let text = String::new;
        let file = Box::new(Error::Exists);
        vec![
            (
                Error::Io { action: "", error: io(io::ErrorKind::NotFound) },
                BLOOMFILE_ERROR_NOT_FOUND,
            ),
            (Error::Io { action: "", error: io(io::ErrorKind::StorageFull) }, BLOOMFILE_ERROR_IO),
            (
                Error::Page { segment: 0, page: 0, error: io(io::ErrorKind::NotFound) },
                BLOOMFILE_ERROR_IO,
            ),
            (
                Error::Parameter { name: "", value: text(), reason: text() },
                BLOOMFILE_ERROR_PARAMETER,
            ),
            (Error::NotABloomfile { kind: text() }, BLOOMFILE_ERROR_NOT_A_BLOOMFILE),
            (Error::NotAPart { kind: text() }, BLOOMFILE_ERROR_NOT_A_PART),
            (Error::TextMode { how: "" }, BLOOMFILE_ERROR_DAMAGED),
            (Error::Version { found: 2, supported: 1 }, BLOOMFILE_ERROR_VERSION),
            (Error::Features { word: "", bits: 1, read_only: false }, BLOOMFILE_ERROR_VERSION),
            (Error::Checksum { what: text(), expected: 0, found: 1 }, BLOOMFILE_ERROR_DAMAGED),
            (Error::PageTable { expected: 0, found: 1 }, BLOOMFILE_ERROR_DAMAGED),
            (Error::PageEntry { page: 0, crc: 0, ones: 0 }, BLOOMFILE_ERROR_DAMAGED),
            (
                Error::Field { what: "", field: "", value: text(), reason: text() },
                BLOOMFILE_ERROR_DAMAGED,
            ),
            (Error::Length { expected: 0, found: 1 }, BLOOMFILE_ERROR_DAMAGED),
            (Error::NoSlot, BLOOMFILE_ERROR_DAMAGED),
            (Error::SlotLost { found: 0 }, BLOOMFILE_ERROR_DAMAGED),
            (Error::NumbersSpent { field: "", value: 0 }, BLOOMFILE_ERROR_NUMBERS_SPENT),
            (
                Error::Damaged { count: 1, segment: 0, page: 0, lost: false },
                BLOOMFILE_ERROR_DAMAGED,
            ),
            (Error::Journal { index: 0 }, BLOOMFILE_ERROR_DAMAGED),
            (Error::Locked, BLOOMFILE_ERROR_LOCKED),
            (Error::Busy, BLOOMFILE_ERROR_BUSY),
            (Error::Changed, BLOOMFILE_ERROR_CHANGED),
            (Error::Exists, BLOOMFILE_ERROR_EXISTS),
            (Error::Poisoned { first: text(), kind: None }, BLOOMFILE_ERROR_POISONED),
            (Error::Forked, BLOOMFILE_ERROR_FORKED),
            (Error::Full { capacity: 0, reason: "" }, BLOOMFILE_ERROR_FULL),
            (Error::Sealed { action: "" }, BLOOMFILE_ERROR_SEALED),
            (Error::KeyNeeded { fingerprint: text() }, BLOOMFILE_ERROR_KEY),
            (Error::WrongKey { expected: text(), found: text() }, BLOOMFILE_ERROR_KEY),
            (Error::NotKeyed, BLOOMFILE_ERROR_KEY),
            (Error::KeyFile { reason: text() }, BLOOMFILE_ERROR_KEY),
            (Error::NotPresent, BLOOMFILE_ERROR_NOT_PRESENT),
            (Error::Ambiguous, BLOOMFILE_ERROR_AMBIGUOUS),
            (Error::File { path: "a".into(), error: file }, BLOOMFILE_ERROR_EXISTS),
            (
                Error::Different { parameter: "", found: text(), wanted: text() },
                BLOOMFILE_ERROR_DIFFERENT,
            ),
            (Error::Replaced { parameter: "", old: text(), new: text() }, BLOOMFILE_ERROR_REPLACED),
            (Error::NotADelta { kind: text() }, BLOOMFILE_ERROR_NOT_A_DELTA),
            (Error::DamagedDelta { reason: text() }, BLOOMFILE_ERROR_DAMAGED),
            (
                Error::OtherVersion { parameter: "", found: text(), expected: text() },
                BLOOMFILE_ERROR_OTHER_VERSION,
            ),
            (Error::NotInPlace { reason: text() }, BLOOMFILE_ERROR_NOT_IN_PLACE),
            (Error::TooLong { bytes: 2, most: 1 }, BLOOMFILE_ERROR_TOO_LONG),
            (
                Error::Incompatible { parameter: "", left: text(), right: text() },
                BLOOMFILE_ERROR_INCOMPATIBLE,
            ),
        ]
    }

    /// The variants of the library's error, read from where they are declared.
    fn variants() -> BTreeSet<String> {
        let source = include_str!("../../../src/error.rs");
        let (_, body) = source.split_once("pub enum Error {").expect("the enum is there");
        let (body, _) = body.split_once("\n}\n").expect("the enum ends");
        let four = body.lines().filter_map(|line| line.strip_prefix("    "));
        let name = |line: &str| line.split([' ', ',']).next().map(str::to_owned);
        four.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
            .filter_map(name)
            .collect()
    }

    #[test]
    fn every_error_of_the_library_has_its_code() {
        let mut named = BTreeSet::new();
        for (error, expected) in one_of_each() {
            assert_eq!(code(&error), expected, "{error:?}");
            let debug = format!("{error:?}");
            named.extend(debug.split([' ', '(']).next().map(str::to_owned));
            // SAFETY: a name is a text that stays.
            let name = unsafe { CStr::from_ptr(bloomfile_error_name(expected)) };
            assert!(name != c"unknown" && name != c"other", "{error:?}");
        }
        assert_eq!(named, variants());
    }

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

//! bloomfile as functions of SQL: conversions between SQLite's values and the library.
//!
//! `bloom_contains`, `bloom_add`, `bloom_sync` and `bloom_close` ([`functions`]), the aggregate
//! `bloom_build` ([`build`]) and the table `bloom_info` ([`info`]). README.md says what they do. All of
//! them open files by name, so that none may be used in a schema (`SQLITE_DIRECTONLY`).

mod build;
mod files;
mod functions;
mod info;
mod key;

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ffi};

use files::Files;

/// What goes wrong in a function, as SQLite is told.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How all functions are registered: with texts in UTF-8, and not from a schema, which may come from a
/// stranger.
fn flags() -> FunctionFlags {
    FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY
}

/// Says to SQLite what went wrong.
fn failed(error: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(error)
}

/// What SQLite calls when it loads the extension.
///
/// # Safety
/// SQLite calls it, as <https://sqlite.org/loadext.html> has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the pointers are SQLite's own.
    unsafe { Connection::extension_init2(db, message, api, register) }
}

/// The same under the name that SQLite makes of `bloomfile.so`.
///
/// # Safety
/// As [`sqlite3_extension_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_bloomfile_init(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: as the caller has it.
    unsafe { sqlite3_extension_init(db, message, api) }
}

fn register(db: Connection) -> rusqlite::Result<bool> {
    let files = Arc::new(Files::default());
    functions::register(&db, &files)?;
    build::register(&db, &files)?;
    info::register(&db)?;
    // Not for the whole process: each connection loads it.
    Ok(false)
}

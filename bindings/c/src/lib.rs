//! The C library of bloomfile: conversions at the border, and nothing else.
//!
//! Every function here is in `include/bloomfile.h`, which cbindgen makes of this crate; the manual
//! page is `man/bloomfile.3`. No panic crosses the border ([`error::guard`]), and handles say what they
//! are ([`handle`]), so that a wrong one is an error.
#![expect(
    clippy::missing_safety_doc,
    reason = "the header's head and bloomfile(3) say what pointers must be"
)]

pub mod builder;
pub mod error;
pub mod filter;
mod handle;
mod input;
pub mod key;
pub mod ops;
pub mod options;
pub mod reader;

use std::ffi::{CString, c_char};

/// The version of the interface that this library has: its major version times 65,536, and its minor
/// version. A program that was compiled with BLOOMFILE_ABI_MAJOR and BLOOMFILE_ABI_MINOR runs with it
/// if the major version is the same and the minor one at least that.
#[unsafe(no_mangle)]
pub extern "C" fn bloomfile_abi_version() -> u32 {
    const MAJOR: u32 = number(env!("CARGO_PKG_VERSION_MAJOR"));
    const MINOR: u32 = number(env!("CARGO_PKG_VERSION_MINOR"));
    MAJOR << 16 | MINOR
}

const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version has numbers"),
    }
}

/// The version of this library as text, "1.0.0" say. Not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn bloomfile_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The version of the file format that this library reads and writes.
#[unsafe(no_mangle)]
pub extern "C" fn bloomfile_format_version() -> u32 {
    bloomfile::FORMAT_VERSION
}

/// Frees a text that a function of this library made, JSON say. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller has it from this library, where `input::hand_out` made it of a CString.
        drop(unsafe { CString::from_raw(text) });
    }
}

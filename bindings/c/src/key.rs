//! Secrets of keyed files.

use std::ffi::{c_char, c_int};

use crate::error::{Failure, Result, guard_done};
use crate::handle::{self, Handle};
use crate::input;

/// The secret of a keyed file: 128 bits, which are never in the file.
pub struct Key {
    _private: (),
}

impl Handle for Key {
    type Inner = bloomfile::Key;
    const TAG: u64 = 0x626c_6f6f_6d2e_6b65;
    const NAME: &'static str = "key";
}

/// Makes a new secret, from the system's source of random numbers. bloomfile_key_free frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_key_random(out: *mut *mut Key) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    let make = || unsafe { hand_out(out, || Ok(bloomfile::Key::random()?)) };
    guard_done(make)
}

/// Makes a secret of 16 bytes, which must be random. The caller's copy of them is the caller's to wipe.
/// bloomfile_key_free frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_key_from_bytes(bytes: *const u8, out: *mut *mut Key) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        hand_out(out, || {
            let bytes = input::array(bytes, 16, "bytes")?;
            let bytes = bytes.try_into().map_err(|_| Failure::argument("a key has 16 bytes"))?;
            Ok(bloomfile::Key::from_bytes(bytes))
        })
    })
}

/// Reads a secret from a file of 32 hexadecimal digits, which must not be open to others than its
/// owner. bloomfile_key_free frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_key_from_file(path: *const c_char, out: *mut *mut Key) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { hand_out(out, || Ok(bloomfile::Key::from_file(input::path(path)?)?)) })
}

/// Writes a secret into a new file that only its owner can read, durably. A file that is there is left
/// as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_key_write_file(key: *const Key, path: *const c_char) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { Ok(handle::borrow(key)?.write_new_file(input::path(path)?)?) })
}

/// Tells what distinguishes a secret from others and gives nothing of it away: 8 hexadecimal digits and
/// a NUL, for which `text` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_key_fingerprint(key: *const Key, text: *mut c_char) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let fingerprint = handle::borrow(key)?.fingerprint();
        let text = input::place(text.cast::<[u8; 9]>(), "text")?;
        let (digits, end) = text.split_at_mut(8);
        digits.copy_from_slice(&fingerprint.as_bytes()[..8]);
        end.fill(0);
        Ok(())
    })
}

/// Wipes and frees a secret. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_key_free(key: *mut Key) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { handle::free(key) })
}

/// # Safety
/// As [`input::empty_place`].
unsafe fn hand_out(
    out: *mut *mut Key,
    make: impl FnOnce() -> Result<bloomfile::Key>,
) -> Result<()> {
    // SAFETY: as the caller has it.
    let out = unsafe { input::empty_place(out)? };
    *out = handle::make(make()?);
    Ok(())
}

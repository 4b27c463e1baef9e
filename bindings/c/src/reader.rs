//! Filters that are open for reading.

use std::ffi::{c_char, c_int, c_void};

use bloomfile::ReadOptions;
use bloomfile::reader::Access;
use bloomfile::report::Health;

use crate::error::{BLOOMFILE_OK, Failure, Result, guard, guard_done};
use crate::handle::{self, Handle};
use crate::input::{self, Asked, Buffer, Keys, Pointers};
use crate::key::Key;

/// Every page is checked at opening, so that damage is an error of it.
pub const BLOOMFILE_READ_VERIFY: u32 = 1;
/// No page is checked: for files that were verified by other means.
pub const BLOOMFILE_READ_TRUST: u32 = 2;
/// The file is read into memory, so that nothing that happens to it matters any more.
pub const BLOOMFILE_READ_MEMORY: u32 = 4;
/// The system is told to read all of a mapped file ahead.
pub const BLOOMFILE_READ_WARM_UP: u32 = 8;

/// The file was closed in good order.
pub const BLOOMFILE_HEALTH_CLEAN: c_int = 0;
/// A writer has the file open.
pub const BLOOMFILE_HEALTH_LIVE: c_int = 1;
/// A writer crashed; the next one recovers the file.
pub const BLOOMFILE_HEALTH_CRASHED: c_int = 2;
/// An answer rested on a damaged page, and was "maybe".
pub const BLOOMFILE_HEALTH_DAMAGED: c_int = 3;
/// Something that this version of the interface has no number for.
pub const BLOOMFILE_HEALTH_OTHER: c_int = 4;

/// A filter file that is open for reading.
pub struct Reader {
    _private: (),
}

impl Handle for Reader {
    type Inner = bloomfile::Reader;
    const TAG: u64 = 0x626c_6f6f_6d2e_7265;
    const NAME: &'static str = "reader";
}

/// # Safety
/// As [`handle::borrow`].
unsafe fn read_options(flags: u32, key: *const Key) -> Result<ReadOptions> {
    let known = BLOOMFILE_READ_VERIFY
        | BLOOMFILE_READ_TRUST
        | BLOOMFILE_READ_MEMORY
        | BLOOMFILE_READ_WARM_UP;
    if flags & !known != 0 {
        return Err(Failure::argument(format!(
            "the flags {:#x} stand for nothing",
            flags & !known
        )));
    }
    let set = |flag| flags & flag != 0;
    if set(BLOOMFILE_READ_VERIFY) && set(BLOOMFILE_READ_TRUST) {
        return Err(Failure::argument(
            "a file is either verified or trusted: give one of the flags",
        ));
    }
    let access = if set(BLOOMFILE_READ_MEMORY) { Access::Memory } else { Access::Mapped };
    let options = ReadOptions::new()
        .verify(set(BLOOMFILE_READ_VERIFY))
        .trust(set(BLOOMFILE_READ_TRUST))
        .warm_up(set(BLOOMFILE_READ_WARM_UP))
        .access(access);
    // SAFETY: as the caller has it.
    Ok(match unsafe { handle::borrow_optional(key)? } {
        Some(key) => options.key(key),
        None => options,
    })
}

/// Opens a file for reading; `flags` is 0 or some of BLOOMFILE_READ_... together. `key` is the secret of a
/// keyed file, and NULL for others. bloomfile_reader_close closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_open(
    path: *const c_char,
    flags: u32,
    key: *const Key,
    out: *mut *mut Reader,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        *out = handle::make(read_options(flags, key)?.open(input::path(path)?)?);
        Ok(())
    })
}

/// A reader of a file that is in memory. Its data are copied and checked: the bytes are not needed any
/// more after that. bloomfile_reader_close closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_from_bytes(
    data: *const c_void,
    length: usize,
    key: *const Key,
    out: *mut *mut Reader,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        *out = handle::make(read_options(0, key)?.from_bytes(input::bytes(data, length)?)?);
        Ok(())
    })
}

/// Closes a reader. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_close(reader: *mut Reader) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { handle::free(reader) })
}

/// Whether a key may be in: 0 is certain, 1 is wrong at the filter's rate. Keys of damaged pages are 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_contains(
    reader: *const Reader,
    key: *const c_void,
    length: usize,
) -> c_int {
    // What is asked most often, without a frame and without calls; nothing in it can panic.
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    if let Some(found) = unsafe { input::short(key, length) }.and_then(|key| {
        // SAFETY: as above.
        unsafe { handle::borrow_quietly(reader) }?.contains_at_once(key)
    }) {
        return found.into();
    }
    // SAFETY: as above.
    unsafe { contains_by_call(reader, key, length) }
}

/// # Safety
/// As [`handle::borrow`] and [`input::bytes`].
#[inline(never)]
unsafe fn contains_by_call(reader: *const Reader, key: *const c_void, length: usize) -> c_int {
    // SAFETY: as the caller has it.
    guard(|| unsafe { Ok(handle::borrow(reader)?.contains(input::bytes(key, length)?).into()) })
}

/// Whether the key of a hash may be in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_contains_hash(reader: *const Reader, hash: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    let reader_of = unsafe { handle::borrow_quietly(reader) };
    if let Some(found) = reader_of.and_then(|reader| reader.contains_hash_at_once(hash)) {
        return found.into();
    }
    // SAFETY: as above.
    unsafe { contains_hash_by_call(reader, hash) }
}

/// # Safety
/// As [`handle::borrow`].
#[inline(never)]
unsafe fn contains_hash_by_call(reader: *const Reader, hash: u64) -> c_int {
    // SAFETY: as the caller has it.
    guard(|| unsafe { Ok(handle::borrow(reader)?.contains_hash(hash).into()) })
}

/// As bloomfile_reader_contains, with BLOOMFILE_ERROR_DAMAGED where damage keeps that from being told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_try_contains(
    reader: *const Reader,
    key: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe {
        Ok(handle::borrow(reader)?.try_contains(input::bytes(key, length)?)?.into())
    })
}

/// # Safety
/// As [`handle::borrow`] and [`input::answers`].
unsafe fn contains<'k, K: Keys<'k>>(
    reader: *const Reader,
    keys: impl FnOnce() -> Result<K>,
    found: *mut bool,
) -> c_int {
    guard_done(|| {
        // SAFETY: as the caller has it.
        let reader = unsafe { handle::borrow(reader)? };
        let keys = keys()?;
        // SAFETY: as the caller has it.
        let found = unsafe { input::answers(found, keys.count())? };
        let asked = Asked::default();
        reader.contains_batch_by(asked.keys(keys), found);
        asked.result()
    })
}

/// Whether each of many keys may be in: `found` has room for `count` answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_contains_batch(
    reader: *const Reader,
    keys: *const *const c_void,
    lengths: *const usize,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { contains(reader, || Pointers::new(keys, lengths, count), found) }
}

/// As bloomfile_reader_contains_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_contains_offsets32(
    reader: *const Reader,
    data: *const c_void,
    data_length: usize,
    offsets: *const i32,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { contains(reader, || Buffer::new(data, data_length, offsets, count), found) }
}

/// As bloomfile_reader_contains_offsets32, with offsets of 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_contains_offsets64(
    reader: *const Reader,
    data: *const c_void,
    data_length: usize,
    offsets: *const i64,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { contains(reader, || Buffer::new(data, data_length, offsets, count), found) }
}

/// As bloomfile_reader_contains_batch, for hashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_contains_hash_batch(
    reader: *const Reader,
    hashes: *const u64,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let reader = handle::borrow(reader)?;
        let hashes = input::array(hashes, count, "hashes")?;
        reader.contains_hash_batch_by(|at| hashes[at], input::answers(found, count)?);
        Ok(())
    })
}

/// Tells the hash of a key, for the functions that take one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_hash(
    reader: *const Reader,
    key: *const c_void,
    length: usize,
    hash: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let hasher = handle::borrow(reader)?.hasher();
        *input::place(hash, "hash")? = hasher.hash(input::bytes(key, length)?);
        Ok(())
    })
}

/// How the file was found: BLOOMFILE_HEALTH_...
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_health(reader: *const Reader) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe {
        Ok(match handle::borrow(reader)?.health() {
            Health::Clean => BLOOMFILE_HEALTH_CLEAN,
            Health::Live => BLOOMFILE_HEALTH_LIVE,
            Health::Crashed => BLOOMFILE_HEALTH_CRASHED,
            Health::Damaged => BLOOMFILE_HEALTH_DAMAGED,
            _ => BLOOMFILE_HEALTH_OTHER,
        })
    })
}

/// 0 if no answer rested on a damaged page so far; otherwise BLOOMFILE_ERROR_DAMAGED, with a message that
/// names the first one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_damage(reader: *const Reader) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| match unsafe { handle::borrow(reader)? }.damage() {
        Some(error) => Err(error.into()),
        None => Ok(BLOOMFILE_OK),
    })
}

/// Tells the mark that was last synced before opening.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_mark(reader: *const Reader, mark: *mut u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        *input::place(mark, "mark")? = handle::borrow(reader)?.mark();
        Ok(())
    })
}

/// Tells the value of a pair of the file's metadata, as of opening: 1, or 0 and NULL if there is none of
/// that name. bloomfile_string_free frees the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_metadata(
    reader: *const Reader,
    name: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe {
        let out = input::empty_place(out)?;
        match handle::borrow(reader)?.metadata().get(input::text(name, "name")?) {
            Some(value) => *out = input::hand_out(value.clone())?,
            None => return Ok(0),
        }
        Ok(1)
    })
}

/// Whether `path` still leads to the file that this reader has open: 0 once another was renamed over it,
/// or it was taken away. Then it is opened again by those who follow it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_reader_is_at(
    reader: *const Reader,
    path: *const c_char,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(handle::borrow(reader)?.is_at(input::path(path)?)?.into()) })
}

//! Filters that are open for reading and writing.

use std::ffi::{c_char, c_int, c_void};

use crate::error::{Failure, Result, guard, guard_done};
use crate::handle::{self, Handle};
use crate::input::{self, Asked, Buffer, Keys, Offset, Pointers};
use crate::key::Key;
use crate::ops::json;
use crate::options::Options;
use crate::reader::Reader;

/// A filter file that is open for reading and writing.
pub struct Filter {
    _private: (),
}

impl Handle for Filter {
    type Inner = bloomfile::Filter;
    const TAG: u64 = 0x626c_6f6f_6d2e_6669;
    const NAME: &'static str = "filter";
}

/// Creates a file and opens it for writing. It has its name once it is whole and durable.
/// bloomfile_filter_close closes it. A sealed filter is built instead (bloomfile_builder_start).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_create(
    options: *const Options,
    path: *const c_char,
    out: *mut *mut Filter,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        *out = handle::make(handle::borrow(options)?.create(input::path(path)?)?);
        Ok(())
    })
}

/// Opens the file for writing, or creates it if there is none. One that is there must be what the options
/// would make, or it is BLOOMFILE_ERROR_DIFFERENT. bloomfile_filter_close closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_open_or_create(
    options: *const Options,
    path: *const c_char,
    out: *mut *mut Filter,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        *out = handle::make(handle::borrow(options)?.open_or_create(input::path(path)?)?);
        Ok(())
    })
}

/// Opens a file for writing, and recovers it if its last writer crashed. `key` is the secret of a keyed
/// file, and NULL for others. bloomfile_filter_close closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_open(
    path: *const c_char,
    key: *const Key,
    out: *mut *mut Filter,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        let path = input::path(path)?;
        *out = handle::make(match handle::borrow_optional(key)? {
            Some(key) => bloomfile::Filter::open_with_key(path, key)?,
            None => bloomfile::Filter::open(path)?,
        });
        Ok(())
    })
}

/// Closes the file in good order: everything is durable. The handle is gone whatever comes back; after
/// an error the file is recovered when it is opened next. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_close(filter: *mut Filter) -> c_int {
    guard_done(|| {
        if filter.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's pointers are what bloomfile(3) asks for.
        Ok(unsafe { handle::take(filter)? }.close()?)
    })
}

/// Adds a key: 1 when it was new, as far as the filter can tell, and 0 otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_add(
    filter: *const Filter,
    key: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(handle::borrow(filter)?.add(input::bytes(key, length)?)?.into()) })
}

/// Adds the key of a hash that bloomfile_filter_hash gave: 1 when it was new, and 0 otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_add_hash(filter: *const Filter, hash: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(handle::borrow(filter)?.add_hash(hash)?.into()) })
}

/// # Safety
/// As [`handle::borrow`] and [`input::place`].
unsafe fn add<'k, K: Keys<'k>>(
    filter: *const Filter,
    keys: impl FnOnce() -> Result<K>,
    added: *mut u64,
) -> c_int {
    guard_done(|| {
        // SAFETY: as the caller has it.
        let filter = unsafe { handle::borrow(filter)? };
        let keys = keys()?;
        keys.check()?;
        let new = filter.add_batch_by(keys.count(), move |at| keys.get(at).unwrap_or_default())?;
        // SAFETY: as the caller has it.
        unsafe { input::tell(added, new) };
        Ok(())
    })
}

/// Adds many keys, each at a place of its own. `added`, unless it is NULL, gets how many were new. After
/// an error other than BLOOMFILE_ERROR_ARGUMENT some of them may be in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_add_batch(
    filter: *const Filter,
    keys: *const *const c_void,
    lengths: *const usize,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { add(filter, || Pointers::new(keys, lengths, count), added) }
}

/// As bloomfile_filter_add_batch, for keys in one buffer: key i is the bytes from offsets[i] to
/// offsets[i + 1], so that there are count + 1 offsets. This is the layout of Arrow's Binary and Utf8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_add_offsets32(
    filter: *const Filter,
    data: *const c_void,
    data_length: usize,
    offsets: *const i32,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { add(filter, || Buffer::new(data, data_length, offsets, count), added) }
}

/// As bloomfile_filter_add_offsets32, with the offsets of Arrow's LargeBinary and LargeUtf8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_add_offsets64(
    filter: *const Filter,
    data: *const c_void,
    data_length: usize,
    offsets: *const i64,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { add(filter, || Buffer::new(data, data_length, offsets, count), added) }
}

/// As bloomfile_filter_add_batch, for hashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_add_hash_batch(
    filter: *const Filter,
    hashes: *const u64,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let filter = handle::borrow(filter)?;
        let new = filter.add_hash_batch(input::array(hashes, count, "hashes")?)?;
        input::tell(added, new);
        Ok(())
    })
}

/// Whether a key may be in: 0 is certain, 1 is wrong at the filter's rate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_contains(
    filter: *const Filter,
    key: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(handle::borrow(filter)?.contains(input::bytes(key, length)?).into()) })
}

/// Whether the key of a hash may be in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_contains_hash(filter: *const Filter, hash: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(handle::borrow(filter)?.contains_hash(hash).into()) })
}

/// # Safety
/// As [`handle::borrow`] and [`input::answers`].
unsafe fn contains<'k, K: Keys<'k>>(
    filter: *const Filter,
    keys: impl FnOnce() -> Result<K>,
    found: *mut bool,
) -> c_int {
    guard_done(|| {
        // SAFETY: as the caller has it.
        let filter = unsafe { handle::borrow(filter)? };
        let keys = keys()?;
        // SAFETY: as the caller has it.
        let found = unsafe { input::answers(found, keys.count())? };
        let asked = Asked::default();
        filter.contains_batch_by(asked.keys(keys), found);
        asked.result()
    })
}

/// Whether each of many keys may be in: `found` has room for `count` answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_contains_batch(
    filter: *const Filter,
    keys: *const *const c_void,
    lengths: *const usize,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { contains(filter, || Pointers::new(keys, lengths, count), found) }
}

/// As bloomfile_filter_contains_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_contains_offsets32(
    filter: *const Filter,
    data: *const c_void,
    data_length: usize,
    offsets: *const i32,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { contains_buffer(filter, data, data_length, offsets, count, found) }
}

/// As bloomfile_filter_contains_offsets32, with offsets of 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_contains_offsets64(
    filter: *const Filter,
    data: *const c_void,
    data_length: usize,
    offsets: *const i64,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { contains_buffer(filter, data, data_length, offsets, count, found) }
}

/// # Safety
/// As [`contains`] and [`Buffer::new`].
unsafe fn contains_buffer<O: Offset>(
    filter: *const Filter,
    data: *const c_void,
    data_length: usize,
    offsets: *const O,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: as the caller has it.
    unsafe { contains(filter, || Buffer::new(data, data_length, offsets, count), found) }
}

/// As bloomfile_filter_contains_batch, for hashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_contains_hash_batch(
    filter: *const Filter,
    hashes: *const u64,
    count: usize,
    found: *mut bool,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let filter = handle::borrow(filter)?;
        let hashes = input::array(hashes, count, "hashes")?;
        filter.contains_hash_batch_by(|at| hashes[at], input::answers(found, count)?);
        Ok(())
    })
}

/// Tells the hash of a key, for the functions that take one. Files with the same seed and secret have the
/// same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_hash(
    filter: *const Filter,
    key: *const c_void,
    length: usize,
    hash: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let hasher = handle::borrow(filter)?.hasher();
        *input::place(hash, "hash")? = hasher.hash(input::bytes(key, length)?);
        Ok(())
    })
}

/// Takes a key out of a counting filter. One that is certainly not in is BLOOMFILE_ERROR_NOT_PRESENT.
/// Only take out what was added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_remove(
    filter: *const Filter,
    key: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { Ok(handle::borrow(filter)?.remove(input::bytes(key, length)?)?) })
}

/// Takes the key of a hash out of a counting filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_remove_hash(filter: *const Filter, hash: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { Ok(handle::borrow(filter)?.remove_hash(hash)?) })
}

/// # Safety
/// As [`handle::borrow`] and [`input::place`].
unsafe fn remove<'k, K: Keys<'k>>(
    filter: *const Filter,
    keys: impl FnOnce() -> Result<K>,
    removed: *mut u64,
) -> c_int {
    guard_done(|| {
        // SAFETY: as the caller has it.
        let filter = unsafe { handle::borrow(filter)? };
        let keys = keys()?;
        keys.check()?;
        let count =
            filter.remove_batch_by(keys.count(), move |at| keys.get(at).unwrap_or_default())?;
        // SAFETY: as the caller has it.
        unsafe { input::tell(removed, count) };
        Ok(())
    })
}

/// Takes many keys out of a counting filter, each once. One that is not in is left alone; `removed`, unless
/// it is NULL, gets how many were in. After an error other than BLOOMFILE_ERROR_ARGUMENT some of them may be
/// out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_remove_batch(
    filter: *const Filter,
    keys: *const *const c_void,
    lengths: *const usize,
    count: usize,
    removed: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { remove(filter, || Pointers::new(keys, lengths, count), removed) }
}

/// As bloomfile_filter_remove_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_remove_offsets32(
    filter: *const Filter,
    data: *const c_void,
    data_length: usize,
    offsets: *const i32,
    count: usize,
    removed: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { remove(filter, || Buffer::new(data, data_length, offsets, count), removed) }
}

/// As bloomfile_filter_remove_offsets32, with offsets of 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_remove_offsets64(
    filter: *const Filter,
    data: *const c_void,
    data_length: usize,
    offsets: *const i64,
    count: usize,
    removed: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { remove(filter, || Buffer::new(data, data_length, offsets, count), removed) }
}

/// As bloomfile_filter_remove_batch, for hashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_remove_hash_batch(
    filter: *const Filter,
    hashes: *const u64,
    count: usize,
    removed: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let filter = handle::borrow(filter)?;
        let count = filter.remove_hash_batch(input::array(hashes, count, "hashes")?)?;
        input::tell(removed, count);
        Ok(())
    })
}

/// How often a key may have been added to a counting filter, up to 15.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_count(
    filter: *const Filter,
    key: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe {
        let count = handle::borrow(filter)?.count_estimate(input::bytes(key, length)?);
        count.map(c_int::from).ok_or_else(|| Failure::argument("only a counting filter counts"))
    })
}

/// Makes every add and removal that has returned survive a power cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_sync(filter: *const Filter) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { Ok(handle::borrow(filter)?.sync()?) })
}

/// As bloomfile_filter_sync, and makes a number of the caller's own durable with the keys: the position
/// in a log up to which they were added, say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_sync_with_mark(
    filter: *const Filter,
    mark: u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { Ok(handle::borrow(filter)?.sync_with_mark(mark)?) })
}

/// Tells the mark that was last synced; 0 before the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_mark(filter: *const Filter, mark: *mut u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        *input::place(mark, "mark")? = handle::borrow(filter)?.mark();
        Ok(())
    })
}

/// Tells the adds that changed the filter, ever: distinct keys, but for false positives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_adds(filter: *const Filter, adds: *mut u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        *input::place(adds, "adds")? = handle::borrow(filter)?.adds();
        Ok(())
    })
}

/// Brings the checksums up to date with the data, durably, and empties the journal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_checkpoint(filter: *const Filter) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { Ok(handle::borrow(filter)?.checkpoint()?) })
}

/// Says whether the library's own thread writes checkpoints of this filter and prepares its next segment,
/// as it does unless told otherwise; without it, call bloomfile_filter_checkpoint now and then, or some
/// syncs take as long as a checkpoint does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_set_background(filter: *const Filter, on: bool) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        handle::borrow(filter)?.set_background(on);
        Ok(())
    })
}

/// Drops the oldest generation of a rotating filter, if there are as many as it was made with, and starts
/// a new one; durable when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_rotate(filter: *const Filter) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { Ok(handle::borrow(filter)?.rotate()?) })
}

/// Takes in every key of a file that was made alike, durably.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_union(
    filter: *const Filter,
    other: *const Reader,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        handle::borrow(filter)?.union_from(handle::borrow(other)?)?;
        Ok(())
    })
}

/// Sets a pair of the file's metadata, or removes it where `value` is NULL; durable with the next
/// checkpoint or close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_set_metadata(
    filter: *const Filter,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let filter = handle::borrow(filter)?;
        let name = input::text(name, "name")?;
        let value = if value.is_null() { None } else { Some(input::text(value, "value")?) };
        Ok(filter.set_metadata(name, value)?)
    })
}

/// Tells as JSON what this handle did: syncs, checkpoints, how full the journal is.
/// bloomfile_string_free frees the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_filter_stats(
    filter: *const Filter,
    out: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        *out = json(&handle::borrow(filter)?.stats())?;
        Ok(())
    })
}

//! Files that are filled in bulk.

use std::ffi::{c_char, c_int, c_void};

use crate::error::{Result, guard, guard_done};
use crate::handle::{self, Handle};
use crate::input::{self, Buffer, Keys, Pointers};
use crate::options::Options;

/// A file that is being filled in bulk, and has no name yet.
pub struct Builder {
    _private: (),
}

impl Handle for Builder {
    type Inner = bloomfile::Builder;
    const TAG: u64 = 0x626c_6f6f_6d2e_6275;
    const NAME: &'static str = "builder";
}

/// Starts a file that has its name once it is finished. bloomfile_builder_finish or
/// bloomfile_builder_abandon ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_start(
    options: *const Options,
    path: *const c_char,
    out: *mut *mut Builder,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        *out = handle::make(handle::borrow(options)?.start_build(input::path(path)?)?);
        Ok(())
    })
}

/// Adds a key: 1 when that changed the filter, and 0 otherwise. Of a sealed one that is not known before it
/// is finished: 1 for every key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_add(
    builder: *mut Builder,
    key: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(handle::borrow_mut(builder)?.add(input::bytes(key, length)?).into()) })
}

/// Adds the key of a hash that bloomfile_builder_hash gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_add_hash(builder: *mut Builder, hash: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(handle::borrow_mut(builder)?.add_hash(hash).into()) })
}

/// # Safety
/// As [`handle::borrow_mut`] and [`input::place`].
unsafe fn add<'k, K: Keys<'k> + Sync>(
    builder: *mut Builder,
    keys: impl FnOnce() -> Result<K>,
    added: *mut u64,
) -> c_int {
    guard_done(|| {
        // SAFETY: as the caller has it.
        let builder = unsafe { handle::borrow_mut(builder)? };
        let keys = keys()?;
        keys.check()?;
        let new = builder.add_batch_by(keys.count(), move |at| keys.get(at).unwrap_or_default());
        // SAFETY: as the caller has it.
        unsafe { input::tell(added, new) };
        Ok(())
    })
}

/// Adds many keys, each at a place of its own, on all cores; the more at once the better. `added`, unless it
/// is NULL, gets how many changed the filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_add_batch(
    builder: *mut Builder,
    keys: *const *const c_void,
    lengths: *const usize,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { add(builder, || Pointers::new(keys, lengths, count), added) }
}

/// As bloomfile_builder_add_batch, for keys in one buffer, as in bloomfile_filter_add_offsets32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_add_offsets32(
    builder: *mut Builder,
    data: *const c_void,
    data_length: usize,
    offsets: *const i32,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { add(builder, || Buffer::new(data, data_length, offsets, count), added) }
}

/// As bloomfile_builder_add_offsets32, with offsets of 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_add_offsets64(
    builder: *mut Builder,
    data: *const c_void,
    data_length: usize,
    offsets: *const i64,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { add(builder, || Buffer::new(data, data_length, offsets, count), added) }
}

/// As bloomfile_builder_add_batch, for hashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_add_hash_batch(
    builder: *mut Builder,
    hashes: *const u64,
    count: usize,
    added: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let builder = handle::borrow_mut(builder)?;
        let new = builder.add_hash_batch(input::array(hashes, count, "hashes")?);
        input::tell(added, new);
        Ok(())
    })
}

/// Tells the hash of a key, for the functions that take one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_hash(
    builder: *const Builder,
    key: *const c_void,
    length: usize,
    hash: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let hasher = handle::borrow(builder)?.hasher();
        *input::place(hash, "hash")? = hasher.hash(input::bytes(key, length)?);
        Ok(())
    })
}

/// Makes the file durable and gives it its name. `keys`, unless it is NULL, gets the adds that changed the
/// filter; of a sealed one, its distinct keys. The handle is gone whatever comes back; after an error there
/// is no file that was not there before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_finish(builder: *mut Builder, keys: *mut u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let built = handle::take(builder)?.finish()?;
        input::tell(keys, built.keys);
        Ok(())
    })
}

/// Ends a build without a file. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_builder_abandon(builder: *mut Builder) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { handle::free(builder) })
}

//! What a new filter shall be.

use std::ffi::{c_char, c_int};

use bloomfile::{CellKind, WhenFull, geometry::Layout};

use crate::error::{Failure, Result, guard_done};
use crate::handle::{self, Handle};
use crate::input;
use crate::key::Key;

/// One cache line for each look-up; the default down to a rate of 0.1 %.
pub const BLOOMFILE_LAYOUT_LINE: c_int = 1;
/// One page for each look-up; the default below a rate of 0.1 %.
pub const BLOOMFILE_LAYOUT_PAGE: c_int = 2;
/// As many rows as a key has cells, each over all of the filter.
pub const BLOOMFILE_LAYOUT_ROWS: c_int = 3;
/// The textbook's filter: one row for all cells of a key.
pub const BLOOMFILE_LAYOUT_FLAT: c_int = 4;

/// Cells are bits; the default.
pub const BLOOMFILE_KIND_PLAIN: c_int = 0;
/// Cells are counters, so that keys can be removed; four times the space.
pub const BLOOMFILE_KIND_COUNTING: c_int = 1;
/// Built at once and never added to; about 70 % of the space.
pub const BLOOMFILE_KIND_SEALED: c_int = 2;

/// At capacity adds go on and the rate rises; the default.
pub const BLOOMFILE_WHEN_FULL_ALLOW: c_int = 0;
/// At capacity a new key is BLOOMFILE_ERROR_FULL.
pub const BLOOMFILE_WHEN_FULL_REFUSE: c_int = 1;
/// At capacity a larger segment is appended, so that the rate stays below the one asked for.
pub const BLOOMFILE_WHEN_FULL_GROW: c_int = 2;

/// What a new filter shall be.
pub struct Options {
    _private: (),
}

impl Handle for Options {
    type Inner = bloomfile::Options;
    const TAG: u64 = 0x626c_6f6f_6d2e_6f70;
    const NAME: &'static str = "options";
}

/// Changes options.
///
/// # Safety
/// As [`handle::borrow_mut`].
unsafe fn change(
    options: *mut Options,
    change: impl FnOnce(bloomfile::Options) -> Result<bloomfile::Options>,
) -> c_int {
    guard_done(|| {
        // SAFETY: as the caller has it.
        let options = unsafe { handle::borrow_mut(options)? };
        *options = change(options.clone())?;
        Ok(())
    })
}

/// Makes options that ask for nothing yet: a filter takes a capacity and a rate, or rows; a sealed one
/// a rate. bloomfile_options_free frees them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_new(out: *mut *mut Options) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        // First, because nothing would free what there is no place for.
        let out = input::empty_place(out)?;
        *out = handle::make(bloomfile::Options::new());
        Ok(())
    })
}

/// Frees options. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_free(options: *mut Options) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe { handle::free(options) })
}

/// The number of distinct keys that the filter is for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_capacity(options: *mut Options, keys: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.capacity(keys))) }
}

/// The share of absent keys that may be taken for present once the filter is at capacity: 0.01 for 1 %.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_rate(options: *mut Options, rate: f64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.false_positive_rate(rate))) }
}

/// As bloomfile_options_set_rate, of each generation of a rotating filter by itself: a look-up asks all of
/// them, so that the whole file has up to as many times this rate. The last of both calls counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_generation_rate(
    options: *mut Options,
    rate: f64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.generation_rate(rate))) }
}

/// The layout: BLOOMFILE_LAYOUT_...
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_layout(
    options: *mut Options,
    layout: c_int,
) -> c_int {
    let set = |options: bloomfile::Options| {
        Ok(options.layout(match layout {
            BLOOMFILE_LAYOUT_LINE => Layout::Line,
            BLOOMFILE_LAYOUT_PAGE => Layout::Page,
            BLOOMFILE_LAYOUT_ROWS => Layout::Rows,
            BLOOMFILE_LAYOUT_FLAT => Layout::Flat,
            other => return Err(unknown("layout", other)),
        }))
    };
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, set) }
}

/// Exactly `rows` rows (k) of exactly `row_bits` bits each (m), instead of a capacity and a rate: for the
/// layouts rows, which is the default then, and flat.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_rows(
    options: *mut Options,
    rows: u32,
    row_bits: u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.rows(rows).row_bits(row_bits))) }
}

/// What the filter is made of: BLOOMFILE_KIND_... A sealed filter is built (bloomfile_builder_start).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_kind(options: *mut Options, kind: c_int) -> c_int {
    let set = |options: bloomfile::Options| match kind {
        BLOOMFILE_KIND_PLAIN => Ok(options.sealed(false).kind(CellKind::Plain)),
        BLOOMFILE_KIND_COUNTING => Ok(options.sealed(false).kind(CellKind::Counting)),
        BLOOMFILE_KIND_SEALED => Ok(options.sealed(true).kind(CellKind::Sealed)),
        other => Err(unknown("kind", other)),
    };
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, set) }
}

/// What happens at capacity: BLOOMFILE_WHEN_FULL_...
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_when_full(
    options: *mut Options,
    when_full: c_int,
) -> c_int {
    let set = |options: bloomfile::Options| {
        Ok(options.when_full(match when_full {
            BLOOMFILE_WHEN_FULL_ALLOW => WhenFull::Allow,
            BLOOMFILE_WHEN_FULL_REFUSE => WhenFull::Refuse,
            BLOOMFILE_WHEN_FULL_GROW => WhenFull::Grow,
            other => return Err(unknown("policy when full", other)),
        }))
    };
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, set) }
}

/// A filter that forgets: `generations` of them, from 2 to 32, each of the capacity asked for and all of
/// them together of the rate asked for, of which rotating drops the oldest. It rotates by itself after
/// `rotate_after` adds, unless that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_generations(
    options: *mut Options,
    generations: u64,
    rotate_after: u64,
) -> c_int {
    let set = |options: bloomfile::Options| {
        Ok(options.generations(generations).rotate_after(rotate_after))
    };
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, set) }
}

/// The seed of the hash; 0 by default. Only files with the same seed can be merged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_seed(options: *mut Options, seed: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.seed(seed))) }
}

/// A secret that the file is made with; it is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_key(
    options: *mut Options,
    key: *const Key,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.key(handle::borrow(key)?))) }
}

/// Bytes for the journal; 0 makes every sync a checkpoint. By default an eighth of the data, from 8 KiB
/// to 64 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_journal_bytes(
    options: *mut Options,
    bytes: u64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.journal_bytes(bytes))) }
}

/// Bytes of memory that the build of a sealed filter takes, at least 32 MiB; 1 GiB by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_memory(options: *mut Options, bytes: u64) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.memory(bytes))) }
}

/// A pair to keep in the file, both in UTF-8; they are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_metadata(
    options: *mut Options,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe {
        change(options, |options| {
            Ok(options.metadata(input::text(name, "name")?, input::text(value, "value")?))
        })
    }
}

/// Whether an existing file of that name is replaced; by default, and with 0, it is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_options_set_replace(
    options: *mut Options,
    replace: c_int,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    unsafe { change(options, |options| Ok(options.replace(replace != 0))) }
}

fn unknown(what: &str, value: c_int) -> Box<Failure> {
    Failure::argument(format!("{value} stands for no {what}"))
}

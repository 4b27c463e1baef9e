//! Whole files: merging, rotating, and what is told of them.

use std::ffi::{c_char, c_int};
use std::path::Path;

use bloomfile::ops::SetOperation;
use bloomfile::plan::Precheck;
use bloomfile::report::{self, Inspection, Verification};
use bloomfile::{CellKind, geometry::Layout};
use serde::Serialize;

use crate::error::{Failure, Result, guard, guard_done};
use crate::handle;
use crate::input;
use crate::options::Options;

/// Makes a new file that holds what any of the others holds. They were made alike: with the same seed or
/// secret, and of sizes that are whole multiples of the smallest. An existing file of that name is replaced
/// if `replace` is not 0, and an error otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_merge(
    inputs: *const *const c_char,
    count: usize,
    output: *const c_char,
    replace: c_int,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let (inputs, output) = (paths(inputs, count)?, input::path(output)?);
        SetOperation::new().replace(replace != 0).union(&inputs, output)?;
        Ok(())
    })
}

/// Makes a new file that holds what all of the others hold, and some keys beside it. As bloomfile_merge in
/// all else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_intersect(
    inputs: *const *const c_char,
    count: usize,
    output: *const c_char,
    replace: c_int,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let (inputs, output) = (paths(inputs, count)?, input::path(output)?);
        SetOperation::new().replace(replace != 0).intersection(&inputs, output)?;
        Ok(())
    })
}

/// Makes a new file that holds what another holds, bit for bit, with a journal of `journal_bytes`; 0 for a
/// file that is shipped and read. Both may be the same path if `replace` is not 0. As bloomfile_merge in all
/// else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_compact(
    input: *const c_char,
    output: *const c_char,
    journal_bytes: u64,
    replace: c_int,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let (input, output) = (input::path(input)?, input::path(output)?);
        let operation = SetOperation::new().replace(replace != 0).journal_bytes(journal_bytes);
        operation.union(&[input], output)?;
        Ok(())
    })
}

/// # Safety
/// As [`input::array`] and [`input::path`].
unsafe fn paths<'a>(inputs: *const *const c_char, count: usize) -> Result<Vec<&'a Path>> {
    if count == 0 {
        return Err(Failure::argument("inputs: there is none"));
    }
    // SAFETY: as the caller has it.
    unsafe {
        input::array(inputs, count, "inputs")?.iter().map(|&path| input::path(path)).collect()
    }
}

/// Rotates a file that no one writes, as bloomfile_filter_rotate does. A keyed file takes no secret for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_rotate(path: *const c_char) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        bloomfile::ops::rotate(input::path(path)?)?;
        Ok(())
    })
}

/// Recovers a file whose writer crashed, as opening it for writing does: 1, or 0 if there was nothing to
/// recover. A keyed file takes no secret for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_recover(path: *const c_char) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe { Ok(bloomfile::ops::recover(input::path(path)?)?.is_some().into()) })
}

/// What a file is and how full, as `bloomfile inspect --json` has it.
#[derive(Serialize)]
struct Inspected<'a> {
    schema: u32,
    file: String,
    #[serde(flatten)]
    inspection: &'a Inspection,
    rate_now: f64,
}

/// Tells as JSON what a file is and how full, from its headers and page tables alone: the fields of
/// `bloomfile inspect --json` up to `metadata`, and `rate_now` of the whole. bloomfile_string_free frees the
/// text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_inspect(path: *const c_char, out: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        let path = input::path(path)?;
        let inspection = &report::inspect(path)?;
        let (file, rate_now) = (path.display().to_string(), inspection.rate_now());
        *out = json(&Inspected { schema: 1, file, inspection, rate_now })?;
        Ok(())
    })
}

/// What checking a file gave, as `bloomfile verify --json` has it.
#[derive(Serialize)]
struct Verified<'a> {
    schema: u32,
    file: String,
    sound: bool,
    #[serde(flatten)]
    verification: &'a Verification,
}

/// Checks a whole file: 1 if every page is what was written, and 0 if not, or if recoveries kept pages
/// that they could not verify (`pages_kept_unverified`). `out`, unless it is NULL, gets
/// what was found, as JSON: the fields of `verification` of `bloomfile verify --json`.
/// bloomfile_string_free frees the text. Damaged headers are BLOOMFILE_ERROR_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_verify(path: *const c_char, out: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard(|| unsafe {
        let out = if out.is_null() { None } else { Some(input::empty_place(out)?) };
        let path = input::path(path)?;
        let verification = &report::verify(path)?;
        let (file, sound) = (path.display().to_string(), verification.is_sound());
        if let Some(out) = out {
            *out = json(&Verified { schema: 1, file, sound, verification })?;
        }
        Ok(sound.into())
    })
}

/// What a filter would take, in the words of `bloomfile plan --json`.
#[derive(Serialize)]
struct Planned {
    schema: u32,
    kind: CellKind,
    layout: Layout,
    rows: u32,
    blocks: u64,
    row_bits: u64,
    bits: u64,
    capacity: Option<u64>,
    expected_rate: Option<f64>,
    bits_per_key: Option<f64>,
    data_bytes: u64,
    file_bytes: u64,
    lines_per_lookup: u32,
    pages_per_lookup: u32,
    warning: Option<String>,
}

/// Tells as JSON what a filter of these options would take, without making it; of a growing one its first
/// segment, of a rotating one each generation, and `file_bytes` of the whole. bloomfile_string_free frees
/// the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_plan(options: *const Options, out: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let out = input::empty_place(out)?;
        let options = handle::borrow(options)?;
        let plan = options.plan()?;
        let geometry = plan.geometry();
        *out = json(&Planned {
            schema: 1,
            kind: geometry.cell_kind(),
            layout: geometry.layout(),
            rows: geometry.row_count(),
            blocks: geometry.blocks(),
            row_bits: geometry.row_cells(),
            bits: plan.cells(),
            capacity: plan.capacity(),
            expected_rate: plan.expected_rate(),
            bits_per_key: plan.bits_per_key(),
            data_bytes: plan.data_bytes(),
            file_bytes: options.file_bytes()?,
            lines_per_lookup: plan.lines_per_lookup(),
            pages_per_lookup: plan.pages_per_lookup(),
            warning: plan.warning(),
        })?;
        Ok(())
    })
}

/// Works out what a filter in front of something slow saves, as `bloomfile plan --precheck` does: seconds of
/// `lookups` look-ups, `present` of them for keys that are there, without the filter and with it asked first.
/// `rate` is its false positive rate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bloomfile_precheck(
    lookups: u64,
    present: u64,
    slow_seconds: f64,
    filter_seconds: f64,
    rate: f64,
    seconds_without: *mut f64,
    seconds_with: *mut f64,
) -> c_int {
    // SAFETY: the caller's pointers are what bloomfile(3) asks for.
    guard_done(|| unsafe {
        let without = input::place(seconds_without, "seconds_without")?;
        let with = input::place(seconds_with, "seconds_with")?;
        let precheck = Precheck { lookups, present, slow_seconds, filter_seconds, rate };
        (*without, *with) = (precheck.without(), precheck.with());
        Ok(())
    })
}

/// A value as JSON, for C.
pub(crate) fn json(value: &impl Serialize) -> Result<*mut c_char> {
    match serde_json::to_string(value) {
        Ok(json) => input::hand_out(json),
        Err(error) => Err(Failure::argument(format!("it cannot be written as JSON: {error}"))),
    }
}

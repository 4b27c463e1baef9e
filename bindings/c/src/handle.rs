//! What C holds: a pointer to a tag and what it stands for.

use crate::error::{Failure, Result};

/// What a handle leads to. Its first word says what kind it is.
#[repr(C)]
struct Tagged<T> {
    tag: u64,
    inner: T,
}

/// A kind of handle: the type that the header knows by name alone.
pub(crate) trait Handle: Sized {
    /// What it stands for.
    type Inner;
    /// The first word of such a handle, different for each kind.
    const TAG: u64;
    /// What it is called in messages.
    const NAME: &'static str;
}

/// The first word of a handle that was closed.
const CLOSED: u64 = 0;

/// A handle for C, which [`take`] ends.
pub(crate) fn make<H: Handle>(inner: H::Inner) -> *mut H {
    Box::into_raw(Box::new(Tagged { tag: H::TAG, inner })).cast()
}

/// What a handle of this kind leads to.
///
/// # Safety
/// A handle that is not NULL was made by [`make`], of any kind, and not taken since.
#[inline(always)]
unsafe fn check<H: Handle>(handle: *const H) -> Result<*mut Tagged<H::Inner>> {
    let tagged: *mut Tagged<H::Inner> = handle.cast_mut().cast();
    // SAFETY: as the caller has it; the tag is the first word of each kind.
    if !tagged.is_null() && unsafe { tagged.cast::<u64>().read() } == H::TAG {
        return Ok(tagged);
    }
    Err(refuse::<H>(tagged.is_null()))
}

#[cold]
fn refuse<H: Handle>(null: bool) -> Box<Failure> {
    let what = if null { "is NULL" } else { "is of another kind, or was closed" };
    Failure::argument(format!("the {} {what}", H::NAME))
}

/// What a handle stands for.
///
/// # Safety
/// As [`check`], and nothing takes it or borrows it to change it for as long as the result is used.
#[inline(always)]
pub(crate) unsafe fn borrow<'a, H: Handle>(handle: *const H) -> Result<&'a H::Inner> {
    // SAFETY: it is of this kind, and the caller has the rest.
    unsafe { check(handle).map(|tagged| &(*tagged).inner) }
}

/// As [`borrow`], without a message for what is no handle of this kind.
///
/// # Safety
/// As [`borrow`].
#[inline(always)]
pub(crate) unsafe fn borrow_quietly<'a, H: Handle>(handle: *const H) -> Option<&'a H::Inner> {
    let tagged: *const Tagged<H::Inner> = handle.cast();
    // SAFETY: the tag is the first word of each kind; what it stands for is borrowed as the caller has it.
    unsafe {
        let is_one = !tagged.is_null() && tagged.cast::<u64>().read() == H::TAG;
        is_one.then(|| &(*tagged).inner)
    }
}

/// As [`borrow`], for a handle that may be NULL.
///
/// # Safety
/// As [`borrow`].
pub(crate) unsafe fn borrow_optional<'a, H: Handle>(
    handle: *const H,
) -> Result<Option<&'a H::Inner>> {
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller has it.
    unsafe { borrow(handle).map(Some) }
}

/// What a handle stands for, to be changed.
///
/// # Safety
/// As [`check`], and nothing else uses it for as long as the result is used.
pub(crate) unsafe fn borrow_mut<'a, H: Handle>(handle: *mut H) -> Result<&'a mut H::Inner> {
    // SAFETY: it is of this kind, and the caller has the rest.
    unsafe { check(handle).map(|tagged| &mut (*tagged).inner) }
}

/// What a handle stood for: it is no handle any more.
///
/// # Safety
/// As [`check`], and nothing else uses it now or later.
pub(crate) unsafe fn take<H: Handle>(handle: *mut H) -> Result<H::Inner> {
    // SAFETY: as the caller has it.
    let tagged = unsafe { check(handle)? };
    // SAFETY: it is of this kind, so that `make` made it of a box.
    let mut tagged = unsafe { Box::from_raw(tagged) };
    // For those who use it all the same: as long as its memory is not used for something else, they
    // are told.
    tagged.tag = CLOSED;
    std::hint::black_box(&mut tagged.tag);
    let tagged = *tagged;
    Ok(tagged.inner)
}

/// Ends a handle; NULL is left alone.
///
/// # Safety
/// As [`take`].
pub(crate) unsafe fn free<H: Handle>(handle: *mut H) -> Result<()> {
    if !handle.is_null() {
        // SAFETY: as the caller has it.
        drop(unsafe { take(handle)? });
    }
    Ok(())
}

//! What C hands in and is handed out: bytes, texts, paths, arrays.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::NonNull;

use crate::error::{Failure, Result};

/// Most bytes of anything in memory.
const MOST: usize = isize::MAX as usize;

/// Longest key, in bytes, that is looked up in the function that C calls: longer ones are hashed in
/// more registers than are free, and to save others first would take its time for all.
const SHORT: usize = 16;

/// The bytes of a short key; `None` for others and at NULL.
///
/// # Safety
/// As [`bytes`].
#[inline(always)]
pub(crate) unsafe fn short<'a>(data: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: as the caller has it, and the length is possible.
    let bytes = || unsafe { std::slice::from_raw_parts(data.cast(), length) };
    (length <= SHORT && !data.is_null()).then(bytes)
}

/// The bytes of a key. NULL is the empty one.
///
/// # Safety
/// A pointer that is not NULL leads to `length` bytes, which stay as they are while the result is used.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8]> {
    // SAFETY: as the caller has it.
    unsafe { try_bytes(data.cast(), length) }.ok_or_else(|| refuse_bytes(data, length))
}

#[cold]
fn refuse_bytes(data: *const c_void, length: usize) -> Box<Failure> {
    Failure::argument(if data.is_null() {
        format!("{length} bytes are asked for at NULL")
    } else {
        format!("{length} bytes are more than there can be")
    })
}

/// As [`bytes`]; `None` if there can be no such bytes.
#[inline(always)]
unsafe fn try_bytes<'a>(data: *const u8, length: usize) -> Option<&'a [u8]> {
    if (data.is_null() & (length != 0)) | (length > MOST) {
        return None;
    }
    // Without a branch: it is nowhere else than at NULL, where there is no byte.
    let data = if data.is_null() { NonNull::dangling().as_ptr() } else { data.cast_mut() };
    // SAFETY: as the caller has it, and the length is possible.
    Some(unsafe { std::slice::from_raw_parts(data, length) })
}

/// An array.
///
/// # Safety
/// A pointer that is not NULL leads to `count` values, which stay as they are while the result is used.
pub(crate) unsafe fn array<'a, T>(data: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    // No way out for none: so that the compiler sees that arrays of one batch are of one length.
    if count != 0 && data.is_null() {
        return Err(Failure::argument(format!("{name}: NULL, and {count} are asked for")));
    }
    let data = if data.is_null() { NonNull::dangling().as_ptr() } else { data.cast_mut() };
    if !data.is_aligned() {
        return Err(Failure::argument(format!("{name}: the pointer is not aligned")));
    }
    if count > MOST / size_of::<T>() {
        return Err(Failure::argument(format!("{name}: {count} are more than there can be")));
    }
    // SAFETY: as the caller has it, and all else was checked.
    Ok(unsafe { std::slice::from_raw_parts(data, count) })
}

/// An array for answers, all of them "no".
///
/// # Safety
/// A pointer that is not NULL leads to room for `count` values, which nothing else uses while the
/// result is used.
pub(crate) unsafe fn answers<'a>(found: *mut bool, count: usize) -> Result<&'a mut [bool]> {
    if (found.is_null() && count != 0) || count > MOST {
        return Err(Failure::argument(format!("found: there is no room for {count} answers")));
    }
    let found = if found.is_null() { NonNull::dangling().as_ptr() } else { found };
    // SAFETY: there is room as the caller has it. What it holds need not be bools: it is set first.
    unsafe {
        found.write_bytes(0, count);
        Ok(std::slice::from_raw_parts_mut(found, count))
    }
}

/// Where to tell a number or to put a handle.
///
/// # Safety
/// A pointer that is not NULL leads to a value of its type that nothing else uses.
pub(crate) unsafe fn place<'a, T>(place: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: as the caller has it.
    let found = unsafe { place.as_mut() };
    found.ok_or_else(|| Failure::argument(format!("{name}: NULL, where the result is to be told")))
}

/// Tells a number that need not be asked for.
///
/// # Safety
/// As [`place`].
pub(crate) unsafe fn tell(place: *mut u64, number: u64) {
    // SAFETY: as the caller has it.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = number;
    }
}

/// As [`place`], for a pointer to what is made, which is NULL until that is there.
///
/// # Safety
/// As [`place`].
pub(crate) unsafe fn empty_place<'a, T>(out: *mut *mut T) -> Result<&'a mut *mut T> {
    // SAFETY: as the caller has it.
    let out = unsafe { place(out, "out")? };
    *out = std::ptr::null_mut();
    Ok(out)
}

/// A text.
///
/// # Safety
/// A pointer that is not NULL leads to a text that ends in a NUL byte and stays as it is while the
/// result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: as the caller has it.
    let found = unsafe { c_text(text, name)? };
    found.to_str().map_err(|_| Failure::argument(format!("{name}: the text is not UTF-8")))
}

/// # Safety
/// As [`text`].
unsafe fn c_text<'a>(text: *const c_char, name: &str) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Failure::argument(format!("{name}: NULL, where a text must be")));
    }
    // SAFETY: as the caller has it.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// The name of a file: any bytes on Unix, UTF-8 elsewhere.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path> {
    #[cfg(unix)]
    {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        // SAFETY: as the caller has it.
        let bytes = unsafe { c_text(path, "path")? }.to_bytes();
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    {
        // SAFETY: as the caller has it.
        unsafe { text(path, "path") }.map(Path::new)
    }
}

/// A text for C, which `bloomfile_string_free` frees.
pub(crate) fn hand_out(text: String) -> Result<*mut c_char> {
    let text = CString::new(text);
    text.map(CString::into_raw).map_err(|_| Failure::argument("the text holds a NUL byte"))
}

/// Many keys, by their number.
pub(crate) trait Keys<'k>: Copy {
    /// How many there are.
    fn count(self) -> usize;

    /// One of them; `None` if it cannot be there.
    fn get(self, at: usize) -> Option<&'k [u8]>;

    /// Refuses them all if one cannot be there: before anything is changed.
    fn check(self) -> Result<()> {
        match (0..self.count()).find(|&at| self.get(at).is_none()) {
            Some(at) => Err(impossible(at)),
            None => Ok(()),
        }
    }
}

#[cold]
fn impossible(at: usize) -> Box<Failure> {
    Failure::argument(format!(
        "key {at} of the batch cannot be there: it is at NULL, its offsets are in the wrong order or \
         outside of the data, or it is too long"
    ))
}

/// What was found while keys were looked up: the first that cannot be there.
///
/// Look-ups change nothing, so that it is soon enough to refuse a batch afterwards, and a walk over all
/// of it beforehand is saved.
#[derive(Default)]
pub(crate) struct Asked(Cell<Option<usize>>);

impl Asked {
    /// The keys as look-ups read them: the empty one in place of one that cannot be there. They are held
    /// by value, so that where they lie is not behind a pointer that is followed for each.
    #[inline(always)]
    pub(crate) fn keys<'k>(&self, keys: impl Keys<'k>) -> impl Fn(usize) -> &'k [u8] {
        move |at| keys.get(at).unwrap_or_else(|| self.note(at))
    }

    #[cold]
    fn note(&self, at: usize) -> &'static [u8] {
        self.0.set(self.0.get().or(Some(at)));
        &[]
    }

    pub(crate) fn result(&self) -> Result<()> {
        self.0.get().map_or(Ok(()), |at| Err(impossible(at)))
    }
}

/// Keys at any place.
#[derive(Clone, Copy)]
pub(crate) struct Pointers<'a> {
    keys: &'a [*const c_void],
    /// As many.
    lengths: &'a [usize],
}

// SAFETY: nothing is written through the pointers, and nothing changes what they lead to while this is
// used: `Pointers::new` asks for that.
unsafe impl Sync for Pointers<'_> {}

impl Pointers<'_> {
    /// # Safety
    /// Both pointers lead to `count` values, and each key to as many bytes as its length says; all of
    /// that stays as it is while the result is used.
    pub(crate) unsafe fn new(
        keys: *const *const c_void,
        lengths: *const usize,
        count: usize,
    ) -> Result<Self> {
        // SAFETY: as the caller has it.
        let (keys, lengths) =
            unsafe { (array(keys, count, "keys")?, array(lengths, count, "lengths")?) };
        Ok(Pointers { keys, lengths })
    }
}

impl<'k> Keys<'k> for Pointers<'k> {
    fn count(self) -> usize {
        self.keys.len()
    }

    #[inline(always)]
    fn get(self, at: usize) -> Option<&'k [u8]> {
        assert!(at < self.keys.len());
        // SAFETY: both arrays have as many values.
        let (key, length) =
            unsafe { (self.keys.get_unchecked(at).cast::<u8>(), *self.lengths.get_unchecked(at)) };
        if key.is_null() | (length > MOST) {
            return empty_at_null(key, length);
        }
        // SAFETY: as `new` asks for, and the length is possible.
        Some(unsafe { std::slice::from_raw_parts(key, length) })
    }
}

/// What is at NULL: the empty key, or none.
#[cold]
fn empty_at_null<'a>(key: *const u8, length: usize) -> Option<&'a [u8]> {
    (key.is_null() && length == 0).then_some(&[])
}

/// A position in a buffer, of 32 or 64 bits.
pub(crate) trait Offset: Copy + Sync {
    /// As a number of this machine; one that is in no buffer if it is none.
    fn position(self) -> usize;
}

impl Offset for i32 {
    #[inline(always)]
    fn position(self) -> usize {
        // A negative one becomes larger than anything in memory.
        self as isize as usize
    }
}

impl Offset for i64 {
    #[inline(always)]
    fn position(self) -> usize {
        isize::try_from(self).map_or(usize::MAX, |position| position as usize)
    }
}

/// Keys in one buffer, each from one offset to the next: Arrow's layout.
#[derive(Clone, Copy)]
pub(crate) struct Buffer<'a, O> {
    data: &'a [u8],
    /// One more than there are keys, or none.
    offsets: &'a [O],
    count: usize,
}

impl<O: Offset> Buffer<'_, O> {
    /// # Safety
    /// `data` leads to `length` bytes and `offsets`, unless `count` is 0, to one value more than that;
    /// all of it stays as it is while the result is used.
    pub(crate) unsafe fn new(
        data: *const c_void,
        length: usize,
        offsets: *const O,
        count: usize,
    ) -> Result<Self> {
        let ends = if count == 0 { 0 } else { count.saturating_add(1) };
        // SAFETY: as the caller has it.
        let (data, offsets) = unsafe { (bytes(data, length)?, array(offsets, ends, "offsets")?) };
        Ok(Buffer { data, offsets, count })
    }
}

impl<'k, O: Offset> Keys<'k> for Buffer<'k, O> {
    fn count(self) -> usize {
        self.count
    }

    #[inline(always)]
    fn get(self, at: usize) -> Option<&'k [u8]> {
        assert!(at < self.count);
        // SAFETY: there is one offset more than there are keys.
        let (start, end) =
            unsafe { (self.offsets.get_unchecked(at), self.offsets.get_unchecked(at + 1)) };
        self.data.get(start.position()..end.position())
    }
}

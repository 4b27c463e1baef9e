//! Arrow arrays in and out, by the C data interface and Python's capsules for it: no library of
//! Arrow is needed, and nothing is copied.

mod column;
mod ffi;
mod output;

use std::ffi::{CStr, c_int};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

pub(crate) use column::{Column, ColumnType};
use ffi::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub(crate) use output::ArrowColumn;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The chunks of one column, from whatever object has one.
pub(crate) struct Chunks {
    kind: ColumnType,
    source: Source,
}

enum Source {
    Array(Option<ArrowArray>),
    Stream(Box<ArrowArrayStream>),
}

/// The column of an object that speaks the capsule interface; none of any other.
pub(crate) fn chunks(keys: &Bound<'_, PyAny>) -> PyResult<Option<Chunks>> {
    if let Some(method) = keys.getattr_opt("__arrow_c_stream__")? {
        let capsule = method.call0()?;
        let mut stream: Box<ArrowArrayStream> = Box::new(unwrap(&capsule, STREAM)?);
        let mut schema = ArrowSchema::empty();
        let get = stream.get_schema.ok_or_else(released)?;
        // SAFETY: the stream is the producer's own and not released; the schema is ours to fill.
        let status = unsafe { get(&mut *stream, &mut schema) };
        check(&mut stream, status)?;
        let kind = ColumnType::of_schema(&schema)?;
        return Ok(Some(Chunks { kind, source: Source::Stream(stream) }));
    }
    if let Some(method) = keys.getattr_opt("__arrow_c_array__")? {
        let pair = method.call0()?;
        let pair = pair.cast::<PyTuple>()?;
        let schema: ArrowSchema = unwrap(&pair.get_item(0)?, SCHEMA)?;
        let array: ArrowArray = unwrap(&pair.get_item(1)?, ARRAY)?;
        let kind = ColumnType::of_schema(&schema)?;
        return Ok(Some(Chunks { kind, source: Source::Array(Some(array)) }));
    }
    Ok(None)
}

impl Chunks {
    /// The next chunk, if there is one.
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<Column>> {
        let array = match &mut self.source {
            Source::Array(array) => array.take(),
            Source::Stream(stream) => {
                let get = stream.get_next.ok_or_else(released)?;
                let mut array = ArrowArray::empty();
                // Without the GIL: a producer may wait for threads of its own that need it.
                let status = py.detach(|| {
                    // SAFETY: the stream is not released; the array is ours to fill.
                    unsafe { get(&mut **stream, &mut array) }
                });
                check(stream, status)?;
                array.release.is_some().then_some(array)
            }
        };
        array.map(|array| self.kind.column(array)).transpose()
    }
}

/// Structures that capsules hold.
trait Held: Sized {
    /// # Safety
    /// As that of the structure.
    unsafe fn take_from(pointer: *mut Self) -> Self;
    fn is_released(&self) -> bool;
}

macro_rules! held {
    ($($name:ident),*) => {$(
        impl Held for $name {
            unsafe fn take_from(pointer: *mut Self) -> Self {
                // SAFETY: the caller's.
                unsafe { Self::take(pointer) }
            }
            fn is_released(&self) -> bool {
                self.release.is_none()
            }
        }
    )*};
}
held!(ArrowSchema, ArrowArray, ArrowArrayStream);

/// Takes the structure out of a capsule.
fn unwrap<T: Held>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(name))?;
    // SAFETY: a capsule of this name holds this structure, as the capsule interface has it, and no
    // other thread has it while this one is attached to the interpreter.
    let taken = unsafe { T::take_from(pointer.cast().as_ptr()) };
    if taken.is_released() { Err(released()) } else { Ok(taken) }
}

fn released() -> PyErr {
    PyValueError::new_err("the Arrow structure was released by its producer")
}

fn check(stream: &mut ArrowArrayStream, status: c_int) -> PyResult<()> {
    if status == 0 {
        return Ok(());
    }
    let message = stream.get_last_error.map(|get| {
        // SAFETY: the stream is not released, and has just given an error.
        let text = unsafe { get(stream) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: a text that ends in a zero and is there until the next call.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    });
    let message = message.filter(|text| !text.is_empty());
    let message = message.unwrap_or_else(|| format!("error {status}"));
    Err(PyValueError::new_err(format!("the producer of the Arrow stream failed: {message}")))
}

/// An error about a column of a type that no keys have.
fn unsupported(format: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "keys cannot be of the Arrow type with the format {format:?}: give text, binary or whole \
         numbers (with an encoding), one column of them"
    ))
}

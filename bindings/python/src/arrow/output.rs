//! Columns that are handed out.

use std::ffi::c_void;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::ffi::{ArrowArray, ArrowSchema};
use super::{ARRAY, SCHEMA};

/// An Arrow column of answers or hashes; `pyarrow.array`, `polars.Series` and every other consumer of
/// the Arrow capsule interface takes it without a copy.
#[pyclass(module = "bloomfile", frozen)]
pub(crate) struct ArrowColumn {
    contents: Arc<Contents>,
}

struct Contents {
    words: Words,
    length: usize,
    /// A bit for each value that is there; none if all are.
    validity: Option<Vec<u8>>,
    nulls: usize,
}

enum Words {
    Bits(Vec<u8>),
    Numbers(Vec<u64>),
}

fn pack(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
    bits.chunks(8).map(byte).collect()
}

impl ArrowColumn {
    /// Answers; where `valid` is false there is none.
    pub(crate) fn of_answers(answers: &[bool], valid: Option<&[bool]>) -> Self {
        let nulls = valid.map_or(0, |valid| valid.iter().filter(|valid| !**valid).count());
        let (words, validity) = (Words::Bits(pack(answers)), valid.map(pack));
        let contents = Contents { words, length: answers.len(), validity, nulls };
        ArrowColumn { contents: Arc::new(contents) }
    }

    /// Hashes; where `valid` is false there is none.
    pub(crate) fn of_hashes(hashes: Vec<u64>, valid: Option<&[bool]>) -> Self {
        let nulls = valid.map_or(0, |valid| valid.iter().filter(|valid| !**valid).count());
        let length = hashes.len();
        let (words, validity) = (Words::Numbers(hashes), valid.map(pack));
        ArrowColumn { contents: Arc::new(Contents { words, length, validity, nulls }) }
    }
}

/// What an exported array owns.
struct Exported {
    buffers: [*const c_void; 2],
    _contents: Arc<Contents>,
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the consumer calls this once, on what was made below.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Exported>()));
        (*array).release = None;
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the consumer calls this once; the schema owns nothing, its texts are constants.
    unsafe { (*schema).release = None };
}

#[pymethods]
impl ArrowColumn {
    /// The number of values.
    fn __len__(&self) -> usize {
        self.contents.length
    }

    fn __repr__(&self) -> String {
        let what = match self.contents.words {
            Words::Bits(_) => "answers",
            Words::Numbers(_) => "hashes",
        };
        format!("<bloomfile.ArrowColumn of {} {what}>", self.contents.length)
    }

    /// The values in a list, `None` for a null.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let contents = &self.contents;
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (at % 8) & 1 == 1;
        let value = |at| {
            if contents.validity.as_ref().is_some_and(|valid| !bit(valid, at)) {
                return Ok(py.None().into_bound(py));
            }
            Ok(match &contents.words {
                Words::Bits(bits) => bit(bits, at).into_pyobject(py)?.to_owned().into_any(),
                Words::Numbers(words) => words[at].into_pyobject(py)?.into_any(),
            })
        };
        (0..contents.length).map(value).collect()
    }

    /// The capsules of the Arrow interface. A schema that is asked for is not heeded, as the interface
    /// allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let contents = &self.contents;
        let (format, words) = match &contents.words {
            Words::Bits(bits) => (c"b", bits.as_ptr().cast()),
            Words::Numbers(words) => (c"L", words.as_ptr().cast()),
        };
        let mut schema = ArrowSchema::empty();
        (schema.format, schema.name) = (format.as_ptr(), c"".as_ptr());
        // Nullable.
        schema.flags = 2;
        schema.release = Some(release_schema);
        let validity = contents.validity.as_ref().map_or(std::ptr::null(), |bits| bits.as_ptr());
        let mut exported = Box::new(Exported {
            buffers: [validity.cast(), words],
            _contents: Arc::clone(contents),
        });
        let mut array = ArrowArray::empty();
        array.length = contents.length as i64;
        array.null_count = contents.nulls as i64;
        array.n_buffers = 2;
        array.buffers = exported.buffers.as_mut_ptr();
        array.private_data = Box::into_raw(exported).cast();
        array.release = Some(release_array);
        Ok((
            PyCapsule::new_with_value(py, schema, SCHEMA)?,
            PyCapsule::new_with_value(py, array, ARRAY)?,
        ))
    }
}

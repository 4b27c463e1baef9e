//! Python objects → hashes.
//!
//! Text and bytes are hashed while the GIL is held, because only then is nothing moved or changed
//! under it; what follows from the hashes needs no object any more. Arrow buffers are never changed,
//! and are read without the GIL.

use std::collections::BTreeMap;

pub(crate) use bloomfile::hash::Encoding;
use bloomfile::hash::Hasher;
use pyo3::buffer::{Element, PyUntypedBuffer};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyInt, PyList, PyMemoryView, PyString, PyTuple};

use crate::arrow::{self, Chunks};
use crate::errors::raise;

/// Keys that are hashed before they are used: enough for what is done with them to be worth the
/// release of the GIL.
const BATCH: usize = 1 << 16;

/// How a file's keys are made of Python's objects.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) hasher: Hasher,
    pub(crate) encoding: Option<Encoding>,
    /// What the file records of how texts became keys, where text as it stands is not a key of it.
    form: Option<String>,
}

/// The words of `keys.form` that change the bytes of a text.
const CHANGING: [&str; 3] = ["trim", "lower", "hex"];

impl Rules {
    pub(crate) fn new(hasher: Hasher, encoding: Option<Encoding>) -> Self {
        Rules { hasher, encoding, form: None }
    }

    /// The rules that a file records.
    pub(crate) fn recorded(hasher: Hasher, metadata: &BTreeMap<String, String>) -> PyResult<Self> {
        let encoding = Encoding::recorded(metadata).map_err(raise)?;
        let form = metadata.get("keys.form");
        let form =
            form.filter(|words| words.split_whitespace().any(|word| CHANGING.contains(&word)));
        Ok(Rules { hasher, encoding, form: form.cloned() })
    }

    /// Refuses text where it is not what the file's keys are.
    pub(crate) fn check_text(&self) -> PyResult<()> {
        if let Some(encoding) = self.encoding.filter(|&encoding| encoding != Encoding::Decimal) {
            return Err(PyTypeError::new_err(format!(
                "the keys of this file are whole numbers ({}): give int, or the encoded bytes",
                encoding.name()
            )));
        }
        if let Some(form) = &self.form {
            return Err(PyTypeError::new_err(format!(
                "the texts that this file was made of were changed before they became keys \
                 (keys.form = {form}): do the same, and give the result as bytes"
            )));
        }
        Ok(())
    }

    /// The hash of one key.
    #[inline]
    pub(crate) fn hash(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        if let Ok(text) = key.cast::<PyString>() {
            if self.encoding.is_some() || self.form.is_some() {
                self.check_text()?;
            }
            return Ok(self.hasher.hash(text.to_str()?));
        }
        if let Ok(bytes) = key.cast::<PyBytes>() {
            return Ok(self.hasher.hash(bytes.as_bytes()));
        }
        self.hash_other(key)
    }

    #[cold]
    #[inline(never)]
    fn hash_other(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        if key.is_instance_of::<PyBool>() || key.is_none() {
            return Err(no_key(key));
        }
        if key.is_instance_of::<PyInt>() || key.hasattr("__index__")? {
            return self.hash_number(key);
        }
        let Ok(buffer) = PyUntypedBuffer::get(key) else { return Err(no_key(key)) };
        let (Ok(bytes), 1) = (buffer.as_typed::<u8>(), buffer.dimensions()) else {
            return Err(no_key(key));
        };
        Ok(self.hasher.hash(bytes.to_vec(key.py())?))
    }

    fn hash_number(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let Some(encoding) = self.encoding else {
            return Err(needs_encoding(&type_name(key)));
        };
        let number = key.call_method0("__index__")?;
        if let Ok(number) = number.extract::<i64>() {
            return Ok(self.hash_integer(encoding, number.into()));
        }
        if let Ok(number) = number.extract::<u64>() {
            return Ok(self.hash_integer(encoding, number.into()));
        }
        if encoding == Encoding::Decimal {
            return Ok(self.hasher.hash(number.str()?.to_str()?));
        }
        let name = encoding.name();
        Err(PyOverflowError::new_err(format!("{number} is beyond the 64 bits of {name}")))
    }

    /// The hash of a number that 64 bits hold, signed or not.
    fn hash_integer(&self, encoding: Encoding, number: i128) -> u64 {
        encoding.hash(&self.hasher, number).expect("it came from 64 bits")
    }
}

fn type_name(key: &Bound<'_, PyAny>) -> String {
    key.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string())
}

/// The error for numbers where no encoding is named.
pub(crate) fn needs_encoding(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{what} cannot be a key by itself, because a number has no bytes of its own: make the file \
         with encoding=\"le64\", \"be64\" or \"decimal\", or give bytes, such as \
         (17).to_bytes(8, \"little\")"
    ))
}

fn no_key(key: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "a key is bytes, something like bytes, or str (its UTF-8), and not {}: encode it, for example \
         by str(key).encode() or json.dumps(key, sort_keys=True). hash() differs between processes and \
         will not do",
        type_name(key)
    ))
}

fn single_key(keys: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "this takes many keys, and {} is one: put it in a list",
        type_name(keys)
    ))
}

/// Where keys came from, and so what the answers are given in.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Origin {
    /// A list, or anything else that can be iterated over.
    Objects,
    /// A NumPy array.
    Numpy,
    /// Arrow.
    Arrow,
}

/// Hashes that came together.
pub(crate) struct Batch<'a> {
    pub(crate) hashes: &'a [u64],
    /// False where there is a null in place of a key.
    pub(crate) valid: Option<&'a [bool]>,
}

impl Batch<'_> {
    /// Refuses nulls, where a key must be.
    pub(crate) fn refuse_nulls(&self) -> PyResult<()> {
        match self.valid {
            None => Ok(()),
            Some(_) => Err(PyValueError::new_err("a null is no key: drop the nulls first")),
        }
    }
}

type Sink<'a> = &'a mut dyn FnMut(Python<'_>, Batch<'_>) -> PyResult<()>;

/// Hashes all keys, and hands them over in batches, in order.
pub(crate) fn each_batch(
    keys: &Bound<'_, PyAny>,
    rules: &Rules,
    sink: Sink<'_>,
) -> PyResult<Origin> {
    let py = keys.py();
    if let Ok(list) = keys.cast::<PyList>() {
        objects(py, list.iter().map(Ok), rules, sink)?;
        return Ok(Origin::Objects);
    }
    if let Ok(tuple) = keys.cast::<PyTuple>() {
        objects(py, tuple.iter().map(Ok), rules, sink)?;
        return Ok(Origin::Objects);
    }
    if keys.is_instance_of::<PyString>()
        || keys.is_instance_of::<PyBytes>()
        || keys.is_instance_of::<PyByteArray>()
    {
        return Err(single_key(keys));
    }
    if let Some(chunks) = arrow::chunks(keys)? {
        columns(py, chunks, rules, sink)?;
        return Ok(Origin::Arrow);
    }
    if let Ok(buffer) = PyUntypedBuffer::get(keys) {
        if keys.is_instance_of::<PyMemoryView>() && buffer.item_size() == 1 {
            return Err(single_key(keys));
        }
        return array(keys, &buffer, rules, sink);
    }
    if keys.is_instance(&py.import("io")?.getattr("IOBase")?)? {
        let lines = keys.try_iter()?.map(|line| without_end(&line?));
        objects(py, lines, rules, sink)?;
        return Ok(Origin::Objects);
    }
    objects(py, keys.try_iter()?, rules, sink)?;
    Ok(Origin::Objects)
}

/// A line of a file without its end.
fn without_end<'py>(line: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = line.py();
    if let Ok(text) = line.cast::<PyString>() {
        let text = text.to_str()?;
        return Ok(PyString::new(py, text.strip_suffix('\n').unwrap_or(text)).into_any());
    }
    let bytes = line.cast::<PyBytes>()?.as_bytes();
    Ok(PyBytes::new(py, bytes.strip_suffix(b"\n").unwrap_or(bytes)).into_any())
}

fn objects<'py>(
    py: Python<'py>,
    keys: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    rules: &Rules,
    sink: Sink<'_>,
) -> PyResult<()> {
    let mut hashes = Vec::with_capacity(BATCH.min(keys.size_hint().0));
    for key in keys {
        hashes.push(rules.hash(&key?)?);
        if hashes.len() == BATCH {
            sink(py, Batch { hashes: &hashes, valid: None })?;
            hashes.clear();
        }
    }
    if hashes.is_empty() {
        return Ok(());
    }
    sink(py, Batch { hashes: &hashes, valid: None })
}

fn columns(py: Python<'_>, mut chunks: Chunks, rules: &Rules, sink: Sink<'_>) -> PyResult<()> {
    let mut hashes = Vec::new();
    while let Some(column) = chunks.next(py)? {
        column.check(rules)?;
        let step = column.batch(BATCH);
        for start in (0..column.len()).step_by(step) {
            let range = start..column.len().min(start + step);
            hashes.clear();
            let valid = py.detach(|| {
                column.hash(rules, range.clone(), &mut hashes);
                column.valid(range)
            });
            sink(py, Batch { hashes: &hashes, valid: valid.as_deref() })?;
        }
    }
    Ok(())
}

/// An array of NumPy's, or of Python's module `array`.
fn array(
    keys: &Bound<'_, PyAny>,
    buffer: &PyUntypedBuffer,
    rules: &Rules,
    sink: Sink<'_>,
) -> PyResult<Origin> {
    let py = keys.py();
    if buffer.dimensions() != 1 {
        let message = format!("keys are an array of one dimension, not of {}", buffer.dimensions());
        return Err(PyTypeError::new_err(message));
    }
    let hashed = is_native(buffer)
        && (numbers::<i64>(py, buffer, rules, sink)?
            || numbers::<u64>(py, buffer, rules, sink)?
            || numbers::<i32>(py, buffer, rules, sink)?
            || numbers::<u32>(py, buffer, rules, sink)?
            || numbers::<i16>(py, buffer, rules, sink)?
            || numbers::<u16>(py, buffer, rules, sink)?
            || numbers::<i8>(py, buffer, rules, sink)?
            || numbers::<u8>(py, buffer, rules, sink)?);
    if !hashed {
        // Texts, bytes and objects, a batch at a time.
        let count = keys.len()?;
        for start in (0..count).step_by(BATCH) {
            let slice =
                pyo3::types::PySlice::new(py, start as isize, count.min(start + BATCH) as isize, 1);
            let list = keys.get_item(slice)?.call_method0("tolist")?;
            objects(py, list.cast::<PyList>()?.iter().map(Ok), rules, sink)?;
        }
    }
    let module = keys.get_type().getattr("__module__")?;
    let is_numpy = module.extract::<String>().is_ok_and(|module| module == "numpy");
    Ok(if is_numpy { Origin::Numpy } else { Origin::Objects })
}

/// Whether the numbers of a buffer have the machine's order of bytes. pyo3 takes ">" for that of a
/// little-endian machine.
fn is_native(buffer: &PyUntypedBuffer) -> bool {
    let foreign: &[u8] = if cfg!(target_endian = "little") { b">!" } else { b"<" };
    buffer.format().to_bytes().first().is_none_or(|order| !foreign.contains(order))
}

/// Hashes an array of numbers of this type, if it is one.
fn numbers<T: Element + Into<i128>>(
    py: Python<'_>,
    buffer: &PyUntypedBuffer,
    rules: &Rules,
    sink: Sink<'_>,
) -> PyResult<bool> {
    let Ok(numbers) = buffer.as_typed::<T>() else { return Ok(false) };
    let Some(encoding) = rules.encoding else { return Err(needs_encoding("an array of numbers")) };
    let hash = |number: T| rules.hash_integer(encoding, number.into());
    let mut hashes = Vec::with_capacity(BATCH);
    let mut hand_over = |numbers: &mut dyn Iterator<Item = T>| {
        hashes.clear();
        hashes.extend(numbers.map(hash));
        sink(py, Batch { hashes: &hashes, valid: None })
    };
    match numbers.as_slice_ptr() {
        Some(all) => {
            let first = all.cast::<T>();
            for start in (0..all.len()).step_by(BATCH) {
                let end = all.len().min(start + BATCH);
                // SAFETY: the buffer holds that number of them as long as it is not released, and nothing
                // changes them while this thread is attached to the interpreter.
                hand_over(&mut (start..end).map(|at| unsafe { first.add(at).read() }))?;
            }
        }
        None => {
            for numbers in numbers.to_vec(py)?.chunks(BATCH) {
                hand_over(&mut numbers.iter().copied())?;
            }
        }
    }
    Ok(true)
}

/// Hands over hashes that were computed before: an Arrow column or an array of 64 bits each.
pub(crate) fn each_hash(hashes: &Bound<'_, PyAny>, sink: Sink<'_>) -> PyResult<()> {
    let py = hashes.py();
    let refuse = || {
        PyTypeError::new_err("hashes are an Arrow column or an array of whole numbers of 64 bits")
    };
    if let Some(mut chunks) = arrow::chunks(hashes)? {
        let mut words = Vec::new();
        while let Some(column) = chunks.next(py)? {
            words.clear();
            if !column.words(0..column.len(), &mut words) {
                return Err(refuse());
            }
            let valid = column.valid(0..column.len());
            sink(py, Batch { hashes: &words, valid: valid.as_deref() })?;
        }
        return Ok(());
    }
    let buffer = PyUntypedBuffer::get(hashes).map_err(|_| refuse())?;
    if !is_native(&buffer) {
        return Err(refuse());
    }
    let words: Vec<u64> = match (buffer.as_typed::<u64>(), buffer.as_typed::<i64>()) {
        (Ok(words), _) => words.to_vec(py)?,
        (_, Ok(words)) => words.to_vec(py)?.into_iter().map(i64::cast_unsigned).collect(),
        _ => return Err(refuse()),
    };
    sink(py, Batch { hashes: &words, valid: None })
}

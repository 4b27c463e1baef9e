//! What readers and writers have in common: a handle that can be closed, and look-ups.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyList};

use crate::arrow::ArrowColumn;
use crate::errors::own;
use crate::keys::{Origin, Rules, each_batch};

/// What keys are looked up in.
pub(crate) trait Lookup: Sync + Send {
    fn find(&self, hashes: &[u64], found: &mut Vec<bool>);
}

impl Lookup for bloomfile::Reader {
    fn find(&self, hashes: &[u64], found: &mut Vec<bool>) {
        self.contains_hash_batch(hashes, found);
    }
}

impl Lookup for bloomfile::Filter {
    fn find(&self, hashes: &[u64], found: &mut Vec<bool>) {
        self.contains_hash_batch(hashes, found);
    }
}

/// An open file, until it is closed.
///
/// The lock is held for a look-up while the GIL is, and for longer only without it: a thread that
/// waits for the lock keeps no other from letting go of it.
pub(crate) struct Handle<T> {
    open: RwLock<Option<T>>,
    pub(crate) rules: Rules,
    pub(crate) path: PathBuf,
    /// The process that opened it.
    process: u32,
}

impl<T: Lookup> Handle<T> {
    pub(crate) fn new(file: T, rules: Rules, path: &Path) -> Self {
        // What was opened stays known by this name, whatever folder the program goes to.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Handle { open: RwLock::new(Some(file)), rules, path, process: std::process::id() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.read().is_none()
    }

    /// Does something with the open file.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(&T) -> PyResult<R>) -> PyResult<R> {
        match &*self.read() {
            Some(file) => work(file),
            None => Err(self.closed()),
        }
    }

    #[cold]
    fn closed(&self) -> PyErr {
        own("ClosedError", format!("{}: this handle is closed", self.path.display()))
    }

    /// Takes the file out, to close it; none if that was done before. In a forked child, another
    /// thread of the parent may hold the lock for ever: the handle is left as it is then.
    pub(crate) fn take(&self) -> Option<T> {
        if self.process != std::process::id() {
            return self.open.try_write().ok().and_then(|mut open| open.take());
        }
        self.open.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn contains(&self, key: &Bound<'_, PyAny>) -> PyResult<bool>
    where
        T: One,
    {
        let hash = self.rules.hash(key)?;
        self.with(|file| Ok(file.one(hash)))
    }

    /// The answers for many keys, in the form that the keys came in.
    pub(crate) fn contains_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let (mut all, mut found) = (Vec::new(), Vec::new());
        let mut nulls: Option<Vec<bool>> = None;
        // A file that is closed is said to be so even where there is no key.
        self.with(|_| Ok(()))?;
        let origin = each_batch(keys, &self.rules, &mut |py, batch| {
            py.detach(|| {
                self.with(|file| {
                    file.find(batch.hashes, &mut found);
                    Ok(())
                })
            })?;
            if batch.valid.is_some() || nulls.is_some() {
                let nulls = nulls.get_or_insert_with(|| vec![true; all.len()]);
                match batch.valid {
                    Some(valid) => nulls.extend_from_slice(valid),
                    None => nulls.resize(nulls.len() + found.len(), true),
                }
            }
            all.extend_from_slice(&found);
            Ok(())
        })?;
        match origin {
            Origin::Objects => Ok(PyList::new(py, all)?.into_any()),
            Origin::Numpy => {
                let bytes: Vec<u8> = all.into_iter().map(u8::from).collect();
                let arguments = PyDict::new(py);
                arguments.set_item("dtype", "bool")?;
                let bytes = PyByteArray::new(py, &bytes);
                py.import("numpy")?.call_method("frombuffer", (bytes,), Some(&arguments))
            }
            Origin::Arrow => {
                let column = ArrowColumn::of_answers(&all, nulls.as_deref());
                as_column_of(keys, Bound::new(py, column)?.into_any())
            }
        }
    }
}

/// A single look-up.
pub(crate) trait One {
    fn one(&self, hash: u64) -> bool;
}

impl One for bloomfile::Reader {
    #[inline]
    fn one(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }
}

impl One for bloomfile::Filter {
    #[inline]
    fn one(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }
}

/// A column in the words of the library that the keys came from, where that is one that has its own.
pub(crate) fn as_column_of<'py>(
    keys: &Bound<'py, PyAny>,
    column: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = keys.py();
    let module: String = keys.get_type().getattr("__module__")?.extract()?;
    match module.split('.').next() {
        Some("pyarrow") => py.import("pyarrow")?.call_method1("array", (column,)),
        Some("polars") => py.import("polars")?.call_method1("Series", (column,)),
        Some("pandas") => {
            let arguments = PyDict::new(py);
            if let Some(index) = keys.getattr_opt("index")? {
                arguments.set_item("index", index)?;
            }
            let values = column.call_method0("to_pylist")?;
            py.import("pandas")?.call_method("Series", (values,), Some(&arguments))
        }
        _ => Ok(column),
    }
}

/// A report of the library as one of the classes of `bloomfile/_reports.py`.
pub(crate) fn report<'py>(
    py: Python<'py>,
    class: &str,
    report: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(report)
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    py.import("bloomfile._reports")?.getattr(class)?.call_method1("_from_json", (json,))
}

/// An identity as it is written.
pub(crate) fn uuid_text(uuid: [u8; 16]) -> String {
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

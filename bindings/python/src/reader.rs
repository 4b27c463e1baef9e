//! `bloomfile.Reader`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bloomfile::reader::Access;
use bloomfile::{ReadOptions, Reader as Inner};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::{own, raise};
use crate::handle::{Handle, report, uuid_text};
use crate::keys::Rules;
use crate::options::secret;

/// A filter opened for reading; made by `bloomfile.open`.
///
/// Look-ups are in the mapped file, which all processes share, and see what a writer adds as soon as
/// its `add` has returned. "No" is certain, "maybe" (True) is wrong at the file's rate.
///
/// >>> bloomfile.build("words.bloom", ["sheep", "goat"]).keys
/// 2
/// >>> with bloomfile.open("words.bloom") as words:
/// ...     "sheep" in words, b"sheep" in words, "wolf" in words
/// (True, True, False)
///
/// A reader can be pickled: what is pickled is its path and the file's identity, and another file of
/// that name is an error when it is unpickled.
#[pyclass(module = "bloomfile", name = "Reader", frozen)]
pub(crate) struct Reader {
    pub(crate) handle: Handle<Inner>,
    how: How,
}

/// The arguments of [`_reopen`].
type Reopening = (PathBuf, String, bool, bool, bool);

/// How it was opened.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) verify: bool,
    pub(crate) trust: bool,
    pub(crate) memory: bool,
}

impl Reader {
    pub(crate) fn open(
        py: Python<'_>,
        path: PathBuf,
        how: How,
        key: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let access = if how.memory { Access::Memory } else { Access::Mapped };
        let mut options = ReadOptions::new().verify(how.verify).trust(how.trust).access(access);
        if let Some(key) = secret(key)? {
            options = options.key(&key);
        }
        let file = py.detach(|| options.open(&path)).map_err(raise)?;
        let rules = Rules::recorded(file.hasher(), file.metadata())?;
        Ok(Reader { handle: Handle::new(file, rules, &path), how })
    }
}

#[pymethods]
impl Reader {
    /// Whether a key may be in: False is certain.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.handle.contains(key)
    }

    /// Whether each of many keys may be in.
    ///
    /// The answers come as the keys do: for Arrow an Arrow column (of pyarrow or polars, where the
    /// keys are theirs), with nulls where the keys have them; for a NumPy array one of bool; for
    /// anything else a list.
    ///
    /// >>> _ = bloomfile.build("words.bloom", ["sheep", "goat"])
    /// >>> bloomfile.open("words.bloom").contains_many(["goat", "wolf", "sheep"])
    /// [True, False, True]
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.handle.contains_many(keys)
    }

    /// As `in`, with a DamagedError where a damaged page keeps that from being told; `in` says "maybe"
    /// then.
    ///
    /// >>> _ = bloomfile.build("words.bloom", ["sheep", "goat"])
    /// >>> bloomfile.open("words.bloom").check("wolf")
    /// False
    fn check(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = self.handle.rules.hash(key)?;
        py.detach(|| self.handle.with(|file| file.try_contains_hash(hash).map_err(raise)))
    }

    /// The number of keys as of opening: adds that changed the filter.
    fn __len__(&self) -> PyResult<usize> {
        self.handle.with(|file| Ok(usize::try_from(file.adds()).unwrap_or(usize::MAX)))
    }

    /// An open handle is true, also where the filter is empty.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        let state = if self.handle.is_closed() { "closed" } else { "open" };
        format!("<bloomfile.Reader of {}, {state}>", self.handle.path.display())
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    /// Lets go of the file; a second call does nothing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.handle.take()));
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// The file's path, absolute.
    #[getter]
    fn path(&self) -> PathBuf {
        self.handle.path.clone()
    }

    /// The file's identity.
    #[getter]
    fn uuid(&self) -> PyResult<String> {
        self.handle.with(|file| Ok(uuid_text(file.uuid())))
    }

    /// The pairs kept in the file, as of opening.
    #[getter]
    fn metadata(&self) -> PyResult<BTreeMap<String, String>> {
        self.handle.with(|file| Ok(file.metadata().clone()))
    }

    /// The number of keys the filter was made for, if that was said.
    #[getter]
    fn capacity(&self) -> PyResult<Option<u64>> {
        self.handle.with(|file| Ok(file.capacity()))
    }

    /// The mark that was last synced before opening.
    #[getter]
    fn mark(&self) -> PyResult<u64> {
        self.handle.with(|file| Ok(file.mark()))
    }

    /// "plain", "counting" or "sealed".
    #[getter]
    fn kind(&self) -> PyResult<&'static str> {
        self.handle.with(|file| Ok(file.kind().name()))
    }

    /// "clean", "live", "crashed", or "damaged" once an answer rested on a damaged page.
    #[getter]
    fn health(&self) -> PyResult<String> {
        self.handle.with(|file| Ok(format!("{:?}", file.health()).to_lowercase()))
    }

    /// About how many keys were in it at opening.
    #[getter]
    fn estimate(&self) -> PyResult<f64> {
        self.handle.with(|file| Ok(file.estimate().value))
    }

    /// What share of absent keys it said "maybe" to at opening.
    #[getter]
    fn rate(&self) -> PyResult<f64> {
        self.handle.with(|file| Ok(file.rate()))
    }

    /// What became of the pages that answers rested on.
    ///
    /// >>> _ = bloomfile.build("words.bloom", ["sheep", "goat"])
    /// >>> words = bloomfile.open("words.bloom")
    /// >>> "wolf" in words
    /// False
    /// >>> words.stats().pages_checked
    /// 1
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.handle.with(|file| Ok(file.stats()))?;
        report(py, "ReaderStats", &stats)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reopening)> {
        if self.handle.rules.hasher.is_keyed() {
            let message =
                "a reader of a keyed file is not pickled: its secret would be in the pickle";
            return Err(PyTypeError::new_err(message));
        }
        let again = py.import("bloomfile._bloomfile")?.getattr("_reopen")?;
        let How { verify, trust, memory } = self.how;
        Ok((again, (self.path(), self.uuid()?, verify, trust, memory)))
    }
}

/// Opens the file of a pickled reader, if it is still the same.
#[pyfunction]
pub(crate) fn _reopen(
    py: Python<'_>,
    path: PathBuf,
    uuid: &str,
    verify: bool,
    trust: bool,
    memory: bool,
) -> PyResult<Reader> {
    let reader = Reader::open(py, path, How { verify, trust, memory }, None)?;
    let found = reader.uuid()?;
    if found != uuid {
        let path = reader.handle.path.display();
        let message = format!(
            "{path}: is another file than the one that was pickled: its identity is {found}, not {uuid}"
        );
        return Err(own("DifferentError", message));
    }
    Ok(reader)
}

//! `bloomfile.Filter`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bloomfile::Filter as Inner;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::handle::{Handle, report, uuid_text};
use crate::keys::{Rules, each_batch, each_hash};
use crate::reader::Reader;

/// A filter opened for reading and writing; made by `bloomfile.create` and `bloomfile.open(…, "r+")`.
///
/// One process at a time writes a file, with as many threads as it likes. What was added is seen by
/// readers in other processes when `add` returns, and survives a power cut when `sync` does. A child
/// that was forked cannot write through the handle of its parent: it gets a ForkedError.
///
/// >>> with bloomfile.create("seen.bloom", capacity=1000, fpr=0.01) as seen:
/// ...     seen.add("sheep"), seen.add("sheep")
/// (True, False)
/// >>> with bloomfile.open("seen.bloom", "r+") as seen:
/// ...     seen.update(["goat", "cow"]), len(seen)
/// (2, 3)
#[pyclass(module = "bloomfile", name = "Filter", frozen)]
pub(crate) struct Filter {
    pub(crate) handle: Handle<Inner>,
}

impl Filter {
    pub(crate) fn new(file: Inner, path: &std::path::Path) -> PyResult<Self> {
        let rules = Rules::recorded(file.hasher(), &file.metadata())?;
        Ok(Filter { handle: Handle::new(file, rules, path) })
    }

    /// Takes in the keys of another file.
    fn take_in(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = other.py();
        let absorb = |reader: &bloomfile::Reader| {
            self.handle.with(|file| file.union_from(reader).map(drop).map_err(raise))
        };
        if let Ok(reader) = other.cast::<Reader>() {
            let reader = reader.get();
            return py.detach(|| reader.handle.with(absorb));
        }
        let path: PathBuf = match other.cast::<Filter>() {
            Ok(filter) => {
                filter.get().handle.with(|_| Ok(()))?;
                filter.get().handle.path.clone()
            }
            Err(_) => other.extract().map_err(|_| {
                PyTypeError::new_err(
                    "only a Filter, a Reader or the path of a file can be taken in",
                )
            })?,
        };
        py.detach(|| {
            // Without the secret: the union of bits hashes nothing.
            let reader = bloomfile::ReadOptions::new().open(&path);
            absorb(&reader.map_err(raise)?)
        })
    }
}

#[pymethods]
impl Filter {
    /// Whether a key may be in: False is certain.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.handle.contains(key)
    }

    /// Whether each of many keys may be in; see `Reader.contains_many`.
    ///
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     _ = seen.add("sheep")
    /// ...     seen.contains_many(("sheep", "wolf"))
    /// [True, False]
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.handle.contains_many(keys)
    }

    /// Adds a key; True when it was new, as far as the filter can tell.
    ///
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     seen.add("sheep"), seen.add(b"sheep")
    /// (True, False)
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = self.handle.rules.hash(key)?;
        self.handle.with(|file| file.add_hash(hash).map_err(raise))
    }

    /// Adds many keys, from anything that `build` takes; how many of them were new.
    ///
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     seen.update(["sheep", "goat", "sheep"])
    /// 2
    fn update(&self, keys: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut new = 0;
        self.handle.with(|_| Ok(()))?;
        each_batch(keys, &self.handle.rules, &mut |py, batch| {
            batch.refuse_nulls()?;
            let add = |file: &Inner| file.add_hash_batch(batch.hashes).map_err(raise);
            new += py.detach(|| self.handle.with(add))?;
            Ok(())
        })?;
        Ok(new)
    }

    /// Adds keys by their hashes, as `Hasher.hash_many` gives them: an Arrow column, or an array of
    /// 64-bit numbers. How many were new.
    ///
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     hashes = bloomfile.Hasher().hash_many(["sheep", "goat"])
    /// ...     seen.update_hashes(hashes), "goat" in seen
    /// (2, True)
    fn update_hashes(&self, hashes: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut new = 0;
        each_hash(hashes, &mut |py, batch| {
            batch.refuse_nulls()?;
            let add = |file: &Inner| file.add_hash_batch(batch.hashes).map_err(raise);
            new += py.detach(|| self.handle.with(add))?;
            Ok(())
        })?;
        Ok(new)
    }

    /// Takes a key out of a counting filter. One that is certainly not in is a NotPresentError.
    ///
    /// Take out only what was added: a key that was not, and is reported as present by mistake, takes
    /// others with it.
    ///
    /// >>> with bloomfile.create("sessions.bloom", capacity=1000, kind="counting") as sessions:
    /// ...     _ = sessions.add("alice")
    /// ...     sessions.remove("alice")
    /// ...     "alice" in sessions
    /// False
    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let hash = self.handle.rules.hash(key)?;
        py.detach(|| self.handle.with(|file| file.remove_hash(hash).map_err(raise)))
    }

    /// Takes many keys out of a counting filter, each once, from anything that `update` takes; how many
    /// of them were in. A key that is not in is left alone.
    ///
    /// >>> with bloomfile.create("sessions.bloom", capacity=1000, kind="counting") as sessions:
    /// ...     _ = sessions.update(["alice", "bob"])
    /// ...     sessions.remove_many(["alice", "carol", "alice"]), "bob" in sessions
    /// (1, True)
    fn remove_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut removed = 0;
        self.handle.with(|_| Ok(()))?;
        each_batch(keys, &self.handle.rules, &mut |py, batch| {
            batch.refuse_nulls()?;
            let remove = |file: &Inner| file.remove_hash_batch(batch.hashes).map_err(raise);
            removed += py.detach(|| self.handle.with(remove))?;
            Ok(())
        })?;
        Ok(removed)
    }

    /// Makes all that was added survive a power cut, and a number of the caller's own with it.
    ///
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     _ = seen.add("line 42 of the log")
    /// ...     seen.sync(mark=42)
    /// ...     seen.mark
    /// 42
    #[pyo3(signature = (*, mark = None))]
    fn sync(&self, py: Python<'_>, mark: Option<u64>) -> PyResult<()> {
        py.detach(|| {
            self.handle.with(|file| {
                match mark {
                    Some(mark) => file.sync_with_mark(mark),
                    None => file.sync(),
                }
                .map_err(raise)
            })
        })
    }

    /// Brings the checksums up to date with the data, durably, and empties the journal.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.handle.with(|file| file.checkpoint().map_err(raise)))
    }

    /// Whether the library's own thread writes checkpoints of this filter and prepares its next segment.
    /// It does unless told otherwise; without it, call `checkpoint` now and then, or some syncs take as
    /// long as a checkpoint does.
    fn set_background(&self, on: bool) -> PyResult<()> {
        self.handle.with(|file| {
            file.set_background(on);
            Ok(())
        })
    }

    /// Drops the oldest generation of a rotating filter and starts a new one.
    ///
    /// >>> with bloomfile.create("day.bloom", capacity=1000, generations=2) as day:
    /// ...     _ = day.add("sheep")
    /// ...     day.rotate()
    /// ...     day.rotate()
    /// ...     "sheep" in day
    /// False
    fn rotate(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.handle.with(|file| file.rotate().map_err(raise)))
    }

    /// Takes in every key of another filter that was made alike: a Filter, a Reader or a path.
    ///
    /// >>> _ = bloomfile.build("more.bloom", ["goat"], capacity=1000)
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     seen |= "more.bloom"
    /// ...     "goat" in seen
    /// True
    fn __ior__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        self.take_in(other)
    }

    /// The number of keys: adds that changed the filter. Of a counting one, as of the last sync.
    fn __len__(&self) -> PyResult<usize> {
        self.handle.with(|file| Ok(usize::try_from(file.adds()).unwrap_or(usize::MAX)))
    }

    /// An open handle is true, also where the filter is empty.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        let state = if self.handle.is_closed() { "closed" } else { "open" };
        format!("<bloomfile.Filter in {}, {state}>", self.handle.path.display())
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    /// Closes the file in good order, durably; a second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match self.handle.take() {
            Some(file) => file.close().map_err(raise),
            None => Ok(()),
        })
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

    /// The pairs kept in the file.
    #[getter]
    fn metadata(&self) -> PyResult<BTreeMap<String, String>> {
        self.handle.with(|file| Ok(file.metadata()))
    }

    /// Sets a pair, or takes it out where the value is None; durable with the next checkpoint or close.
    ///
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     seen.set_metadata("keys", "URLs")
    /// ...     seen.metadata
    /// {'keys': 'URLs'}
    fn set_metadata(&self, key: &str, value: Option<&str>) -> PyResult<()> {
        self.handle.with(|file| file.set_metadata(key, value).map_err(raise))
    }

    /// The number of keys the filter was made for, if that was said.
    #[getter]
    fn capacity(&self) -> PyResult<Option<u64>> {
        self.handle.with(|file| Ok(file.capacity()))
    }

    /// The mark that was last synced.
    #[getter]
    fn mark(&self) -> PyResult<u64> {
        self.handle.with(|file| Ok(file.mark()))
    }

    /// "plain" or "counting".
    #[getter]
    fn kind(&self) -> PyResult<&'static str> {
        self.handle.with(|file| Ok(file.kind().name()))
    }

    /// About how many keys are in it now, from its bits.
    #[getter]
    fn estimate(&self) -> PyResult<f64> {
        self.handle.with(|file| Ok(file.estimate().value))
    }

    /// About what share of absent keys it says "maybe" to now.
    #[getter]
    fn rate(&self) -> PyResult<f64> {
        self.handle.with(|file| Ok(file.rate()))
    }

    /// What this handle did: syncs, checkpoints, how full the journal is.
    ///
    /// >>> with bloomfile.create("seen.bloom", capacity=1000) as seen:
    /// ...     _ = seen.add("sheep")
    /// ...     seen.sync()
    /// ...     seen.stats().syncs
    /// 1
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = py.detach(|| self.handle.with(|file| Ok(file.stats())))?;
        report(py, "FilterStats", &stats)
    }

    fn __reduce__(&self) -> PyResult<()> {
        let message =
            "a Filter is not pickled: one process writes a file; pickle a Reader, or the path";
        Err(PyTypeError::new_err(message))
    }
}

//! The functions of the package.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bloomfile::ops::SetOperation;
use bloomfile::plan::DistinctKeys;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::ArrowColumn;
use crate::errors::raise;
use crate::filter::Filter;
use crate::handle::{as_column_of, report};
use crate::keys::{Encoding, Rules, each_batch};
use crate::options::{Arguments, NewFile, secret, when_full};
use crate::reader::{How, Reader};

/// Opens a file: "r" for reading, which gives a Reader, or "r+" for writing too, which gives a Filter.
///
/// `verify` checks every page at once, where a reader otherwise checks a page when an answer first
/// rests on it; `trust` checks none. `memory` reads the file into memory in place of mapping it.
/// `secret` is that of a keyed file: 16 bytes, or the path of a key file.
///
/// >>> _ = bloomfile.build("words.bloom", ["sheep"])
/// >>> with bloomfile.open("words.bloom") as words:
/// ...     "sheep" in words
/// True
/// >>> with bloomfile.open("words.bloom", "r+") as words:
/// ...     words.add("goat")
/// True
#[pyfunction]
#[pyo3(signature = (path, mode = "r", *, secret = None, verify = false, trust = false, memory = false))]
pub(crate) fn open<'py>(
    py: Python<'py>,
    path: PathBuf,
    mode: &str,
    secret: Option<&Bound<'py, PyAny>>,
    verify: bool,
    trust: bool,
    memory: bool,
) -> PyResult<Bound<'py, PyAny>> {
    match mode {
        "r" => {
            let reader = Reader::open(py, path, How { verify, trust, memory }, secret)?;
            Ok(Bound::new(py, reader)?.into_any())
        }
        "r+" => {
            if verify || trust || memory {
                let message = "verify, trust and memory go with \"r\": a writer checks every page";
                return Err(PyValueError::new_err(message));
            }
            let key = crate::options::secret(secret)?;
            let open = || match &key {
                Some(key) => bloomfile::Filter::open_with_key(&path, key),
                None => bloomfile::Filter::open(&path),
            };
            let filter = py.detach(open).map_err(raise)?;
            Ok(Bound::new(py, Filter::new(filter, &path)?)?.into_any())
        }
        other => {
            let message = format!("mode {other:?} is neither \"r\" nor \"r+\"; see also create");
            Err(PyValueError::new_err(message))
        }
    }
}

/// Creates an empty filter for `capacity` keys and opens it for writing.
///
/// `kind` is "plain" or "counting", which takes keys out again. `when_full` says what an add does to a
/// full filter: "allow" it, "refuse" it with a FullError, or "grow". A filter with `generations` forgets
/// the oldest at each `rotate`, or after `rotate_after` adds; `fpr` is the rate of all of them together,
/// and `generation_fpr`, in its place, that of each. `encoding` is how whole numbers become
/// keys: "le64", "be64" or "decimal"; it is recorded in the file. `rows` and `row_bits` give the size
/// exactly, in place of `capacity` and `fpr` (the rate, 0.01 where nothing is said).
///
/// >>> with bloomfile.create("ids.bloom", capacity=1000, fpr=0.001, encoding="le64") as ids:
/// ...     ids.add(17), 17 in ids, 18 in ids
/// (True, True, False)
#[pyfunction]
#[pyo3(signature = (
    path, *, capacity = None, fpr = None, kind = "plain", layout = None, rows = None, row_bits = None,
    when_full = "allow", generations = 0, rotate_after = 0, generation_fpr = None, seed = 0,
    secret = None, encoding = None, metadata = None, journal = None, replace = false
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments")]
pub(crate) fn create(
    py: Python<'_>,
    path: PathBuf,
    capacity: Option<u64>,
    fpr: Option<f64>,
    kind: &str,
    layout: Option<&str>,
    rows: Option<u32>,
    row_bits: Option<u64>,
    when_full: &str,
    generations: u64,
    rotate_after: u64,
    generation_fpr: Option<f64>,
    seed: u64,
    secret: Option<&Bound<'_, PyAny>>,
    encoding: Option<&str>,
    metadata: Option<BTreeMap<String, String>>,
    journal: Option<u64>,
    replace: bool,
) -> PyResult<Filter> {
    let arguments = Arguments {
        capacity,
        fpr,
        kind,
        layout,
        rows,
        row_bits,
        seed,
        secret,
        encoding,
        metadata,
        journal,
        replace,
    };
    let mut options = self::when_full(arguments.new_file()?.options, when_full)?;
    options = options.generations(generations).rotate_after(rotate_after);
    if let Some(rate) = generation_fpr {
        if fpr.is_some() {
            let message = "fpr is the rate of all generations together, and generation_fpr that of \
                           each: give one of them";
            return Err(PyValueError::new_err(message));
        }
        options = options.generation_rate(rate);
    }
    let filter = py.detach(|| options.create(&path)).map_err(raise)?;
    Filter::new(filter, &path)
}

/// Builds a filter from all of its keys at once; the file appears when it is whole.
///
/// `keys` is anything that can be iterated over and holds `bytes`, things like bytes, or `str`; a file
/// object, whose lines are keys; an Arrow column or stream of pyarrow, polars, pandas, duckdb and
/// others; a NumPy array. Without `capacity` it is made for as many different keys as there are, which
/// takes 8 bytes of memory for each key. `kind="sealed"` makes a filter in least space that is never
/// added to; it takes 9 bytes of memory for each key, up to `memory` (1 GiB), and keeps what that has no
/// room for in the temporary folder.
///
/// >>> built = bloomfile.build("words.bloom", ["sheep", "goat", "sheep"], fpr=0.001)
/// >>> built.keys
/// 2
/// >>> bloomfile.build("ids.bloom", range(1000), encoding="le64", kind="sealed").keys
/// 1000
#[pyfunction]
#[pyo3(signature = (
    path, keys, *, capacity = None, fpr = None, kind = "plain", layout = None, rows = None,
    row_bits = None, seed = 0, secret = None, encoding = None, metadata = None, journal = None,
    replace = false, memory = None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments")]
pub(crate) fn build<'py>(
    py: Python<'py>,
    path: PathBuf,
    keys: &Bound<'py, PyAny>,
    capacity: Option<u64>,
    fpr: Option<f64>,
    kind: &str,
    layout: Option<&str>,
    rows: Option<u32>,
    row_bits: Option<u64>,
    seed: u64,
    secret: Option<&Bound<'py, PyAny>>,
    encoding: Option<&str>,
    metadata: Option<BTreeMap<String, String>>,
    journal: Option<u64>,
    replace: bool,
    memory: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = Arguments {
        capacity,
        fpr,
        kind,
        layout,
        rows,
        row_bits,
        seed,
        secret,
        encoding,
        metadata,
        journal,
        replace,
    };
    let NewFile { mut options, encoding } = arguments.new_file()?;
    if let Some(bytes) = memory {
        options = options.memory(bytes);
    }
    let counted =
        capacity.is_none() && rows.is_none() && kind != "sealed" && layout != Some("sealed");
    if counted {
        // The hasher depends on no size.
        let hasher = options.clone().capacity(1).start_build(&path).map_err(raise)?.hasher();
        let mut all = Vec::new();
        each_batch(keys, &Rules::new(hasher, encoding), &mut |_, batch| {
            batch.refuse_nulls()?;
            all.extend_from_slice(batch.hashes);
            Ok(())
        })?;
        let built = py.detach(|| {
            let mut distinct = DistinctKeys::new();
            all.iter().for_each(|&hash| distinct.add(hash));
            let capacity = distinct.capacity().max(1);
            let mut builder = options.capacity(capacity).start_build(&path)?;
            builder.add_hash_batch(&all);
            builder.finish()
        });
        return told(py, &built.map_err(raise)?);
    }
    let mut builder = py.detach(|| options.start_build(&path)).map_err(raise)?;
    // The builder sorts hashes by place: the more at once, the better.
    let mut hashes: Vec<u64> = Vec::new();
    each_batch(keys, &Rules::new(builder.hasher(), encoding), &mut |py, batch| {
        batch.refuse_nulls()?;
        hashes.extend_from_slice(batch.hashes);
        if hashes.len() >= MOST_HASHES {
            py.detach(|| builder.add_hash_batch(&hashes));
            hashes.clear();
        }
        Ok(())
    })?;
    let built = py.detach(|| {
        builder.add_hash_batch(&hashes);
        builder.finish()
    });
    told(py, &built.map_err(raise)?)
}

/// Hashes that are added to a file under construction at once.
const MOST_HASHES: usize = 1 << 21;

/// What was built.
pub(crate) fn told<'py>(py: Python<'py>, built: &bloomfile::Built) -> PyResult<Bound<'py, PyAny>> {
    let values = serde_json::json!({
        "keys": built.keys,
        "file_bytes": built.file_bytes,
        "capacity": built.plan.capacity(),
        "expected_rate": built.plan.expected_rate(),
        "maybe_pages": built.maybe_pages,
    });
    report(py, "Built", &values)
}

/// Makes one file of several that were made alike: what any of them holds, it holds.
///
/// >>> for name, key in [("a.bloom", "sheep"), ("b.bloom", "goat")]:
/// ...     _ = bloomfile.build(name, [key], capacity=1000)
/// >>> bloomfile.merge("all.bloom", ["a.bloom", "b.bloom"]).operation
/// 'union of 2 files'
/// >>> bloomfile.open("all.bloom").contains_many(["sheep", "goat"])
/// [True, True]
#[pyfunction]
#[pyo3(signature = (path, files, *, replace = false))]
pub(crate) fn merge<'py>(
    py: Python<'py>,
    path: PathBuf,
    files: Vec<PathBuf>,
    replace: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let made = py.detach(|| SetOperation::new().replace(replace).union(&files, &path));
    report(py, "Derivation", &made.map_err(raise)?)
}

/// Makes one file of several that were made alike: what all of them hold, it holds, and some keys
/// beside that.
///
/// >>> for name, keys in [("a.bloom", ["sheep", "goat"]), ("b.bloom", ["goat", "cow"])]:
/// ...     _ = bloomfile.build(name, keys, capacity=1000)
/// >>> _ = bloomfile.intersect("both.bloom", ["a.bloom", "b.bloom"])
/// >>> bloomfile.open("both.bloom").contains_many(["sheep", "goat", "cow"])
/// [False, True, False]
#[pyfunction]
#[pyo3(signature = (path, files, *, replace = false))]
pub(crate) fn intersect<'py>(
    py: Python<'py>,
    path: PathBuf,
    files: Vec<PathBuf>,
    replace: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let made = py.detach(|| SetOperation::new().replace(replace).intersection(&files, &path));
    report(py, "Derivation", &made.map_err(raise)?)
}

/// Makes a file that holds what another holds, bit for bit, with a journal of `journal` bytes; without
/// one it is a file to ship and to read. Give the same path twice, and `replace`, to change it in place.
///
/// >>> with bloomfile.create("seen.bloom", capacity=1000, journal=1 << 20) as seen:
/// ...     _ = seen.add("sheep")
/// >>> before = bloomfile.inspect("seen.bloom").file_bytes
/// >>> before - bloomfile.compact("ship.bloom", "seen.bloom").file_bytes >= 1 << 20
/// True
/// >>> "sheep" in bloomfile.open("ship.bloom")
/// True
#[pyfunction]
#[pyo3(signature = (path, file, *, journal = 0, replace = false))]
pub(crate) fn compact<'py>(
    py: Python<'py>,
    path: PathBuf,
    file: PathBuf,
    journal: u64,
    replace: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let operation =
        || SetOperation::new().replace(replace).journal_bytes(journal).union(&[&file], &path);
    report(py, "Derivation", &py.detach(operation).map_err(raise)?)
}

/// How two files relate: overlap, which holds more, which pages differ. Both are verified.
///
/// >>> _ = bloomfile.build("less.bloom", ["sheep"], capacity=1000)
/// >>> _ = bloomfile.build("more.bloom", ["sheep", "goat"], capacity=1000)
/// >>> comparison = bloomfile.compare("more.bloom", "less.bloom")
/// >>> comparison.same, comparison.relation
/// (False, 'superset')
#[pyfunction]
pub(crate) fn compare<'py>(py: Python<'py>, a: PathBuf, b: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let comparison = py.detach(|| bloomfile::ops::compare(&a, &b)).map_err(raise)?;
    let same = comparison.is_same();
    let found = report(py, "Comparison", &comparison)?;
    found.setattr("same", same)?;
    Ok(found)
}

/// What a file is, and how full; reads no data. In a notebook it is shown as the page that `html_report`
/// makes, for which everything is read.
///
/// >>> _ = bloomfile.build("words.bloom", ["sheep", "goat"], capacity=1000)
/// >>> words = bloomfile.inspect("words.bloom")
/// >>> words.capacity, words.kind, words.segments[0].adds
/// (1000, 'plain', 2)
#[pyfunction]
pub(crate) fn inspect<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let inspection = py.detach(|| bloomfile::report::inspect(&path)).map_err(raise)?;
    let found = report(py, "Inspection", &inspection)?;
    found.setattr("path", path.to_string_lossy())?;
    found.setattr("keys", inspection.keys().value)?;
    found.setattr("rate_now", inspection.rate_now())?;
    found.setattr("rate_at_capacity", inspection.rate_at_capacity())?;
    found.setattr("health_meaning", inspection.health.meaning())?;
    Ok(found)
}

/// The report of a file as a page for a browser: charts, checks, parameters. The same that
/// `bloomfile inspect --html` writes. Everything is read and checked for it.
///
/// >>> _ = bloomfile.build("words.bloom", ["sheep", "goat"], capacity=1000)
/// >>> bloomfile.html_report("words.bloom").startswith("<!DOCTYPE html>")
/// True
#[pyfunction]
pub(crate) fn html_report(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| bloomfile_describe::html(&path)).map_err(raise)
}

/// Checks every byte of a file.
///
/// >>> _ = bloomfile.build("words.bloom", ["sheep", "goat"])
/// >>> bloomfile.verify("words.bloom").sound
/// True
#[pyfunction]
pub(crate) fn verify<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let verification = py.detach(|| bloomfile::report::verify(&path)).map_err(raise)?;
    let found = report(py, "Verification", &verification)?;
    found.setattr("sound", verification.is_sound())?;
    Ok(found)
}

/// The digest of a file's contents: the same for the same keys and options, wherever they were added.
///
/// >>> _ = bloomfile.build("a.bloom", ["sheep", "goat"])
/// >>> _ = bloomfile.build("b.bloom", ["goat", "sheep"])
/// >>> bloomfile.digest("a.bloom") == bloomfile.digest("b.bloom")
/// True
#[pyfunction]
pub(crate) fn digest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let digest = py.detach(|| bloomfile::ops::digest(&path)).map_err(raise)?;
    Ok(digest.to_string())
}

/// Turns keys into the 64-bit hashes that every file with the same seed or secret shares.
///
/// >>> bloomfile.Hasher().hash("bloomfile") == 0x9322d68f0acbbe55
/// True
/// >>> bloomfile.Hasher().hash_many(["a", "b"])
/// <bloomfile.ArrowColumn of 2 hashes>
#[pyclass(module = "bloomfile", frozen)]
pub(crate) struct Hasher {
    rules: Rules,
}

#[pymethods]
impl Hasher {
    #[new]
    #[pyo3(signature = (*, seed = 0, secret = None, encoding = None))]
    fn new(seed: u64, secret: Option<&Bound<'_, PyAny>>, encoding: Option<&str>) -> PyResult<Self> {
        let hasher = match self::secret(secret)? {
            Some(_) if seed != 0 => {
                return Err(PyValueError::new_err("a secret has no seed beside it"));
            }
            Some(key) => bloomfile::hash::Hasher::keyed(&key),
            None => bloomfile::hash::Hasher::new(seed),
        };
        let encoding = encoding.map(|name| name.parse::<Encoding>()).transpose().map_err(raise)?;
        Ok(Hasher { rules: Rules::new(hasher, encoding) })
    }

    /// The hash of one key.
    fn hash(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.rules.hash(key)
    }

    /// The hashes of many keys, as an Arrow column; null where the keys are.
    fn hash_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let mut all: Vec<u64> = Vec::new();
        let mut nulls: Option<Vec<bool>> = None;
        each_batch(keys, &self.rules, &mut |_, batch| {
            if batch.valid.is_some() || nulls.is_some() {
                let nulls = nulls.get_or_insert_with(|| vec![true; all.len()]);
                match batch.valid {
                    Some(valid) => nulls.extend_from_slice(valid),
                    None => nulls.resize(nulls.len() + batch.hashes.len(), true),
                }
            }
            all.extend_from_slice(batch.hashes);
            Ok(())
        })?;
        let column = ArrowColumn::of_hashes(all, nulls.as_deref());
        as_column_of(keys, Bound::new(keys.py(), column)?.into_any())
    }
}

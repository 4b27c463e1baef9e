//! Parts of filters that are larger than a machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bloomfile::parts::{Join, PartBuilder as Inner, PartPlan as Plan};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{own, raise};
use crate::functions::told;
use crate::handle::report;
use crate::keys::{Batch, Encoding, Rules, each_batch, each_hash};
use crate::options::{Arguments, secret};

/// Plans a filter that is built in parts, on several machines: see `PartPlan`.
///
/// `capacity` is the number of keys of all parts together. The layouts are "line", "page" and
/// "sealed": in the others there is no order of hashes, and so no parts.
///
/// >>> plan = bloomfile.plan_parts(4, capacity=1_000_000, fpr=0.001)
/// >>> plan.parts, plan.part_of(0), plan.part_of(2**64 - 1)
/// (4, 1, 4)
#[pyfunction]
#[pyo3(signature = (
    parts, *, capacity = None, fpr = None, kind = "plain", layout = None, seed = 0, secret = None,
    encoding = None, metadata = None, journal = None
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments")]
pub(crate) fn plan_parts(
    parts: u64,
    capacity: Option<u64>,
    fpr: Option<f64>,
    kind: &str,
    layout: Option<&str>,
    seed: u64,
    secret: Option<&Bound<'_, PyAny>>,
    encoding: Option<&str>,
    metadata: Option<BTreeMap<String, String>>,
    journal: Option<u64>,
) -> PyResult<PartPlan> {
    let (rows, row_bits, replace) = (None, None, false);
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
    let new_file = arguments.new_file()?;
    let plan = new_file.options.plan_parts(parts).map_err(raise)?;
    Ok(PartPlan { plan, encoding: new_file.encoding })
}

/// What all parts of a filter have alike: size, seed and how many there are. Its bytes are the same on
/// every machine, and it can be pickled; a secret is not in it.
///
/// >>> plan = bloomfile.plan_parts(2, capacity=1000)
/// >>> for part in (1, 2):
/// ...     builder = plan.start(part, f"{part}.part")
/// ...     _ = builder.update(["sheep", "goat", "cow"])      # leaves out what is in the other part
/// ...     _ = builder.finish()
/// >>> bloomfile.join("all.bloom", ["1.part", "2.part"]).keys
/// 3
/// >>> bloomfile.open("all.bloom").contains_many(["goat", "wolf"])
/// [True, False]
#[pyclass(module = "bloomfile", frozen)]
pub(crate) struct PartPlan {
    plan: Plan,
    encoding: Option<Encoding>,
}

#[pymethods]
impl PartPlan {
    /// The plan of the bytes that `to_bytes` gives.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        let plan = Plan::from_bytes(data).map_err(raise)?;
        let encoding = Encoding::recorded(plan.metadata()).map_err(raise)?;
        Ok(PartPlan { plan, encoding })
    }

    /// The plan as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.plan.to_bytes().map_err(raise)?))
    }

    fn __reduce__<'py>(
        this: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let again = this.get_type().getattr("from_bytes")?;
        Ok((again, (this.get().to_bytes(this.py())?,)))
    }

    fn __repr__(&self) -> String {
        let (parts, geometry) = (self.plan.parts(), *self.plan.plan().geometry());
        format!("<bloomfile.PartPlan of {parts} parts, {geometry}>")
    }

    /// The number of parts.
    #[getter]
    fn parts(&self) -> u64 {
        self.plan.parts()
    }

    /// Length of the joined file.
    #[getter]
    fn file_bytes(&self) -> u64 {
        self.plan.file_bytes()
    }

    /// The part that the key of a hash is in, from 1 on.
    fn part_of(&self, hash: u64) -> u64 {
        self.plan.part_of(hash)
    }

    /// The hashes of keys, by part: pairs of a part and its hashes, 8 bytes each in the machine's
    /// order. Nulls are left out.
    ///
    /// >>> plan = bloomfile.plan_parts(2, capacity=100_000)
    /// >>> [(part, len(hashes) // 8) for part, hashes in plan.split(["sheep", "goat", "cow"])]
    /// [(1, 1), (2, 2)]
    #[pyo3(signature = (keys, *, secret = None))]
    fn split<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        secret: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<(u64, Bound<'py, PyBytes>)>> {
        let py = keys.py();
        let hasher = self.plan.hasher(self::secret(secret)?.as_ref()).map_err(raise)?;
        let mut hashes = Vec::new();
        each_batch(keys, &Rules::new(hasher, self.encoding), &mut |_, batch| {
            keep_valid(&batch, &mut hashes);
            Ok(())
        })?;
        let split = py.detach(|| self.plan.split(&hashes));
        let bytes = |hashes: Vec<u64>| {
            let bytes: Vec<u8> = hashes.into_iter().flat_map(u64::to_ne_bytes).collect();
            PyBytes::new(py, &bytes)
        };
        Ok(split.into_iter().map(|(part, hashes)| (part, bytes(hashes))).collect())
    }

    /// Starts the file of a part. With `any_order` the file does not depend on the order of the keys.
    /// `memory` is what the hashes of a sealed filter take.
    #[pyo3(signature = (
        part, path, *, secret = None, replace = false, any_order = false, memory = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn start(
        &self,
        py: Python<'_>,
        part: u64,
        path: PathBuf,
        secret: Option<&Bound<'_, PyAny>>,
        replace: bool,
        any_order: bool,
        memory: Option<u64>,
    ) -> PyResult<PartBuilder> {
        let mut part = self.plan.part(part).replace(replace).any_order(any_order);
        if let Some(key) = self::secret(secret)? {
            part = part.key(&key);
        }
        if let Some(bytes) = memory {
            part = part.memory(bytes);
        }
        let builder = py.detach(|| part.start(&path)).map_err(raise)?;
        let rules = Rules::new(builder.hasher(), self.encoding);
        Ok(PartBuilder { builder: Mutex::new(Some(builder)), rules })
    }
}

fn keep_valid(batch: &Batch<'_>, hashes: &mut Vec<u64>) {
    match batch.valid {
        None => hashes.extend_from_slice(batch.hashes),
        Some(valid) => {
            let there = batch.hashes.iter().zip(valid).filter(|(_, valid)| **valid);
            hashes.extend(there.map(|(hash, _)| hash));
        }
    }
}

/// Fills one part of a filter; made by `PartPlan.start`. Keys of other parts are left out, and the file
/// is there once it is finished.
#[pyclass(module = "bloomfile", frozen)]
pub(crate) struct PartBuilder {
    builder: Mutex<Option<Inner>>,
    rules: Rules,
}

impl PartBuilder {
    /// Does something without the GIL, which another thread may need that has the builder.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> R + Send,
    ) -> PyResult<R> {
        py.detach(|| {
            let mut builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
            builder.as_mut().map(work).ok_or_else(finished)
        })
    }
}

fn finished() -> PyErr {
    own("ClosedError", "this part is finished")
}

#[pymethods]
impl PartBuilder {
    /// Adds those of many keys that are in this part; how many are.
    fn update(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut taken = 0;
        self.with(py, |_| ())?;
        each_batch(keys, &self.rules, &mut |py, batch| {
            batch.refuse_nulls()?;
            taken += self.with(py, |builder| builder.add_hash_batch(batch.hashes))?;
            Ok(())
        })?;
        Ok(taken)
    }

    /// The same for hashes: an Arrow column, or an array of 64-bit numbers.
    fn update_hashes(&self, hashes: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut taken = 0;
        each_hash(hashes, &mut |py, batch| {
            batch.refuse_nulls()?;
            taken += self.with(py, |builder| builder.add_hash_batch(batch.hashes))?;
            Ok(())
        })?;
        Ok(taken)
    }

    /// Makes the part durable and gives it its name.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner).take();
        let builder = builder.ok_or_else(finished)?;
        let built = py.detach(|| builder.finish()).map_err(raise)?;
        let values = serde_json::json!({
            "part": built.part,
            "taken": built.taken,
            "keys": built.keys,
            "pages": built.pages,
            "maybe_pages": built.maybe_pages,
            "file_bytes": built.file_bytes,
        });
        report(py, "BuiltPart", &values)
    }
}

/// Makes the filter of all its parts, in any order: the file that `build` makes of the same keys. Takes
/// no memory in proportion to the filter.
///
/// >>> plan = bloomfile.plan_parts(1, capacity=1000)
/// >>> _ = plan.start(1, "1.part").finish()
/// >>> bloomfile.join("empty.bloom", ["1.part"]).keys
/// 0
#[pyfunction]
#[pyo3(signature = (path, parts, *, replace = false))]
pub(crate) fn join<'py>(
    py: Python<'py>,
    path: PathBuf,
    parts: Vec<PathBuf>,
    replace: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let built = py.detach(|| Join::new().replace(replace).run(&parts, &path));
    told(py, &built.map_err(raise)?)
}

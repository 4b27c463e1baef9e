//! What a new file shall be, from keyword arguments.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bloomfile::{CellKind, Key, Options, WhenFull, geometry::Layout};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raise;
use crate::keys::Encoding;

/// A secret: its 16 bytes, or the path of a key file.
pub(crate) fn secret(secret: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Key>> {
    let Some(secret) = secret else { return Ok(None) };
    if let Ok(bytes) = secret.cast::<PyBytes>() {
        let bytes: [u8; 16] = bytes.as_bytes().try_into().map_err(|_| {
            PyValueError::new_err("a secret is 16 random bytes, or the path of a key file")
        })?;
        return Ok(Some(Key::from_bytes(bytes)));
    }
    let path: PathBuf = secret.extract().map_err(|_| {
        PyTypeError::new_err("a secret is 16 random bytes, or the path of a key file")
    })?;
    Key::from_file(path).map(Some).map_err(raise)
}

/// The keyword arguments of `create`, `build` and `plan_parts`.
#[derive(Default)]
pub(crate) struct NewFile {
    pub(crate) options: Options,
    pub(crate) encoding: Option<Encoding>,
}

/// The keyword arguments that all of them have.
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) capacity: Option<u64>,
    pub(crate) fpr: Option<f64>,
    pub(crate) kind: &'a str,
    pub(crate) layout: Option<&'a str>,
    pub(crate) rows: Option<u32>,
    pub(crate) row_bits: Option<u64>,
    pub(crate) seed: u64,
    pub(crate) secret: Option<&'a Bound<'py, PyAny>>,
    pub(crate) encoding: Option<&'a str>,
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    pub(crate) journal: Option<u64>,
    pub(crate) replace: bool,
}

/// The rate where none is asked for, and no exact size either.
const DEFAULT_RATE: f64 = 0.01;

impl Arguments<'_, '_> {
    pub(crate) fn new_file(self) -> PyResult<NewFile> {
        let mut options = Options::new().seed(self.seed).replace(self.replace);
        match (self.fpr, self.rows.is_some() || self.row_bits.is_some()) {
            (Some(rate), _) => options = options.false_positive_rate(rate),
            (None, false) => options = options.false_positive_rate(DEFAULT_RATE),
            (None, true) => {}
        }
        if let Some(capacity) = self.capacity {
            options = options.capacity(capacity);
        }
        if let Some(rows) = self.rows {
            options = options.rows(rows);
        }
        if let Some(bits) = self.row_bits {
            options = options.row_bits(bits);
        }
        if let Some(layout) = self.layout {
            options = options.layout(layout.parse::<Layout>().map_err(raise)?);
        }
        options = match self.kind {
            "plain" => options,
            "counting" => options.kind(CellKind::Counting),
            "sealed" => options.sealed(true),
            other => {
                let message = format!("kind {other:?} is none of plain, counting and sealed");
                return Err(PyValueError::new_err(message));
            }
        };
        if let Some(key) = secret(self.secret)? {
            options = options.key(&key);
        }
        if let Some(bytes) = self.journal {
            options = options.journal_bytes(bytes);
        }
        for (key, value) in self.metadata.into_iter().flatten() {
            if key == Encoding::METADATA {
                let message = "metadata records the encoding by itself: give encoding=";
                return Err(PyValueError::new_err(message));
            }
            options = options.metadata(key, value);
        }
        let encoding =
            self.encoding.map(|name| name.parse::<Encoding>()).transpose().map_err(raise)?;
        if let Some(encoding) = encoding {
            options = options.metadata(Encoding::METADATA, encoding.name());
        }
        Ok(NewFile { options, encoding })
    }
}

/// What happens when a filter is full.
pub(crate) fn when_full(options: Options, policy: &str) -> PyResult<Options> {
    Ok(match policy {
        "allow" => options,
        "refuse" => options.when_full(WhenFull::Refuse),
        "grow" => options.grow(),
        other => {
            let message = format!("when_full {other:?} is none of allow, refuse and grow");
            return Err(PyValueError::new_err(message));
        }
    })
}

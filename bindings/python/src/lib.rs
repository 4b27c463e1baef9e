//! Python bindings: they convert and call. The package is in `python/bloomfile`.

mod arrow;
mod errors;
mod filter;
mod functions;
mod handle;
mod keys;
mod options;
mod parts;
mod reader;

use pyo3::prelude::*;

/// The compiled part of the package bloomfile.
#[pymodule(gil_used = false)]
mod _bloomfile {
    #[pymodule_export]
    use crate::arrow::ArrowColumn;
    #[pymodule_export]
    use crate::filter::Filter;
    #[pymodule_export]
    use crate::functions::{
        Hasher, build, compact, compare, create, digest, html_report, inspect, intersect, merge,
        open, verify,
    };
    #[pymodule_export]
    use crate::parts::{PartBuilder, PartPlan, join, plan_parts};
    #[pymodule_export]
    use crate::reader::{_reopen, Reader};
}

//! The library's errors → Python's exceptions, which are in `bloomfile/_errors.py`.

use bloomfile::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception for an error of the library: its message, and the file that it is about.
pub(crate) fn raise(error: Error) -> PyErr {
    Python::attach(|py| match exception(py, &error) {
        Ok(exception) => exception,
        Err(_) => PyRuntimeError::new_err(error.to_string()),
    })
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let (class, errno) = class(error);
    let class = py.import("bloomfile._errors")?.getattr(class)?;
    let exception = class.call1((error.to_string(),))?;
    exception.setattr("path", error.path().map(|path| path.to_string_lossy().into_owned()))?;
    if let Some(errno) = errno {
        exception.setattr("errno", errno)?;
    }
    Ok(PyErr::from_value(exception))
}

/// The name of the exception's class, and the system's number of the error.
fn class(error: &Error) -> (&'static str, Option<i32>) {
    use std::io::ErrorKind;
    let plain = |name| (name, None);
    match error.cause() {
        Error::Io { error, .. } | Error::Page { error, .. } => {
            let class = match error.kind() {
                ErrorKind::NotFound => "NotFoundError",
                ErrorKind::PermissionDenied => "AccessError",
                _ => "IoError",
            };
            (class, error.raw_os_error())
        }
        Error::Parameter { .. } => plain("ParameterError"),
        Error::Exists => plain("ExistsError"),
        Error::Locked => plain("LockedError"),
        Error::Busy => plain("BusyError"),
        Error::Poisoned { .. } => plain("PoisonedError"),
        Error::Forked => plain("ForkedError"),
        Error::Full { .. } => plain("FullError"),
        Error::Sealed { .. } => plain("SealedError"),
        Error::KeyNeeded { .. }
        | Error::WrongKey { .. }
        | Error::NotKeyed
        | Error::KeyFile { .. } => plain("SecretError"),
        Error::NotPresent => plain("NotPresentError"),
        Error::Ambiguous => plain("AmbiguousError"),
        Error::Different { .. } => plain("DifferentError"),
        Error::Incompatible { .. } => plain("IncompatibleError"),
        _ if error.is_damage() => plain("DamagedError"),
        _ if error.is_bad_file() => plain("BadFileError"),
        _ => plain("Error"),
    }
}

/// An exception of this package that is about a handle, not from the library.
pub(crate) fn own(class: &str, message: impl Into<String>) -> PyErr {
    let message = message.into();
    Python::attach(|py| {
        let make = || {
            let class = py.import("bloomfile._errors")?.getattr(class)?;
            PyResult::Ok(PyErr::from_value(class.call1((message.as_str(),))?))
        };
        make().unwrap_or_else(|error| error)
    })
}

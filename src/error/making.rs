//! How errors are made inside the library, and what is done about them there.

use std::io;
use std::path::Path;

use super::Error;

impl Error {
    /// Whether a writer that was changing slots and tables while they were read may be the reason.
    pub(crate) fn is_torn(&self) -> bool {
        matches!(
            self,
            Error::Checksum { .. }
                | Error::PageTable { .. }
                | Error::PageEntry { .. }
                | Error::Field { .. }
                | Error::Length { .. }
                | Error::NoSlot
                | Error::SlotLost { .. }
        )
    }

    /// Says which file it is about, unless it is about a call or says so already.
    pub(crate) fn at(self, path: &Path) -> Error {
        match self {
            Error::File { .. } | Error::Parameter { .. } | Error::NotPresent | Error::Ambiguous => {
                self
            }
            error => Error::File { path: path.to_owned(), error: Box::new(error) },
        }
    }

    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::Io { action, error }
    }

    pub(crate) fn parameter(
        name: &'static str,
        value: impl ToString,
        reason: impl Into<String>,
    ) -> Error {
        Error::Parameter { name, value: value.to_string(), reason: reason.into() }
    }

    pub(crate) fn field(
        what: &'static str,
        field: &'static str,
        value: impl ToString,
        reason: impl Into<String>,
    ) -> Error {
        Error::Field { what, field, value: value.to_string(), reason: reason.into() }
    }
}

/// What to do about a system error, where it is known.
pub(super) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space or choose another folder"
        }
        io::ErrorKind::NotFound => "; check the path",
        io::ErrorKind::OutOfMemory => "; end other programs, or raise the limit of memory",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; check the permissions of the file and its folder"
        }
        _ => "",
    }
}

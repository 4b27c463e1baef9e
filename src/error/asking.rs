//! What programs ask of an error.

use std::path::Path;

use super::Error;

impl Error {
    /// Whether the file's contents are at fault (rather than the call, the system or another process).
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// std::fs::write(&path, "not a filter at all").unwrap();
    /// let error = bloomfile::Reader::open(&path).unwrap_err();
    /// assert!(error.is_bad_file());
    /// ```
    pub fn is_bad_file(&self) -> bool {
        matches!(
            self.cause(),
            Error::NotABloomfile { .. }
                | Error::TextMode { .. }
                | Error::Version { .. }
                | Error::Features { .. }
                | Error::Checksum { .. }
                | Error::PageTable { .. }
                | Error::PageEntry { .. }
                | Error::Field { .. }
                | Error::Length { .. }
                | Error::NoSlot
                | Error::SlotLost { .. }
                | Error::NumbersSpent { .. }
                | Error::Damaged { .. }
                | Error::Journal { .. }
                | Error::NotADelta { .. }
                | Error::NotAPart { .. }
                | Error::DamagedDelta { .. }
        )
    }

    /// Whether the file is a bloomfile whose bytes were changed or lost.
    pub fn is_damage(&self) -> bool {
        self.is_bad_file()
            && !matches!(
                self.cause(),
                Error::NotABloomfile { .. }
                    | Error::NotADelta { .. }
                    | Error::NotAPart { .. }
                    | Error::Version { .. }
                    | Error::Features { .. }
                    | Error::NumbersSpent { .. }
            )
    }

    /// What is wrong, without the file that it is wrong with.
    ///
    /// ```
    /// use bloomfile::{Error, Reader};
    ///
    /// let error = Reader::open("no such file").unwrap_err();
    /// assert!(matches!(error, Error::File { .. }));
    /// assert!(matches!(error.cause(), Error::Io { .. }));
    /// assert!(error.path().unwrap().ends_with("no such file"));
    /// ```
    pub fn cause(&self) -> &Error {
        match self {
            Error::File { error, .. } => error.cause(),
            other => other,
        }
    }

    /// As [`cause`](Self::cause), of an error that is not needed any more.
    pub fn into_cause(self) -> Error {
        match self {
            Error::File { error, .. } => error.into_cause(),
            other => other,
        }
    }

    /// The file that it is about, where that is known.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::File { path, .. } => Some(path),
            _ => None,
        }
    }
}

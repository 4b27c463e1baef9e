//! Whether the name of an open filter is still its own.

use std::path::Path;

use super::Filter;
use crate::error::{Error, Result};

impl Filter {
    /// Whether `path` still leads to the file that this filter has open, as
    /// [`Reader::is_at`](crate::Reader::is_at) tells it. Nothing here replaces a file that is being
    /// written; other programs may.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("keys.bloom");
    /// # let filter = bloomfile::Options::new().capacity(99).false_positive_rate(0.01).create(&path)?;
    /// assert!(filter.is_at(&path)?);
    /// std::fs::rename(&path, folder.path().join("other.bloom")).unwrap();
    /// assert!(!filter.is_at(&path)?);
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn is_at(&self, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let found = self.engine.medium().is_at(path).map_err(Error::io("look up the file"));
        found.map_err(|error| error.at(path))
    }
}

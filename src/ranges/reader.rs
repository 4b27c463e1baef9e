//! A file behind a source that can be waited for.

use super::{Answer, Opening, RangeFile, Source, run};
use crate::error::{Error, Result};
use crate::hash::Key;
use crate::report::{Inspection, Verification};

/// A file behind a [`Source`]: see [`ranges`](super).
///
/// Answers are those of the file as it was opened. One that was changed since gives
/// [`Error::Changed`]: open it again.
pub struct RangeReader<S> {
    source: S,
    file: RangeFile,
}

impl<S: Source> RangeReader<S> {
    /// Opens a file: reads its headers and page tables.
    pub fn open(source: S) -> Result<Self> {
        Self::open_with(source, None)
    }

    /// As [`open`](Self::open), with the secret of a keyed file. Without it such a file can be
    /// inspected and verified, but not asked.
    pub fn open_with(source: S, key: Option<&Key>) -> Result<Self> {
        let length = source.length().map_err(Error::io("tell the length of the file"))?;
        let mut opening = Opening::new(length);
        if let Some(key) = key {
            opening = opening.key(key);
        }
        let file = run(opening, &source)?;
        Ok(RangeReader { source, file })
    }

    /// What was opened.
    pub fn file(&self) -> &RangeFile {
        &self.file
    }

    /// The source it is read from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Whether a key may be in; an error if its page is damaged or the file was changed.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let answers = self.ask([key])?;
        answers.into_iter().try_fold(false, |any, answer| Ok(any | answer.into_result()?))
    }

    /// What the file says of each of many keys. Pages are read in their order, each once.
    pub fn ask(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Vec<Answer>> {
        run(self.file.ask(keys)?, &self.source)
    }

    /// What the file says of itself, as [`report::inspect`](crate::report::inspect).
    pub fn inspect(&self) -> Inspection {
        self.file.inspect()
    }

    /// Reads the whole file and checks every page, as [`report::verify`](crate::report::verify).
    pub fn verify(&self) -> Result<Verification> {
        run(self.file.verify(), &self.source)
    }
}

//! The files of a connection: each is opened once, and again when another has its name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bloomfile::{Error, Filter, Key, ReadOptions, Reader};

use crate::Result;
use crate::key::Form;

/// The variable that names the key file of keyed files, as for the command.
pub(crate) const KEY_FILE: &str = "BLOOMFILE_KEY_FILE";

/// A file that is asked.
pub(crate) struct Asked {
    source: Source,
    pub(crate) form: Form,
}

/// Through what a file is asked.
enum Source {
    Reader(Box<Reader>),
    /// This connection writes it: what it added counts, also where others see that after a sync only.
    Writer(Arc<Written>),
}

impl Asked {
    /// Whether a key may be in. A "maybe" that comes of damage is an error.
    #[inline]
    pub(crate) fn contains(&self, key: &[u8]) -> bloomfile::Result<bool> {
        match &self.source {
            // A "no" is certain.
            Source::Reader(reader) => Ok(reader.contains(key) && reader.try_contains(key)?),
            // All of it was verified when it was opened.
            Source::Writer(file) => Ok(file.filter.contains(key)),
        }
    }
}

/// A file that is added to.
pub(crate) struct Written {
    pub(crate) filter: Filter,
    pub(crate) form: Form,
}

/// The files that a connection has open. They are closed with it.
#[derive(Default)]
pub(crate) struct Files {
    asked: Mutex<HashMap<PathBuf, Arc<Asked>>>,
    written: Mutex<HashMap<PathBuf, Arc<Written>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// The file that has this name now, to ask it.
    pub(crate) fn asked(&self, path: &Path) -> Result<Arc<Asked>> {
        if let Some(file) = lock(&self.written).get(path)
            && file.filter.is_at(path)?
        {
            let source = Source::Writer(Arc::clone(file));
            return Ok(Arc::new(Asked { source, form: file.form.clone() }));
        }
        let mut files = lock(&self.asked);
        if let Some(file) = files.get(path) {
            if let Source::Reader(reader) = &file.source
                && reader.is_at(path)?
            {
                return Ok(Arc::clone(file));
            }
            files.remove(path);
        }
        let reader = with_key(|key| match key {
            Some(key) => ReadOptions::new().key(key).open(path),
            None => Reader::open(path),
        })?;
        let form = Form::recorded(path, reader.metadata())?;
        let file = Arc::new(Asked { source: Source::Reader(Box::new(reader)), form });
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// The file that has this name now, to add to it. It stays locked until it is closed.
    pub(crate) fn written(&self, path: &Path) -> Result<Arc<Written>> {
        let mut files = lock(&self.written);
        if let Some(file) = files.get(path) {
            if file.filter.is_at(path)? && !file.filter.is_poisoned() {
                return Ok(Arc::clone(file));
            }
            files.remove(path);
        }
        let filter = with_key(|key| match key {
            Some(key) => Filter::open_with_key(path, key),
            None => Filter::open(path),
        })?;
        let form = Form::recorded(path, &filter.metadata())?;
        let file = Arc::new(Written { filter, form });
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Makes what was added to a file durable: whether this connection has it open.
    pub(crate) fn sync(&self, path: &Path) -> Result<bool> {
        let file = lock(&self.written).get(path).cloned();
        match file {
            Some(file) => file.filter.sync().map(|()| true).map_err(Into::into),
            None => Ok(false),
        }
    }

    /// Closes a file that was added to: whether this connection had it open. A statement that is still
    /// adding to it closes it when it ends.
    pub(crate) fn close(&self, path: &Path) -> Result<bool> {
        let Some(file) = lock(&self.written).remove(path) else { return Ok(false) };
        file.filter.sync()?;
        match Arc::into_inner(file) {
            Some(file) => file.filter.close().map(|()| true).map_err(Into::into),
            None => Ok(true),
        }
    }
}

/// The secret of the key file that the environment names; an empty name is none, as for the command.
pub(crate) fn key() -> Result<Option<Key>> {
    let named = std::env::var_os(KEY_FILE).filter(|name| !name.is_empty());
    Ok(named.map(Key::from_file).transpose()?)
}

/// Opens a file, with the secret of the environment's key file if it is keyed.
fn with_key<T>(open: impl Fn(Option<&Key>) -> bloomfile::Result<T>) -> Result<T> {
    match open(None) {
        Err(error) if matches!(error.cause(), Error::KeyNeeded { .. }) => match key()? {
            Some(key) => Ok(open(Some(&key))?),
            None => Err(error.into()),
        },
        result => Ok(result?),
    }
}

//! The secret key of keyed filters: always in a file, never on the command line, where every user of
//! the machine can read it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bloomfile::{Error, Key, Options, ReadOptions};
use clap::Args;

use crate::failure::{Failure, Result};

/// Names the key file where --key-file does not.
const VARIABLE: &str = "BLOOMFILE_KEY_FILE";

/// Where the secret of a keyed filter is.
#[derive(Args, Debug)]
pub(crate) struct SecretArgs {
    /// The file with the secret key of a keyed filter, made by keygen [env: BLOOMFILE_KEY_FILE]
    #[arg(long, value_name = "KEY_FILE")]
    key_file: Option<PathBuf>,

    /// Take the secret key also from a file that others can read
    #[arg(long)]
    force_key_file: bool,

    /// What was read: a key file may be a pipe, which gives it once.
    #[arg(skip)]
    read: OnceLock<Option<Key>>,
}

impl SecretArgs {
    /// The secret, if there is to be one.
    pub(crate) fn key(&self) -> Result<Option<Key>> {
        if let Some(key) = self.read.get() {
            return Ok(key.clone());
        }
        let key = self.read_key()?;
        Ok(self.read.get_or_init(|| key).clone())
    }

    /// What tells the secret from others, if there is one.
    pub(crate) fn fingerprint(&self) -> Result<Option<String>> {
        Ok(self.key()?.map(|key| key.fingerprint()))
    }

    fn read_key(&self) -> Result<Option<Key>> {
        let named =
            || std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        let Some(path) = self.key_file.clone().or_else(named) else {
            return Ok(None);
        };
        let read =
            if self.force_key_file { Key::from_shared_file(&path) } else { Key::from_file(&path) };
        read.map(Some).map_err(Failure::file(&path))
    }

    /// What a new filter shall be, with the secret.
    pub(crate) fn apply(&self, options: Options) -> Result<Options> {
        Ok(match self.key()? {
            Some(key) => options.key(&key),
            None => options,
        })
    }

    /// How a filter is read, with the secret.
    pub(crate) fn apply_to_reading(&self, options: ReadOptions) -> Result<ReadOptions> {
        Ok(match self.key()? {
            Some(key) => options.key(&key),
            None => options,
        })
    }

    /// Opens files that are asked together, with the secret those of them that are keyed. Where none
    /// is, they may not be the files that were meant, and the secret is an error.
    ///
    /// `open` gives `None` where there is a secret and the file is not keyed.
    pub(crate) fn open_all<T>(
        &self,
        paths: &[&Path],
        open: impl Fn(&Path, Option<&Key>) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let key = self.key()?;
        let with_secret: Vec<Option<T>> =
            paths.iter().map(|path| open(path, key.as_ref())).collect::<Result<_>>()?;
        let not_keyed = |path: &Path| Failure::file(path)(Error::NotKeyed);
        // Before the others are opened, which reads all of their data.
        if let Some(first) = paths.first()
            && with_secret.iter().all(Option::is_none)
        {
            return Err(not_keyed(first));
        }
        let opened = with_secret.into_iter().zip(paths).map(|(opened, path)| match opened {
            Some(opened) => Ok(opened),
            None => open(path, None)?.ok_or_else(|| not_keyed(path)),
        });
        opened.collect()
    }
}

/// What was opened with a secret, or `None` where that is not for it.
pub(crate) fn unless_not_keyed<T>(opened: bloomfile::Result<T>) -> bloomfile::Result<Option<T>> {
    match opened {
        Err(error) if matches!(error.cause(), Error::NotKeyed) => Ok(None),
        opened => opened.map(Some),
    }
}

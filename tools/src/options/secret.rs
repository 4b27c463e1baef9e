//! The secret key of keyed filters: always in a file, never on the command line, where every user of
//! the machine can read it.

use std::path::PathBuf;

use bloomfile::{Key, Options, ReadOptions};
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
}

impl SecretArgs {
    /// The secret, if there is to be one.
    pub(crate) fn key(&self) -> Result<Option<Key>> {
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
}

//! Options that several commands share: what they print, replace and trust, how large a filter is, how
//! keys are written.

mod keys;
mod kind;
mod new_file;
mod secret;
mod shape;

pub(crate) use keys::{FormArgs, InputArgs, KeyListArgs, RecordArgs, ResumeArgs};
pub(crate) use kind::KindArgs;
pub(crate) use new_file::NewFileArgs;
pub(crate) use secret::{SecretArgs, unless_not_keyed};
pub(crate) use shape::ShapeArgs;

use std::path::Path;

use bloomfile::{Key, ReadOptions, Reader, reader::Access};
use clap::Args;

use crate::failure::{Failure, Result};
use crate::text;

/// In what form the result is printed.
#[derive(Args, Debug)]
pub(crate) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whether the result is printed, and in what form.
#[derive(Args, Debug)]
pub(crate) struct PrintArgs {
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// What becomes of a file that stands where one is to be made.
#[derive(Args, Debug)]
pub(crate) struct ReplaceArgs {
    /// Replace the file to make if it is there already; owner and mode stay, a link is followed
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// How files are read that are asked.
#[derive(Args, Debug)]
pub(crate) struct ReadArgs {
    /// Check data pages only when an answer needs them: starts at once on large files
    #[arg(long)]
    no_verify: bool,

    /// Read the file into memory at first instead of mapping it: nothing that happens to it after
    /// that matters, and what is added to it is not seen
    #[arg(long)]
    memory: bool,

    #[command(flatten)]
    pub(crate) secret: SecretArgs,
}

impl ReadArgs {
    /// Refuses what cannot be done with a file that is not here, and is read by ranges.
    pub(crate) fn check_remote(&self, address: &str) -> Result<()> {
        if self.memory {
            let message =
                "is not here: only the pages that answers need are read; leave out --memory";
            return Err(Failure::about(text::key(address.as_bytes()), message));
        }
        Ok(())
    }

    /// Opens a file; `None` where there is a secret and the file is not keyed.
    pub(crate) fn open(&self, path: &Path, key: Option<&Key>) -> Result<Option<Reader>> {
        let access = if self.memory { Access::Memory } else { Access::Mapped };
        // A bit lost from the data would make a key that is present look absent.
        let options = ReadOptions::new().verify(!self.no_verify).access(access);
        let options = key.map_or(options.clone(), |key| options.key(key));
        unless_not_keyed(options.open(path)).map_err(Failure::file(path))
    }
}

//! What a new file shall have besides its size.

use bloomfile::{Options, hash::Form};
use clap::Args;

use super::{ReplaceArgs, SecretArgs};
use crate::failure::{Failure, Result};
use crate::keys::RESERVED;
use crate::units;

/// What else a new file shall have.
#[derive(Args, Debug)]
pub(crate) struct NewFileArgs {
    /// Seed of the hash; only files with the same seed can be merged
    #[arg(long, value_name = "S", default_value = "0", value_parser = units::parse_seed)]
    pub(crate) seed: u64,

    /// A pair to keep in the file, such as what the keys are; may be given again
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = units::parse_pair)]
    pub(crate) metadata: Vec<(String, String)>,

    /// Space for the journal, which makes syncs cheap: 64KiB, 1M; 0 for none [default: create: an
    /// 8th of the data, from 8KiB to 64MiB; build: none]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(crate) journal: Option<u64>,

    #[command(flatten)]
    pub(crate) secret: SecretArgs,

    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
}

impl NewFileArgs {
    /// Adds them to a shape's options, with the form of the keys.
    pub(crate) fn apply(&self, options: Options, form: Form) -> Result<Options> {
        let mut options = self.secret.apply(options)?.seed(self.seed).replace(self.replace.force);
        for (key, value) in &self.metadata {
            if RESERVED.contains(&key.as_str()) {
                let message = format!(
                    "--meta {key}: this pair records the form of the keys; give the option for the \
                     form itself, such as --hex"
                );
                return Err(Failure::new(message));
            }
            options = options.metadata(key, value);
        }
        for (name, value) in form.pairs() {
            options = options.metadata(name, value);
        }
        Ok(match self.journal {
            Some(bytes) => options.journal_bytes(bytes),
            None => options,
        })
    }
}

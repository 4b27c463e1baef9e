//! `bloomfile keygen`: a new secret key, in a file of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::Key;
use clap::Args;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::options::PrintArgs;
use crate::{output, text};

#[derive(Args, Debug)]
#[command(after_help = "\
A keyed filter hashes keys in a way that depends on the secret, so that someone who chooses keys
cannot make it useless. The secret is not in the filter: to add or to ask takes the key file, and a
filter whose key file is lost answers nothing any more. Others who have the key file can choose keys
again: it belongs to the programs that write and ask, and to no one else.

Exit status: 0 done, 2 error.

Examples:
  bloomfile keygen seen.key
  bloomfile create seen.bloom -n 1M -p 1% --key-file seen.key
  bloomfile check seen.bloom --key-file seen.key example.org")]
pub(crate) struct KeygenArgs {
    /// The key file to make, which only its owner can read; one that is there is never replaced
    #[arg(value_name = "KEY_FILE")]
    file: PathBuf,

    #[command(flatten)]
    print: PrintArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct KeygenOutput {
    schema: u32,
    file: String,
    fingerprint: String,
}

pub(super) fn run(args: &KeygenArgs) -> Result<ExitCode> {
    let failed = Failure::file(&args.file);
    let key = Key::random().map_err(&failed)?;
    key.write_new_file(&args.file).map_err(&failed)?;
    let fingerprint = key.fingerprint();
    if args.print.format.json {
        let file = args.file.display().to_string();
        output::json(&KeygenOutput { schema: 1, file, fingerprint })?;
    } else if !args.print.quiet {
        let file = text::path(&args.file);
        output::line(format_args!(
            "{file}: a new secret key, fingerprint {fingerprint}; keep a copy of it in a safe place"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

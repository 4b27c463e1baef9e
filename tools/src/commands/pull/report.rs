//! What a pull tells of itself.

use std::process::ExitCode;

use serde::Serialize;

use super::{PullArgs, Way};
use crate::failure::Result;
use crate::publication::Manifest;
use crate::{output, text, units};

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct PullOutput {
    schema: u32,
    file: String,
    /// `current`, `deltas` or `snapshot`.
    way: &'static str,
    from_version: Option<u64>,
    version: u64,
    deltas: usize,
    transferred_bytes: u64,
    file_bytes: u64,
    new_digest: String,
    /// Why deltas could not be taken.
    problems: Vec<String>,
}

pub(super) fn report(
    args: &PullArgs,
    manifest: &Manifest,
    way: Way,
    from: Option<u64>,
    transferred: u64,
    problems: Vec<String>,
) -> Result<ExitCode> {
    let version = manifest.version;
    let (name, deltas) = match way {
        Way::Current => ("current", 0),
        Way::Deltas(count) => ("deltas", count),
        Way::Snapshot => ("snapshot", 0),
    };
    if args.print.format.json {
        output::json(&PullOutput {
            schema: 1,
            file: args.file.display().to_string(),
            way: name,
            from_version: from,
            version,
            deltas,
            transferred_bytes: transferred,
            file_bytes: manifest.snapshot.bytes,
            new_digest: manifest.current().digest.clone(),
            problems,
        })?;
    } else if !args.print.quiet {
        let file = text::path(&args.file);
        let size = units::size(transferred);
        let told = match way {
            Way::Current => format!("version {version} is current"),
            Way::Deltas(count) => {
                let deltas = units::counted(count as u64, "delta");
                format!("version {version} by {deltas} from version {}", from.unwrap_or(0))
            }
            Way::Snapshot => format!("version {version} by a snapshot"),
        };
        output::line(format_args!("{file}: {told}; {size} transferred"))?;
    }
    Ok(if way == Way::Current { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

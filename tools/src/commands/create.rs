//! `bloomfile create`: an empty filter.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::{CellKind, Plan, geometry::Layout};
use clap::Args;
use serde::Serialize;

use super::wording::keyed;
use crate::failure::{Failure, Result};
use crate::options::{FormArgs, KindArgs, NewFileArgs, PrintArgs, ShapeArgs};
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
--crlf, --trim, --lower, --hex and --encoding say in what form keys will be written. The file records
it (keys.form and keys.encoding of its metadata), and add, remove, check and which read keys in this
form without being told.

A filter that has grown stays in its segments, which cost space and time: nothing can make one of
them without the keys. Where there are the keys, build makes a filter of the right size from them.

Exit status: 0 done, 2 error.

Examples:
  bloomfile create seen.bloom --capacity 10M --lower --meta keys='host names'
  bloomfile create matrix.bloom --rows 30 --row-bits 2.5M
  bloomfile create users.bloom -n 1M -p 1% --kind counting          keys can be removed
  bloomfile create log.bloom -n 10k -p 1% --grow                    for any number of keys
  bloomfile create day.bloom -n 1M -p 1% --generations 24           forgets: see rotate
  bloomfile create quota.bloom -n 1M -p 1% --when-full refuse       never above its rate")]
pub(crate) struct CreateArgs {
    /// The file to make
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) kind: KindArgs,

    #[command(flatten)]
    pub(crate) new_file: NewFileArgs,

    #[command(flatten)]
    pub(crate) form: FormArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct CreateOutput {
    schema: u32,
    file: String,
    capacity: Option<u64>,
    expected_rate: Option<f64>,
    file_bytes: u64,
    key_fingerprint: Option<String>,
}

pub(super) fn run(args: &CreateArgs) -> Result<ExitCode> {
    args.shape.check_complete()?;
    args.kind.check()?;
    let options = args.new_file.apply(args.kind.apply(args.shape.options()), args.form.into())?;
    let failed = Failure::file(&args.file);
    if args.shape.layout == Some(Layout::Sealed) {
        let message =
            "a sealed filter is made of all of its keys at once: use bloomfile build --sealed";
        return Err(Failure::about(text::path(&args.file), message));
    }
    let plan = options.plan().map_err(&failed)?;
    options.create(&args.file).and_then(|filter| filter.close()).map_err(&failed)?;
    warn_of_plan(&args.file, &plan, args.print.quiet);
    let file_bytes = options.file_bytes().map_err(&failed)?;
    let key_fingerprint = args.new_file.secret.fingerprint()?;
    if args.print.format.json {
        output::json(&CreateOutput {
            schema: 1,
            file: args.file.display().to_string(),
            capacity: plan.capacity(),
            expected_rate: plan.expected_rate().map(|each| args.kind.rate_together(each)),
            file_bytes,
            key_fingerprint,
        })?;
    } else if !args.print.quiet {
        let size = units::size(file_bytes);
        let purpose = purpose(&plan, &args.kind, args.shape.rate());
        let (file, keyed) = (text::path(&args.file), keyed(key_fingerprint.as_deref()));
        output::line(format_args!("{file}: created, {size}; {purpose}{keyed}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what is wrong with a plan that was carried out all the same.
pub(super) fn warn_of_plan(path: &Path, plan: &Plan, quiet: bool) {
    if let Some(warning) = plan.warning().filter(|_| !quiet) {
        output::warn(path, warning);
    }
}

/// What a filter is for, in a few words.
fn purpose(plan: &Plan, kind: &KindArgs, target: Option<f64>) -> String {
    let counting = if kind.kind == CellKind::Counting { "counting; " } else { "" };
    let each = match kind.generations {
        Some(generations) => format!("{} generations, each ", units::count(generations)),
        None => String::new(),
    };
    let keys = plan.capacity().map(|capacity| units::counted(capacity, "key"));
    let rate = plan.expected_rate().map(|rate| units::percent(kind.rate_together(rate)));
    let purpose = match (keys, rate, target) {
        (Some(keys), _, Some(rate)) if kind.grows() => {
            format!("for {keys} and then more, at a rate of at most {}", units::percent(rate))
        }
        (Some(keys), Some(rate), _) if kind.generations.is_some() => {
            format!("for {keys}; {rate} is the rate of all together")
        }
        (Some(keys), Some(rate), _) => format!("for {keys} at a rate of {rate}"),
        _ => plan.geometry().to_string(),
    };
    format!("{counting}{each}{purpose}")
}

//! `bloomfile rotate`: the oldest generation goes, a new one takes the adds.

use std::process::ExitCode;

use super::add::open;
use crate::args::RotateArgs;
use crate::failure::{Failure, Result};
use crate::{output, units};

pub(crate) fn run(args: &RotateArgs) -> Result<ExitCode> {
    let failed = Failure::file(&args.file);
    let filter = open(&args.file, args.quiet)?;
    let before = filter.segments();
    filter.rotate().map_err(&failed)?;
    let now = filter.segments();
    filter.close().map_err(&failed)?;
    if !args.quiet {
        let outcome = match before == now {
            true => format!("the oldest of {now} generations was dropped"),
            false => {
                format!("{} in use, none was dropped", units::counted(now as u64, "generation"))
            }
        };
        output::line(format_args!("{}: rotated: {outcome}", args.file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `bloomfile shrink`: a smaller filter of the same keys.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::derive::{self, ResultArgs};
use crate::failure::Result;
use crate::units;

#[derive(Args, Debug)]
#[command(after_help = "\
The keys are not needed: OUT is what building it at that size would have given.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile shrink -o small.bloom large.bloom --factor 4
  bloomfile shrink -o small.bloom large.bloom --fpr 1%")]
pub(crate) struct ShrinkArgs {
    #[command(flatten)]
    pub(crate) result: ResultArgs,

    /// The filter
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) to: ShrinkTo,
}

/// How far.
#[derive(Args, Clone, Copy, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ShrinkTo {
    /// How many times smaller; must divide the size
    #[arg(long, value_name = "D", value_parser = units::parse_count)]
    pub(crate) factor: Option<u64>,

    /// As far as the rate of the keys now in it stays at or below P: 0.01, 1%, 1e-5
    #[arg(short = 'p', long, value_name = "P", value_parser = units::parse_rate)]
    pub(crate) fpr: Option<f64>,
}

pub(super) fn run(args: &ShrinkArgs) -> Result<ExitCode> {
    let files = std::slice::from_ref(&args.file);
    derive::run(&args.result, files, "", |operation, output| match (args.to.factor, args.to.fpr) {
        (Some(factor), _) => operation.fold(&args.file, factor, output),
        (None, rate) => operation.fold_to_rate(&args.file, rate.unwrap_or(0.0), output),
    })
}

//! One file per subcommand.

mod add;
mod bench;
mod build;
mod check;
mod create;
mod documents;
mod inspect;
mod plan;
mod repair;
mod verify;

use std::path::Path;
use std::process::ExitCode;

use crate::args::Command;
use crate::failure::Result;
use crate::{output, units};

/// Does what the command line asks for.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Plan(args) => plan::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Build(args) => build::run(args),
        Command::Add(args) => add::run(args),
        Command::Check(args) => check::run(args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Completions(args) => documents::completions(&args),
        Command::Man(args) => documents::man(&args),
    }
}

/// Warns when a filter holds more keys than it was made for.
fn warn_if_over_capacity(path: &Path, adds: u64, capacity: Option<u64>) {
    if let Some(capacity) = capacity.filter(|&capacity| adds > capacity) {
        output::warn(
            path,
            format_args!(
                "holds {}, made for {}: its rate is higher than planned; build a larger one",
                units::counted(adds, "key"),
                units::count(capacity)
            ),
        );
    }
}

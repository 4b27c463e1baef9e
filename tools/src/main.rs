//! The `bloomfile` command.

mod args;
mod commands;
mod failure;
mod keys;
mod output;
mod units;

use std::process::ExitCode;

use clap::Parser;

use failure::Failure;

/// Exit status of every error.
const EXIT_ERROR: u8 = 2;

fn main() -> ExitCode {
    match commands::run(args::Cli::parse().command) {
        Ok(code) => code,
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(failure);
            ExitCode::from(EXIT_ERROR)
        }
    }
}

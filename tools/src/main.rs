//! The `bloomfile` command.

mod args;
mod commands;
mod failure;
mod interrupt;
mod keys;
mod output;
mod units;

use std::process::ExitCode;

use clap::Parser;

use failure::Failure;

/// Exit status of every error.
const EXIT_ERROR: u8 = 2;

fn main() -> ExitCode {
    let cli = args::Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(failure);
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Ends the program with help, or with what is wrong with the command line.
fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    match text.strip_prefix("error: ") {
        Some(message) => {
            output::note(message.trim_end());
            std::process::exit(EXIT_ERROR.into())
        }
        None => error.exit(),
    }
}

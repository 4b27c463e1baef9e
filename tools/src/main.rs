//! The `bloomfile` command.

mod cli;
mod commands;
mod failure;
mod interrupt;
mod keys;
mod options;
mod output;
mod pending;
mod platform;
mod publication;
mod remote;
mod units;

use std::process::ExitCode;

use bloomfile_describe::text;
use clap::Parser;

use failure::Failure;

/// Exit status of every error.
const EXIT_ERROR: u8 = 2;

fn main() -> ExitCode {
    platform::survive_limits();
    // Where it cannot be done, the signal ends the process as before.
    let _ = bloomfile::process::catch_bus_errors("bloomfile", EXIT_ERROR.into());
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| refuse(&error));
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
            output::note(with_arguments_shown(message.trim_end()));
            std::process::exit(EXIT_ERROR.into())
        }
        None => error.exit(),
    }
}

/// The message with arguments that hold controls, line ends among them, as other names are shown.
fn with_arguments_shown(message: &str) -> String {
    let mut message = message.to_owned();
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        let value = argument.split_once('=').map_or("", |(_, value)| value);
        for part in [&argument, value] {
            if part.contains(char::is_control) {
                message = message.replace(part, &text::key(part.as_bytes()).to_string());
            }
        }
    }
    message
}

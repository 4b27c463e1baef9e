//! `bloomfile man`: manual pages, made from the definitions of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::{Failure, Result};
use crate::pending::Target;
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  bloomfile man | man -l -
  bloomfile man --out ~/.local/share/man/man1 --force")]
pub(crate) struct ManArgs {
    /// Write bloomfile.1, bloomfile-check.1 and so on into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Replace pages that are there already
    #[arg(short, long, requires = "out")]
    pub(crate) force: bool,
}

pub(super) fn run(args: &ManArgs) -> Result<ExitCode> {
    // `help` is no command with a page of its own.
    let command = Cli::command().disable_help_subcommand(true);
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(Failure::output)?;
        output::bytes(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    let pages = pages(command)?;
    let targets: Vec<Target> = pages
        .iter()
        .map(|(name, _)| Target::new(&folder.join(name), None, args.force))
        .collect::<Result<_>>()?;
    for (target, (_, page)) in targets.into_iter().zip(&pages) {
        target.write(page)?;
    }
    let count = units::counted(pages.len() as u64, "page");
    output::line(format_args!("{}: {count} written", text::path(folder)))?;
    Ok(ExitCode::SUCCESS)
}

/// The file names and pages of the command and its subcommands.
fn pages(mut command: clap::Command) -> Result<Vec<(String, Vec<u8>)>> {
    command.build();
    let subcommands: Vec<_> = command.get_subcommands().cloned().collect();
    let commands = std::iter::once(command).chain(subcommands);
    commands
        .map(|command| {
            let man = clap_mangen::Man::new(command);
            let mut page = Vec::new();
            man.render(&mut page).map_err(Failure::output)?;
            Ok((man.get_filename(), page))
        })
        .collect()
}

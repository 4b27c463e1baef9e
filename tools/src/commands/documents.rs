//! `bloomfile completions` and `bloomfile man`: made from the definitions of the command line.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::{Failure, Result};
use crate::pending::Target;
use crate::{output, text, units};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bloomfile", &mut script);
    output::bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode> {
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

//! `bloomfile completions` and `bloomfile man`: made from the definitions of the command line.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::{Failure, Result};
use crate::{output, units};

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
    let pages = 1 + command.get_subcommands().count() as u64;
    clap_mangen::generate_to(command, folder).map_err(|error| {
        Failure::about(folder.display(), format!("cannot write the pages: {error}"))
    })?;
    output::line(format_args!("{}: {} written", folder.display(), units::counted(pages, "page")))?;
    Ok(ExitCode::SUCCESS)
}

//! `bloomfile completions`: what a shell needs to complete the command line, made from its definitions.

use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::Result;
use crate::output;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  bloomfile completions bash > ~/.local/share/bash-completion/completions/bloomfile
  bloomfile completions zsh > ~/.zfunc/_bloomfile
  bloomfile completions fish > ~/.config/fish/completions/bloomfile.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bloomfile", &mut script);
    output::bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

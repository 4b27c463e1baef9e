//! `bloomfile completions`: what a shell needs to complete the command line, made from its definitions.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Result;
use crate::output;

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 done, 2 error.

Examples:
  bloomfile completions bash > ~/.local/share/bash-completion/completions/bloomfile
  bloomfile completions zsh > ~/.zfunc/_bloomfile
  bloomfile completions fish > ~/.config/fish/completions/bloomfile.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bloomfile", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Zsh {
        // With two colons, everything from the first of several arguments on would be arguments:
        // no options would be completed after FILE.
        script = script.replace("\n'*::", "\n'*:");
    }
    output::print(script)?;
    Ok(ExitCode::SUCCESS)
}

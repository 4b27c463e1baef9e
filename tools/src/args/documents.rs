//! What can be said to the commands that print what belongs to the program itself.

use std::path::PathBuf;

use clap::Args;

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

//! What many commands have in common: what they print, replace and trust.

use bloomfile::ReadOptions;
use clap::Args;

/// In what form the result is printed.
#[derive(Args, Debug)]
pub(crate) struct FormatArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whether the result is printed, and in what form.
#[derive(Args, Debug)]
pub(crate) struct PrintArgs {
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// What becomes of a file that stands where one is to be made.
#[derive(Args, Debug)]
pub(crate) struct ReplaceArgs {
    /// Replace the file to make if it is there already
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// How far files are trusted that are only read.
#[derive(Args, Debug)]
pub(crate) struct TrustArgs {
    /// Trust the data pages: starts at once on large files, but damage may go unseen
    #[arg(long)]
    pub(crate) no_verify: bool,
}

impl TrustArgs {
    /// The library's options for it.
    pub(crate) fn options(&self) -> ReadOptions {
        // A bit lost from the data would make a key that is present look absent.
        ReadOptions::new().verify(!self.no_verify)
    }
}

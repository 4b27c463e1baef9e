//! `bloomfile man`: manual pages, made from the definitions of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::Cli;
use crate::failure::{Failure, Result};
use crate::pending::Target;
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 done, 2 error.

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
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.out else {
        output::bytes(&page(command)?.1)?;
        return Ok(ExitCode::SUCCESS);
    };
    let subcommands: Vec<_> = command.get_subcommands().cloned().collect();
    let commands = std::iter::once(command).chain(subcommands);
    let pages = commands.map(page).collect::<Result<Vec<_>>>()?;
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

/// The file name and the page of a command.
///
/// What its help says at the end is put where readers of manual pages look for it: the exit status
/// and the examples in sections of their own, everything else into the description.
fn page(command: clap::Command) -> Result<(String, Vec<u8>)> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let help = Help::new(&help);
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).into_iter();
    let description: Vec<String> = about.chain(help.paragraphs.iter().map(reflowed)).collect();
    let command = command.after_help(Resettable::Reset).long_about(description.join("\n\n"));
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render(&mut page).map_err(Failure::output)?;
    let mut sections = Roff::default();
    if let Some(status) = help.exit_status {
        sections.control("SH", ["EXIT STATUS"]).text([roman(reflowed(&status))]);
    }
    if !help.examples.is_empty() {
        sections.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in &help.examples {
            sections.text([roman(*line)]);
        }
        sections.control("fi", []);
    }
    page.extend_from_slice(sections.to_roff().as_bytes());
    Ok((man.get_filename(), page))
}

/// A paragraph on one line: it is the reader's window that breaks it.
fn reflowed(paragraph: &&str) -> String {
    paragraph.lines().collect::<Vec<_>>().join(" ")
}

/// The end of a help text, taken apart.
#[derive(Default)]
struct Help<'h> {
    paragraphs: Vec<&'h str>,
    exit_status: Option<&'h str>,
    examples: Vec<&'h str>,
}

impl<'h> Help<'h> {
    fn new(text: &'h str) -> Self {
        let mut help = Help::default();
        for paragraph in text.split("\n\n") {
            if let Some(status) = paragraph.strip_prefix("Exit status: ") {
                help.exit_status = Some(status);
            } else if paragraph.starts_with("Example") {
                help.examples = paragraph.lines().skip(1).map(str::trim_start).collect();
            } else if !paragraph.is_empty() {
                help.paragraphs.push(paragraph);
            }
        }
        help
    }
}

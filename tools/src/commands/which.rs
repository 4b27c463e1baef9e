//! `bloomfile which`: for each key, the files that may hold it.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::ops::Readers;
use clap::Args;
use serde::Serialize;

use super::check::EXIT_ABSENT;
use crate::failure::{Failure, Result};
use crate::keys::{self, Piece, Sink};
use crate::options::{InputArgs, ReadArgs};
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Prints each key and the files that may hold it, separated by tabs. The files may differ in size,
layout and seed. A file that is not printed certainly does not hold the key: a damaged file is an
error, so the data is checked first.

Exit status: 0 when some file may hold some key, 1 when none may, 2 on error.

Examples:
  bloomfile which -k example.org *.bloom
  bloomfile which --from today.txt *.bloom --json")]
pub(crate) struct WhichArgs {
    /// A key; may be given again; without any, keys are read from standard input
    #[arg(short = 'k', long = "key", value_name = "KEY")]
    pub(crate) arguments: Vec<OsString>,

    /// The filters
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) inputs: InputArgs,

    /// Print a JSON object on a line for each key
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// One line of the JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct WhichOutput<'a> {
    /// The key as it was given; null when it is not UTF-8.
    key: Option<&'a str>,
    files: Vec<&'a str>,
}

pub(super) fn run(args: WhichArgs) -> Result<ExitCode> {
    let sources = keys::sources(args.arguments, args.inputs.from)?;
    let mut readers = Readers::new();
    for path in &args.files {
        let options = args.read.options();
        readers.push(options.open(path).map_err(Failure::file(path))?);
    }
    let mut asking = Asking {
        readers,
        names: args.files.iter().map(|path| name(path, args.json)).collect(),
        json: args.json,
        terminal: io::stdout().is_terminal(),
        separator: args.inputs.written.separator(),
        out: BufWriter::with_capacity(1 << 16, io::stdout()),
        found: false,
    };
    keys::visit(&sources, &args.inputs.written, false, &mut asking)?;
    asking.pause()?;
    for (reader, path) in asking.readers.as_slice().iter().zip(&args.files) {
        if let Some(damage) = reader.damage() {
            return Err(Failure::file(path)(damage));
        }
    }
    Ok(if asking.found { ExitCode::SUCCESS } else { ExitCode::from(EXIT_ABSENT) })
}

/// A file's name as it is printed: in JSON, which has escapes of its own, as it is.
fn name(path: &Path, json: bool) -> String {
    if json { path.display().to_string() } else { text::path(path).to_string() }
}

/// Asks all files about keys.
struct Asking {
    readers: Readers,
    names: Vec<String>,
    json: bool,
    /// Whether the output goes to one: records must not steer it.
    terminal: bool,
    separator: u8,
    out: BufWriter<Stdout>,
    found: bool,
}

/// What the keys of a piece come to.
#[derive(Default)]
struct Asked {
    /// What is to be printed.
    text: Vec<u8>,
    found: bool,
}

impl Asking {
    fn describe(&self, record: &[u8], found: &[usize], text: &mut Vec<u8>) -> io::Result<()> {
        let files = found.iter().map(|&number| self.names[number].as_str());
        if self.json {
            let line = WhichOutput { key: str::from_utf8(record).ok(), files: files.collect() };
            text.extend_from_slice(text::json(&serde_json::to_string(&line)?).as_bytes());
            text.push(b'\n');
            return Ok(());
        }
        if self.terminal {
            text::record(record, text);
        } else {
            text.extend_from_slice(record);
        }
        for file in files {
            text.push(b'\t');
            text.extend_from_slice(file.as_bytes());
        }
        text.push(self.separator);
        Ok(())
    }
}

impl Sink for Asking {
    type Part = io::Result<Asked>;

    fn work(&self, piece: &mut Piece<'_>) -> io::Result<Asked> {
        let mut asked = Asked::default();
        while let Some((record, key)) = piece.next() {
            let found = self.readers.which(key);
            asked.found |= !found.is_empty();
            self.describe(record, &found, &mut asked.text)?;
        }
        Ok(asked)
    }

    fn take(&mut self, part: io::Result<Asked>) -> Result<ControlFlow<()>> {
        let part = part.map_err(Failure::output)?;
        self.found |= part.found;
        self.out.write_all(&part.text).map_err(Failure::output)?;
        Ok(ControlFlow::Continue(()))
    }

    fn pause(&mut self) -> Result<()> {
        self.out.flush().map_err(Failure::output)
    }
}

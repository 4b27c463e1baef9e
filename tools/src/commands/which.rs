//! `bloomfile which`: for each key, the files that may hold it.

use std::ffi::OsString;
use std::io::{self, BufWriter, Stdout, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::hash::Form;
use bloomfile::ops::Readers;
use clap::Args;
use serde::Serialize;

use super::check::EXIT_ABSENT;
use super::{key_form, wording};
use crate::failure::{Failure, Result};
use crate::keys::{self, Format, Piece, Sink};
use crate::options::{InputArgs, ReadArgs};
use crate::output::{self, Printer};
use crate::text;

#[derive(Args, Debug)]
#[command(override_usage = "\
bloomfile which [OPTIONS] KEY FILE...
       bloomfile which [OPTIONS] -k KEY... FILE...
       bloomfile which [OPTIONS] --from INPUT... FILE...")]
#[command(after_help = "\
Prints each key and the files that may hold it, separated by tabs. The files may differ in size,
layout, seed and form of keys; --key-file is for those that are keyed. A file that is not printed
certainly does not hold the key: a damaged file is an error, so the data is checked first. What a
power cut left without a checksum cannot be checked, and a warning says so.

Exit status: 0 when some file may hold some key, 1 when none may, 2 on error.

Examples:
  bloomfile which example.org *.bloom
  bloomfile which --from today.txt *.bloom --json
  cut -f 2 today.tsv | bloomfile which - *.bloom")]
pub(crate) struct WhichArgs {
    /// The key, or - for keys from standard input, and then the filters; with -k or --from all of
    /// them are filters
    #[arg(value_name = "FILE", required = true)]
    pub(crate) arguments: Vec<OsString>,

    /// A key; may be given again
    #[arg(short = 'k', long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<OsString>,

    #[command(flatten)]
    pub(crate) inputs: InputArgs,

    /// Print a JSON object on a line for each key
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl WhichArgs {
    /// Tells the keys from the filters.
    fn split(&mut self) -> Result<(Vec<OsString>, Vec<PathBuf>)> {
        let mut keys = std::mem::take(&mut self.keys);
        let mut arguments = std::mem::take(&mut self.arguments).into_iter();
        if keys.is_empty() && self.inputs.from.is_empty() {
            keys.extend(arguments.next());
        }
        let files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
        if files.is_empty() {
            let message = "name a key, or - for keys from standard input, and then the filters: \
                           bloomfile which KEY FILE...";
            return Err(Failure::new(message));
        }
        Ok((keys, files))
    }
}

/// One line of the JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct WhichOutput<'a> {
    key: Option<&'a str>,
    files: Vec<&'a str>,
    record: Option<&'a str>,
    pages_unverified: u64,
}

pub(super) fn run(mut args: WhichArgs) -> Result<ExitCode> {
    let (keys, files) = args.split()?;
    keys::warn_of_file_names(&keys);
    let mut groups: Vec<Group> = Vec::new();
    let mut pages_unverified = 0u64;
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let readers = args.read.secret.open_all(&paths, |path, key| args.read.open(path, key))?;
    for ((number, path), reader) in files.iter().enumerate().zip(readers) {
        let unverified = wording::pages_unverified(&reader);
        wording::warn_if_unverified(path, unverified);
        pages_unverified = pages_unverified.saturating_add(unverified);
        let form = key_form::for_file(path, reader.metadata(), &args.inputs)?;
        let at = groups.iter().position(|group| group.form == form).unwrap_or_else(|| {
            groups.push(Group { form, readers: Readers::new(), numbers: Vec::new() });
            groups.len() - 1
        });
        groups[at].readers.push(reader);
        groups[at].numbers.push(number);
    }
    // Where a line ends does not depend on the file that is asked.
    let mut form = groups[0].form;
    form.crlf = groups.iter().any(|group| group.form.crlf);
    let format = Format::new(&args.inputs.records, form);
    let sources = keys::sources(keys, args.inputs.from)?;
    let mut asking = Asking {
        groups,
        names: files.iter().map(|path| name(path, args.json)).collect(),
        json: args.json,
        pages_unverified,
        printer: Printer::new(args.inputs.records.null),
        out: BufWriter::with_capacity(1 << 16, io::stdout()),
        found: false,
    };
    keys::visit(&sources, &format, false, &mut asking)?;
    asking.pause()?;
    for group in &asking.groups {
        for (reader, &number) in group.readers.as_slice().iter().zip(&group.numbers) {
            if let Some(damage) = reader.damage() {
                return Err(Failure::file(&files[number])(damage));
            }
        }
    }
    Ok(if asking.found { ExitCode::SUCCESS } else { ExitCode::from(EXIT_ABSENT) })
}

/// A file's name as it is printed: in JSON, which has escapes of its own, as it is.
fn name(path: &Path, json: bool) -> String {
    if json { path.display().to_string() } else { text::path(path).to_string() }
}

/// The files whose keys have the same form.
struct Group {
    form: Form,
    readers: Readers,
    /// Which of all files each of them is.
    numbers: Vec<usize>,
}

impl Group {
    /// Adds the files that may hold a key to those that were found.
    fn ask(&self, key: &[u8], found: &mut Vec<usize>) {
        found.extend(self.readers.which(key).into_iter().map(|reader| self.numbers[reader]));
    }
}

/// Asks all files about keys.
struct Asking {
    groups: Vec<Group>,
    names: Vec<String>,
    json: bool,
    /// Pages of all files that nothing proves to be what was written.
    pages_unverified: u64,
    printer: Printer,
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
    fn describe(&self, record: &[u8], found: &[usize], text: &mut Vec<u8>) {
        self.printer.record(record, text);
        for &number in found {
            text.push(b'\t');
            text.extend_from_slice(self.names[number].as_bytes());
        }
        self.printer.end(text);
    }

    fn describe_in_json(&self, key: &[u8], record: &[u8], found: &[usize], text: &mut Vec<u8>) {
        let record = (key != record).then_some(record);
        let line = WhichOutput {
            key: str::from_utf8(key).ok(),
            files: found.iter().map(|&number| self.names[number].as_str()).collect(),
            record: record.and_then(|record| str::from_utf8(record).ok()),
            pages_unverified: self.pages_unverified,
        };
        output::json_line(&line, text);
    }
}

impl Sink for Asking {
    type Output = Asked;

    fn work(&self, piece: &mut Piece<'_>) -> Asked {
        let mut asked = Asked::default();
        let (mut found, mut text, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(key) = piece.next() {
            let record = key.record;
            self.groups[0].ask(key.bytes, &mut found);
            if self.json {
                text.clear();
                text.extend_from_slice(key.text);
            }
            for group in &self.groups[1..] {
                match piece.key_in(group.form, &mut buffer) {
                    Ok(key) => group.ask(key, &mut found),
                    Err(bad) => {
                        piece.refuse(bad);
                        return asked;
                    }
                }
            }
            if !self.json && !piece.is_at_record_end() {
                continue;
            }
            found.sort_unstable();
            found.dedup();
            asked.found |= !found.is_empty();
            if self.json {
                self.describe_in_json(&text, record, &found, &mut asked.text);
            } else {
                self.describe(record, &found, &mut asked.text);
            }
            found.clear();
        }
        asked
    }

    fn accept(&mut self, asked: Asked) -> Result<ControlFlow<()>> {
        self.found |= asked.found;
        self.out.write_all(&asked.text).map_err(Failure::output)?;
        Ok(ControlFlow::Continue(()))
    }

    fn pause(&mut self) -> Result<()> {
        self.out.flush().map_err(Failure::output)
    }
}

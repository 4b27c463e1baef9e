//! `bloomfile check`: which keys may be present.

mod asked;

use std::io::{self, BufWriter, Stdout, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bloomfile::Key as Secret;
use clap::Args;
use serde::Serialize;

use super::{key_form, wording};
use crate::failure::{Failure, Result};
use crate::keys::{self, Format, Key, Piece, Sink};
use crate::options::{KeyListArgs, ReadArgs};
use crate::output::{self, Printer};
use crate::remote::{self, AskedFile};
use crate::text;
use asked::Asked;

#[derive(Args, Debug)]
#[command(after_help = "\
A key that is not printed is certainly absent: a damaged file is an error, so its data is checked
first. What a power cut left without a checksum cannot be checked; a warning says so, with --quiet
as well, until the file is built again. Of lines with fields the whole line is printed.

Keys are read in the form that the file records: with letters in lower case, say, if it was built
with --lower. An option that contradicts it is an error, because keys would seem to be absent.

FILE and DELETED may be addresses: http://, https:// or s3:// (see `bloomfile pull --help`), in a
command that was built with the feature `network`. Then only headers are read, and for each key the
page it falls on, which is checked; what keys have in common comes once. An address that ends in a
slash is a publication, of which the current snapshot is asked. If the file is replaced in between,
keys are asked again in the new one.

With --except a key counts as present when FILE may hold it and DELETED does not. Then absent is no
longer certain: where DELETED says \"maybe\" wrongly, a key that is present and was never deleted
counts as absent, at the rate of DELETED. Give that filter a low one.

Exit status: 0 when some key may be present (with --all: when every key may be), 1 when not, 2 on
error.

Examples:
  bloomfile check seen.bloom example.org && echo maybe
  bloomfile check seen.bloom -v --from today.txt > new.txt
  bloomfile check seen.bloom --from access.log --field 1 --whitespace
  bloomfile check seen.bloom --from hosts.csv --csv --field host
  bloomfile check seen.bloom --from events.jsonl --json-field client.ip --answers
  bloomfile check seen.bloom --except deleted.bloom example.org
  bloomfile check https://example.org/seen.bloom example.org")]
pub(crate) struct CheckArgs {
    /// The filter: a file, or its address
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) keys: KeyListArgs,

    /// Print the keys that are certainly absent instead
    #[arg(short = 'v', long)]
    pub(crate) absent: bool,

    /// Print how many keys would be printed instead of the keys
    #[arg(short, long)]
    pub(crate) count: bool,

    /// Print nothing; stop as soon as the exit status is known
    #[arg(short, long, conflicts_with_all = ["count", "absent"])]
    pub(crate) quiet: bool,

    /// Print every key, behind its answer: maybe or no, and a tab
    #[arg(short, long, conflicts_with_all = ["count", "absent", "quiet"])]
    pub(crate) answers: bool,

    /// Print a JSON object with the answer on a line for every key
    #[arg(long, conflicts_with_all = ["count", "absent", "quiet", "answers"])]
    pub(crate) json: bool,

    /// Succeed only if every key may be present
    #[arg(long)]
    pub(crate) all: bool,

    /// Count keys that this filter may hold as absent, at the risk of its false positives
    #[arg(long, value_name = "DELETED")]
    pub(crate) except: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Exit status when no key may be present.
pub(super) const EXIT_ABSENT: u8 = 1;

/// One line of the JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct CheckOutput<'a> {
    key: Option<&'a str>,
    answer: &'static str,
    record: Option<&'a str>,
    pages_unverified: u64,
}

/// The answer of a filter, in its words.
fn answer(present: bool) -> &'static str {
    if present { "maybe" } else { "no" }
}

pub(super) fn run(args: CheckArgs) -> Result<ExitCode> {
    if !args.quiet {
        keys::warn_of_file_names(&args.keys.arguments);
    }
    let inputs = &args.keys.inputs;
    let open = |path: &Path, key: Option<&Secret>| match remote::address(path) {
        Some(address) => {
            args.read.check_remote(address)?;
            let file = AskedFile::open(address, key.cloned())?;
            Ok(file.map(Box::new).map(Asked::There))
        }
        None => Ok(args.read.open(path, key)?.map(Box::new).map(Asked::Here)),
    };
    let paths: Vec<&Path> = [Some(&args.file), args.except.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let mut opened = args.read.secret.open_all(&paths, open)?.into_iter();
    let reader = opened.next().expect("the first of the files");
    let deleted = opened.next();
    let pages_unverified = reader.pages_unverified();
    wording::warn_if_unverified(&args.file, pages_unverified);
    let form = key_form::for_file(&args.file, &reader.metadata(), inputs)?;
    if let (Some(deleted), Some(path)) = (&deleted, &args.except) {
        wording::warn_if_unverified(path, deleted.pages_unverified());
        let other = key_form::for_file(path, &deleted.metadata(), inputs)?;
        if other != form {
            let message = "records another form of keys, so that it holds other keys of the same \
                           texts; give --no-form and the options for the form that both have";
            return Err(Failure::about(text::path(path), message));
        }
    }
    let format = Format::new(&inputs.records, form);
    let show = match &args {
        CheckArgs { quiet: true, .. } => Show::Nothing,
        CheckArgs { json: true, .. } => Show::Json,
        CheckArgs { answers: true, .. } => Show::Answers,
        CheckArgs { count: true, .. } => Show::Count,
        _ => Show::Records,
    };
    let sources = keys::sources(args.keys.arguments, args.keys.inputs.from)?;
    let mut checking = Checking {
        reader,
        deleted,
        pages_unverified,
        show,
        absent: args.absent,
        all: args.all,
        printer: Printer::new(args.keys.inputs.records.null),
        out: BufWriter::with_capacity(1 << 16, io::stdout()),
        counts: Counts::default(),
    };
    for filter in [Some(&checking.reader), checking.deleted.as_ref()].into_iter().flatten() {
        filter.prepare(&sources, &format)?;
    }
    keys::visit(&sources, &format, args.quiet, &mut checking)?;
    checking.pause()?;
    // Without a check beforehand: every key of a damaged page was taken for present.
    let readers = [
        (Some(&checking.reader), Some(&args.file)),
        (checking.deleted.as_ref(), args.except.as_ref()),
    ];
    for (reader, path) in readers {
        if let (Some(reader), Some(path)) = (reader, path)
            && let Some(damage) = reader.damage(path)
        {
            return Err(damage);
        }
    }
    checking.finish()
}

/// What is printed.
#[derive(Clone, Copy, PartialEq)]
enum Show {
    /// The records of the keys that are of interest.
    Records,
    /// Each record with its answer.
    Answers,
    /// Each key with its answer.
    Json,
    Count,
    Nothing,
}

/// Looks keys up and prints what is asked for.
struct Checking {
    reader: Asked,
    /// Holds the keys that count as absent all the same.
    deleted: Option<Asked>,
    /// Pages that nothing proves to be what was written.
    pages_unverified: u64,
    show: Show,
    /// The absent keys are of interest rather than the others.
    absent: bool,
    all: bool,
    printer: Printer,
    out: BufWriter<Stdout>,
    counts: Counts,
}

/// Records by the answer to them.
#[derive(Default)]
struct Counts {
    present: u64,
    missing: u64,
}

/// What the keys of a piece come to.
#[derive(Default)]
struct Checked {
    /// What is to be printed.
    text: Vec<u8>,
    counts: Counts,
    /// Why no more of them could be looked up.
    failure: Option<Failure>,
}

impl Checking {
    fn succeeded(&self) -> bool {
        if self.all { self.counts.missing == 0 } else { self.counts.present > 0 }
    }

    fn finish(mut self) -> Result<ExitCode> {
        if self.show == Show::Count {
            let count = if self.absent { self.counts.missing } else { self.counts.present };
            writeln!(self.out, "{count}").map_err(Failure::output)?;
        }
        self.pause()?;
        Ok(if self.succeeded() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_ABSENT) })
    }
}

/// The records looked up together, the hashes of their keys and the answers.
#[derive(Default)]
struct Batch<'a> {
    records: Vec<&'a [u8]>,
    /// Where the keys of each record end among all.
    key_ends: Vec<usize>,
    /// The keys as they are written, where they are printed.
    texts: Vec<Vec<u8>>,
    hashes: Vec<u64>,
    /// The hashes as the filter of deleted keys takes them, if there is one.
    deleted_hashes: Vec<u64>,
    found: Vec<bool>,
}

impl Batch<'_> {
    fn clear(&mut self) {
        self.records.clear();
        self.key_ends.clear();
        self.texts.clear();
        self.hashes.clear();
        self.deleted_hashes.clear();
    }
}

impl Checking {
    /// Whether the answers so far decide the exit status, with nothing to print but that.
    fn is_decided(&self, counts: &Counts) -> bool {
        // One key decides: the first present one, or with --all the first absent one.
        self.show == Show::Nothing && if self.all { counts.missing > 0 } else { counts.present > 0 }
    }

    /// Looks up the records of a batch.
    fn look_up(&self, batch: &mut Batch<'_>, to: &mut Checked) -> Result<()> {
        self.reader.may_hold(&batch.hashes, &mut batch.found)?;
        if let Some(deleted) = &self.deleted {
            deleted.exclude(&batch.deleted_hashes, &mut batch.found)?;
        }
        let mut start = 0;
        for (record, &end) in batch.records.iter().zip(&batch.key_ends) {
            let keys = start..end;
            let present = batch.found[keys.clone()].contains(&true);
            *(if present { &mut to.counts.present } else { &mut to.counts.missing }) += 1;
            match self.show {
                Show::Records if present != self.absent => {
                    self.printer.record(record, &mut to.text);
                    self.printer.end(&mut to.text);
                }
                Show::Answers => {
                    to.text.extend_from_slice(answer(present).as_bytes());
                    to.text.push(b'\t');
                    self.printer.record(record, &mut to.text);
                    self.printer.end(&mut to.text);
                }
                Show::Json => {
                    for (key, &found) in batch.texts[keys.clone()].iter().zip(&batch.found[keys]) {
                        let record = (key != record).then_some(record);
                        output::json_line(
                            &CheckOutput {
                                key: str::from_utf8(key).ok(),
                                answer: answer(found),
                                record: record.and_then(|record| str::from_utf8(record).ok()),
                                pages_unverified: self.pages_unverified,
                            },
                            &mut to.text,
                        );
                    }
                }
                _ => {}
            }
            start = end;
        }
        Ok(())
    }
}

impl Sink for Checking {
    type Output = Checked;

    fn work(&self, piece: &mut Piece<'_>) -> Checked {
        let hasher = self.reader.hasher();
        let deleted = self.deleted.as_ref().map(Asked::hasher);
        let size = self.reader.batch();
        let mut batch = Batch::default();
        let mut checked = Checked::default();
        loop {
            batch.clear();
            while batch.hashes.len() < size || !piece.is_at_record_end() {
                let Some(Key { record, text, bytes }) = piece.next() else { break };
                let hash = hasher.hash(bytes);
                batch.hashes.push(hash);
                if let Some(deleted) = deleted {
                    let same = deleted == hasher;
                    batch.deleted_hashes.push(if same { hash } else { deleted.hash(bytes) });
                }
                if self.show == Show::Json {
                    batch.texts.push(text.to_vec());
                }
                if piece.is_at_record_end() {
                    batch.records.push(record);
                    batch.key_ends.push(batch.hashes.len());
                }
            }
            let is_last = batch.hashes.len() < size;
            if let Err(failure) = self.look_up(&mut batch, &mut checked) {
                checked.failure = Some(failure);
                return checked;
            }
            if is_last || self.is_decided(&checked.counts) {
                return checked;
            }
        }
    }

    fn accept(&mut self, checked: Checked) -> Result<ControlFlow<()>> {
        self.out.write_all(&checked.text).map_err(Failure::output)?;
        self.counts.present += checked.counts.present;
        self.counts.missing += checked.counts.missing;
        if let Some(failure) = checked.failure {
            self.pause()?;
            return Err(failure);
        }
        let decided = self.is_decided(&self.counts);
        Ok(if decided { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn pause(&mut self) -> Result<()> {
        self.out.flush().map_err(Failure::output)
    }
}

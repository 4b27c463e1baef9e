//! `bloomfile check`: which keys may be present.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::Reader;
use clap::Args;

use crate::failure::{Failure, Result};
use crate::keys::{self, Piece, Sink};
use crate::options::{KeyListArgs, ReadArgs};
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 when some key may be present (with --all: when every key may be), 1 when not,
2 on error. A key that is not printed is certainly absent: a damaged file is an error, so its
data is checked first.

Examples:
  bloomfile check seen.bloom example.org && echo maybe
  bloomfile check seen.bloom -v --from today.txt > new.txt
  bloomfile check seen.bloom --from access.log --field 1 --delimiter ' '   whole lines
  bloomfile check seen.bloom --except deleted.bloom example.org

With --except a key counts as present when FILE may hold it and DELETED does not. Then absent is no
longer certain: where DELETED says \"maybe\" wrongly, a key that is present and was never deleted
counts as absent, at the rate of DELETED. Give that filter a low one.")]
pub(crate) struct CheckArgs {
    /// The filter
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

    /// Succeed only if every key may be present
    #[arg(long)]
    pub(crate) all: bool,

    /// Count keys that this filter may hold as absent, at the risk of its false positives (below)
    #[arg(long, value_name = "DELETED")]
    pub(crate) except: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Exit status when no key may be present.
pub(crate) const EXIT_ABSENT: u8 = 1;

pub(super) fn run(args: CheckArgs) -> Result<ExitCode> {
    let sources = keys::sources(args.keys.arguments, args.keys.inputs.from)?;
    let options = args.read.options();
    let open = |path: &PathBuf| options.open(path).map_err(Failure::file(path));
    let reader = open(&args.file)?;
    let deleted = args.except.as_ref().map(open).transpose()?;
    let show = match (args.quiet, args.count) {
        (true, _) => Show::Nothing,
        (_, true) => Show::Count,
        _ => Show::Keys,
    };
    let mut checking = Checking {
        reader,
        deleted,
        show,
        absent: args.absent,
        all: args.all,
        terminal: io::stdout().is_terminal(),
        separator: args.keys.inputs.written.separator(),
        out: BufWriter::with_capacity(1 << 16, io::stdout()),
        counts: Counts::default(),
    };
    keys::visit(&sources, &args.keys.inputs.written, args.quiet, &mut checking)?;
    checking.pause()?;
    // Without a check beforehand: every key of a damaged page was taken for present.
    let readers = [
        (Some(&checking.reader), Some(&args.file)),
        (checking.deleted.as_ref(), args.except.as_ref()),
    ];
    for (reader, path) in readers {
        if let (Some(reader), Some(path)) = (reader, path)
            && let Some(damage) = reader.damage()
        {
            return Err(Failure::file(path)(damage));
        }
    }
    checking.finish()
}

/// What is printed.
#[derive(PartialEq)]
enum Show {
    Keys,
    Count,
    Nothing,
}

/// Looks keys up and prints what is asked for.
struct Checking {
    reader: Reader,
    /// Holds the keys that count as absent all the same.
    deleted: Option<Reader>,
    show: Show,
    /// The absent keys are of interest rather than the others.
    absent: bool,
    all: bool,
    /// Whether the output goes to one: records must not steer it.
    terminal: bool,
    separator: u8,
    out: BufWriter<Stdout>,
    counts: Counts,
}

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

/// Keys looked up together.
const BATCH: usize = 512;

/// The records looked up together, the hashes of their keys and the answers.
#[derive(Default)]
struct Batch<'a> {
    records: Vec<&'a [u8]>,
    hashes: Vec<u64>,
    /// The hashes as the filter of deleted keys takes them, if there is one.
    deleted_hashes: Vec<u64>,
    found: Vec<bool>,
}

impl Checking {
    /// Whether the answers so far settle the exit status, with nothing to print but that.
    fn is_decided(&self, counts: &Counts) -> bool {
        // One key decides: the first present one, or with --all the first absent one.
        self.show == Show::Nothing && if self.all { counts.missing > 0 } else { counts.present > 0 }
    }

    /// Looks up the records of a batch.
    fn answer(&self, batch: &mut Batch<'_>, to: &mut Checked) {
        self.reader.contains_hash_batch(&batch.hashes, &mut batch.found);
        if let Some(deleted) = &self.deleted {
            for (found, &hash) in batch.found.iter_mut().zip(&batch.deleted_hashes) {
                // A "maybe" that damage makes says nothing of the key.
                *found = *found && !matches!(deleted.try_contains_hash(hash), Ok(true));
            }
        }
        for (record, &present) in batch.records.iter().zip(&batch.found) {
            *(if present { &mut to.counts.present } else { &mut to.counts.missing }) += 1;
            if self.show == Show::Keys && present != self.absent {
                if self.terminal {
                    text::record(record, &mut to.text);
                } else {
                    to.text.extend_from_slice(record);
                }
                to.text.push(self.separator);
            }
        }
    }
}

impl Sink for Checking {
    type Part = Checked;

    fn work(&self, piece: &mut Piece<'_>) -> Checked {
        let hasher = self.reader.hasher();
        let deleted = self.deleted.as_ref().map(Reader::hasher);
        let mut batch = Batch::default();
        let mut checked = Checked::default();
        loop {
            batch.records.clear();
            batch.hashes.clear();
            batch.deleted_hashes.clear();
            while batch.hashes.len() < BATCH
                && let Some((record, key)) = piece.next()
            {
                let hash = hasher.hash(key);
                batch.records.push(record);
                batch.hashes.push(hash);
                if let Some(deleted) = deleted {
                    let same = deleted == hasher;
                    batch.deleted_hashes.push(if same { hash } else { deleted.hash(key) });
                }
            }
            self.answer(&mut batch, &mut checked);
            if batch.hashes.len() < BATCH || self.is_decided(&checked.counts) {
                return checked;
            }
        }
    }

    fn take(&mut self, part: Checked) -> Result<ControlFlow<()>> {
        self.out.write_all(&part.text).map_err(Failure::output)?;
        self.counts.present += part.counts.present;
        self.counts.missing += part.counts.missing;
        let decided = self.is_decided(&self.counts);
        Ok(if decided { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn pause(&mut self) -> Result<()> {
        self.out.flush().map_err(Failure::output)
    }
}

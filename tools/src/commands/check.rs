//! `bloomfile check`: which keys may be present.

use std::io::{self, BufWriter, Stdout, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use bloomfile::{ReadOptions, Reader};

use crate::args::CheckArgs;
use crate::failure::{Failure, Result};
use crate::keys::{self, Piece, Sink};

/// Exit status when no key may be present.
const EXIT_ABSENT: u8 = 1;

pub(crate) fn run(args: CheckArgs) -> Result<ExitCode> {
    let sources = keys::sources(args.arguments, args.from)?;
    // A bit lost from the data would make a key that is present look absent.
    let reader = ReadOptions::new()
        .verify(!args.no_verify)
        .open(&args.file)
        .map_err(Failure::file(&args.file))?;
    let show = match (args.quiet, args.count) {
        (true, _) => Show::Nothing,
        (_, true) => Show::Count,
        _ => Show::Keys,
    };
    let mut checking = Checking {
        reader,
        show,
        absent: args.absent,
        all: args.all,
        separator: args.keys.separator(),
        out: BufWriter::with_capacity(1 << 16, io::stdout()),
        counts: Counts::default(),
    };
    keys::visit(&sources, &args.keys, args.quiet, &mut checking)?;
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
    show: Show,
    /// The absent keys are of interest rather than the others.
    absent: bool,
    all: bool,
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

impl Checking {
    /// Whether the answers so far settle the exit status, with nothing to print but that.
    fn is_decided(&self, counts: &Counts) -> bool {
        // One key decides: the first present one, or with --all the first absent one.
        self.show == Show::Nothing && if self.all { counts.missing > 0 } else { counts.present > 0 }
    }

    /// Looks up the records of a batch by their hashes.
    fn answer(&self, records: &[&[u8]], hashes: &[u64], found: &mut Vec<bool>, to: &mut Checked) {
        self.reader.contains_hash_batch(hashes, found);
        for (record, &present) in records.iter().zip(&*found) {
            *(if present { &mut to.counts.present } else { &mut to.counts.missing }) += 1;
            if self.show == Show::Keys && present != self.absent {
                to.text.extend_from_slice(record);
                to.text.push(self.separator);
            }
        }
    }
}

impl Sink for Checking {
    type Part = Checked;

    fn work(&self, piece: &mut Piece<'_>) -> Checked {
        let hasher = self.reader.hasher();
        let (mut records, mut hashes, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let mut checked = Checked::default();
        loop {
            records.clear();
            hashes.clear();
            while hashes.len() < BATCH
                && let Some((record, key)) = piece.next()
            {
                records.push(record);
                hashes.push(hasher.hash(key));
            }
            self.answer(&records, &hashes, &mut found, &mut checked);
            if hashes.len() < BATCH || self.is_decided(&checked.counts) {
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

//! `bloomfile check`: which keys may be present.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use bloomfile::{ReadOptions, Reader};

use crate::args::CheckArgs;
use crate::failure::{Failure, Result};
use crate::keys::{self, Sink};

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
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        present: 0,
        missing: 0,
    };
    keys::visit(&sources, &args.keys, &mut checking)?;
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
    out: BufWriter<StdoutLock<'static>>,
    present: u64,
    missing: u64,
}

impl Checking {
    fn succeeded(&self) -> bool {
        if self.all { self.missing == 0 } else { self.present > 0 }
    }

    fn finish(mut self) -> Result<ExitCode> {
        if self.show == Show::Count {
            let count = if self.absent { self.missing } else { self.present };
            writeln!(self.out, "{count}").map_err(Failure::output)?;
        }
        self.pause()?;
        Ok(if self.succeeded() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_ABSENT) })
    }
}

impl Sink for Checking {
    fn key(&mut self, record: &[u8], key: &[u8]) -> Result<ControlFlow<()>> {
        let present = self.reader.contains(key);
        *(if present { &mut self.present } else { &mut self.missing }) += 1;
        if self.show == Show::Keys && present != self.absent {
            self.out
                .write_all(record)
                .and_then(|()| self.out.write_all(&[self.separator]))
                .map_err(Failure::output)?;
        }
        // One key decides: the first present one, or with --all the first absent one.
        let decided = self.show == Show::Nothing && present != self.all;
        Ok(if decided { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn pause(&mut self) -> Result<()> {
        self.out.flush().map_err(Failure::output)
    }
}

//! `bloomfile build`: a filter from keys, all at once.

use std::io::{self, BufWriter, Read, Seek, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::{Builder, Options, hash::Hasher};
use clap::Args;
use serde::Serialize;
use tempfile::SpooledTempFile;

use super::add::hashes;
use super::create::warn_of_plan;
use super::warn_if_over_capacity;
use crate::failure::{Failure, Result};
use crate::keys::{self, Piece, Sink, Source};
use crate::options::{KeyArgs, NewFileArgs, PrintArgs, ShapeArgs};
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Without --capacity the keys are counted first, repeated ones each time they occur; 8 bytes for
each are kept in the temporary folder (TMPDIR) meanwhile. Without --fpr it is 1%. The same keys
and options give the same file, byte for byte. Filters that shall be merged later are built with
the same --capacity and --fpr.

Examples:
  bloomfile build words.bloom words.txt
  bloomfile build orders.bloom orders.csv --field 1 --delimiter , --meta keys='order numbers'")]
pub(crate) struct BuildArgs {
    /// The file to make
    pub(crate) file: PathBuf,

    /// Files of keys, one per line; - is standard input [default: -]
    #[arg(value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) new_file: NewFileArgs,

    #[command(flatten)]
    pub(crate) keys: KeyArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// The rate when none is given.
const DEFAULT_RATE: f64 = 0.01;

/// Hashes that are kept in memory before all of them go to the temporary folder.
const HASHES_IN_MEMORY: usize = 1 << 20;

/// Hashes that are taken from there at once.
const HASHES_AT_ONCE: usize = 1 << 21;

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct BuildOutput {
    schema: u32,
    file: String,
    keys: u64,
    new: u64,
    capacity: Option<u64>,
    expected_rate: Option<f64>,
    file_bytes: u64,
}

pub(super) fn run(args: BuildArgs) -> Result<ExitCode> {
    let sources = keys::sources(Vec::new(), args.inputs.clone())?;
    let mut shape = args.shape.options();
    if args.shape.fpr.is_none() && !args.shape.is_exact() {
        shape = shape.false_positive_rate(DEFAULT_RATE);
    }
    let options = args.new_file.apply(shape);
    let planned_before = args.shape.is_exact() || args.shape.capacity.is_some();
    let (options, keys, builder) = if planned_before {
        let builder = start(&options, &args)?;
        let mut filling = Filling { builder, keys: 0 };
        keys::visit(&sources, &args.keys, args.print.quiet, &mut filling)?;
        (options, filling.keys, filling.builder)
    } else {
        build_counted(options, &sources, &args)?
    };
    let failed = Failure::file(&args.file);
    let plan = options.plan().map_err(&failed)?;
    let adds = builder.adds();
    builder.finish().map_err(&failed)?;
    if !args.print.quiet {
        warn_of_plan(&args.file, &plan, args.print.quiet);
        warn_if_over_capacity(&args.file, adds, plan.capacity(), "build a larger one");
        let file = text::path(&args.file);
        let file_bytes = options.file_bytes().map_err(&failed)?;
        if args.print.format.json {
            output::json(&BuildOutput {
                schema: 1,
                file: args.file.display().to_string(),
                keys,
                new: adds,
                capacity: plan.capacity(),
                expected_rate: plan.expected_rate(),
                file_bytes,
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        let size = units::size(file_bytes);
        let (keys, new) = (units::counted(keys, "key"), units::count(adds));
        let counted = match (planned_before, plan.capacity()) {
            (false, Some(capacity)) => {
                format!("; made for {}, repeats included", units::count(capacity))
            }
            _ => String::new(),
        };
        output::line(format_args!("{file}: {keys} read, {new} of them new{counted}; {size}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn start(options: &Options, args: &BuildArgs) -> Result<Builder> {
    options.start_build(&args.file).map_err(Failure::file(&args.file))
}

/// Reads the keys once, keeps their hashes aside, and makes the filter for as many as there were.
///
/// Hashes rather than a second look at the inputs: pipes can be read only once, and files may
/// change in between.
fn build_counted(
    options: Options,
    sources: &[Source],
    args: &BuildArgs,
) -> Result<(Options, u64, Builder)> {
    // Everything that can be refused is refused before the keys are read: whoever waits for a
    // long input shall not learn at its end that the target exists.
    drop(start(&options.clone().capacity(1), args)?);
    let mut spool = Spool::new(Hasher::new(args.new_file.seed));
    keys::visit(sources, &args.keys, args.print.quiet, &mut spool)?;
    let keys = spool.keys;
    if keys == 0 {
        let message = "the inputs hold no key; give --capacity to make an empty filter";
        return Err(Failure::about(text::path(&args.file), message));
    }
    let options = options.capacity(keys);
    let mut builder = start(&options, args)?;
    spool.replay(|hashes| {
        builder.add_hash_batch(hashes);
    })?;
    Ok((options, keys, builder))
}

/// Adds keys to a filter under construction.
struct Filling {
    builder: Builder,
    keys: u64,
}

impl Sink for Filling {
    type Part = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.builder.hasher(), piece)
    }

    fn take(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        self.builder.add_hash_batch(&hashes);
        self.keys += hashes.len() as u64;
        Ok(ControlFlow::Continue(()))
    }
}

/// Keeps hashes until their number is known: a few in memory, many in a nameless temporary file.
struct Spool {
    hasher: Hasher,
    keys: u64,
    file: BufWriter<SpooledTempFile>,
}

impl Spool {
    fn new(hasher: Hasher) -> Self {
        let file = tempfile::spooled_tempfile(HASHES_IN_MEMORY * size_of::<u64>());
        Spool { hasher, keys: 0, file: BufWriter::with_capacity(1 << 20, file) }
    }

    fn failed(error: io::Error) -> Failure {
        Failure::about(
            text::path(&std::env::temp_dir()),
            format!(
                "cannot keep the keys' hashes aside: {error}; set TMPDIR to another folder, or \
                 give --capacity"
            ),
        )
    }

    /// Gives back all hashes, in order, many at a time.
    fn replay(self, mut take: impl FnMut(&[u64])) -> Result<()> {
        let mut file = self.file.into_inner().map_err(|error| Self::failed(error.into_error()))?;
        file.rewind().map_err(Self::failed)?;
        let mut bytes = vec![0; HASHES_AT_ONCE * size_of::<u64>()];
        let mut hashes = Vec::with_capacity(HASHES_AT_ONCE);
        let mut left = self.keys as usize;
        while left > 0 {
            let bytes = &mut bytes[..left.min(HASHES_AT_ONCE) * size_of::<u64>()];
            file.read_exact(bytes).map_err(Self::failed)?;
            hashes.clear();
            hashes.extend(bytes.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)));
            take(&hashes);
            left -= hashes.len();
        }
        Ok(())
    }
}

impl Sink for Spool {
    type Part = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.hasher, piece)
    }

    fn take(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        for hash in &hashes {
            self.file.write_all(&hash.to_le_bytes()).map_err(Self::failed)?;
        }
        self.keys += hashes.len() as u64;
        Ok(ControlFlow::Continue(()))
    }
}

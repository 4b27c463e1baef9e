//! `bloomfile build`: a filter from keys, all at once.

use std::io::{self, BufWriter, Read, Seek, Write};
use std::ops::{ControlFlow, RangeInclusive};
use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::{Builder, Options, Plan, hash::Hasher};
use clap::Args;
use serde::Serialize;
use tempfile::SpooledTempFile;

use super::create::warn_of_plan;
use super::wording::warn_if_over_capacity;
use super::writing::{hashes, news};
use crate::failure::{Failure, Result};
use crate::keys::{self, Format, Piece, Sink, Source};
use crate::options::{FormArgs, NewFileArgs, PrintArgs, RecordArgs, ShapeArgs};
use crate::platform::TEMPORARY_FOLDER;
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Without --capacity the keys are counted first, repeated ones each time they occur; 8 bytes for each
are kept in the temporary folder (TMPDIR) until the filter is made. The same keys and options give
the same file, byte for byte. Filters that shall be merged later are built with the same --capacity
and --fpr.

The file records --crlf, --trim, --lower, --hex and --encoding (keys.form and keys.encoding of its
metadata), and add, remove, check and which read keys in this form without being told.

Besides the filter itself, which is mapped, it takes about 10 MiB of memory and 4 MiB for each
core, up to 25 MiB for each core if the filter is large. Long keys and records of CSV take their length.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile build words.bloom words.txt
  bloomfile build sums.bloom --hex SHA256SUMS --field 1 --delimiter ' '
  bloomfile build orders.bloom orders.csv --csv --field order_id --meta keys='order numbers'
  bloomfile build users.bloom events.jsonl --json-field user.id --encoding le64")]
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
    pub(crate) records: RecordArgs,

    #[command(flatten)]
    pub(crate) form: FormArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// Hashes of each thread that are added at once, at least and at most. They are sorted by region of
/// the filter, which takes 24 bytes of memory for each.
const HASHES_PER_THREAD: RangeInclusive<u64> = 1 << 17..=1 << 20;

/// Bytes of a filter for each hash that a thread adds at once: the larger the filter is, the more
/// hashes it takes to have several in each region, and the less their memory counts.
const BYTES_PER_HASH: u64 = 64;

/// Bytes of hashes that are kept in memory before all of them go to the temporary folder.
const SPOOL_BYTES: usize = 1 << 21;

/// Bytes of hashes that are written to the temporary folder, or read from there, at once.
const SPOOL_BUFFER_BYTES: usize = 1 << 18;

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
    let form = args.form.into();
    let format = Format::new(&args.records, form);
    let options = args.new_file.apply(args.shape.options(), form)?;
    let planned_before = args.shape.is_exact() || args.shape.capacity.is_some();
    let (options, keys, builder) = if planned_before {
        let mut filling = start(&options, &args)?;
        keys::visit(&sources, &format, args.print.quiet, &mut filling)?;
        let (builder, keys) = filling.finish();
        (options, keys, builder)
    } else {
        build_counted(options, &sources, &format, &args)?
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
        let counted = match (planned_before, plan.capacity()) {
            (false, Some(capacity)) => {
                format!("; made for {}, repeats included", units::count(capacity))
            }
            _ => String::new(),
        };
        let (read, news) = (units::counted(keys, "key"), news(keys, adds));
        output::line(format_args!("{file}: {read} read{news}{counted}; {size}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn start(options: &Options, args: &BuildArgs) -> Result<Filling> {
    let start = || Ok(Filling::new(options.start_build(&args.file)?, &options.plan()?));
    start().map_err(Failure::file(&args.file))
}

/// Reads the keys once, keeps their hashes aside, and makes the filter for as many as there were.
///
/// Hashes rather than a second look at the inputs: pipes can be read only once, and files may
/// change in between.
fn build_counted(
    options: Options,
    sources: &[Source],
    format: &Format,
    args: &BuildArgs,
) -> Result<(Options, u64, Builder)> {
    // Everything that can be refused is refused before the keys are read: it takes a while to read a
    // long input, and then to learn that the target exists.
    drop(start(&options.clone().capacity(1), args)?);
    let mut spool = Spool::new(Hasher::new(args.new_file.seed));
    keys::visit(sources, format, args.print.quiet, &mut spool)?;
    let keys = spool.keys;
    if keys == 0 {
        let message = "the inputs hold no key; give --capacity to make an empty filter";
        return Err(Failure::about(text::path(&args.file), message));
    }
    let options = options.capacity(keys);
    let mut filling = start(&options, args)?;
    spool.replay(|hashes| filling.add(hashes))?;
    Ok((options, keys, filling.finish().0))
}

/// Adds keys to a filter under construction, many at a time.
struct Filling {
    builder: Builder,
    keys: u64,
    /// Hashes to be added, at most `most`.
    hashes: Vec<u64>,
    most: usize,
}

impl Filling {
    fn new(builder: Builder, plan: &Plan) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (fewest, most) = (*HASHES_PER_THREAD.start(), *HASHES_PER_THREAD.end());
        let most = (plan.data_bytes() / BYTES_PER_HASH).clamp(fewest, most) as usize * threads;
        Filling { builder, keys: 0, hashes: Vec::with_capacity(most), most }
    }

    fn add(&mut self, mut hashes: &[u64]) {
        self.keys += hashes.len() as u64;
        while !hashes.is_empty() {
            let room = self.most - self.hashes.len();
            let (now, later) = hashes.split_at(room.min(hashes.len()));
            self.hashes.extend_from_slice(now);
            if self.hashes.len() == self.most {
                self.flush();
            }
            hashes = later;
        }
    }

    fn flush(&mut self) {
        self.builder.add_hash_batch(&self.hashes);
        self.hashes.clear();
    }

    /// The filter with all keys in it, and their number.
    fn finish(mut self) -> (Builder, u64) {
        self.flush();
        (self.builder, self.keys)
    }
}

impl Sink for Filling {
    type Output = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.builder.hasher(), piece)
    }

    fn accept(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        self.add(&hashes);
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
        let file = tempfile::spooled_tempfile(SPOOL_BYTES);
        Spool { hasher, keys: 0, file: BufWriter::with_capacity(SPOOL_BUFFER_BYTES, file) }
    }

    fn failed(error: io::Error) -> Failure {
        Failure::about(
            text::path(&std::env::temp_dir()),
            format!(
                "cannot keep the keys' hashes aside: {error}; set {TEMPORARY_FOLDER} to another \
                 folder, or give --capacity"
            ),
        )
    }

    /// Gives back all hashes, in order.
    fn replay(self, mut take: impl FnMut(&[u64])) -> Result<()> {
        let mut file = self.file.into_inner().map_err(|error| Self::failed(error.into_error()))?;
        file.rewind().map_err(Self::failed)?;
        let mut bytes = vec![0; SPOOL_BUFFER_BYTES];
        let mut hashes = Vec::with_capacity(bytes.len() / size_of::<u64>());
        let mut left = self.keys * size_of::<u64>() as u64;
        while left > 0 {
            let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let bytes = &mut bytes[..length];
            file.read_exact(bytes).map_err(Self::failed)?;
            hashes.clear();
            hashes.extend(bytes.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)));
            take(&hashes);
            left -= length as u64;
        }
        Ok(())
    }
}

impl Sink for Spool {
    type Output = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.hasher, piece)
    }

    fn accept(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        for hash in &hashes {
            self.file.write_all(&hash.to_le_bytes()).map_err(Self::failed)?;
        }
        self.keys += hashes.len() as u64;
        Ok(ControlFlow::Continue(()))
    }
}

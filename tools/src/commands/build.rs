//! `bloomfile build`: a filter from keys, all at once.

use std::io;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::PathBuf;
use std::process::ExitCode;

use bloomfile::{Builder, Built, Options, Spool, geometry::Layout, hash::Hasher};
use clap::Args;
use serde::Serialize;

use super::create::warn_of_plan;
use super::part::{self, PartNumber};
use super::wording::{keyed, warn_if_over_capacity, warn_of_maybe_pages};
use super::writing::{hashes, news};
use crate::failure::{Failure, Result};
use crate::keys::{self, Format, Piece, Sink, Source};
use crate::options::{FormArgs, NewFileArgs, PrintArgs, RecordArgs, ShapeArgs};
use crate::platform::TEMPORARY_FOLDER;
use crate::{output, text, units};

#[derive(Args, Debug)]
#[command(after_help = "\
Without --capacity the keys are counted first, repeated ones once: to about 1 % where more than 2 %
are repeats, and exactly otherwise. 8 bytes for each are kept in the temporary folder (TMPDIR) until
the filter is made. The same keys and options give the same file, byte for byte. Filters that shall
be merged later are built with the same --capacity and --fpr.

The file records --crlf, --trim, --lower, --hex and --encoding (keys.form and keys.encoding of its
metadata), and add, remove, check and which read keys in this form without being told.

A sealed filter takes about 70 % of the space and is never changed again: it can be neither added to
nor merged, and a filter of another kind cannot be sealed without its keys. Its size follows from the
number of distinct keys, and its bytes from the set of them, whatever their order.

Besides the filter itself, which is mapped, it takes about 10 MiB of memory and 4 MiB for each
core, up to 25 MiB for each core if the filter is large. Long keys and records of CSV take their length.
The build of a sealed filter takes 9 bytes for each key, or --memory.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted: no file is made then.

Examples:
  bloomfile build words.bloom words.txt
  bloomfile build words.bloom words.txt --sealed --memory 512MiB
  bloomfile build sums.bloom --hex SHA256SUMS --field 1 --delimiter ' '
  bloomfile build orders.bloom orders.csv --csv --field order_id --meta keys='order numbers'
  bloomfile build 3.part keys.txt --part 3/16 --capacity 10G
  bloomfile build users.bloom events.jsonl --json-field user.id --encoding le64")]
pub(crate) struct BuildArgs {
    /// The file to make
    pub(crate) file: PathBuf,

    /// Files of keys, one per line; - is standard input [default: -]
    #[arg(value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    /// Never to be added to: least space, one page per look-up (--layout sealed)
    #[arg(long, conflicts_with_all = ["rows", "row_bits", "layout", "journal"])]
    pub(crate) sealed: bool,

    /// Memory that the build of a sealed filter takes; hashes that it has no room for are kept in the
    /// temporary folder (TMPDIR) [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(crate) memory: Option<u64>,

    /// Make only part I of N, counted from 1, of a filter that is built on several machines: FILE is
    /// then a part, and join makes the filter of all N. Keys of other parts are left out; needs
    /// --capacity, which is that of the whole filter
    #[arg(long, value_name = "I/N", value_parser = PartNumber::parse)]
    pub(crate) part: Option<PartNumber>,

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

/// Hashes that come back from there at once, on their way to those that are added at once.
const REPLAYED_AT_ONCE: usize = 1 << 15;

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
    sealed: bool,
    maybe_pages: u64,
    key_fingerprint: Option<String>,
}

impl BuildArgs {
    /// Whether a sealed filter is asked for, however that was said.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed || self.shape.layout == Some(Layout::Sealed)
    }

    /// Refuses what only a sealed filter takes: clap cannot know that by the value of an option.
    fn check(&self) -> Result<()> {
        if self.memory.is_some() && !self.is_sealed() {
            let message = "--memory is for sealed filters; give --sealed as well, or leave it out";
            return Err(Failure::new(message));
        }
        Ok(())
    }

    /// The library's options for it.
    pub(super) fn options(&self) -> Result<Options> {
        let options = self.new_file.apply(self.shape.options(), self.form.into())?;
        let options = if self.is_sealed() { options.sealed(true) } else { options };
        Ok(match self.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        })
    }
}

pub(super) fn run(args: BuildArgs) -> Result<ExitCode> {
    let sources = keys::sources(Vec::new(), args.inputs.clone())?;
    let format = Format::new(&args.records, args.form.into());
    args.check()?;
    let options = args.options()?;
    if args.is_sealed() {
        refuse_filters(&sources)?;
    }
    if let Some(part) = args.part {
        return part::run(&args, part, &sources);
    }
    let planned_before = args.shape.is_exact() || args.shape.capacity.is_some();
    let (keys, builder) = if planned_before || args.is_sealed() {
        let mut sink = start(&options, &args)?;
        keys::visit(&sources, &format, args.print.quiet, &mut sink)?;
        let (builder, keys) = sink.finish();
        if keys == 0 && !planned_before {
            return Err(no_key(&args));
        }
        (keys, builder)
    } else {
        build_counted(options, &sources, &format, &args)?
    };
    let built = builder.finish().map_err(Failure::file(&args.file))?;
    if !args.print.quiet {
        tell(&args, keys, planned_before, &built)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was built, with what is to be said against it.
fn tell(args: &BuildArgs, keys: u64, planned_before: bool, built: &Built) -> Result<()> {
    let plan = &built.plan;
    warn_of_plan(&args.file, plan, args.print.quiet);
    warn_if_over_capacity(&args.file, built.keys, plan.capacity(), "build a larger one");
    warn_of_maybe_pages(&args.file, built.maybe_pages, plan.geometry().pages());
    let key_fingerprint = args.new_file.secret.fingerprint()?;
    let keyed = keyed(key_fingerprint.as_deref());
    if args.print.format.json {
        return output::json(&BuildOutput {
            schema: 1,
            file: args.file.display().to_string(),
            keys,
            new: built.keys,
            capacity: plan.capacity(),
            expected_rate: plan.expected_rate(),
            file_bytes: built.file_bytes,
            sealed: args.is_sealed(),
            maybe_pages: built.maybe_pages,
            key_fingerprint,
        });
    }
    let (file, size) = (text::path(&args.file), units::size(built.file_bytes));
    let read = units::counted(keys, "key");
    if args.is_sealed() {
        let new = units::count(built.keys);
        let bits = 8.0 * plan.data_bytes() as f64 / built.keys.max(1) as f64;
        return output::line(format_args!(
            "{file}: {read} read, {new} of them distinct; sealed, {bits:.2} bits per key; {size}{keyed}"
        ));
    }
    let counted = match (planned_before, plan.capacity()) {
        (false, Some(capacity)) => {
            let distinct = if capacity < keys { " distinct ones" } else { "" };
            format!("; made for {}{distinct}", units::count(capacity))
        }
        _ => String::new(),
    };
    let news = news(keys, built.keys);
    output::line(format_args!("{file}: {read} read{news}{counted}; {size}{keyed}"))
}

/// Refuses filters in the place of keys: what was added to one cannot be read out of it.
fn refuse_filters(sources: &[Source]) -> Result<()> {
    for source in sources {
        let Source::File(path) = source else { continue };
        // A pipe can be read only once.
        let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        if is_file && bloomfile::report::inspect(path).is_ok() {
            return Err(is_filter(source));
        }
    }
    Ok(())
}

/// As [`refuse_filters`], for what shows only when it is read: it comes through a pipe, or is damaged.
pub(super) fn refuse_filter_bytes(source: &Source, first: &[u8]) -> Result<()> {
    if first.starts_with(&keys::FILTER) { Err(is_filter(source)) } else { Ok(()) }
}

fn is_filter(source: &Source) -> Failure {
    let message =
        "is a filter, and cannot be sealed without its keys: give the keys that it was made of";
    Failure::about(source, message)
}

fn no_key(args: &BuildArgs) -> Failure {
    let message = "the inputs hold no key; give --capacity to make an empty filter";
    Failure::about(text::path(&args.file), message)
}

fn start(options: &Options, args: &BuildArgs) -> Result<BuildSink> {
    let start = || {
        let builder = options.start_build(&args.file)?;
        // A sealed filter has its hashes put in order when all are there.
        let data_bytes = if args.is_sealed() { 0 } else { options.plan()?.data_bytes() };
        Ok(BuildSink::new(builder, data_bytes, args.is_sealed()))
    };
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
) -> Result<(u64, Builder)> {
    // Everything that can be refused is refused before the keys are read: it takes a while to read a
    // long input, and then to learn that the target exists.
    let hasher = start(&options.clone().capacity(1), args)?.builder.hasher();
    let mut counting = Counting { hasher, spool: Spool::new(SPOOL_BYTES) };
    keys::visit(sources, format, args.print.quiet, &mut counting)?;
    let spool = counting.spool;
    let keys = spool.keys().keys();
    if keys == 0 {
        return Err(no_key(args));
    }
    let options = options.capacity(spool.keys().capacity());
    let mut sink = start(&options, args)?;
    spool.replay(REPLAYED_AT_ONCE, |hashes| sink.add(hashes)).map_err(not_kept)?;
    Ok((keys, sink.finish().0))
}

/// Adds keys to a filter under construction, many at a time.
struct BuildSink {
    builder: Builder,
    sealed: bool,
    keys: u64,
    /// Hashes to be added, at most `most`.
    hashes: Vec<u64>,
    most: usize,
}

impl BuildSink {
    fn new(builder: Builder, data_bytes: u64, sealed: bool) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (fewest, most) = (*HASHES_PER_THREAD.start(), *HASHES_PER_THREAD.end());
        let most = (data_bytes / BYTES_PER_HASH).clamp(fewest, most) as usize * threads;
        BuildSink { builder, sealed, keys: 0, hashes: Vec::with_capacity(most), most }
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

impl Sink for BuildSink {
    type Output = Vec<u64>;

    fn begin(&mut self, source: &Source, first: &[u8]) -> Result<()> {
        if self.sealed { refuse_filter_bytes(source, first) } else { Ok(()) }
    }

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.builder.hasher(), piece)
    }

    fn accept(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        self.add(&hashes);
        Ok(ControlFlow::Continue(()))
    }
}

/// Keeps the hashes of keys until their number is known.
struct Counting {
    hasher: Hasher,
    spool: Spool,
}

impl Sink for Counting {
    type Output = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.hasher, piece)
    }

    fn accept(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        let mut hashes = hashes.into_iter();
        hashes.try_for_each(|hash| self.spool.add_hash(hash)).map_err(not_kept)?;
        Ok(ControlFlow::Continue(()))
    }
}

fn not_kept(error: io::Error) -> Failure {
    Failure::about(
        text::path(&std::env::temp_dir()),
        format!(
            "cannot keep the keys' hashes aside: {error}; set {TEMPORARY_FOLDER} to another folder, \
             or give --capacity"
        ),
    )
}

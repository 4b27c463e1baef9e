//! The command line: what can be said, checked before anything is done.

mod kinds;
mod operations;

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) use kinds::{ExportArgs, KindArgs, RemoveArgs, RotateArgs};
pub(crate) use operations::{CombineArgs, CompareArgs, ResultArgs, ShrinkArgs, WhichArgs};

use bloomfile::{Layout, Options};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::failure::{Failure, Result};
use crate::units;

/// A Bloom filter in a file: ask whether a key may be in a set, before you ask something slow.
///
/// "no" is certain; "maybe" is wrong at a rate chosen beforehand.
#[derive(Debug, Parser)]
#[command(name = "bloomfile", version = version(), arg_required_else_help = true)]
#[command(after_help = "\
Example:
  bloomfile build words.bloom words.txt        a filter from a file of keys
  bloomfile check words.bloom sheep wolf       prints those that may be in it
  bloomfile check words.bloom --from list.txt  the same for a list
  bloomfile inspect words.bloom                what it is and how full
  bloomfile verify words.bloom                 whether every byte is as written
  bloomfile inspect --bytes words.bloom        why a file is refused: look for \"wrong\"
  bloomfile repair words.bloom                 if it is damaged, and there is no copy
  bloomfile merge -o all.bloom a.bloom b.bloom the keys of both in one file

Exit status: 0 done, 2 error. check, which: 0 some key may be present, 1 none.
remove: 0 all removed, 1 some were not in.
verify: 0 sound, 1 damaged, 2 could not tell.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The version of the program and of the format it writes.
fn version() -> String {
    format!("{} (format version {})", env!("CARGO_PKG_VERSION"), bloomfile::FORMAT_VERSION)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a filter would take, without making it
    Plan(PlanArgs),
    /// Make an empty filter
    Create(CreateArgs),
    /// Make a filter from keys, all at once
    Build(BuildArgs),
    /// Add keys to a filter
    Add(AddArgs),
    /// Take keys out of a counting filter
    Remove(RemoveArgs),
    /// Drop the oldest generation of a rotating filter and start a new one
    Rotate(RotateArgs),
    /// Print the keys that may be present
    Check(CheckArgs),
    /// Show what a file is, how full, and what to do about it
    Inspect(InspectArgs),
    /// Check every byte of files
    Verify(VerifyArgs),
    /// Measure how fast a filter answers on this machine
    Bench(BenchArgs),
    /// Make a damaged file usable again, at a higher rate
    Repair(RepairArgs),
    /// Make one filter that holds the keys of several
    Merge(CombineArgs),
    /// Make a filter of the keys that several have in common
    Intersect(CombineArgs),
    /// Make a smaller filter of the same keys
    Shrink(ShrinkArgs),
    /// Make the plain filter of a counting one
    Export(ExportArgs),
    /// Show how two filters relate: keys in common, bits, pages
    Compare(CompareArgs),
    /// Print, for each key, the filters that may hold it
    Which(WhichArgs),
    /// Print what makes a shell complete this command's options
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    Man(ManArgs),
}

/// How large a filter shall be.
#[derive(Args, Debug)]
pub(crate) struct ShapeArgs {
    /// Number of distinct keys it is for: 1000000, 10M, 1e7
    #[arg(short = 'n', long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) capacity: Option<u64>,

    /// False positive rate at that number: 0.01, 1%, 1e-5
    #[arg(short = 'p', long, value_name = "P", value_parser = units::parse_rate)]
    #[arg(conflicts_with_all = ["rows", "row_bits"])]
    pub(crate) fpr: Option<f64>,

    /// Exactly this many rows (hash functions), in place of a rate
    #[arg(short = 'k', long, value_name = "K", requires = "row_bits")]
    pub(crate) rows: Option<u32>,

    /// Exactly this many bits in each row
    #[arg(short = 'm', long, value_name = "M", requires = "rows", value_parser = units::parse_count)]
    pub(crate) row_bits: Option<u64>,

    /// How the bits are arranged [default: line, page below a rate of 0.1 %; rows with --rows]
    ///
    /// line: one cache line per look-up. page: one disk page per look-up, least space.
    /// rows: each function has a row of its own. flat: all functions share one.
    #[arg(short, long, value_parser = layout_parser())]
    pub(crate) layout: Option<Layout>,
}

fn layout_parser() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new(["line", "page", "rows", "flat"])
        .try_map(|name| name.parse::<Layout>())
}

impl ShapeArgs {
    /// Whether the size is given bit by bit.
    pub(crate) fn is_exact(&self) -> bool {
        self.rows.is_some()
    }

    /// Refuses a shape that says too little, before anything is done with it.
    pub(crate) fn check_complete(&self) -> Result<()> {
        let missing = match (self.is_exact(), self.capacity, self.fpr) {
            (true, ..) | (false, Some(_), Some(_)) => return Ok(()),
            (false, None, _) => "--capacity is missing",
            (false, Some(_), None) => "--fpr is missing",
        };
        Err(Failure::new(format!("{missing}; give --capacity and --fpr, or --rows and --row-bits")))
    }

    /// The library's options for it.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new();
        if let Some(capacity) = self.capacity {
            options = options.capacity(capacity);
        }
        if let Some(rate) = self.fpr {
            options = options.false_positive_rate(rate);
        }
        if let Some(rows) = self.rows {
            options = options.rows(rows);
        }
        if let Some(bits) = self.row_bits {
            options = options.row_bits(bits);
        }
        if let Some(layout) = self.layout {
            options = options.layout(layout);
        }
        options
    }
}

/// What else a new file shall have.
#[derive(Args, Debug)]
pub(crate) struct NewFileArgs {
    /// Seed of the hash; only files with the same seed can be merged
    #[arg(long, value_name = "S", default_value = "0", value_parser = units::parse_seed)]
    pub(crate) seed: u64,

    /// A pair to keep in the file, such as what the keys are; may be given again
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = units::parse_pair)]
    pub(crate) metadata: Vec<(String, String)>,

    /// Space for the journal, which makes syncs cheap: 64KiB, 1M; 0 for none [default: a 16th of
    /// the data, from 1MiB to 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(crate) journal: Option<u64>,

    /// Replace FILE if it is there already
    #[arg(short, long)]
    pub(crate) force: bool,
}

impl NewFileArgs {
    /// Adds them to a shape's options.
    pub(crate) fn apply(&self, options: Options) -> Options {
        let mut options = options.seed(self.seed).replace(self.force);
        for (key, value) in &self.metadata {
            options = options.metadata(key, value);
        }
        match self.journal {
            Some(bytes) => options.journal_bytes(bytes),
            None => options,
        }
    }
}

/// How keys are written in inputs.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct KeyArgs {
    /// Keys are separated by NUL bytes instead of newlines
    #[arg(short = '0', long)]
    pub(crate) null: bool,

    /// Lines end in CR LF: the CR is not part of the key
    #[arg(long, conflicts_with = "null")]
    pub(crate) crlf: bool,

    /// Keys are written as hex digits, two for each byte
    #[arg(long)]
    pub(crate) hex: bool,

    /// The key is field N of each line of an input, counted from 1; keys given as arguments are
    /// keys as they are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) field: Option<u32>,

    /// What separates fields: one byte, such as , or \t; quotes have no meaning [default: \t]
    #[arg(long, value_name = "C", requires = "field", value_parser = units::parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
}

impl KeyArgs {
    /// The key's part of a record that was cut out of an input; none if it has too few fields.
    #[inline]
    pub(crate) fn part<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        // Only such a record ends in the first half of a line end.
        let record = match self.crlf {
            true => record.strip_suffix(b"\r").unwrap_or(record),
            false => record,
        };
        let Some(field) = self.field else { return Some(record) };
        let delimiter = self.delimiter.unwrap_or(b'\t');
        record.split(|&byte| byte == delimiter).nth(field as usize - 1)
    }

    /// The byte that ends a key.
    pub(crate) fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// What a piece of an input is called.
    pub(crate) fn record_name(&self) -> &'static str {
        if self.null { "record" } else { "line" }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  bloomfile plan --capacity 10M --fpr 1%
  bloomfile plan --rows 30 --row-bits 2.5M --capacity 5M
  bloomfile plan -n 1M -p 3% --precheck --lookups 102k --present 2k --database-ms 500 --filter-ms 1")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) precheck: PrecheckArgs,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a filter is asked in front of, and how often.
#[derive(Args, Debug)]
pub(crate) struct PrecheckArgs {
    /// Show what asking the filter first saves, in front of a database say
    #[arg(long, requires = "database_ms", requires = "present")]
    pub(crate) precheck: bool,

    /// Milliseconds of one look-up behind the filter
    #[arg(long, value_name = "MS", requires = "precheck", value_parser = units::parse_duration)]
    pub(crate) database_ms: Option<f64>,

    /// Milliseconds of one look-up in the filter
    #[arg(long, value_name = "MS", requires = "precheck", value_parser = units::parse_duration)]
    #[arg(default_value = "0.0001")]
    pub(crate) filter_ms: f64,

    /// Look-ups for keys that are there: a share such as 2%, or a number
    #[arg(long, value_name = "SHARE", requires = "precheck", value_parser = units::parse_part)]
    pub(crate) present: Option<units::Part>,

    /// Look-ups in all
    #[arg(long, value_name = "N", requires = "precheck", value_parser = units::parse_count)]
    #[arg(default_value = "1M")]
    pub(crate) lookups: u64,
}

#[derive(Args, Debug)]
#[command(after_help = "\
A filter that has grown stays in its parts, which cost space and time: nothing can make one of them
without the keys. Where there are the keys, build makes a filter of the right size from them.

Examples:
  bloomfile create seen.bloom --capacity 10M --fpr 0.1% --meta keys='URLs, lower case'
  bloomfile create matrix.bloom --rows 30 --row-bits 2.5M
  bloomfile create users.bloom -n 1M -p 1% --kind counting          keys can be removed
  bloomfile create log.bloom -n 10k -p 1% --grow                    for any number of keys
  bloomfile create day.bloom -n 1M -p 1% --generations 24           forgets: see rotate
  bloomfile create quota.bloom -n 1M -p 1% --when-full refuse       never above its rate")]
pub(crate) struct CreateArgs {
    /// The file to make
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) kind: KindArgs,

    #[command(flatten)]
    pub(crate) new_file: NewFileArgs,

    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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

    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
When the command has ended without an error, all keys survive a power cut. Ended by Ctrl-C or a
polite kill (SIGINT, SIGTERM), it makes safe what it has added and says how far it came. Adding a
key again changes nothing, so the same command may always be given again; only a counting filter
counts it again, unless --resume skips it.

Exit status: 0 done, 2 error, 130 or 143 (128 + signal) when interrupted.

Examples:
  bloomfile add seen.bloom example.org
  bloomfile add seen.bloom --from today.txt
  bloomfile add seen.bloom --from access.log --resume    only the lines that are new")]
pub(crate) struct AddArgs {
    /// The filter
    pub(crate) file: PathBuf,

    /// Keys; - reads keys from standard input, as does naming none at all
    #[arg(value_name = "KEY")]
    pub(crate) arguments: Vec<OsString>,

    /// Files of keys, one per line; - is standard input; may be given again
    #[arg(long, value_name = "INPUT")]
    pub(crate) from: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyArgs,

    /// Make keys safe from a power cut after every N, not only at the end; 0: only at the end
    #[arg(long, value_name = "N", default_value = "1M", value_parser = units::parse_count)]
    pub(crate) sync_every: u64,

    /// Keep this number of yours with the keys once all are in: a position in their source, say;
    /// inspect shows it
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) mark: Option<u64>,

    /// Skip as many keys of the input as the mark says, and keep the number read as the mark: the
    /// same command goes on where it ended or was interrupted
    #[arg(long, conflicts_with = "mark")]
    pub(crate) resume: bool,

    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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

    /// Keys; - reads keys from standard input, as does naming none at all
    #[arg(value_name = "KEY")]
    pub(crate) arguments: Vec<OsString>,

    /// Files of keys, one per line; - is standard input; may be given again
    #[arg(long, value_name = "INPUT")]
    pub(crate) from: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) keys: KeyArgs,

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

    /// Trust the data pages: starts at once on a large file, but damage may go unseen
    #[arg(long)]
    pub(crate) no_verify: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The summary, --pages and --json read headers and page tables only, so that they take no longer
for a large file. --loads, --html and --bytes read everything. --bytes explains damaged files as
well: it shows why a file is refused.

Examples:
  bloomfile inspect seen.bloom
  bloomfile inspect seen.bloom --html seen.html
  bloomfile inspect damaged.bloom --bytes | grep wrong")]
pub(crate) struct InspectArgs {
    /// The file
    pub(crate) file: PathBuf,

    /// Show how the keys are spread over the blocks, against the law they should follow
    #[arg(long)]
    pub(crate) loads: bool,

    /// Write one page with all of it as charts, for a browser
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["loads", "pages", "bytes", "json"])]
    pub(crate) html: Option<PathBuf>,

    /// List the data pages: checksum, bits set, fill
    #[arg(long, conflicts_with_all = ["loads", "bytes"])]
    pub(crate) pages: bool,

    /// Explain the file byte range by byte range, damaged or not
    #[arg(long, conflicts_with = "loads")]
    pub(crate) bytes: bool,

    /// With --bytes: each table entry, journal record and data page by itself
    #[arg(long, requires = "bytes")]
    pub(crate) all: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 when every file is sound, 1 when one is damaged, 2 when one could not be judged
and none is damaged.")]
pub(crate) struct VerifyArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
A copy of the file, or building it again from its keys, is better: use repair where there is
neither. It changes FILE in place and cannot be undone, so keep a copy of the damaged file.

Every page that fails its checksum is set to all ones: the filter then says \"maybe\" to keys that
fall into it, present or not, and never \"no\" wrongly. What was done and the rate that this leaves
are printed. A damaged superblock, two damaged state slots or a wrong length cannot be repaired.

A file whose writer crashed is not damaged: the next command that writes it recovers it, such as
bloomfile add FILE < /dev/null.

Exit status: 0 when the file is sound now, 2 when it could not be repaired.")]
pub(crate) struct RepairArgs {
    /// The file
    pub(crate) file: PathBuf,

    /// Also repair a file that may only have been left by a crash: pages with bits that nothing
    /// explains, which recovery would keep, are set to all ones
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  bloomfile completions bash > ~/.local/share/bash-completion/completions/bloomfile
  bloomfile completions zsh > ~/.zfunc/_bloomfile
  bloomfile completions fish > ~/.config/fish/completions/bloomfile.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  bloomfile man | man -l -
  bloomfile man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write bloomfile.1, bloomfile-check.1 and so on into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Looks up random keys of 16 bytes, which are hardly ever in, and changes nothing.")]
pub(crate) struct BenchArgs {
    /// The filter
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Number of keys to look up
    #[arg(short = 'n', long, value_name = "N", default_value = "1M")]
    #[arg(value_parser = units::parse_count)]
    pub(crate) keys: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}

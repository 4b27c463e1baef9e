//! What can be said to the commands that put keys in, take them out or look them up.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{InputArgs, KeyListArgs, PrintArgs, ReadArgs, ResumeArgs};
use crate::units;

#[derive(Args, Debug)]
#[command(after_help = "\
When the command has ended without an error, all keys survive a power cut. Ended by Ctrl-C, a
polite kill or the end of its terminal (SIGINT, SIGTERM, SIGHUP), it makes safe what it has added
and says how far it came. Adding a key again changes nothing, so the same command may always be
given again; only a counting filter counts it again, unless --resume skips it.

--resume reads one input, a file or standard input. It is known again by its first and its last
bytes that were read, wherever it lies: a copy will do, and another input or one that was cut short
is an error. When a log was rotated, give the old one once more with --resume, then the new one with
--resume --from-start.

Exit status: 0 done, 2 error, 129, 130 or 143 (128 + signal) when interrupted.

Examples:
  bloomfile add seen.bloom example.org
  bloomfile add seen.bloom --from today.txt
  bloomfile add seen.bloom --from access.log --resume    only the lines that are new")]
pub(crate) struct AddArgs {
    /// The filter
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) keys: KeyListArgs,

    /// Make keys safe from a power cut after every N, not only at the end; 0: only at the end
    #[arg(long, value_name = "N", default_value = "1M", value_parser = units::parse_count)]
    pub(crate) sync_every: u64,

    /// Keep this number of yours with the keys once all are in: a position in their source, say;
    /// inspect shows it
    #[arg(long, value_name = "N", conflicts_with = "resume", value_parser = units::parse_count)]
    pub(crate) mark: Option<u64>,

    #[command(flatten)]
    pub(crate) resuming: ResumeArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Only a counting filter forgets single keys. Remove only what was added: a key that was not, and
seems to be in by mistake, takes others out with it. A key that was added twice has to be removed
twice; one that was added 15 times or more may stay for ever. When the command has ended, the
removals survive a power cut. Unlike add, the same command may not be given again, unless --resume
skips what was removed before; see bloomfile help add.

Exit status: 0 when every key was removed; 1 when some were not in: they are named, unless --quiet,
and the others were removed; 2 on error, and when the parts of a grown filter leave in doubt which
of them holds a key: such keys are named and stay. 129, 130 or 143 (128 + signal) when interrupted.

Examples:
  bloomfile remove users.bloom alice
  bloomfile remove users.bloom --from gone.txt
  bloomfile remove users.bloom --from gone.log --resume    only the lines that are new")]
pub(crate) struct RemoveArgs {
    /// The filter
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) keys: KeyListArgs,

    /// Make removals safe from a power cut after every N, not only at the end; 0: only at the end
    #[arg(long, value_name = "N", default_value = "1M", value_parser = units::parse_count)]
    pub(crate) sync_every: u64,

    #[command(flatten)]
    pub(crate) resuming: ResumeArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Readers see it without opening the file again, and a power cut leaves the generations as they were
before or after.

Example:
  bloomfile create day.bloom -n 1M -p 1% --generations 24
  bloomfile rotate day.bloom      every hour: what was added in the last 23 to 24 hours is in")]
pub(crate) struct RotateArgs {
    /// The filter, made with --generations
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
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

//! What can be said to the commands that plan a filter or make a new one.

use std::path::PathBuf;

use bloomfile::Options;
use clap::Args;

use super::{FormatArgs, KeyArgs, KindArgs, PrintArgs, ReplaceArgs, ShapeArgs};
use crate::units;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  bloomfile plan --capacity 10M --fpr 1%
  bloomfile plan --rows 30 --row-bits 2.5M --capacity 5M
  bloomfile plan -n 1M -p 1% --kind counting
  bloomfile plan -n 10k -p 1% --grow
  bloomfile plan -n 1M -p 3% --precheck --lookups 102k --present 2k --database-ms 500 --filter-ms 1")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) kind: KindArgs,

    #[command(flatten)]
    pub(crate) precheck: PrecheckArgs,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
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

    #[command(flatten)]
    pub(crate) print: PrintArgs,
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

    #[command(flatten)]
    pub(crate) print: PrintArgs,
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

    /// Space for the journal, which makes syncs cheap: 64KiB, 1M; 0 for none [default: an 8th of
    /// the data, from 8KiB to 64MiB; none for build]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub(crate) journal: Option<u64>,

    #[command(flatten)]
    pub(crate) replace: ReplaceArgs,
}

impl NewFileArgs {
    /// Adds them to a shape's options.
    pub(crate) fn apply(&self, options: Options) -> Options {
        let mut options = options.seed(self.seed).replace(self.replace.force);
        for (key, value) in &self.metadata {
            options = options.metadata(key, value);
        }
        match self.journal {
            Some(bytes) => options.journal_bytes(bytes),
            None => options,
        }
    }
}

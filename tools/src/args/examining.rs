//! What can be said to the commands that look at files, or mend them.

use std::path::PathBuf;

use clap::Args;

use super::{FormatArgs, PrintArgs};

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

    /// Write one page with all of it as charts, for a browser; - is standard output
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["loads", "pages", "bytes", "json"])]
    pub(crate) html: Option<PathBuf>,

    /// Replace PAGE if it is there already; never the filter itself
    #[arg(short, long, requires = "html")]
    pub(crate) force: bool,

    /// List the data pages: checksum, bits set, fill
    #[arg(long, conflicts_with_all = ["loads", "bytes"])]
    pub(crate) pages: bool,

    /// Explain the file byte range by byte range, damaged or not
    #[arg(long, conflicts_with = "loads")]
    pub(crate) bytes: bool,

    /// With --bytes: each table entry, journal record and data page by itself
    #[arg(long, requires = "bytes")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 when every file is sound, 1 when one is damaged, 2 when one could not be judged, or
has pages that cannot be verified after a power cut, and none is damaged.")]
pub(crate) struct VerifyArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Every page of both files is verified on the way.

Exit status: 0 when both have the same size and the same bits, and so the same answers; 1 when they
differ; 2 on an error, damage included.")]
pub(crate) struct CompareArgs {
    /// One filter
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,

    /// The other
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,

    #[command(flatten)]
    pub(crate) format: FormatArgs,
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

    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

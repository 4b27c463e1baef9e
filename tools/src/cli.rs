//! The command line: the commands there are. What can be said to each stands beside it, in
//! [`commands`](crate::commands).

use clap::{Parser, Subcommand};

use crate::commands::{
    AddArgs, ApplyArgs, BenchArgs, BuildArgs, CheckArgs, CompactArgs, CompareArgs, CompletionsArgs,
    CreateArgs, DeltaArgs, ExportArgs, InspectArgs, IntersectArgs, JoinArgs, KeygenArgs, ManArgs,
    MergeArgs, PlanArgs, PublishArgs, PullArgs, RemoveArgs, RepairArgs, RotateArgs, ShrinkArgs,
    VerifyArgs, WhichArgs,
};

/// A Bloom filter in a file: ask whether a key may be in a set, before you ask something slow.
///
/// "no" is certain; "maybe" is wrong at a rate chosen beforehand.
#[derive(Debug, Parser)]
#[command(name = "bloomfile", bin_name = "bloomfile", version = version(), arg_required_else_help = true)]
#[command(after_help = "\
Exit status: 0 done, 2 error. check and which: 0 some key may be present, 1 none. remove: 0 all
removed, 1 some were not in. compare: 0 same bits, 1 different. verify: 0 sound, 1 damaged, 2 could
not tell.

Examples:
  bloomfile build words.bloom words.txt         a filter from a file of keys
  bloomfile check words.bloom sheep wolf        prints those that may be in it
  bloomfile check words.bloom --from list.txt   the same for a list
  bloomfile inspect words.bloom                 what it is and how full
  bloomfile verify words.bloom                  whether every byte is as written
  bloomfile inspect --bytes words.bloom         why a file is refused: look for \"wrong\"
  bloomfile repair words.bloom                  if it is damaged, and there is no copy
  bloomfile merge -o all.bloom a.bloom b.bloom  the keys of both in one file")]
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
    Merge(MergeArgs),
    /// Make a filter of the keys that several have in common
    Intersect(IntersectArgs),
    /// Put the parts of a filter together that were built with build --part
    Join(JoinArgs),
    /// Make a smaller filter of the same keys
    Shrink(ShrinkArgs),
    /// Make the same filter without a journal, or with another one
    Compact(CompactArgs),
    /// Make the plain filter of a counting one
    Export(ExportArgs),
    /// Make what turns one version of a filter into another
    Delta(DeltaArgs),
    /// Make the new version of a filter out of the old one and a delta
    Apply(ApplyArgs),
    /// Put a filter where other hosts pull it from, with what changed in it
    Publish(PublishArgs),
    /// Get a published filter, or what changed in it since
    Pull(PullArgs),
    /// Show how two filters relate: keys in common, bits, pages
    Compare(CompareArgs),
    /// Print, for each key, the filters that may hold it
    Which(WhichArgs),
    /// Make the secret key of keyed filters, for keys that strangers choose
    Keygen(KeygenArgs),
    /// Print what makes a shell complete this command's options
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    Man(ManArgs),
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

//! One file per subcommand.

mod add;
mod bench;
mod build;
mod check;
mod compare;
mod completions;
mod create;
mod derive;
mod export;
mod inspect;
mod intersect;
mod man;
mod merge;
mod plan;
mod remove;
mod repair;
mod resume;
mod rotate;
mod shrink;
mod verify;
mod which;

pub(crate) use add::AddArgs;
pub(crate) use bench::BenchArgs;
pub(crate) use build::BuildArgs;
pub(crate) use check::CheckArgs;
pub(crate) use compare::CompareArgs;
pub(crate) use completions::CompletionsArgs;
pub(crate) use create::CreateArgs;
pub(crate) use export::ExportArgs;
pub(crate) use inspect::InspectArgs;
pub(crate) use intersect::IntersectArgs;
pub(crate) use man::ManArgs;
pub(crate) use merge::MergeArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use remove::RemoveArgs;
pub(crate) use repair::RepairArgs;
pub(crate) use rotate::RotateArgs;
pub(crate) use shrink::ShrinkArgs;
pub(crate) use verify::VerifyArgs;
pub(crate) use which::WhichArgs;

use std::path::Path;
use std::process::ExitCode;

use bloomfile::plan::Estimate;
use bloomfile::{CellKind, WhenFull};

use crate::cli::Command;
use crate::failure::Result;
use crate::interrupt::on_interrupt;
use crate::{output, pending, units};

/// Does what the command line asks for.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    let makes_files = match &command {
        Command::Create(_)
        | Command::Build(_)
        | Command::Merge(_)
        | Command::Intersect(_)
        | Command::Shrink(_)
        | Command::Export(_) => true,
        Command::Inspect(args) => args.html.is_some(),
        Command::Man(args) => args.out.is_some(),
        _ => false,
    };
    if makes_files {
        leave_nothing_when_interrupted()?;
    }
    match command {
        Command::Plan(args) => plan::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Build(args) => build::run(args),
        Command::Add(args) => add::run(args),
        Command::Remove(args) => remove::run(args),
        Command::Rotate(args) => rotate::run(&args),
        Command::Check(args) => check::run(args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Intersect(args) => intersect::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Which(args) => which::run(args),
    }
}

/// Takes half-made files away when the process is asked to end.
fn leave_nothing_when_interrupted() -> Result<()> {
    on_interrupt(|status| {
        bloomfile::process::discard_unfinished();
        pending::discard();
        std::process::exit(status)
    })?;
    Ok(())
}

/// Warns when a filter holds more keys than it was made for, and says what to do about it.
fn warn_if_over_capacity(path: &Path, adds: u64, capacity: Option<u64>, remedy: &str) {
    if let Some(capacity) = capacity.filter(|&capacity| adds > capacity) {
        output::warn(
            path,
            format_args!(
                "holds {}, made for {}: its rate is higher than planned; {remedy}",
                units::counted(adds, "key"),
                units::count(capacity)
            ),
        );
    }
}

/// What happens when the part of a filter that takes the adds is full.
fn policy(generations: Option<u64>, rotate_after: Option<u64>, when_full: WhenFull) -> String {
    match (generations, rotate_after, when_full) {
        (Some(_), Some(adds), _) => {
            format!("rotates after {}: the oldest generation goes", units::counted(adds, "add"))
        }
        (Some(_), None, _) => "takes more keys, at a higher rate, until it is rotated".into(),
        (.., WhenFull::Grow) => "grows: a larger segment is appended".into(),
        (.., WhenFull::Refuse) => "refuses new keys".into(),
        _ => "takes more keys, at a higher rate".into(),
    }
}

/// A number of journal records, as what they are in a file of this kind.
fn records(count: u64, kind: CellKind) -> String {
    // An add to a counting file has a record for each counter it changes, and so has a removal.
    let noun = if kind == CellKind::Counting { "change" } else { "add" };
    units::counted(count, noun)
}

/// A number of things that is rounded to a whole one.
fn whole(value: f64) -> String {
    units::count(value.round() as u64)
}

/// An estimated number of keys and its interval, in words.
fn keys_estimated(keys: &Estimate) -> String {
    match keys {
        Estimate { value: 0.0, .. } => "nothing".into(),
        Estimate { low, high, .. } if high.is_infinite() => {
            format!("{} keys or more: too full to tell", whole(*low))
        }
        Estimate { value, low, high } if whole(*low) == whole(*high) => {
            format!("about {}", units::counted(value.round() as u64, "key"))
        }
        Estimate { value, low, high } => {
            format!("about {} keys ({} to {})", whole(*value), whole(*low), whole(*high))
        }
    }
}

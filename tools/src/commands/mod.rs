//! One file per subcommand.

mod add;
mod apply;
mod bench;
mod build;
mod check;
mod compact;
mod compare;
mod completions;
mod create;
mod delta;
mod derive;
mod export;
mod inspect;
mod intersect;
mod join;
mod key_form;
mod keygen;
mod man;
mod merge;
mod part;
mod plan;
mod publish;
mod pull;
mod remove;
mod repair;
mod resume;
mod rotate;
mod shrink;
mod verify;
mod which;
mod wording;
mod writing;

pub(crate) use add::AddArgs;
pub(crate) use apply::ApplyArgs;
pub(crate) use bench::BenchArgs;
pub(crate) use build::BuildArgs;
pub(crate) use check::CheckArgs;
pub(crate) use compact::CompactArgs;
pub(crate) use compare::CompareArgs;
pub(crate) use completions::CompletionsArgs;
pub(crate) use create::CreateArgs;
pub(crate) use delta::DeltaArgs;
pub(crate) use export::ExportArgs;
pub(crate) use inspect::InspectArgs;
pub(crate) use intersect::IntersectArgs;
pub(crate) use join::JoinArgs;
pub(crate) use keygen::KeygenArgs;
pub(crate) use man::ManArgs;
pub(crate) use merge::MergeArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use publish::PublishArgs;
pub(crate) use pull::PullArgs;
pub(crate) use remove::RemoveArgs;
pub(crate) use repair::RepairArgs;
pub(crate) use rotate::RotateArgs;
pub(crate) use shrink::ShrinkArgs;
pub(crate) use verify::VerifyArgs;
pub(crate) use which::WhichArgs;

use std::process::ExitCode;

use crate::cli::Command;
use crate::failure::Result;
use crate::interrupt::on_interrupt;
use crate::pending;

/// Does what the command line asks for.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    let makes_files = match &command {
        Command::Create(_)
        | Command::Build(_)
        | Command::Merge(_)
        | Command::Intersect(_)
        | Command::Join(_)
        | Command::Shrink(_)
        | Command::Compact(_)
        | Command::Delta(_)
        | Command::Apply(_)
        | Command::Publish(_)
        | Command::Pull(_)
        | Command::Export(_)
        | Command::Keygen(_) => true,
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
        Command::Keygen(args) => keygen::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Intersect(args) => intersect::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Delta(args) => delta::run(&args),
        Command::Apply(args) => apply::run(&args),
        Command::Publish(args) => publish::run(&args),
        Command::Pull(args) => pull::run(&args),
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

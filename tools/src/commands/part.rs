//! `bloomfile build --part`: one part of a filter that is built on several machines.

use std::ops::ControlFlow;
use std::process::ExitCode;

use bloomfile::parts::{BuiltPart, PartBuilder};
use serde::Serialize;

use super::BuildArgs;
use super::build::refuse_filter_bytes;
use super::wording::{keyed, warn_of_maybe_pages};
use super::writing::hashes;
use crate::failure::{Failure, Result};
use crate::keys::{self, Format, Piece, Sink, Source};
use crate::{output, text, units};

/// Which part, of how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartNumber {
    pub(super) part: u64,
    pub(super) parts: u64,
}

impl PartNumber {
    /// `I/N`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "not a part I/N, such as 3/16, counted from 1".to_owned();
        let (part, parts) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let number = PartNumber { part: number(part)?, parts: number(parts)? };
        if number.part == 0 || number.part > number.parts { Err(wrong()) } else { Ok(number) }
    }
}

/// The JSON form; described in `tools/json-output.md`.
#[derive(Serialize)]
struct PartOutput {
    schema: u32,
    file: String,
    part: u64,
    parts: u64,
    keys: u64,
    taken: u64,
    new: u64,
    pages: u64,
    file_bytes: u64,
    maybe_pages: u64,
    key_fingerprint: Option<String>,
}

pub(super) fn run(args: &BuildArgs, number: PartNumber, sources: &[Source]) -> Result<ExitCode> {
    let failed = Failure::file(&args.file);
    if args.shape.capacity.is_none() && !args.shape.is_exact() {
        let message = "a part needs --capacity: the number of keys of all parts together, from which \
                       every machine gets the same size";
        return Err(Failure::about(text::path(&args.file), message));
    }
    // Whether a file is replaced is a matter of the part, not of the plan.
    let options = args.options()?.replace(false);
    let plan = options.plan_parts(number.parts).map_err(&failed)?;
    let mut part = plan.part(number.part).replace(args.new_file.replace.force);
    if let Some(key) = args.new_file.secret.key()? {
        part = part.key(&key);
    }
    if let Some(bytes) = args.memory {
        part = part.memory(bytes);
    }
    let builder = part.start(&args.file).map_err(&failed)?;
    let mut sink = PartSink { builder, sealed: args.is_sealed(), keys: 0 };
    let format = Format::new(&args.records, args.form.into());
    keys::visit(sources, &format, args.print.quiet, &mut sink)?;
    let PartSink { builder, keys, .. } = sink;
    let built = builder.finish().map_err(failed)?;
    if !args.print.quiet {
        tell(args, number, keys, &built)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(args: &BuildArgs, number: PartNumber, keys: u64, built: &BuiltPart) -> Result<()> {
    let PartNumber { part, parts } = number;
    warn_of_maybe_pages(&args.file, built.maybe_pages, built.pages);
    let key_fingerprint = args.new_file.secret.fingerprint()?;
    if args.print.format.json {
        return output::json(&PartOutput {
            schema: 1,
            file: args.file.display().to_string(),
            part,
            parts,
            keys,
            taken: built.taken,
            new: built.keys,
            pages: built.pages,
            file_bytes: built.file_bytes,
            maybe_pages: built.maybe_pages,
            key_fingerprint,
        });
    }
    output::line(format_args!(
        "{}: part {} of {}: {} read, {} of them in this part; {}; {}{}",
        text::path(&args.file),
        units::count(part),
        units::count(parts),
        units::counted(keys, "key"),
        units::count(built.taken),
        units::counted(built.pages, "page"),
        units::size(built.file_bytes),
        keyed(key_fingerprint.as_deref())
    ))
}

/// Adds keys to a part, and leaves out those of others.
struct PartSink {
    builder: PartBuilder,
    sealed: bool,
    keys: u64,
}

impl Sink for PartSink {
    type Output = Vec<u64>;

    fn begin(&mut self, source: &Source, first: &[u8]) -> Result<()> {
        if self.sealed { refuse_filter_bytes(source, first) } else { Ok(()) }
    }

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        hashes(self.builder.hasher(), piece)
    }

    fn accept(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        self.keys += hashes.len() as u64;
        self.builder.add_hash_batch(&hashes);
        Ok(ControlFlow::Continue(()))
    }
}

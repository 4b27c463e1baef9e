//! What is inspected: a file, or a file at an address.

use std::ops::ControlFlow;
use std::path::Path;

use bloomfile::plan::Crowding;
use bloomfile::report::{Inspection, PageInspection};

use crate::commands::InspectArgs;
use crate::failure::{Failure, Result};
use crate::remote::{self, InspectedFile};
use crate::text;

/// What is inspected.
pub(crate) enum Subject<'a> {
    Here(&'a Path),
    There(&'a str, Box<InspectedFile>),
}

impl<'a> Subject<'a> {
    pub(crate) fn of(file: &'a Path) -> Result<Self> {
        Ok(match remote::address(file) {
            Some(address) => Subject::There(address, Box::new(InspectedFile::open(address)?)),
            None => Subject::Here(file),
        })
    }

    pub(crate) fn inspect(&self) -> Result<Inspection> {
        match self {
            Subject::Here(path) => bloomfile::report::inspect(path).map_err(Failure::file(path)),
            Subject::There(_, file) => Ok(file.inspect()),
        }
    }

    /// Whether a file at an address turned out to be another one by now.
    pub(crate) fn has_changed(&self) -> bool {
        match self {
            Subject::Here(_) => false,
            Subject::There(_, file) => file.has_changed(),
        }
    }

    /// What the page tables say of every page.
    pub(crate) fn pages(
        &self,
        take: &mut dyn FnMut(PageInspection) -> ControlFlow<()>,
    ) -> Result<()> {
        match self {
            Subject::Here(path) => {
                bloomfile::report::inspect_pages(path, take).map_err(Failure::file(path))
            }
            Subject::There(_, file) => file.pages(take),
        }
    }

    /// Blocks with too many keys, which takes data: of a file at an address none is read.
    pub(crate) fn crowding(&self) -> Vec<Crowding> {
        match self {
            // A disk that fails is no reason to say nothing: verify tells of that.
            Subject::Here(path) => bloomfile::report::crowding(path).unwrap_or_default(),
            Subject::There(..) => Vec::new(),
        }
    }

    /// The name of the file, for commands that are given it where it is.
    pub(crate) fn name(&self) -> &'a Path {
        match self {
            Subject::Here(path) => path,
            Subject::There(address, _) => {
                let path = address.split(['?', '#']).next().unwrap_or(address);
                let name = path.rsplit('/').next().filter(|name| !name.is_empty());
                Path::new(name.unwrap_or("FILE"))
            }
        }
    }
}

/// Refuses what takes all data of a file that is not here.
pub(super) fn refuse_all_data(args: &InspectArgs) -> Result<()> {
    let Some(address) = remote::address(&args.file) else { return Ok(()) };
    let options = [
        (args.digest, "--digest"),
        (args.loads, "--loads"),
        (args.html.is_some(), "--html"),
        (args.all, "--all"),
    ];
    match options.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(Failure::about(
            text::key(address.as_bytes()),
            format!("{option} takes all of its data: fetch or pull the file first"),
        )),
        None => Ok(()),
    }
}

//! The form of keys that a file records, against the one that options ask for.

use std::collections::BTreeMap;
use std::path::Path;

use bloomfile::{Error, Filter, hash::Form};

use crate::failure::{Failure, Result};
use crate::keys::{FormOptions, on_file};
use crate::options::InputArgs;
use crate::{output, text};

type Metadata = BTreeMap<String, String>;

/// The form in which keys for a file are read: the recorded one, with what options add to it.
pub(super) fn for_file(path: &Path, metadata: &Metadata, args: &InputArgs) -> Result<Form> {
    let asked = Form::from(args.form);
    if args.no_form {
        return Ok(asked);
    }
    let Some(recorded) = recorded(path, metadata)? else { return Ok(asked) };
    on_file(recorded, asked).ok_or_else(|| {
        let (recorded, asked) = (FormOptions(recorded), FormOptions(asked));
        let message = format!(
            "its keys were made with {recorded}, and with {asked} they would be other ones; leave it \
             out, or give --no-form to ignore what the file records"
        );
        Failure::about(text::path(path), message)
    })
}

/// The form that a file records, if it does.
pub(super) fn recorded(path: &Path, metadata: &Metadata) -> Result<Option<Form>> {
    Form::recorded(metadata).map_err(|error| {
        let unknown = match error {
            Error::Parameter { name, value, .. } => format!("{name} = {value}"),
            other => other.to_string(),
        };
        let message = format!(
            "its keys have a form that this version does not know ({unknown}); use a newer bloomfile, \
             or give --no-form to read keys as the options say"
        );
        Failure::about(text::path(path), message)
    })
}

/// Records the form of the first keys of a file that records none. A file that has keys already keeps
/// quiet about theirs, and a warning says so.
pub(super) fn record(
    path: &Path,
    filter: &Filter,
    form: Form,
    args: &InputArgs,
    quiet: bool,
) -> Result<()> {
    if form.is_plain() || args.no_form || recorded(path, &filter.metadata())?.is_some() {
        return Ok(());
    }
    if filter.adds() > 0 {
        if !quiet {
            output::warn(
                path,
                format_args!(
                    "does not record in what form its keys are, and these are made with {}: \
                     only commands with the same options find them",
                    FormOptions(form)
                ),
            );
        }
        return Ok(());
    }
    let failed = Failure::file(path);
    for (name, value) in form.pairs() {
        filter.set_metadata(name, Some(&value)).map_err(&failed)?;
    }
    // Durable before the first key is: keys without their form would not be found.
    filter.checkpoint().map_err(failed)
}

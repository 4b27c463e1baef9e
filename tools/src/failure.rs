//! Why a command stopped, as one line for the user.

use std::fmt;
use std::io;
use std::path::Path;

use crate::text;

/// What ends a command before its time.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of our output has closed it: no error.
    ClosedPipe,
    /// Something is wrong.
    Error {
        /// The file or input at fault, if it is one.
        subject: Option<String>,
        /// What is wrong; what to do.
        message: String,
    },
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// An error that no file is to blame for.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure::Error { subject: None, message: message.into() }
    }

    /// An error about a file or another input.
    pub(crate) fn about(subject: impl fmt::Display, message: impl Into<String>) -> Self {
        Failure::Error { subject: Some(subject.to_string()), message: message.into() }
    }

    /// What went wrong with standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::about("standard output", format!("cannot be written: {error}")),
        }
    }

    /// The library's error about a filter file, in the words of the command line.
    pub(crate) fn file(path: &Path) -> impl Fn(bloomfile::Error) -> Failure + '_ {
        move |error| {
            let path = error.path().unwrap_or(path);
            Failure::about(text::path(path), explain(error.cause()))
        }
    }

    /// The same with more to say at the end.
    pub(crate) fn and(self, more: impl fmt::Display) -> Self {
        match self {
            Failure::Error { subject, message } => {
                Failure::Error { subject, message: format!("{message}; {more}") }
            }
            other => other,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::ClosedPipe => f.write_str("the output was closed"),
            Failure::Error { subject: Some(subject), message } => write!(f, "{subject}: {message}"),
            Failure::Error { subject: None, message } => f.write_str(message),
        }
    }
}

/// A library error, with the flag to use where there is one.
pub(crate) fn explain(error: &bloomfile::Error) -> String {
    match error {
        bloomfile::Error::Exists => {
            "already exists; choose another name, or replace it with --force".into()
        }
        bloomfile::Error::Incompatible { parameter: "secret key", .. } => {
            format!("{error}: with the same --key-file")
        }
        bloomfile::Error::Incompatible { .. } => {
            format!("{error}: with the same --capacity, --fpr, --layout and --seed")
        }
        bloomfile::Error::NotInPlace { reason } => {
            format!("the delta cannot be applied in place: {reason}; leave out --in-place")
        }
        bloomfile::Error::KeyNeeded { .. } => {
            format!("{error} with --key-file KEY_FILE")
        }
        bloomfile::Error::NotKeyed => {
            "is not keyed: leave out --key-file and unset BLOOMFILE_KEY_FILE, if it is the right file"
                .into()
        }
        bloomfile::Error::KeyFile { reason } if reason.contains("mode") => {
            format!("{error}; or take it as it is with --force-key-file")
        }
        bloomfile::Error::Parameter { name: name @ "path", value, reason } => {
            format!("{name} cannot be {}: {reason}", text::key(value.as_bytes()))
        }
        other => other.to_string(),
    }
}

//! Which keys a command is about, and how they are written.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::units;

/// Keys given as arguments, or in inputs.
#[derive(Args, Debug)]
pub(crate) struct KeyListArgs {
    /// Keys; - reads keys from standard input, as does naming none at all
    #[arg(value_name = "KEY")]
    pub(crate) arguments: Vec<OsString>,

    #[command(flatten)]
    pub(crate) inputs: InputArgs,
}

/// Inputs that hold keys.
#[derive(Args, Debug)]
pub(crate) struct InputArgs {
    /// Files of keys, one per line; - is standard input; may be given again
    #[arg(long, value_name = "INPUT")]
    pub(crate) from: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) written: KeyArgs,
}

/// Whether an input is read from where an earlier run ended.
#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    /// Go on in the input where the last run with --resume ended or was killed, and keep the number
    /// of keys read as the mark. Lines that have not ended yet are left for the next run
    #[arg(long)]
    pub(crate) resume: bool,

    /// With --resume: read another input than before, from its beginning, as after a log was rotated
    #[arg(long, requires = "resume")]
    pub(crate) from_start: bool,
}

/// How keys are written in inputs.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct KeyArgs {
    /// Keys are separated by NUL bytes instead of newlines
    #[arg(short = '0', long)]
    pub(crate) null: bool,

    /// Lines end in CR LF: the CR is not part of the key
    #[arg(long, conflicts_with = "null")]
    pub(crate) crlf: bool,

    /// Keys are written as hex digits, two for each byte
    #[arg(long)]
    pub(crate) hex: bool,

    /// The key is field N of each line of an input, counted from 1; keys given as arguments are
    /// keys as they are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) field: Option<u32>,

    /// What separates fields: one byte, such as , or \t; quotes have no meaning [default: \t]
    #[arg(long, value_name = "C", requires = "field", value_parser = units::parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
}

impl KeyArgs {
    /// The key's part of a record that was cut out of an input; none if it has too few fields.
    #[inline]
    pub(crate) fn part<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        // Only such a record ends in the first half of a line end.
        let record = match self.crlf {
            true => record.strip_suffix(b"\r").unwrap_or(record),
            false => record,
        };
        let Some(field) = self.field else { return Some(record) };
        let delimiter = self.delimiter.unwrap_or(b'\t');
        record.split(|&byte| byte == delimiter).nth(field as usize - 1)
    }

    /// The byte that ends a key.
    pub(crate) fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// What a piece of an input is called.
    pub(crate) fn record_name(&self) -> &'static str {
        if self.null { "record" } else { "line" }
    }
}

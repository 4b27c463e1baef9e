//! Which keys a command is about, how they stand in inputs, and in what form they become keys.

use std::ffi::OsString;
use std::path::PathBuf;

use bloomfile::hash::Encoding;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::keys::{Field, JsonPath};
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

/// Inputs that hold keys for a file that exists.
#[derive(Args, Debug)]
pub(crate) struct InputArgs {
    /// Files of keys, one per line; - is standard input; may be given again
    #[arg(long, value_name = "INPUT")]
    pub(crate) from: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) records: RecordArgs,

    #[command(flatten)]
    pub(crate) form: FormArgs,

    /// Read keys as these options say, whatever form the file records
    #[arg(long)]
    pub(crate) no_form: bool,
}

/// Whether an input is read from where an earlier run ended.
#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    /// Go on in the input where the last run with --resume ended or was killed, and keep the number
    /// of keys read as the mark. Lines that have not ended yet are left for the next run
    #[arg(long, conflicts_with_all = ["csv", "each", "header", "skip_missing"])]
    pub(crate) resume: bool,

    /// With --resume: read another input than before, from its beginning, as after a log was rotated
    #[arg(long, requires = "resume")]
    pub(crate) from_start: bool,
}

/// Where keys stand in the records of an input. Arguments are keys as they are.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RecordArgs {
    /// Keys are separated by NUL bytes instead of newlines
    #[arg(short = '0', long, conflicts_with_all = ["crlf", "csv"])]
    pub(crate) null: bool,

    /// The key is one field of each line of an input: its number, counted from 1, or its name in the
    /// first line
    #[arg(long, value_name = "FIELD", group = "columns")]
    #[arg(value_parser = Field::parse)]
    pub(crate) field: Option<Field>,

    /// Every field of a line is a key, except empty ones; a line is present if one of them may be
    #[arg(long, group = "columns")]
    pub(crate) each: bool,

    /// What separates fields: one byte, such as , or \t; spaces in a row count as one [default: \t,
    /// or , with --csv]
    #[arg(long, value_name = "C", requires = "columns", value_parser = units::parse_delimiter)]
    pub(crate) delimiter: Option<u8>,

    /// Fields are separated by white space, any amount of it
    #[arg(long, requires = "columns", conflicts_with_all = ["delimiter", "csv"])]
    pub(crate) whitespace: bool,

    /// Fields are written as CSV: they may stand in quotes, and hold delimiters and newlines there
    #[arg(long, requires = "columns")]
    pub(crate) csv: bool,

    /// The first line of each input is a header, and holds no key; it is when --field gives a name
    #[arg(long, requires = "columns")]
    pub(crate) header: bool,

    /// Lines are JSON, and the key is the text or number at PATH, such as user.name or ips.0 (. is
    /// all of it); with --each every text and number in it
    #[arg(long, value_name = "PATH", value_parser = JsonPath::parse)]
    #[arg(conflicts_with_all = ["field", "delimiter", "whitespace", "csv", "header"])]
    pub(crate) json_field: Option<JsonPath>,

    /// Pass over lines that lack the field, and say how many, instead of ending with an error
    #[arg(long)]
    pub(crate) skip_missing: bool,
}

/// What is done to the text of a key before it is a key. A new file records it; commands on the file
/// do the same without being told.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct FormArgs {
    /// Lines end in CR LF: the CR is not part of the key
    #[arg(long)]
    pub(crate) crlf: bool,

    /// Take off the white space around each key
    #[arg(long)]
    pub(crate) trim: bool,

    /// Turn letters into lower case, so that case makes no difference
    #[arg(long, conflicts_with_all = ["hex", "encoding"])]
    pub(crate) lower: bool,

    /// Keys are written as hex digits, two for each byte
    #[arg(long, conflicts_with = "encoding")]
    pub(crate) hex: bool,

    /// Keys are whole numbers: 8 bytes, the lowest (le64) or the highest (be64) first, or decimal
    /// digits without zeros in front
    #[arg(long, value_name = "E", value_parser = encodings())]
    pub(crate) encoding: Option<Encoding>,
}

fn encodings() -> impl TypedValueParser<Value = Encoding> {
    let names = PossibleValuesParser::new(Encoding::ALL.map(Encoding::name));
    names.try_map(|name| name.parse::<Encoding>())
}

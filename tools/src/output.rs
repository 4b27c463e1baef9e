//! What is printed, and where.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::failure::{Failure, Result};
use crate::text;

/// Width of the labels of a [`Listing`].
const LABEL_WIDTH: usize = 14;

/// Prints one line.
pub(crate) fn line(text: impl Display) -> Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints text as it is.
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::output)
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::output)
}

/// Says something on standard error that is not an error.
pub(crate) fn note(text: impl Display) {
    // Names and keys in it are escaped already. Of whatever else comes from outside, nothing may
    // steer the terminal either.
    let text = text::lines(&text.to_string());
    // One write, so that messages of several processes do not mix. Where standard error is closed,
    // there is no one to tell.
    let _ = io::stderr().write_all(format!("bloomfile: {text}\n").as_bytes());
}

/// Warns of something about a file.
pub(crate) fn warn(path: &Path, text: impl Display) {
    note(format_args!("{}: warning: {text}", text::path(path)));
}

/// Prints a value as JSON. Numbers that JSON lacks (infinities) become null.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, Pretty::default());
    value.serialize(&mut serializer).map_err(|error| Failure::output(error.into()))?;
    line(text::json(&String::from_utf8_lossy(&json)))
}

/// JSON on several lines, in which no zero has a sign: -0.0 puzzles people.
#[derive(Default)]
struct Pretty(PrettyFormatter<'static>);

/// Leaves what is written between values to the formatter inside.
macro_rules! as_pretty {
    ($($name:ident($($first:ident)?)),*) => {
        $(fn $name<W: ?Sized + Write>(
            &mut self,
            writer: &mut W,
            $($first: bool,)?
        ) -> io::Result<()> {
            self.0.$name(writer, $($first)?)
        })*
    };
}

impl Formatter for Pretty {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        self.0.write_f64(writer, value + 0.0)
    }

    as_pretty!(
        begin_array(),
        end_array(),
        begin_array_value(first),
        end_array_value(),
        begin_object(),
        end_object(),
        begin_object_key(first),
        end_object_key(),
        begin_object_value(),
        end_object_value()
    );
}

/// Appends a value as JSON on a line of its own.
pub(crate) fn json_line(value: &impl Serialize, text: &mut Vec<u8>) {
    let json = serde_json::to_string(value).expect("texts can be written as JSON");
    text.extend_from_slice(text::json(&json).as_bytes());
    text.push(b'\n');
}

/// Prints records of inputs as they are, but to a terminal nothing that would steer it.
#[derive(Clone, Copy)]
pub(crate) struct Printer {
    to_terminal: bool,
    separator: u8,
}

impl Printer {
    /// One that ends records with a NUL byte or a newline.
    pub(crate) fn new(null: bool) -> Self {
        let separator = if null { 0 } else { b'\n' };
        Printer { to_terminal: io::stdout().is_terminal(), separator }
    }

    pub(crate) fn record(self, record: &[u8], text: &mut Vec<u8>) {
        if self.to_terminal {
            text::record(record, text);
        } else {
            text.extend_from_slice(record);
        }
    }

    pub(crate) fn end(self, text: &mut Vec<u8>) {
        text.push(self.separator);
    }
}

/// Whether standard output shows colours: a terminal that can, and a user who wants them.
pub(crate) fn colour() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}

/// Lines of a label and what it says.
#[derive(Default)]
pub(crate) struct Listing {
    text: String,
}

impl Listing {
    pub(crate) fn row(&mut self, label: &str, value: impl Display) {
        // Continued lines stand below the first.
        let value = value.to_string().replace('\n', &format!("\n{:1$}", "", LABEL_WIDTH + 2));
        self.text.push_str(&format!("  {label:LABEL_WIDTH$}{value}\n"));
    }

    /// A row for something that may not be there.
    pub(crate) fn row_if(&mut self, label: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.row(label, value);
        }
    }
}

impl Display for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

//! Where keys come from.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::{output, platform, text, units};

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The key itself, and which argument it was.
    Argument(usize, Vec<u8>),
    /// Standard input.
    Stdin,
    /// A file of keys.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Argument(number, _) => write!(f, "key argument {number}"),
            Source::Stdin => f.write_str("standard input"),
            Source::File(path) => write!(f, "{}", text::path(path)),
        }
    }
}

/// The sources that arguments name, checked: keys first, then files; standard input when there is
/// neither.
pub(crate) fn sources(keys: Vec<OsString>, inputs: Vec<PathBuf>) -> Result<Vec<Source>> {
    let keys = keys.into_iter().zip(1..).map(|(key, number)| {
        if key == "-" {
            return Ok(Source::Stdin);
        }
        let bytes = platform::key_of(key).ok_or_else(|| {
            let reason = "is not text, so that it has no bytes; give it with --hex";
            Failure::about(format_args!("key argument {number}"), reason)
        })?;
        Ok(Source::Argument(number, bytes))
    });
    let inputs = inputs.into_iter().map(|path| match path.as_os_str().as_encoded_bytes() {
        b"-" => Source::Stdin,
        _ => Source::File(path),
    });
    let mut sources = keys.chain(inputs.map(Ok)).collect::<Result<Vec<Source>>>()?;
    if sources.is_empty() {
        sources.push(Source::Stdin);
    }
    if sources.iter().filter(|source| **source == Source::Stdin).count() > 1 {
        return Err(Failure::about("-", "standard input is named twice; it can be read only once"));
    }
    Ok(sources)
}

/// Warns of key arguments that are names of files: a list that was meant to be read would be taken
/// for one key, which is absent as a rule.
pub(crate) fn warn_of_file_names(keys: &[OsString]) {
    let is_file = |key: &&OsString| {
        let named = Path::new(key).metadata();
        key.as_encoded_bytes() != b"-" && named.is_ok_and(|metadata| !metadata.is_dir())
    };
    let mut files = keys.iter().filter(is_file).map(Path::new);
    let Some(first) = files.next() else { return };
    let others = match files.count() as u64 {
        0 => String::new(),
        1 => " (and so is one other after it)".into(),
        others => format!(" (and so are {} others after it)", units::count(others)),
    };
    output::warn(
        first,
        format_args!(
            "is the name of a file, and taken as a key{others}; to read keys from the file, give \
             --from {}",
            text::word(first)
        ),
    );
}

/// Opens a file of keys; whether it is a regular one.
pub(super) fn open(source: &Source, path: &Path) -> Result<(File, bool)> {
    let file = File::open(path).map_err(|error| {
        Failure::about(source, format!("cannot open the keys: {error}; check the path"))
    })?;
    let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    Ok((file, is_regular))
}

/// Standard input as a file, and the offset it stands at, when it is one.
pub(super) fn regular() -> Option<(File, u64)> {
    let mut file = platform::standard_input().ok()?;
    let offset = file.stream_position().ok()?;
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some((file, offset))
}

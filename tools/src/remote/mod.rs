//! Files behind a web server or in an object store, which are read by ranges where they are.

#[cfg(feature = "network")]
mod asked;
#[cfg(feature = "network")]
mod inspected;
#[cfg(not(feature = "network"))]
mod none;
#[cfg(feature = "network")]
mod object;

#[cfg(feature = "network")]
pub(crate) use asked::AskedFile;
#[cfg(feature = "network")]
pub(crate) use inspected::InspectedFile;
#[cfg(not(feature = "network"))]
pub(crate) use none::{AskedFile, InspectedFile};

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::publication::other_way;
use crate::text;

/// The address that stands in place of a file's path, if it is one. A path that looks like one is
/// written with `./` in front.
pub(crate) fn address(file: &Path) -> Option<&str> {
    let text = file.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(plain))
        .then_some(text)
}

/// An error about a file at an address.
fn about(address: &str, message: impl Into<String>) -> Failure {
    Failure::about(text::key(address.as_bytes()), message)
}

/// Refuses addresses that no program of this kind reads.
fn check_scheme(address: &str) -> Result<()> {
    match address.split_once("://") {
        Some(("http" | "https" | "s3", _)) => Ok(()),
        Some(("file", path)) => {
            let path = text::key(path.as_bytes()).to_string();
            Err(about(address, format!("is a file that is here: give its path, {path}")))
        }
        other => {
            let way = other.map_or("", |(scheme, _)| other_way(scheme));
            let reason = format!("cannot be read: its scheme is none of http, https and s3{way}");
            Err(about(address, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths() {
        for path in ["a.bloom", "./http://a", "/a://b", "://a", "1a://b", "a b://c", "a:/b"] {
            assert_eq!(address(Path::new(path)), None, "{path}");
        }
        for text in ["http://a/b", "s3://a/b", "ftp://a", "file:///a"] {
            assert_eq!(address(Path::new(text)), Some(text));
            let read = matches!(&text[..4], "http" | "s3:/");
            assert_eq!(check_scheme(text).is_ok(), read, "{text}");
        }
    }
}

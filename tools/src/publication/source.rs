//! Where a publication is read from: a folder, a web server, an object store.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::text;

/// Why something could not be read.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) message: String,
    /// Trying again may help.
    pub(crate) transient: bool,
    /// There is no such file: it may have been removed since the manifest was read.
    pub(crate) missing: bool,
}

impl Trouble {
    pub(crate) fn permanent(message: impl Into<String>) -> Self {
        Trouble { message: message.into(), transient: false, missing: false }
    }

    pub(crate) fn transient(message: impl Into<String>) -> Self {
        Trouble { message: message.into(), transient: true, missing: false }
    }

    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Trouble { message: message.into(), transient: false, missing: true }
    }
}

/// What a source answers.
pub(crate) struct Answer {
    /// Where in the file its bytes begin: where it was asked for, or 0.
    pub(crate) start: u64,
    /// The length of the whole file, where the source tells.
    pub(crate) total: Option<u64>,
    pub(crate) body: Box<dyn Read>,
}

/// Where a publication is.
pub(crate) enum Source {
    Folder(PathBuf),
    #[cfg(feature = "network")]
    Web(super::http::Web),
}

impl Source {
    /// The source of a URL or path.
    pub(crate) fn open(location: &str) -> Result<Self> {
        if let Some(path) = location.strip_prefix("file://") {
            return Ok(Source::Folder(path.into()));
        }
        match location.split_once("://") {
            None => Ok(Source::Folder(location.into())),
            Some(("http" | "https" | "s3", _)) => Self::web(location),
            Some((scheme, _)) => Err(Failure::about(
                text::key(location.as_bytes()),
                format!("cannot be read: {scheme} is none of file, http, https and s3"),
            )),
        }
    }

    #[cfg(feature = "network")]
    fn web(location: &str) -> Result<Self> {
        super::http::Web::new(location)
            .map(Source::Web)
            .map_err(|message| Failure::about(text::key(location.as_bytes()), message))
    }

    #[cfg(not(feature = "network"))]
    fn web(location: &str) -> Result<Self> {
        Err(Failure::about(
            text::key(location.as_bytes()),
            "this bloomfile was built without the network; install it with --features network, or \
             fetch the folder by other means and pull from that",
        ))
    }

    /// The bytes of a file from an offset on.
    pub(crate) fn get(&self, name: &str, from: u64) -> Result<Answer, Trouble> {
        match self {
            Source::Folder(folder) => {
                let path = folder.join(name);
                let shown = text::path(&path);
                let trouble = |error: io::Error| match error.kind() {
                    io::ErrorKind::NotFound => Trouble::missing(format!("{shown} is not there")),
                    _ => Trouble::permanent(format!("{shown} cannot be read: {error}")),
                };
                let mut file = File::open(&path).map_err(trouble)?;
                let total = file.metadata().map_err(trouble)?.len();
                file.seek(SeekFrom::Start(from)).map_err(trouble)?;
                Ok(Answer { start: from, total: Some(total), body: Box::new(file) })
            }
            #[cfg(feature = "network")]
            Source::Web(web) => web.get(name, from),
        }
    }

    /// All of a small file.
    pub(crate) fn get_all(&self, name: &str, most: u64) -> Result<Vec<u8>, Trouble> {
        let answer = self.get(name, 0)?;
        let mut bytes = Vec::new();
        let read = answer.body.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| Trouble::transient(format!("{name} was cut short: {error}")))?;
        if bytes.len() as u64 > most {
            return Err(Trouble::permanent(format!("{name} is longer than {most} bytes")));
        }
        if answer.total.is_some_and(|total| total != bytes.len() as u64) {
            return Err(Trouble::transient(format!("{name} was cut short")));
        }
        Ok(bytes)
    }
}

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
    pub(crate) kind: Kind,
}

/// What can be done about a [`Trouble`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Trying again may help.
    Transient,
    /// There is no such file: it may have been removed since the manifest was read.
    Missing,
    /// The source does not give what it should, and will not: another file may be of use.
    Wrong,
    /// It is not the source's fault: no other file of it would help.
    Local,
    /// The file is another one than it was.
    #[cfg(feature = "network")]
    Changed,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Trouble {}

impl Trouble {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Trouble { message: message.into(), kind }
    }

    pub(crate) fn transient(message: impl Into<String>) -> Self {
        Self::new(Kind::Transient, message)
    }

    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::new(Kind::Missing, message)
    }

    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self::new(Kind::Wrong, message)
    }

    pub(crate) fn local(message: impl Into<String>) -> Self {
        Self::new(Kind::Local, message)
    }

    #[cfg(feature = "network")]
    pub(crate) fn changed(message: impl Into<String>) -> Self {
        Self::new(Kind::Changed, message)
    }
}

/// What a source answers.
pub(crate) struct Answer {
    /// Where in the file its bytes begin: where it was asked for, or 0.
    pub(crate) start: u64,
    /// The length of the whole file, where the source tells.
    pub(crate) total: Option<u64>,
    /// What tells this version of the file from others.
    pub(crate) tag: Option<String>,
    pub(crate) body: Box<dyn Read>,
}

/// A small file.
pub(crate) struct Small {
    pub(crate) bytes: Vec<u8>,
    /// What tells this version of it from others.
    pub(crate) tag: Option<String>,
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
                format!(
                    "cannot be read: {scheme} is none of file, http, https and s3{}",
                    other_way(scheme)
                ),
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
                    _ => Trouble::wrong(format!("{shown} cannot be read: {error}")),
                };
                let mut file = File::open(&path).map_err(trouble)?;
                let total = file.metadata().map_err(trouble)?.len();
                file.seek(SeekFrom::Start(from)).map_err(trouble)?;
                Ok(Answer { start: from, total: Some(total), tag: None, body: Box::new(file) })
            }
            #[cfg(feature = "network")]
            Source::Web(web) => web.get(name, from),
        }
    }

    /// As [`get`](Self::get) from the first byte on, or `None` if the file has the tag that is known.
    fn get_unless(&self, name: &str, known: Option<&str>) -> Result<Option<Answer>, Trouble> {
        match self {
            #[cfg(feature = "network")]
            Source::Web(web) => web.get_unless(name, 0, known),
            Source::Folder(_) => {
                debug_assert!(known.is_none(), "files of folders have no tags");
                self.get(name, 0).map(Some)
            }
        }
    }

    /// All of a small file, with its tag; `None` if it still has the one that is known.
    pub(crate) fn get_all_unless(
        &self,
        name: &str,
        most: u64,
        known: Option<&str>,
    ) -> Result<Option<Small>, Trouble> {
        let Some(answer) = self.get_unless(name, known)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = answer.body.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| Trouble::transient(format!("{name} was cut short: {error}")))?;
        if bytes.len() as u64 > most {
            return Err(Trouble::wrong(format!("{name} is longer than {most} bytes")));
        }
        if answer.total.is_some_and(|total| total != bytes.len() as u64) {
            return Err(Trouble::transient(format!("{name} was cut short")));
        }
        Ok(Some(Small { bytes, tag: answer.tag }))
    }

    /// All of a small file.
    #[cfg(feature = "network")]
    pub(crate) fn get_all(&self, name: &str, most: u64) -> Result<Vec<u8>, Trouble> {
        let found = self.get_all_unless(name, most, None)?;
        found.map(|small| small.bytes).ok_or_else(|| Trouble::wrong(format!("{name} did not come")))
    }
}

/// How else what is at addresses of another scheme can be reached.
pub(crate) fn other_way(scheme: &str) -> &'static str {
    match scheme {
        "gs" | "gcs" => {
            "; Google Cloud Storage is read as s3://BUCKET/NAME with \
             AWS_ENDPOINT=https://storage.googleapis.com and an HMAC key, or by https:// if all may \
             read it"
        }
        "az" | "azure" | "abfs" | "abfss" | "adl" | "wasb" | "wasbs" => {
            "; what is in Azure is read by https:// if all may read it, or from a copy in a folder"
        }
        "ftp" | "ftps" | "sftp" | "ssh" | "scp" | "rsync" => {
            "; copy it to a folder by other means, and name that"
        }
        _ => "",
    }
}

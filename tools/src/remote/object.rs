//! One version of a file at an address, as a source of ranges.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bloomfile::Error;
use bloomfile::ranges::Source;

use super::{about, check_scheme};
use crate::failure::{Failure, Result, explain};
use crate::publication::{
    Kind, MANIFEST, MOST_MANIFEST_BYTES, Manifest, Tag, Trouble, Web, pause_or_fail,
};

/// What `AskOpening` reads first: the headers. The length of the file and its tag come with them.
pub(super) const FIRST_TO_ASK: u64 = 16 << 10;

/// What `Opening` reads first.
pub(super) const FIRST: u64 = 64 << 10;

/// Tries of a request. Someone waits for the answer.
const TRIES: u32 = 4;

/// Requests that are under way at the same time.
const CONNECTIONS: usize = 6;

/// Bytes that are kept, so that what two tasks read comes once.
const KEPT: usize = 64 << 20;

/// How often a file is read again that changes all the time.
pub(super) const VERSIONS: u32 = 5;

/// One version of a file.
pub(super) struct Object {
    web: Web,
    name: String,
    length: u64,
    tag: Tag,
    /// What came so far, if the server tells each change: what is read once more because it may have
    /// changed has to come once more.
    kept: Option<Mutex<BTreeMap<u64, Vec<u8>>>>,
}

impl Object {
    /// The file that is at an address now, of which so much is read at once. One that ends in a slash is a publication, whose manifest
    /// tells the name of the file.
    pub(super) fn open(address: &str, first: u64) -> Result<Self> {
        check_scheme(address)?;
        let fail = |message: String| about(address, message);
        let published = address.ends_with('/');
        let mut versions = 0;
        loop {
            versions += 1;
            let (web, name) = if published {
                let source = crate::publication::Source::open(address)?;
                (Web::new(address).map_err(fail)?, snapshot_of(&source).map_err(fail)?)
            } else {
                Web::of_file(address).map_err(fail)?
            };
            match Self::first(web, name, first) {
                // It was removed after the manifest was read: there is a newer one.
                Err(trouble)
                    if trouble.kind == Kind::Missing && published && versions < VERSIONS => {}
                result => return result.map_err(|trouble| fail(trouble.message)),
            }
        }
    }

    fn first(web: Web, name: String, first: u64) -> Result<Self, Trouble> {
        let part = patiently(|| web.range(&name, 0..first, None))?;
        let kept = || Mutex::new(BTreeMap::from([(0, part.bytes)]));
        let kept = part.tag.is_strong().then(kept);
        Ok(Object { web, name, length: part.total, tag: part.tag, kept })
    }

    /// Whether the server tells each change of the file.
    pub(super) fn tells_changes(&self) -> bool {
        self.kept.is_some()
    }

    fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        if let Some(bytes) = self.kept(&range) {
            return Ok(bytes);
        }
        let part = patiently(|| self.web.range(&self.name, range.clone(), Some(&self.tag)));
        let part = match part {
            Ok(part) if part.total == self.length => part,
            Ok(_) => {
                let changed = Trouble::changed("has another length than when it was opened");
                return Err(io::Error::other(changed));
            }
            Err(trouble) => return Err(io::Error::other(trouble)),
        };
        if let Some(kept) = &self.kept {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.values().map(Vec::len).sum::<usize>() + part.bytes.len() <= KEPT {
                kept.insert(range.start, part.bytes.clone());
            }
        }
        Ok(part.bytes)
    }

    /// The bytes of a range that came before, in one piece.
    fn kept(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let kept = self.kept.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, bytes) = kept.range(..=range.start).next_back()?;
        let at = |offset: u64| usize::try_from(offset - start).ok();
        bytes.get(at(range.start)?..at(range.end)?).map(<[u8]>::to_vec)
    }
}

impl Source for Object {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.fetch(range)
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        let each = ranges.len().div_ceil(CONNECTIONS).max(1);
        std::thread::scope(|scope| {
            let fetch = |part: &[Range<u64>]| -> io::Result<Vec<Vec<u8>>> {
                part.iter().map(|range| self.fetch(range.clone())).collect()
            };
            let mut parts = ranges.chunks(each);
            let own = parts.next().unwrap_or_default();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || fetch(part))).collect();
            let mut found = fetch(own)?;
            for other in others {
                let lost = || io::Error::other("a thread that fetched a range has panicked");
                found.extend(other.join().map_err(|_| lost())??);
            }
            Ok(found)
        })
    }
}

/// The name of the snapshot that a publication has now.
fn snapshot_of(source: &crate::publication::Source) -> Result<String, String> {
    let bytes = patiently(|| source.get_all(MANIFEST, MOST_MANIFEST_BYTES));
    let bytes = bytes.map_err(|trouble| trouble.message)?;
    let manifest = Manifest::decode(&bytes).map_err(|reason| format!("{MANIFEST} {reason}"))?;
    Ok(manifest.snapshot.name)
}

/// Tries again what may pass.
fn patiently<T>(mut action: impl FnMut() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let mut tries = 0;
    loop {
        match action() {
            Ok(value) => return Ok(value),
            Err(trouble) => pause_or_fail(trouble, &mut tries, TRIES)?,
        }
    }
}

/// What a source said that an error of the library comes from.
fn trouble_in(error: &Error) -> Option<&Trouble> {
    match error {
        Error::Io { error, .. } => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// Whether an error means that the file is another one by now: then it is opened again.
pub(super) fn is_change(error: &Error) -> bool {
    matches!(error, Error::Changed)
        || trouble_in(error)
            .is_some_and(|trouble| matches!(trouble.kind, Kind::Changed | Kind::Missing))
}

/// An error while a file at an address was read.
pub(super) fn failure(address: &str, error: &Error) -> Failure {
    match trouble_in(error) {
        Some(trouble) if trouble.kind == Kind::Changed => {
            about(address, format!("{}, again and again; try again later", trouble.message))
        }
        Some(trouble) => about(address, trouble.message.clone()),
        None => about(address, explain(error)),
    }
}

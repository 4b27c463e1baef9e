//! Files of which any range of bytes can be had, but not all at once: behind a web server, in an
//! object store, in a browser.
//!
//! Opening reads headers and page tables, 2 MiB for each GiB of data; after that a look-up reads the
//! page of its key, or the few pages in layouts that spread its cells, and each is checked against
//! the page table before an answer rests on it. So every answer is that of the file as it was when it
//! was opened: a file that is written or replaced later on gives [`Error::Changed`](crate::Error), one
//! that is damaged an error where it is asked. The journal of a file that was not closed is read at
//! opening, and counts.
//!
//! Where a range can be waited for, a [`Source`] is all that it takes:
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("keys.bloom");
//! # let filter = bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?;
//! # filter.add("sheep")?;
//! # filter.close()?;
//! # let stored = std::fs::read(&path).unwrap();
//! use bloomfile::ranges::{RangeReader, Source};
//!
//! struct Stored(Vec<u8>);
//!
//! impl Source for Stored {
//!     fn length(&self) -> std::io::Result<u64> {
//!         Ok(self.0.len() as u64)
//!     }
//!
//!     fn read_at(&self, range: std::ops::Range<u64>) -> std::io::Result<Vec<u8>> {
//!         Ok(self.0[range.start as usize..range.end as usize].to_vec())
//!     }
//! }
//!
//! let reader = RangeReader::open(Stored(stored))?;
//! assert!(reader.contains("sheep")?);
//! assert!(!reader.contains("wolf")?);
//! # Ok::<(), bloomfile::Error>(())
//! ```
//!
//! Where it cannot, as in a browser, a [`Task`] says which ranges it needs and goes on once it was
//! given them: [`Opening`] makes a [`RangeFile`], which makes the tasks that ask and verify it;
//! [`Explaining`] takes damaged files as well.
//!
//! For a few keys of a large file even its page tables are much: [`AskOpening`] reads the headers alone,
//! and its [`AskFile`] of the tables the pages with the entries that it takes.

mod ask_file;
mod asking;
mod cache;
mod comparing;
mod explaining;
mod fetch;
mod file;
mod listing;
mod loading;
mod measuring;
mod opening;
mod pieces;
mod reader;
mod verifying;

use std::io;
use std::ops::Range;

pub use ask_file::{AskFile, AskOpening};
pub use asking::{Answer, Asking};
pub use comparing::Comparing;
pub use explaining::Explaining;
pub use file::RangeFile;
pub use listing::Listing;
pub use loading::{Loaded, Loading};
pub use measuring::Measuring;
pub use opening::Opening;
pub use reader::RangeReader;
pub use verifying::Verifying;

use crate::error::{Error, Result};

/// Pages that a task reads at once where it goes through all of them: 1 MiB.
const PAGES_AT_ONCE: u64 = 256;

/// How far a [`Task`] got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// It is done.
    Done(T),
    /// These bytes are needed next. All of them have to be [given](Task::give), in any order, before
    /// the task can go on.
    Need(Vec<Range<u64>>),
}

/// Work on a file that waits for nothing: it says which bytes it needs, and is given them.
pub trait Task {
    /// What comes out of it.
    type Output;

    /// Goes on, as far as what was given allows. After an error, or when it is done, a task is of no
    /// further use.
    fn step(&mut self) -> Result<Step<Self::Output>>;

    /// The bytes of a range that was needed, from its start; an error if they are not exactly those of
    /// one.
    fn give(&mut self, start: u64, bytes: Vec<u8>) -> Result<()>;
}

/// Where ranges of bytes of a file come from.
///
/// What stands behind it may be changed by others at any time. A source that can tell, as a web server
/// can by an `ETag`, should give an error then; what it does not notice, the checks of pages do.
pub trait Source {
    /// Length of the file in bytes.
    fn length(&self) -> io::Result<u64>;

    /// The bytes of a range, all of which are below the length.
    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// The bytes of several ranges, which may be fetched at the same time.
    fn read_many(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        ranges.iter().map(|range| self.read_at(range.clone())).collect()
    }
}

/// Brings a task to its end with what a source gives.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// # bloomfile::Options::new().capacity(1000).false_positive_rate(0.01).create(&path)?.close()?;
/// use bloomfile::ranges::{Opening, run};
///
/// // A file is a source, too.
/// let source = std::fs::File::open(&path).unwrap();
/// let file = run(Opening::new(source.metadata().unwrap().len()), &source)?;
/// assert_eq!(file.inspect().capacity, Some(1000));
/// # Ok::<(), bloomfile::Error>(())
/// ```
pub fn run<T: Task>(mut task: T, source: &(impl Source + ?Sized)) -> Result<T::Output> {
    loop {
        let ranges = match task.step()? {
            Step::Done(output) => return Ok(output),
            Step::Need(ranges) => ranges,
        };
        for (range, bytes) in read_ranges(source, ranges)? {
            task.give(range.start, bytes)?;
        }
    }
}

/// Ranges with their bytes. A source that gives other than one piece for each is at fault: which of
/// them are missing is not known, and the file is not to blame.
fn read_ranges(
    source: &(impl Source + ?Sized),
    ranges: Vec<Range<u64>>,
) -> Result<impl Iterator<Item = (Range<u64>, Vec<u8>)>> {
    let found = source.read_many(&ranges).and_then(|found| {
        if found.len() == ranges.len() {
            return Ok(found);
        }
        let said = format!("{} ranges came of the {} asked for", found.len(), ranges.len());
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, said))
    });
    let found = found.map_err(Error::io("read a range of the file"))?;
    Ok(ranges.into_iter().zip(found))
}

#[cfg(feature = "files")]
impl Source for std::fs::File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};

        let mut file = self;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(range.start))?;
        file.take(range.end - range.start).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        (**self).read_at(range)
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        (**self).read_many(ranges)
    }
}

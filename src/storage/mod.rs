//! Files: lock, allocate, positioned I/O, publish by rename, and the mapping.
//!
//! The rooms above know only the traits here, so that the same protocol runs on real files and on
//! the simulated disk of the crash tests, and the same readers on files and on bytes in memory.
//! Look-ups read the words directly in all of them; the writer is monomorphic, so that the seam costs
//! nothing.
//!
//! Without the feature `files` there are bytes in memory alone: what needs a file system stays out.

#[cfg(feature = "files")]
mod boot;
mod bytes;
#[cfg(feature = "files")]
mod file;
#[cfg(feature = "files")]
mod key_file;
#[cfg(feature = "files")]
mod lock;
mod map;
#[cfg(feature = "files")]
mod pending;
#[cfg(feature = "files")]
mod platform;
#[cfg(feature = "files")]
mod process;
mod sabotage;
#[cfg(all(test, feature = "files"))]
pub(crate) mod simulated;
#[cfg(feature = "files")]
mod space;
#[cfg(feature = "files")]
mod target;
mod words;

pub(crate) use bytes::Bytes;
#[cfg(feature = "digest")]
pub(crate) use bytes::NewBytes;
pub(crate) use map::FileMap;
#[cfg(feature = "files")]
pub use pending::discard_unfinished;
#[cfg(test)]
pub(crate) use sabotage::Sabotage;
pub(crate) use sabotage::sabotage;
pub(crate) use words::{Words, prefetch, prefetch_to_write};
#[cfg(feature = "files")]
pub(crate) use {
    file::FileMedium,
    lock::{open_for_writing, open_to_read},
    pending::PendingFile,
    platform::catch_bus_errors,
    process::Owner,
    target::Target,
};

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::format::BootId;

/// Locks a mutex whose owner cannot have left anything half done.
pub(crate) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Words of a cache line, which is a block of the `line` layout.
pub(crate) const LINE_WORDS: usize = 8;

/// Makes a system call again that a signal interrupted: the process that bloomfile is part of may
/// handle some, and nothing has been done yet.
#[cfg(feature = "files")]
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// How a part of the file is mapped.
#[cfg(feature = "files")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Seen by all processes, and written through.
    Shared,
    /// Seen as others write it; never written.
    ReadOnly,
    /// A private copy of every page that is written; the file stays as it is.
    Private,
}

/// Where a filter is read from: a file, or bytes that came from anywhere.
pub(crate) trait ReadMedium: Send + Sync {
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Fills `bytes` from `offset`; an end before that is an error.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// The first offset from `offset` on, below the length, that is not known to be in a hole; the
    /// length if there is none.
    fn data_from(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }

    /// Whether a writer has the file right now (F-100).
    fn is_locked(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// The boot of the machine that this process runs in (F-114); zeros where what is read was not
    /// written on this machine.
    fn boot_id(&self) -> BootId {
        BootId::default()
    }

    /// Whether this step of the protocol is to be left out or done wrongly.
    #[cfg(test)]
    fn sabotaged(&self, _step: Sabotage) -> bool {
        false
    }
}

/// Where a new filter is written, before anyone reads it.
#[cfg(any(feature = "files", feature = "digest"))]
pub(crate) trait WriteMedium: ReadMedium {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

/// Where a filter is written.
#[cfg(feature = "files")]
pub(crate) trait Medium: WriteMedium {
    /// What mapping a part of it gives.
    type Map: Map;

    /// As [`read_at`](ReadMedium::read_at), but of what the medium holds rather than what its cache
    /// shows, where the system can tell: after a sync that failed the two may differ. Offset and
    /// length are multiples of the page size.
    fn read_past_cache(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes sure that there is space for every byte, also where a copy of the file left holes:
    /// writing to a hole through a map is a signal, not an error, when the disk is full.
    fn fill_holes(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes everything written so far durable, mapped pages included.
    fn sync(&self) -> io::Result<()>;

    /// Extends the file from `start` to `end` with zeros that have their place on the disk. What
    /// stood behind `start`, which no handle maps, is gone.
    fn extend(&self, start: u64, end: u64) -> io::Result<()>;

    /// Cuts off what stands behind `length`, which no handle maps. Where the system does not cut a file
    /// of which any part is mapped, makes it zeros, and cuts the file when it is closed.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Maps a part of the file; offset and length are multiples of the page size.
    fn map(&self, range: Range<u64>, mapping: Mapping) -> io::Result<Self::Map>;

    /// A number that tells one epoch from another of the same number.
    fn salt(&self) -> u64 {
        crate::random::word()
    }

    /// Whether this process is not the one that opened the medium, but a child forked from it: then
    /// it must not write.
    #[inline(always)]
    fn is_forked(&self) -> bool {
        false
    }
}

/// What mapped memory is about to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Look-ups anywhere: readahead would fetch pages that no look-up asks for.
    LookUps,
    /// All of it, soon: reading may begin.
    All,
    /// All of it, to be written for the first time: in huge pages, if the system has some for
    /// files. Each page takes a fault of its own otherwise.
    Fill,
}

/// A mapped part of the file, as 64-bit little-endian words.
pub(crate) trait Map: Send + Sync {
    /// Whether words may be changed where they are, with instructions that change several at once. A
    /// map that has to know of every change says no.
    const DIRECT: bool = false;

    /// The words, to be read: always the same ones, for as long as the map is there.
    fn words(&self) -> &Words;

    /// Turns bits of a word on and tells what it was.
    fn fetch_or(&self, word: usize, bits: u64) -> u64;

    /// Sets a word, and marks its page as changed even if it is not.
    fn store(&self, word: usize, value: u64);

    /// Tells the system what comes, so that it reads ahead or does not.
    fn advise(&self, _usage: Usage) {}

    /// Makes a range of words durable, and nothing else.
    fn flush(&self, words: Range<usize>) -> io::Result<()>;

    /// Makes a private map what `data`, a map of the same words, is: changes are forgotten.
    fn reset(&self, data: &impl Map) -> io::Result<()> {
        self.copy_from(data)
    }

    /// Makes every word what it is in `data`, a map of as many; those that are so already are only
    /// read.
    fn copy_from(&self, data: &impl Map) -> io::Result<()> {
        for word in 0..self.words().len() {
            let value = data.words().load(word);
            if self.words().load(word) != value {
                self.store(word, value);
            }
        }
        Ok(())
    }
}

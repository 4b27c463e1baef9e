//! The filters that keys are looked up in: files, and files at addresses.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::slice;

use bloomfile::{Reader, hash::Hasher};

use crate::commands::wording::pages_unverified;
use crate::failure::{Failure, Result};
use crate::keys::{self, Format, Piece, Sink};
use crate::remote::AskedFile;

/// A filter that is asked.
pub(super) enum Asked {
    Here(Box<Reader>),
    /// At an address.
    There(Box<AskedFile>),
}

impl Asked {
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        match self {
            Asked::Here(reader) => reader.metadata().clone(),
            Asked::There(file) => file.metadata(),
        }
    }

    pub(super) fn hasher(&self) -> Hasher {
        match self {
            Asked::Here(reader) => reader.hasher(),
            Asked::There(file) => file.hasher(),
        }
    }

    /// Keys that are looked up together: those that fall on pages near to one another share requests.
    pub(super) fn batch(&self) -> usize {
        match self {
            Asked::Here(_) => 512,
            Asked::There(_) => 8192,
        }
    }

    /// Brings the pages of all keys that are arguments at once, which are looked up one by one later.
    pub(super) fn prepare(&self, sources: &[keys::Source], format: &Format) -> Result<()> {
        let Asked::There(file) = self else { return Ok(()) };
        let arguments = sources.iter().filter(|it| matches!(it, keys::Source::Argument(..)));
        let mut hashing = Hashing { hasher: file.hasher(), hashes: Vec::new() };
        for argument in arguments {
            keys::visit(slice::from_ref(argument), format, true, &mut hashing)?;
        }
        // One alone has nothing to share.
        if hashing.hashes.len() > 1 {
            file.ask(&hashing.hashes)?;
        }
        Ok(())
    }

    /// Whether keys may be in: damage makes "maybe".
    pub(super) fn may_hold(&self, hashes: &[u64], found: &mut Vec<bool>) -> Result<()> {
        match self {
            Asked::Here(reader) => reader.contains_hash_batch(hashes, found),
            Asked::There(file) => {
                found.clear();
                found.extend(file.ask(hashes)?.into_iter().map(|answer| answer != Some(false)));
            }
        }
        Ok(())
    }

    /// Takes out those that are in here, which damage does not make them.
    pub(super) fn exclude(&self, hashes: &[u64], found: &mut [bool]) -> Result<()> {
        match self {
            Asked::Here(reader) => {
                for (found, &hash) in found.iter_mut().zip(hashes) {
                    *found = *found && !matches!(reader.try_contains_hash(hash), Ok(true));
                }
            }
            Asked::There(file) => {
                for (found, answer) in found.iter_mut().zip(file.ask(hashes)?) {
                    *found = *found && answer != Some(true);
                }
            }
        }
        Ok(())
    }

    /// Pages that nothing proves to be what was written.
    pub(super) fn pages_unverified(&self) -> u64 {
        match self {
            Asked::Here(reader) => pages_unverified(reader),
            Asked::There(file) => file.pages_unverified(),
        }
    }

    /// The damage that answers rested on.
    pub(super) fn damage(&self, path: &Path) -> Option<Failure> {
        match self {
            Asked::Here(reader) => reader.damage().map(Failure::file(path)),
            Asked::There(file) => file.damage(),
        }
    }
}

/// Hashes keys.
struct Hashing {
    hasher: Hasher,
    hashes: Vec<u64>,
}

impl Sink for Hashing {
    type Output = Vec<u64>;

    fn work(&self, piece: &mut Piece<'_>) -> Vec<u64> {
        let mut hashes = Vec::new();
        while let Some(key) = piece.next() {
            hashes.push(self.hasher.hash(key.bytes));
        }
        hashes
    }

    fn accept(&mut self, hashes: Vec<u64>) -> Result<ControlFlow<()>> {
        self.hashes.extend(hashes);
        Ok(ControlFlow::Continue(()))
    }
}

//! A filter in memory: received over a network, compiled into a program, or read by other means.

use std::io;
#[cfg(feature = "digest")]
use std::sync::{Mutex, PoisonError};

use super::ReadMedium;
#[cfg(feature = "digest")]
use super::{WriteMedium, unpoisoned};

/// The bytes of a file.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl ReadMedium for Bytes<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let found = start.and_then(|start| self.0.get(start..start.checked_add(bytes.len())?));
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The bytes of a file that is being made in memory.
#[cfg(feature = "digest")]
pub(crate) struct NewBytes(Mutex<Vec<u8>>);

#[cfg(feature = "digest")]
impl NewBytes {
    /// Zeros; an error if there is no memory for as many.
    pub(crate) fn new(length: u64) -> io::Result<Self> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(length, 0);
        Ok(NewBytes(Mutex::new(bytes)))
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "digest")]
impl ReadMedium for NewBytes {
    fn length(&self) -> io::Result<u64> {
        Ok(unpoisoned(&self.0).len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        Bytes(&unpoisoned(&self.0)).read_at(bytes, offset)
    }
}

#[cfg(feature = "digest")]
impl WriteMedium for NewBytes {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut all = unpoisoned(&self.0);
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        all.get_mut(start..end).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(bytes);
        Ok(())
    }
}

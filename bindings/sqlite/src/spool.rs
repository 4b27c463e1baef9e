//! Hashes that are kept until it is known how many there are.

use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use bloomfile::plan::DistinctKeys;
use tempfile::SpooledTempFile;

/// Bytes of hashes that are kept in memory; more are in the temporary folder.
const IN_MEMORY: usize = 64 << 20;

/// Bytes that are written to the temporary folder, or read from there, at once.
const BUFFER: usize = 1 << 18;

/// Hashes that are handed over at once.
const BATCH: usize = 1 << 20;

/// Hashes, in the order in which they came.
pub(crate) struct Spool {
    file: BufWriter<SpooledTempFile>,
    pub(crate) keys: DistinctKeys,
}

impl Spool {
    pub(crate) fn new() -> Self {
        let file = BufWriter::with_capacity(BUFFER, SpooledTempFile::new(IN_MEMORY));
        Spool { file, keys: DistinctKeys::new() }
    }

    pub(crate) fn add(&mut self, hash: u64) -> io::Result<()> {
        self.file.write_all(&hash.to_ne_bytes())?;
        self.keys.add(hash);
        Ok(())
    }

    /// Hands all of them over, many at a time.
    pub(crate) fn replay(self, mut take: impl FnMut(&[u64])) -> io::Result<()> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut file = BufReader::with_capacity(BUFFER, file);
        let count = self.keys.keys();
        let mut hashes = Vec::with_capacity(BATCH.min(count as usize));
        for _ in 0..count {
            let mut bytes = [0; 8];
            file.read_exact(&mut bytes)?;
            hashes.push(u64::from_ne_bytes(bytes));
            if hashes.len() == BATCH {
                take(&hashes);
                hashes.clear();
            }
        }
        take(&hashes);
        Ok(())
    }
}

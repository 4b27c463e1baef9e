//! Hashes of keys of which it is not known yet how many there are.

use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use tempfile::SpooledTempFile;

use crate::plan::DistinctKeys;

/// Bytes that are written to the temporary folder, or read from there, at once.
const BUFFER: usize = 1 << 18;

/// Keeps hashes until it is known how many distinct keys they are of, and hands them over then: a filter is
/// made for a number of keys, and keys that come from a pipe come once. 8 bytes for each are kept, repeats
/// among them: in memory at first, and in a nameless file of the temporary folder if they are many.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("words.bloom");
/// use bloomfile::{Options, Spool, hash::Hasher};
///
/// let hasher = Hasher::new(0);
/// let mut spool = Spool::new(1 << 20);
/// for key in ["sheep", "goat", "sheep"] {
///     spool.add_hash(hasher.hash(key))?;
/// }
/// let options = Options::new().capacity(spool.keys().capacity()).false_positive_rate(0.01);
/// let mut builder = options.start_build(&path)?;
/// spool.replay(1 << 20, |hashes| {
///     builder.add_hash_batch(hashes);
/// })?;
/// assert_eq!(builder.finish()?.plan.capacity(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Spool {
    file: BufWriter<SpooledTempFile>,
    keys: DistinctKeys,
}

impl Spool {
    /// One without hashes, which keeps up to this many bytes of them in memory.
    pub fn new(memory: usize) -> Self {
        let file = BufWriter::with_capacity(BUFFER, SpooledTempFile::new(memory));
        Spool { file, keys: DistinctKeys::new() }
    }

    /// Keeps the hash of a key.
    pub fn add_hash(&mut self, hash: u64) -> io::Result<()> {
        self.file.write_all(&hash.to_le_bytes())?;
        self.keys.add(hash);
        Ok(())
    }

    /// How many keys there were so far, and what capacity a filter of them needs.
    pub fn keys(&self) -> &DistinctKeys {
        &self.keys
    }

    /// Hands all hashes over in the order in which they came, up to `at_once` at a time: a
    /// [`Builder`](crate::Builder) is fastest with a million.
    pub fn replay(self, at_once: usize, mut take: impl FnMut(&[u64])) -> io::Result<()> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut file = BufReader::with_capacity(BUFFER, file);
        let mut left = self.keys.keys();
        let at_once = at_once.max(1) as u64;
        let mut hashes = Vec::with_capacity(at_once.min(left) as usize);
        while left > 0 {
            for _ in 0..at_once.min(left) {
                let mut bytes = [0; size_of::<u64>()];
                file.read_exact(&mut bytes)?;
                hashes.push(u64::from_le_bytes(bytes));
            }
            take(&hashes);
            left -= hashes.len() as u64;
            hashes.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::hash::split_mix;

    #[test]
    fn hashes_come_back_in_order_from_memory_and_from_a_file() {
        for (count, at_once) in [(0, 1), (1, 0), (999, 1000), (1000, 1000), (100_000, 1000)] {
            for memory in [0, 1000, 1 << 30] {
                let mut spool = Spool::new(memory);
                (0..count).for_each(|number| spool.add_hash(split_mix(1, number)).unwrap());
                assert_eq!(spool.keys().keys(), count);
                let mut next = 0;
                let replayed = spool.replay(at_once, |hashes| {
                    assert!((1..=at_once.max(1)).contains(&hashes.len()));
                    for &hash in hashes {
                        assert_eq!(hash, split_mix(1, next));
                        next += 1;
                    }
                });
                replayed.unwrap();
                assert_eq!(next, count);
            }
        }
    }
}

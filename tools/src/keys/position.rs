//! Positions in an input, and what tells the input from others: so that the next run goes on where
//! this one ended, in the same input.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io;

use bloomfile::hash::Hasher;
use sha2::{Digest, Sha256};

use super::file::read_exact_at;

/// Bytes at either end of what was read that tell an input from another. The first bytes tell a log
/// from the one that it was rotated to, the last ones from another with the same beginning; the same
/// bytes elsewhere, in a copy of the log say, are as good.
const END_BYTES: usize = 4096;

/// Bytes of the digest that are kept: enough that no two inputs have the same one by chance.
const DIGEST_BYTES: usize = 16;

/// A position between two records of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Records before it.
    pub(crate) keys: u64,
    /// Bytes before it.
    pub(crate) bytes: u64,
    /// The name of a digest of the first and the last bytes before it, and the digest in hex digits.
    ///
    /// In a keyed file it is one under the secret: SHA-256 lets those who read the file try what a
    /// short input was, and so ask it for keys.
    digest: String,
}

/// The names of the digests, of ordinary and of keyed files.
const NAMES: [&str; 2] = ["sha256", "keyed"];

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys={} bytes={} {}", self.keys, self.bytes, self.digest)
    }
}

impl Position {
    /// The position that [`Display`](fmt::Display) wrote, from its words.
    pub(crate) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let keys = value("keys")?.parse().ok()?;
        let bytes = value("bytes")?.parse().ok()?;
        let digest = words.next()?;
        NAMES
            .contains(&digest.split_once('=')?.0)
            .then(|| digest.to_owned())
            .map(|digest| Position { keys, bytes, digest })
    }

    /// Whether an input that begins like this is the one of this position.
    pub(super) fn is_in(&self, fingerprint: &Fingerprint) -> bool {
        *self == fingerprint.position(self.keys)
    }
}

/// The first and the last bytes of what was read, by which an input is known again.
#[derive(Clone, Default)]
pub(super) struct Fingerprint {
    /// The hasher of a keyed file.
    secret: Option<Hasher>,
    bytes: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Fingerprint {
    /// That of nothing, for a filter with this hasher.
    pub(super) fn new(hasher: Hasher) -> Self {
        Fingerprint { secret: Some(hasher).filter(Hasher::is_keyed), ..Fingerprint::default() }
    }

    /// That of the first `bytes` bytes of a file, counted from `start`.
    pub(super) fn of_file(hasher: Hasher, file: &File, start: u64, bytes: u64) -> io::Result<Self> {
        let length = bytes.min(END_BYTES as u64) as usize;
        let mut head = vec![0; length];
        read_exact_at(file, &mut head, start)?;
        let mut tail = vec![0; length];
        read_exact_at(file, &mut tail, start + bytes - length as u64)?;
        Ok(Fingerprint { bytes, head, tail, ..Fingerprint::new(hasher) })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Goes on by bytes that were read.
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let missing = (END_BYTES - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(END_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(END_BYTES));
    }

    /// The position reached, behind this many records.
    pub(super) fn position(&self, keys: u64) -> Position {
        let digest = Sha256::new().chain_update(&self.head).chain_update(&self.tail).finalize();
        let (name, bytes) = match self.secret {
            None => (NAMES[0], digest[..DIGEST_BYTES].to_vec()),
            // Two outputs of the file's hash, which without the secret say nothing of its input.
            Some(hasher) => {
                let half = |number: u8| hasher.hash([&[number], &digest[..]].concat());
                (NAMES[1], [half(0), half(1)].map(u64::to_be_bytes).concat())
            }
        };
        let digest = bytes.iter().fold(format!("{name}="), |mut text, byte| {
            // A string takes all of it.
            let _ = write!(text, "{byte:02x}");
            text
        });
        Position { keys, bytes: self.bytes, digest }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bloomfile::Key;

    use super::*;

    #[test]
    fn a_fingerprint_is_the_same_in_whatever_steps() {
        let bytes: Vec<u8> =
            (0..20_000_u32).map(|at| (at.wrapping_mul(0x9e37) >> 7) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        file.write_all(&bytes).unwrap();
        for step in [1, 7, 100, 4095, 4096, 5000, 20_000] {
            let hasher = Hasher::new(step as u64);
            let mut fingerprint = Fingerprint::new(hasher);
            for piece in bytes.chunks(step) {
                fingerprint.advance(piece);
                let from_file = Fingerprint::of_file(hasher, &file, 6, fingerprint.bytes());
                let from_file = from_file.unwrap();
                assert_eq!(
                    fingerprint.position(3),
                    from_file.position(3),
                    "{} in steps of {step}",
                    fingerprint.bytes()
                );
            }
        }
    }

    #[test]
    fn positions_are_read_as_they_were_written() {
        let mut fingerprint = Fingerprint::default();
        fingerprint.advance(b"a\nb\n");
        let position = fingerprint.position(2);
        let (name, digest) = position.digest.split_once('=').unwrap();
        assert_eq!(position.to_string(), format!("keys=2 bytes=4 {name}={digest}"));
        assert_eq!((name, digest.len()), ("sha256", 32));
        assert_eq!(Position::parse(position.to_string().split(' ')), Some(position.clone()));
        for bad in [
            "",
            "keys=2",
            "keys=x bytes=4 sha256=0",
            "bytes=4 keys=2 sha256=0",
            "keys=2 bytes=4 md5=0",
        ] {
            assert_eq!(Position::parse(bad.split(' ')), None);
        }
        let mut other = Fingerprint::default();
        other.advance(b"a\nc\n");
        assert!(position.is_in(&fingerprint) && !position.is_in(&other));

        // Under a secret: another one for each, and none that the input alone gives.
        let position_under = |key: &[u8; 16]| {
            let mut fingerprint = Fingerprint::new(Hasher::keyed(&Key::from_bytes(*key)));
            fingerprint.advance(b"a\nb\n");
            let position = fingerprint.position(2);
            assert!(position.is_in(&fingerprint) && position.digest.starts_with("keyed="));
            assert_eq!(Position::parse(position.to_string().split(' ')), Some(position.clone()));
            position.digest
        };
        let [one, other] = [b"sixteen bytes...", b"sixteen bytes..,"].map(position_under);
        assert_eq!(one.len(), "keyed=".len() + 32);
        assert!(one != other && one[6..22] != one[22..] && !one.contains(digest));
    }
}

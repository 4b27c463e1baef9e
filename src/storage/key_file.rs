//! Secrets in files of their own: 32 hexadecimal digits and a line end.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{PendingFile, Target, WriteMedium, retry};
use crate::error::{Error, Result};
use crate::hash::Key;

/// Bytes of a key file: the digits and a newline.
const LENGTH: usize = 33;

/// A buffer that held a secret: nothing of it stays behind.
struct Wiped([u8; LENGTH + 1]);

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.fill(0);
        // So that the compiler does not leave out stores that it sees no use for.
        std::hint::black_box(&mut self.0);
    }
}

impl Key {
    /// A new key, from the operating system's source of random numbers for secrets.
    pub fn random() -> Result<Key> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Error::Io {
            action: "get random bytes from the system",
            error: error.into(),
        })?;
        let key = Key::from_bytes(bytes);
        bytes.fill(0);
        std::hint::black_box(&mut bytes);
        Ok(key)
    }

    /// The key in a file: 32 hexadecimal digits, as `bloomfile keygen` and
    /// [`write_new_file`](Self::write_new_file) write them.
    ///
    /// A file that is open to others than its owner is refused, because what is in there is no secret:
    /// see [`from_shared_file`](Self::from_shared_file). That is told by the file's mode, so on Windows
    /// every file is taken: who can read it is for its folder's list of rights to say.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("filter.key");
    /// use bloomfile::Key;
    ///
    /// let key = Key::random()?;
    /// key.write_new_file(&path)?;
    /// assert_eq!(Key::from_file(&path)?.fingerprint(), key.fingerprint());
    /// # Ok::<(), bloomfile::Error>(())
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<Key> {
        let path = path.as_ref();
        read(path, false).map_err(|error| error.at(path))
    }

    /// As [`from_file`](Self::from_file), also where others can read or write the file: for keys that
    /// a system hands out in files whose permissions are its own.
    pub fn from_shared_file(path: impl AsRef<Path>) -> Result<Key> {
        let path = path.as_ref();
        read(path, true).map_err(|error| error.at(path))
    }

    /// Writes the key into a new file that only its owner can read (on Windows: with the rights that its
    /// folder passes on), durably. A file that is there is left as it is: a key that is lost cannot be
    /// had again, and with it all files made with it.
    pub fn write_new_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write(self, path).map_err(|error| error.at(path))
    }
}

fn unusable(reason: impl Into<String>) -> Error {
    Error::KeyFile { reason: reason.into() }
}

fn read(path: &Path, shared: bool) -> Result<Key> {
    let mut file = retry(|| File::open(path)).map_err(Error::io("open the key file"))?;
    if !shared {
        refuse_shared(&file)?;
    }
    let mut text = Wiped([0; LENGTH + 1]);
    let mut length = 0;
    while length < text.0.len() {
        match retry(|| file.read(&mut text.0[length..])) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) => return Err(Error::Io { action: "read the key file", error }),
        }
    }
    let line = text.0[..length].strip_suffix(b"\n").unwrap_or(&text.0[..length]);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    parse(line)
}

fn parse(digits: &[u8]) -> Result<Key> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(unusable("it must hold 32 hexadecimal digits and nothing else"));
    }
    if digits.len() != 32 {
        let reason = match digits.len() {
            0 => "it is empty".into(),
            more if more > 32 => "it must hold 32 hexadecimal digits, and holds more".into(),
            few => format!("it was cut short: it must hold 32 hexadecimal digits, and has {few}"),
        };
        return Err(unusable(reason));
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    };
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks().0) {
        let [high, low]: [u8; 2] = *pair;
        *byte = value(high) << 4 | value(low);
    }
    let key = Key::from_bytes(bytes);
    bytes.fill(0);
    std::hint::black_box(&mut bytes);
    Ok(key)
}

/// Refuses a file that others than its owner can read, or change.
#[cfg(unix)]
fn refuse_shared(file: &File) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = retry(|| file.metadata()).map_err(Error::io("look up the key file"))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(unusable(format!(
        "its mode is {mode:04o}, so that others can get at it; give it mode 0600, and make another \
         key if someone may have read it"
    )))
}

/// Elsewhere the permissions of a file do not tell who can read it.
#[cfg(not(unix))]
fn refuse_shared(_file: &File) -> Result<()> {
    Ok(())
}

/// The file has its name once all of it is durable: a process that ends before leaves none.
fn write(key: &Key, path: &Path) -> Result<()> {
    let mut text = Wiped([0; LENGTH + 1]);
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
    for (pair, byte) in text.0.chunks_exact_mut(2).zip(key.expose_bytes()) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    text.0[LENGTH - 1] = b'\n';
    let make = || {
        let pending = PendingFile::new_private(Target::new(path, false)?, LENGTH as u64)?;
        let written = pending.medium()?.write_at(&text.0[..LENGTH], 0);
        written.map_err(Error::io("write the key file"))?;
        pending.publish()
    };
    make().map(drop).map_err(|error| match error {
        Error::Exists => unusable("it is there already, and a key that is replaced is lost"),
        other => other,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_bytes_in_their_order() {
        let key = parse(b"000102030405060708090A0b0c0D0e0f").unwrap();
        assert_eq!(*key.expose_bytes(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        for wrong in ["", "00", "000102030405060708090a0b0c0d0e0g", &"0".repeat(33)] {
            assert!(matches!(parse(wrong.as_bytes()), Err(Error::KeyFile { .. })), "{wrong}");
        }
    }
}

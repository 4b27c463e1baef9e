//! The secret of a keyed file.

use std::fmt;

use super::{sip, word};

/// What the check value of a key is the hash of (F-153).
const CHECK: &[u8] = b"bloomfile key check";

/// The secret of a keyed file: 128 bits, which are never in the file.
///
/// Who chooses the keys of a filter and knows how they are hashed can make it useless: fill it, make
/// any key a "maybe", or take out what others added. In a keyed file the hash depends on a secret
/// beside the key, so that such keys cannot be found without it. Make one with
/// [`Key::random`] or `bloomfile keygen`, and keep it where only those programs can read it that ask
/// the filter: who has both the secret and the file can do all that again.
///
/// Its bytes are wiped when it is dropped, and no `Debug` output shows them. Handles of keyed files
/// hold what it gives for as long as they are open.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys.bloom");
/// use bloomfile::{Error, Filter, Key, Options, ReadOptions, Reader};
///
/// let key = Key::random()?;
/// let options = Options::new().capacity(1000).false_positive_rate(0.01).key(&key);
/// options.create(&path)?.add("sheep")?;
///
/// assert!(ReadOptions::new().key(&key).open(&path)?.contains("sheep"));
/// assert!(Filter::open_with_key(&path, &key)?.contains("sheep"));
/// let error = Reader::open(&path).unwrap_err();
/// assert!(matches!(error.cause(), Error::KeyNeeded { .. }));
/// # Ok::<(), bloomfile::Error>(())
/// ```
#[derive(Clone)]
pub struct Key([u8; 16]);

impl Key {
    /// The key of 16 bytes, which must be random: a password or a name can be guessed, and each guess
    /// can be held against the check value in the file. The caller's copy of them is the caller's to
    /// wipe.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Key(bytes)
    }

    /// The bytes of the key, to be kept in a safe place.
    pub const fn expose_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Eight hexadecimal digits that tell this key from others and say nothing of its bytes: those
    /// that [`inspect`](crate::report::inspect) shows of a file made with it.
    ///
    /// ```
    /// let key = bloomfile::Key::from_bytes(*b"sixteen bytes...");
    /// assert_eq!(key.fingerprint().len(), 8);
    /// assert_eq!(key.fingerprint(), key.clone().fingerprint());
    /// ```
    pub fn fingerprint(&self) -> String {
        fingerprint(self.check())
    }

    /// The two words that SipHash takes (F-152).
    pub(super) fn words(&self) -> [u64; 2] {
        [word(&self.0, 0), word(&self.0, 8)]
    }

    /// What a file keeps to tell this key from a wrong one (F-153).
    pub(crate) fn check(&self) -> u64 {
        let [check, _] = sip::hash_wide(self.words(), CHECK);
        check
    }

    fn wipe(&mut self) {
        self.0.fill(0);
        // So that the compiler does not leave out stores that it sees no use for.
        std::hint::black_box(&mut self.0);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.fingerprint())
    }
}

/// A check value as users see it: its first four bytes.
pub(crate) fn fingerprint(check: u64) -> String {
    format!("{:08x}", (check as u32).swap_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiping_leaves_nothing_and_debug_shows_nothing() {
        let mut key = Key::from_bytes(*b"sixteen bytes...");
        let shown = format!("{key:?}");
        assert_eq!(shown, format!("Key({})", key.fingerprint()));
        key.wipe();
        assert_eq!(key.0, [0; 16]);
    }

    /// F-153: the check value is no hash that a key of a set could have.
    #[test]
    fn f153_the_check_is_of_another_function_than_the_hash() {
        let key = Key::from_bytes(*b"sixteen bytes...");
        assert_ne!(key.check(), sip::hash(sip::start(key.words()), CHECK));
        assert_ne!(key.check(), Key::from_bytes(*b"sixteen bytes..,").check());
    }
}

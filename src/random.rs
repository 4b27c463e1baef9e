//! Numbers that no one can foresee, for identities and salts; never for the bits of a filter.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random word: the standard library seeds its hash maps from the operating system.
pub(crate) fn word() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random (version 4) UUID.
pub(crate) fn uuid() -> [u8; 16] {
    uuid_from([word(), word()], 4)
}

/// A UUID of a version from 128 bits.
pub(crate) fn uuid_from(words: [u64; 2], version: u8) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&words[0].to_le_bytes());
    uuid[8..].copy_from_slice(&words[1].to_le_bytes());
    uuid[6] = (uuid[6] & 0x0f) | (version << 4);
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}

/// A UUID in its usual form.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

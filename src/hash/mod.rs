//! Key bytes → 64-bit hash (format-spec.md, F-40 to F-43, F-150 to F-153).
//!
//! The hash is SeaHash. The crate's function is not inlined, so short keys would pay more for the
//! call than for the hashing; keys of up to 64 bytes take a twin of our own, held equal to
//! the crate bit for bit by the tests. In a keyed file it is SipHash-2-4 under a secret ([`Key`]).

mod blocks;
mod crc;
mod encoding;
mod form;
mod key;
mod sip;

pub(crate) use blocks::{BLOCK, in_blocks, in_filled_blocks};
pub(crate) use crc::{Crc, crc_of};
pub use encoding::{EncodedNumber, Encoding};
pub use form::{Conversion, Form};
pub use key::Key;
pub(crate) use key::fingerprint;
pub(crate) use sip::LANES;
#[cfg(target_arch = "x86_64")]
pub(crate) use sip::{Lanes, NARROW, State};

use std::fmt;

/// Longest key, in bytes, that takes the inlined path.
const SHORT: usize = 64;

/// The four words SeaHash starts from when no seed is given (F-41).
const DEFAULT_WORDS: [u64; 4] =
    [0x16f1_1fe8_9b0d_677c, 0xb480_a793_d8e6_c86c, 0x6fe2_e5aa_f078_ebc9, 0x14f9_94a4_c525_9381];

/// SeaHash's multiplier.
pub(crate) const DIFFUSE: u64 = 0x6eed_0e9d_a4d9_4a4f;

/// The increment of SplitMix64: 2^64 divided by the golden ratio, made odd.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection of 64-bit words (F-44).
#[inline(always)]
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Output number `index` of the SplitMix64 sequence that starts at `start` (F-44).
#[inline(always)]
pub(crate) const fn split_mix(start: u64, index: u64) -> u64 {
    mix(start.wrapping_add(GOLDEN.wrapping_mul(index.wrapping_add(1))))
}

/// Turns keys into hashes: the function every filter file with the same seed, or made with the same
/// [`Key`], shares.
///
/// Hash a key once and ask several filters with `contains_hash`. The hasher of a keyed file holds what
/// its [`Key`] gives, is as secret as that, and is not wiped.
///
/// ```
/// use bloomfile::hash::Hasher;
///
/// let hasher = Hasher::new(0);
/// assert_eq!(hasher.hash(b""), 14492805990617963705);
/// assert_ne!(hasher.hash(b"key"), Hasher::new(1).hash(b"key"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hasher {
    /// Where the hash starts: that of SeaHash, or of SipHash in a keyed file.
    words: [u64; 4],
    /// The last two words, which keys of up to 16 bytes leave as they are, in one.
    rest: u64,
    seed: u64,
    keyed: bool,
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = f.debug_struct("Hasher");
        if self.keyed {
            // The words would give the secret away.
            hasher.field("keyed", &true).finish_non_exhaustive()
        } else {
            hasher.field("seed", &self.seed).finish()
        }
    }
}

impl Hasher {
    /// The hasher of a seed; seed 0 is plain SeaHash, which any other implementation can follow.
    pub const fn new(seed: u64) -> Self {
        let mut words = DEFAULT_WORDS;
        if seed != 0 {
            let mut i = 0;
            while i < 4 {
                words[i] ^= split_mix(seed, i as u64);
                i += 1;
            }
        }
        Hasher { words, rest: words[2] ^ words[3], seed, keyed: false }
    }

    /// The hasher of a secret: SipHash-2-4 (F-151).
    ///
    /// ```
    /// use bloomfile::{Key, hash::Hasher};
    ///
    /// let hasher = Hasher::keyed(&Key::from_bytes([
    ///     0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    /// ]));
    /// assert_eq!(hasher.hash(b""), 0x726f_db47_dd0e_0e31);
    /// ```
    pub fn keyed(key: &Key) -> Self {
        Hasher { words: sip::start(key.words()), rest: 0, seed: 0, keyed: true }
    }

    /// Whether this is the hasher of a secret.
    #[inline(always)]
    pub const fn is_keyed(&self) -> bool {
        self.keyed
    }

    /// The seed this hasher was made with; 0 for that of a secret.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The same hash of bytes that come in parts.
    pub(crate) fn stream(&self) -> seahash::SeaHasher {
        let [a, b, c, d] = self.words;
        seahash::SeaHasher::with_seeds(a, b, c, d)
    }

    /// The hash of a key.
    #[inline(always)]
    pub fn hash(&self, key: impl AsRef<[u8]>) -> u64 {
        let key = key.as_ref();
        if self.keyed { self.hash_by_call(key) } else { self.hash_unkeyed(key) }
    }

    /// The hash of a key, not inlined: for the slow one of two ways, so that they do not both carry it.
    #[inline(never)]
    pub(crate) fn hash_by_call(&self, key: &[u8]) -> u64 {
        if self.keyed { self.hash_keyed(key) } else { self.hash_unkeyed(key) }
    }

    /// The hash of a key, where this is known to be no hasher of a secret.
    #[inline(always)]
    pub(crate) fn hash_unkeyed(&self, key: &[u8]) -> u64 {
        self.hash_by(key, diffuse)
    }

    /// The hash of a key, where this is known to be the hasher of a secret.
    #[inline(always)]
    pub(crate) fn hash_keyed(&self, key: &[u8]) -> u64 {
        debug_assert!(self.keyed);
        sip::hash(self.words, key)
    }

    /// [`hash_keyed`](Self::hash_keyed) with the state in registers of some kind.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn hash_keyed_in<S: State>(&self, key: &[u8]) -> u64 {
        debug_assert!(self.keyed);
        sip::hash_in::<S>(self.words, key)
    }

    /// The hashes of keys of the same length, where this is known to be the hasher of a secret, one in
    /// each lane.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn hash_keyed_lanes<L: Lanes>(
        &self,
        keys: [&[u8]; LANES],
        gather: impl Fn([u64; LANES]) -> L,
    ) -> L {
        debug_assert!(self.keyed);
        sip::hash_lanes(self.words, keys, gather)
    }

    /// The hash of a key where this is known to be no hasher of a secret, by another function that
    /// does what [`diffuse`] does: with instructions that the compiler may not use, say.
    #[inline(always)]
    pub(crate) fn hash_by(&self, key: &[u8], diffuse: impl Fn(u64) -> u64) -> u64 {
        debug_assert!(!self.keyed);
        if key.len() <= SHORT {
            self.short(key, diffuse)
        } else {
            let [a, b, c, d] = self.words;
            seahash::hash_seeded(key, a, b, c, d)
        }
    }

    /// SeaHash over a short key: each of the four lanes takes every fourth word.
    #[inline(always)]
    fn short(&self, key: &[u8], diffuse: impl Fn(u64) -> u64) -> u64 {
        let [mut a, mut b, mut c, mut d] = self.words;
        let mut left = key;
        if key.len() <= 16 {
            (a, b) = pair(a, b, key, &diffuse);
            return diffuse(a ^ b ^ self.rest ^ key.len() as u64);
        }
        // Longer keys can bear a call.
        let pair = |a, b, bytes: &[u8]| pair(a, b, bytes, &diffuse);
        while left.len() >= 32 {
            (a, b) = pair(a, b, &left[..16]);
            (c, d) = pair(c, d, &left[16..32]);
            left = &left[32..];
        }
        if left.len() > 16 {
            (a, b) = pair(a, b, &left[..16]);
            (c, d) = pair(c, d, &left[16..]);
        } else {
            (a, b) = pair(a, b, left);
        }
        diffuse(a ^ b ^ c ^ d ^ key.len() as u64)
    }
}

/// What up to 16 bytes do to two lanes.
#[inline(always)]
fn pair(a: u64, b: u64, bytes: &[u8], diffuse: &impl Fn(u64) -> u64) -> (u64, u64) {
    match bytes.len() {
        0 => (a, b),
        1..8 => (diffuse(a ^ tail(bytes)), b),
        8 => (diffuse(a ^ word(bytes, 0)), b),
        9..16 => (diffuse(a ^ word(bytes, 0)), diffuse(b ^ tail(&bytes[8..]))),
        _ => (diffuse(a ^ word(bytes, 0)), diffuse(b ^ word(bytes, 8))),
    }
}

/// What SeaHash does to a lane.
#[inline(always)]
pub(crate) fn diffuse(mut x: u64) -> u64 {
    x = x.wrapping_mul(DIFFUSE);
    x ^= (x >> 32) >> (x >> 60);
    x.wrapping_mul(DIFFUSE)
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The last `1..=7` bytes as a little-endian number, without a loop over bytes.
#[inline(always)]
fn tail(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    if n >= 4 {
        let low = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let high = u32::from_le_bytes([bytes[n - 4], bytes[n - 3], bytes[n - 2], bytes[n - 1]]);
        u64::from(low) | (u64::from(high) << (8 * (n - 4)))
    } else {
        u64::from(bytes[0])
            | (u64::from(bytes[n / 2]) << (8 * (n / 2)))
            | (u64::from(bytes[n - 1]) << (8 * (n - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without a pattern that a short-cut could hide behind.
    fn noise(length: usize, start: u64) -> Vec<u8> {
        (0..length as u64).map(|i| split_mix(start, i) as u8).collect()
    }

    fn crate_hash(hasher: &Hasher, key: &[u8]) -> u64 {
        let [a, b, c, d] = hasher.words;
        seahash::hash_seeded(key, a, b, c, d)
    }

    #[test]
    fn equals_the_crate_for_every_length_to_4096_and_longer_ones() {
        for seed in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let hasher = Hasher::new(seed);
            let bytes = noise(4096, seed ^ 7);
            for length in 0..=4096 {
                let key = &bytes[..length];
                assert_eq!(hasher.hash(key), crate_hash(&hasher, key), "length {length}");
                // The inlined twin is right for every length, not only where it is used.
                let short = hasher.short(key, diffuse);
                assert_eq!(short, crate_hash(&hasher, key), "length {length}");
            }
            for round in 0..64 {
                let length = 4097 + (split_mix(seed, round) % 100_000) as usize;
                let key = noise(length, round);
                assert_eq!(hasher.hash(&key), crate_hash(&hasher, &key), "length {length}");
            }
        }
    }

    #[test]
    fn equals_the_crate_for_extreme_bytes() {
        let hasher = Hasher::new(0);
        for length in 0..=72 {
            for byte in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let key = vec![byte; length];
                assert_eq!(hasher.hash(&key), seahash::hash(&key));
            }
        }
    }

    #[test]
    fn a_stream_of_parts_gives_the_hash_of_the_whole() {
        use std::hash::Hasher as _;
        let hasher = Hasher::new(3);
        for parts in [vec![4096, 4096, 8192], vec![4096; 5], vec![1, 2, 3, 50, 4096]] {
            let bytes = noise(parts.iter().sum(), 5);
            let (mut stream, mut rest) = (hasher.stream(), &bytes[..]);
            for part in parts {
                stream.write(&rest[..part]);
                rest = &rest[part..];
            }
            assert_eq!(stream.finish(), hasher.hash(&bytes));
        }
    }

    #[test]
    fn f41_seed_zero_is_plain_seahash() {
        for length in 0..200 {
            let key = noise(length, 3);
            assert_eq!(Hasher::new(0).hash(&key), seahash::hash(&key));
        }
    }

    #[test]
    fn a_keyed_hasher_shows_nothing_of_its_secret() {
        let hasher = Hasher::keyed(&Key::from_bytes(*b"sixteen bytes..."));
        assert_eq!(format!("{hasher:?}"), "Hasher { keyed: true, .. }");
        assert_eq!(format!("{:?}", Hasher::new(3)), "Hasher { seed: 3 }");
        for length in 0..100 {
            let key = noise(length, 9);
            let hash = hasher.hash(&key);
            assert_eq!((hasher.hash_by_call(&key), hasher.hash_keyed(&key)), (hash, hash));
        }
    }

    /// The vectors of format-spec.md: if one of these changes, every file in the world is unreadable.
    #[test]
    fn f43_pinned_vectors() {
        let vectors: [(&[u8], u64, u64); 6] = [
            (b"", 0, 0xc920_ca43_256f_dcb9),
            (b"a", 0, 0x29c4_01b2_6a16_e94d),
            (b"bloomfile", 0, 0x9322_d68f_0acb_be55),
            (b"to be or not to be", 0, 0x1b99_3a82_6f4a_e575),
            (b"bloomfile", 1, 0xd8c7_7dfc_ccbd_6d11),
            (&[0; 64], 0, 0xecff_386a_0b71_6520),
        ];
        for (key, seed, hash) in vectors {
            let found = Hasher::new(seed).hash(key);
            assert_eq!(found, hash, "{key:?} with seed {seed}: {found:#018x}");
        }
    }
}

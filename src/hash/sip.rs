//! SipHash-2-4 (format-spec.md, F-151): two rounds for each word of the message, four at the end.
//!
//! A few lines of our own, so that they inline into look-ups; the tests hold them equal to the
//! published vectors and to the crate `siphasher`.

use super::{tail, word};

/// The words that the key is mixed with: "somepseudorandomlygeneratedbytes".
const START: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

/// What sets the variant with 128 bits of output apart: in its second word at the start, and in its
/// third before the last rounds.
const WIDE: u64 = 0xee;

/// What sets the last rounds of the variant with 64 bits of output apart.
pub(crate) const NARROW: u64 = 0xff;

/// What sets the rounds of the second half of the output apart, in the variant with 128 bits.
const SECOND: u64 = 0xdd;

/// The state before the first word of a message: the key alone decides on it.
#[inline(always)]
pub(super) const fn start(key: [u64; 2]) -> [u64; 4] {
    [START[0] ^ key[0], START[1] ^ key[1], START[2] ^ key[0], START[3] ^ key[1]]
}

/// A word of the state: of one message, or of several at once, in the lanes of a register.
pub(crate) trait Lanes: Copy {
    #[cfg(target_arch = "x86_64")]
    fn splat(word: u64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn rotate_left(self, by: u32) -> Self;
}

impl Lanes for u64 {
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn splat(word: u64) -> Self {
        word
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        self.rotate_left(by)
    }
}

#[inline(always)]
fn round<L: Lanes>([a, b, c, d]: &mut [L; 4]) {
    *a = a.plus(*b);
    *c = c.plus(*d);
    *b = b.rotate_left(13).xor(*a);
    *d = d.rotate_left(16).xor(*c);
    *a = a.rotate_left(32);
    *c = c.plus(*b);
    *a = a.plus(*d);
    *b = b.rotate_left(17).xor(*c);
    *d = d.rotate_left(21).xor(*a);
    *c = c.rotate_left(32);
}

/// Takes in a word of the message.
#[inline(always)]
fn compress<L: Lanes>(state: &mut [L; 4], word: L) {
    state[3] = state[3].xor(word);
    round(state);
    round(state);
    state[0] = state[0].xor(word);
}

/// The four words of the state of one message, in registers of some kind.
pub(crate) trait State {
    fn new(start: [u64; 4]) -> Self;
    /// As [`compress`].
    fn compress(&mut self, word: u64);
    /// Sets the variant with 64 bits of output apart, and does as [`finish`].
    fn finish(self) -> u64;
}

impl State for [u64; 4] {
    #[inline(always)]
    fn new(start: [u64; 4]) -> Self {
        start
    }

    #[inline(always)]
    fn compress(&mut self, word: u64) {
        compress(self, word);
    }

    #[inline(always)]
    fn finish(mut self) -> u64 {
        self[2] ^= NARROW;
        finish(&mut self)
    }
}

/// Takes in a whole message: its words, then what is left of it under its length.
#[inline(always)]
fn absorb(state: &mut impl State, message: &[u8]) {
    if message.len() == 16 {
        // A frequent length, without a loop.
        state.compress(word(message, 0));
        state.compress(word(message, 8));
        return state.compress(16 << 56);
    }
    let mut left = message;
    while left.len() >= 8 {
        state.compress(word(left, 0));
        left = &left[8..];
    }
    let rest = if left.is_empty() { 0 } else { tail(left) };
    state.compress(rest | (message.len() as u64) << 56);
}

/// The last four rounds, and the output after them.
#[inline(always)]
fn finish<L: Lanes>(state: &mut [L; 4]) -> L {
    for _ in 0..4 {
        round(state);
    }
    state[0].xor(state[1]).xor(state[2].xor(state[3]))
}

/// SipHash-2-4 of a message, from the [`start`] of a key.
#[inline(always)]
pub(super) fn hash(start: [u64; 4], message: &[u8]) -> u64 {
    hash_in::<[u64; 4]>(start, message)
}

/// [`hash`] with the state in registers of some kind.
#[inline(always)]
pub(super) fn hash_in<S: State>(start: [u64; 4], message: &[u8]) -> u64 {
    let mut state = S::new(start);
    absorb(&mut state, message);
    state.finish()
}

/// Messages that are hashed at once.
pub(crate) const LANES: usize = 8;

/// [`hash`] of several messages of the same length, one in each lane; `gather` puts words into lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn hash_lanes<L: Lanes>(
    start: [u64; 4],
    messages: [&[u8]; LANES],
    gather: impl Fn([u64; LANES]) -> L,
) -> L {
    let length = messages[0].len();
    let whole = length / 8 * 8;
    let mut state = start.map(L::splat);
    for at in (0..whole).step_by(8) {
        compress(&mut state, gather(messages.map(|message| word(message, at))));
    }
    let last = L::splat((length as u64) << 56);
    let last = if whole == length {
        last
    } else {
        last.xor(gather(messages.map(|message| tail(&message[whole..]))))
    };
    compress(&mut state, last);
    state[2] = state[2].xor(L::splat(NARROW));
    finish(&mut state)
}

/// SipHash-2-4 with 128 bits of output: another function than [`hash`] for every key and message.
pub(super) fn hash_wide(key: [u64; 2], message: &[u8]) -> [u64; 2] {
    let mut state = start(key);
    state[1] ^= WIDE;
    absorb(&mut state, message);
    state[2] ^= WIDE;
    let first = finish(&mut state);
    state[1] ^= SECOND;
    [first, finish(&mut state)]
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher as _;

    use siphasher::sip::SipHasher24;
    use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24Wide};

    use super::*;
    use crate::hash::split_mix;

    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    fn noise(length: usize, start: u64) -> Vec<u8> {
        (0..length as u64).map(|i| split_mix(start, i) as u8).collect()
    }

    /// From `vectors.h` of the reference implementation: key 00 01 … 0f, messages 00 01 02 ….
    #[test]
    fn f151_published_vectors() {
        let vectors: [u64; 17] = [
            0x726f_db47_dd0e_0e31,
            0x74f8_39c5_93dc_67fd,
            0x0d6c_8009_d9a9_4f5a,
            0x8567_6696_d7fb_7e2d,
            0xcf27_94e0_2771_87b7,
            0x1876_5564_cd99_a68d,
            0xcbc9_466e_58fe_e3ce,
            0xab02_00f5_8b01_d137,
            0x93f5_f579_9a93_2462,
            0x9e00_82df_0ba9_e4b0,
            0x7a5d_bbc5_94dd_b9f3,
            0xf4b3_2f46_226b_ada7,
            0x751e_8fbc_860e_e5fb,
            0x14ea_5627_c084_3d90,
            0xf723_ca90_8e7a_f2ee,
            0xa129_ca61_49be_45e5,
            0x3f2a_cc7f_57c2_9bdb,
        ];
        let message: Vec<u8> = (0..vectors.len() as u8).collect();
        for (length, vector) in vectors.into_iter().enumerate() {
            assert_eq!(hash(start(KEY), &message[..length]), vector, "length {length}");
        }
        // The first 128-bit vectors, as two little-endian words each.
        let bytes = |hex: u128| {
            let bytes = hex.to_be_bytes();
            [word(&bytes, 0), word(&bytes, 8)]
        };
        let wide =
            [0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293, 0xda87_c1d8_6b99_af44_3476_5911_9b22_fc45];
        for (length, vector) in wide.into_iter().enumerate() {
            assert_eq!(hash_wide(KEY, &message[..length]), bytes(vector), "length {length}");
        }
    }

    #[test]
    fn f151_equals_the_crate_for_every_length_to_600() {
        for seed in 0..4 {
            let key = [split_mix(seed, 0), split_mix(seed, 1)];
            let bytes = noise(600, seed);
            for length in 0..=600 {
                let message = &bytes[..length];
                let mut expected = SipHasher24::new_with_keys(key[0], key[1]);
                expected.write(message);
                assert_eq!(hash(start(key), message), expected.finish(), "length {length}");
                let mut expected = SipHasher24Wide::new_with_keys(key[0], key[1]);
                expected.write(message);
                let expected = expected.finish128();
                assert_eq!(hash_wide(key, message), [expected.h1, expected.h2], "length {length}");
            }
        }
    }
}

//! Someone who knows how unkeyed files hash keys, and chooses keys accordingly.
//!
//! SeaHash mixes each word by a function that can be undone: so a key of 16 bytes can be given any
//! hash, and its first half chosen freely.

#![allow(dead_code, reason = "each test takes what it needs")]

use bloomfile::geometry::Geometry;

/// Where SeaHash starts without a seed (F-41).
const WORDS: [u64; 4] =
    [0x16f1_1fe8_9b0d_677c, 0xb480_a793_d8e6_c86c, 0x6fe2_e5aa_f078_ebc9, 0x14f9_94a4_c525_9381];

const MULTIPLIER: u64 = 0x6eed_0e9d_a4d9_4a4f;

/// The number that undoes a multiplication by [`MULTIPLIER`], by Newton's method.
fn inverse() -> u64 {
    let mut inverse = MULTIPLIER;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(MULTIPLIER.wrapping_mul(inverse)));
    }
    inverse
}

fn diffuse(mut x: u64) -> u64 {
    x = x.wrapping_mul(MULTIPLIER);
    x ^= (x >> 32) >> (x >> 60);
    x.wrapping_mul(MULTIPLIER)
}

/// The number that [`diffuse`] makes this of: its shift leaves the upper half as it is.
fn undo(mut x: u64, inverse: u64) -> u64 {
    x = x.wrapping_mul(inverse);
    x ^= (x >> 32) >> (x >> 60);
    x.wrapping_mul(inverse)
}

pub(crate) struct Attacker {
    inverse: u64,
}

impl Attacker {
    pub(crate) fn new() -> Self {
        Attacker { inverse: inverse() }
    }

    /// Key number `number` of those with this hash.
    pub(crate) fn key(&self, hash: u64, number: u64) -> [u8; 16] {
        let [a, b, c, d] = WORDS;
        let sum = undo(hash, self.inverse) ^ diffuse(a ^ number) ^ c ^ d ^ 16;
        let second = undo(sum, self.inverse) ^ b;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key[8..].copy_from_slice(&second.to_le_bytes());
        key
    }

    /// Keys that together turn on every cell of lines of 8 rows: a number of them for each line, the same for
    /// all but for their upper halves.
    pub(crate) fn full_lines(&self, geometry: &Geometry, keys: usize) -> Vec<[u8; 16]> {
        let cover = cover(geometry);
        let lines = 0..geometry.blocks();
        let hash = |line: u64, low: u32| {
            // The first hash of a line, rounded up to the next with zeros below, and those in place.
            let first = ((u128::from(line) << 64) / u128::from(geometry.blocks())) as u64;
            let hash = ((first >> 32) + 1) << 32 | u64::from(low);
            assert_eq!(geometry.block(hash), line);
            hash
        };
        let all = lines.flat_map(|line| cover.iter().map(move |&low| (line, low)));
        all.take(keys)
            .zip(0..)
            .map(|((line, low), number)| self.key(hash(line, low), number))
            .collect()
    }
}

/// Lower halves of hashes whose cells are all of a line's, few of which meet.
pub(crate) fn cover(geometry: &Geometry) -> Vec<u32> {
    let cells = |low: u32| (0..8).map(move |row| (row, geometry.cell(u64::from(low), row)));
    let mut on = [0u64; 8];
    let mut cover = Vec::new();
    let mut next = 0u64;
    while on.iter().any(|&row| row != u64::MAX) {
        // The best of some: more time would make fewer keys do.
        let new =
            |low: u32| cells(low).filter(|&(row, cell)| on[row as usize] >> cell & 1 == 0).count();
        let candidates = (next..next + (1 << 16)).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let best = candidates.map(|n| (n >> 32) as u32).max_by_key(|&low| new(low)).unwrap();
        next += 1 << 16;
        cells(best).for_each(|(row, cell)| on[row as usize] |= 1 << cell);
        cover.push(best);
    }
    cover
}

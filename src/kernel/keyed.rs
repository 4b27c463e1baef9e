//! The hashes of batches of keyed files: those of eight keys at once, in the lanes of registers.

use std::ops::Range;
use std::sync::OnceLock;

use super::choice::Instructions;
use super::{simd, wide};
use crate::hash::{BLOCK, Hasher, LANES, in_filled_blocks};

/// What this processor has, of what the environment allows.
fn instructions() -> Instructions {
    static FOUND: OnceLock<Instructions> = OnceLock::new();
    *FOUND.get_or_init(|| match Instructions::allowed() {
        Instructions::Wide if wide::found() => Instructions::Wide,
        Instructions::Portable => Instructions::Portable,
        _ if simd::found() => Instructions::Simd,
        _ => Instructions::Portable,
    })
}

/// The hashes of `count` keys under a secret, which are asked for in order, each once.
#[inline(always)]
pub(crate) fn keyed_in_blocks<'k>(
    count: usize,
    hasher: Hasher,
    key: impl Fn(usize) -> &'k [u8],
) -> impl FnMut(usize) -> u64 {
    let instructions = instructions();
    in_filled_blocks(move |block, at| {
        let keys = at..count.min(at + BLOCK);
        fill(block, keys, &hasher, &key, instructions);
    })
}

#[inline(never)]
fn fill<'k>(
    block: &mut [u64; BLOCK],
    keys: Range<usize>,
    hasher: &Hasher,
    key: &impl Fn(usize) -> &'k [u8],
    instructions: Instructions,
) {
    let (groups, _) = block.as_chunks_mut::<LANES>();
    for (first, hashes) in keys.clone().step_by(LANES).zip(groups) {
        let group = first..keys.end.min(first + LANES);
        if group.len() == LANES {
            let messages: [&[u8]; LANES] = std::array::from_fn(|lane| key(first + lane));
            *hashes = all(hasher, messages, instructions);
        } else {
            hashes.iter_mut().zip(group).for_each(|(hash, at)| *hash = hasher.hash_keyed(key(at)));
        }
    }
}

/// The hashes of eight keys.
#[inline(always)]
fn all(hasher: &Hasher, keys: [&[u8]; LANES], instructions: Instructions) -> [u64; LANES] {
    let alike = keys.iter().all(|key| key.len() == keys[0].len());
    match instructions {
        // SAFETY: the processor has the instructions.
        Instructions::Wide if alike => unsafe { wide::hash_keyed(hasher, keys) },
        // SAFETY: the processor has the instructions.
        Instructions::Simd if alike => unsafe { simd::hash_keyed(hasher, keys) },
        _ => keys.map(|key| hasher.hash_keyed(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Key;

    #[test]
    fn f151_lanes_hash_as_single_keys_do() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i * i % 251) as u8).collect();
        let hasher = Hasher::keyed(&Key::from_bytes(*b"sixteen bytes it"));
        for found in [Instructions::Portable, Instructions::Simd, Instructions::Wide] {
            let missing = match found {
                Instructions::Portable => false,
                Instructions::Simd => !simd::found(),
                Instructions::Wide => !wide::found(),
            };
            if missing {
                println!("skipped: this processor has no instructions of the kind {found:?}");
                continue;
            }
            for length in 0..=80 {
                let keys: [&[u8]; LANES] =
                    std::array::from_fn(|lane| &bytes[97 * lane..][..length]);
                let single = keys.map(|key| hasher.hash(key));
                assert_eq!(all(&hasher, keys, found), single, "{found:?}, {length} bytes");
                #[cfg(target_arch = "x86_64")]
                if found == Instructions::Wide {
                    // SAFETY: the processor has the instructions.
                    let pairs = keys.map(|key| unsafe { wide::hash_one_keyed(&hasher, key) });
                    assert_eq!(pairs, single, "{length} bytes");
                }
                let mut mixed = keys;
                mixed[5] = &bytes[..length + 1];
                let single = mixed.map(|key| hasher.hash(key));
                assert_eq!(all(&hasher, mixed, found), single, "{found:?}, one is longer");
            }
        }
    }

    #[test]
    fn batches_of_any_number_have_every_hash() {
        let hasher = Hasher::keyed(&Key::from_bytes(*b"sixteen bytes it"));
        let keys: Vec<String> = (0..70).map(|number| format!("key {number}")).collect();
        for count in 0..keys.len() {
            let mut hashes = keyed_in_blocks(count, hasher, |at| keys[at].as_bytes());
            assert!((0..count).all(|at| hashes(at) == hasher.hash(&keys[at])), "{count} keys");
        }
    }
}

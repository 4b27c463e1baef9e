//! The hashes of a batch, some at a time.

/// Keys that are hashed one after the other, before their hashes are used.
pub(crate) const BLOCK: usize = 16;

/// The hashes of `count` keys, which are asked for in order, each once: worked out in blocks. Hashing
/// takes more registers than are free, and a call for each key would save and restore them each time.
#[inline(always)]
pub(crate) fn in_blocks(count: usize, hash: impl Fn(usize) -> u64) -> impl FnMut(usize) -> u64 {
    in_filled_blocks(move |block, at| fill(block, at..count, &hash))
}

/// As [`in_blocks`], with blocks that are filled by another function: with the hashes of keys from a
/// number on.
#[inline(always)]
pub(crate) fn in_filled_blocks(
    fill: impl Fn(&mut [u64; BLOCK], usize),
) -> impl FnMut(usize) -> u64 {
    let mut block = [0; BLOCK];
    move |at| {
        let place = at % BLOCK;
        if place == 0 {
            fill(&mut block, at);
        }
        block[place]
    }
}

#[inline(never)]
fn fill(block: &mut [u64; BLOCK], keys: std::ops::Range<usize>, hash: &impl Fn(usize) -> u64) {
    block.iter_mut().zip(keys).for_each(|(place, at)| *place = hash(at));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_asked_for_once_and_in_order() {
        for count in 0..4 * BLOCK {
            let asked = std::cell::RefCell::new(Vec::new());
            let mut hashes = in_blocks(count, |at| {
                asked.borrow_mut().push(at);
                at as u64 * 7
            });
            assert!((0..count).all(|at| hashes(at) == at as u64 * 7));
            drop(hashes);
            assert_eq!(asked.into_inner(), (0..count).collect::<Vec<_>>());
        }
    }
}

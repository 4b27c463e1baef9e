//! About how many different keys there were, by their hashes, in 64 KiB.

use std::collections::HashSet;

/// Bits of a hash that choose its register.
const BITS: u32 = 16;

/// Numbers up to this one are exact.
const EXACT: usize = 4096;

/// Most leading zeros, and one, of what is left of a hash.
const MOST: usize = (64 - BITS + 1) as usize;

/// How many times as many keys as distinct ones are taken for repeats, and not for an error of the
/// estimate, whose standard error is 0.4 %; and what is added to it.
const REPEATS: f64 = 1.02;
const MARGIN: f64 = 1.01;

/// Counts keys of which some may come again and again, to tell what capacity a filter of them needs:
/// exactly up to 4,096, then about, in 64 KiB however many they are. The first 4,096 take up to 72 KiB
/// more, until there are others.
///
/// ```
/// use bloomfile::{hash::Hasher, plan::DistinctKeys};
///
/// let mut keys = DistinctKeys::new();
/// for key in ["sheep", "goat", "sheep"] {
///     keys.add(Hasher::new(0).hash(key));
/// }
/// assert_eq!((keys.keys(), keys.capacity()), (3, 2));
/// ```
#[derive(Clone)]
pub struct DistinctKeys {
    keys: u64,
    /// HyperLogLog: each holds the longest run of leading zeros, and one, among its hashes.
    registers: Box<[u8]>,
    /// All hashes, as long as they are few; then none.
    few: Option<HashSet<u64>>,
}

impl std::fmt::Debug for DistinctKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (keys, estimate) = (self.keys, self.estimate());
        f.debug_struct("DistinctKeys").field("keys", &keys).field("estimate", &estimate).finish()
    }
}

impl Default for DistinctKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl DistinctKeys {
    /// No keys so far.
    pub fn new() -> Self {
        let few = Some(HashSet::new());
        DistinctKeys { keys: 0, registers: vec![0; 1 << BITS].into(), few }
    }

    /// Counts a key, by its hash under any [`Hasher`](crate::hash::Hasher).
    pub fn add(&mut self, hash: u64) {
        self.keys += 1;
        if let Some(few) = &mut self.few {
            few.insert(hash);
            if few.len() > EXACT {
                self.few = None;
            }
        }
        let register = &mut self.registers[(hash >> (64 - BITS)) as usize];
        // The bit behind the last one ends every run.
        let run = (hash << BITS | 1 << (BITS - 1)).leading_zeros() + 1;
        *register = (*register).max(run as u8);
    }

    /// Keys that were counted, repeats among them.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// How many keys a filter of these is for: repeats take no room, and what an estimate may be short
    /// of is added.
    pub fn capacity(&self) -> u64 {
        if let Some(few) = &self.few {
            return few.len() as u64;
        }
        let distinct = self.estimate();
        if distinct * REPEATS < self.keys as f64 {
            (distinct * MARGIN).ceil() as u64
        } else {
            self.keys
        }
    }

    /// The number of different keys, with a standard error of 0.4 % where it is not exact.
    pub fn estimate(&self) -> f64 {
        if let Some(few) = &self.few {
            return few.len() as f64;
        }
        // The estimator of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches"
        // (2017), which has no bias to be corrected.
        let mut counts = [0.0; MOST + 1];
        self.registers.iter().for_each(|&run| counts[usize::from(run)] += 1.0);
        let registers = self.registers.len() as f64;
        let mut sum = registers * upper(1.0 - counts[MOST] / registers);
        for count in counts[1..MOST].iter().rev() {
            sum = 0.5 * (sum + count);
        }
        sum += registers * lower(counts[0] / registers);
        registers * registers / (2.0 * std::f64::consts::LN_2 * sum)
    }
}

/// What registers without a hash stand for: the function σ of the paper.
fn lower(mut x: f64) -> f64 {
    let (mut factor, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before || !sum.is_finite() {
            return sum;
        }
    }
}

/// What registers that can tell no more stand for: the function τ of the paper.
fn upper(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_not_counted() {
        let hasher = crate::hash::Hasher::new(0);
        let mut distinct = DistinctKeys::new();
        let mut next = 0u64;
        for number in [0, 1, 2, 4096, 4097, 20_000, 100_000, 200_000, 400_000, 1_000_000, 3_000_000]
        {
            while next < number {
                let hash = hasher.hash(next.to_le_bytes());
                (0..1 + next % 3).for_each(|_| distinct.add(hash));
                next += 1;
            }
            assert_eq!(distinct.few.is_some(), number <= EXACT as u64, "{number}");
            let estimate = distinct.estimate();
            let error = (estimate - number as f64).abs() / number.max(1) as f64;
            let most = if number <= EXACT as u64 { 0.0 } else { 0.015 };
            assert!(error <= most, "{estimate} for {number}");
            let capacity = distinct.capacity() as f64 / number.max(1) as f64;
            assert!(distinct.keys() >= number && capacity < 1.025, "{capacity} for {number}");
        }
    }
}

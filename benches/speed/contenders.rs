//! The other crates, filled as they would be at capacity.
//!
//! Filling a gibibyte key by key takes minutes, so most of their bits are drawn at random at the
//! density that this number of keys would give: look-ups cannot tell, as the measured rates show. The keys
//! that are looked up are inserted on top.

use bloomfile::hash::Hasher;

use crate::measure::mix;

/// Words in which each bit is one with the given probability.
pub(crate) fn random_words(count: usize, density: f64) -> Vec<u64> {
    // The binary digits of the density, from the last: OR makes a digit 1, AND makes it 0.
    const DIGITS: u32 = 12;
    let digits = (density * f64::from(1u32 << DIGITS)).round() as u64;
    let word = |at: usize| {
        let mut state = mix(at as u64 + 1);
        let mut word = 0;
        for digit in (0..DIGITS).skip_while(|digit| digits >> digit & 1 == 0) {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let random = mix(state);
            word = if digits >> digit & 1 == 1 { word | random } else { word & random };
        }
        word
    };
    (0..count).map(word).collect()
}

/// All of them.
pub(crate) struct Rivals {
    pub(crate) sbbf: Sbbf,
    pub(crate) fastbloom: fastbloom::BloomFilter,
    pub(crate) fastbloom_atomic: fastbloom::AtomicBloomFilter,
    pub(crate) bloomfilter: bloomfilter::Bloom<[u8]>,
    hasher: Hasher,
}

impl Rivals {
    /// Made for `capacity` keys, of which `keys` are in.
    pub(crate) fn new(capacity: u64, keys: u64, rate: f64) -> Self {
        Rivals {
            sbbf: Sbbf::new(capacity, keys),
            fastbloom: fastbloom::BloomFilter::from_vec(fastbloom_words(capacity, keys, rate))
                .seed(&1)
                .hashes(HASHES),
            fastbloom_atomic: fastbloom::AtomicBloomFilter::from_vec(fastbloom_words(
                capacity, keys, rate,
            ))
            .seed(&1)
            .hashes(HASHES),
            bloomfilter: bloomfilter(capacity, keys, rate),
            hasher: Hasher::new(0),
        }
    }

    /// Inserts a key into those that are looked up in.
    pub(crate) fn insert(&mut self, key: &[u8]) {
        self.sbbf.insert(self.hasher.hash(key));
        self.fastbloom.insert(key);
        self.bloomfilter.set(key);
    }
}

/// sbbf-rs: blocks of 256 bits; 10.5 bits per key give 1 %.
pub(crate) struct Sbbf {
    filter: sbbf_rs::FilterFn,
    words: Vec<u64>,
    offset: usize,
    buckets: usize,
}

impl Sbbf {
    fn new(capacity: u64, keys: u64) -> Self {
        let buckets = (capacity as f64 * 10.5 / 256.0).ceil() as usize;
        // The keys of a block vary, and with them its ones: so each word is drawn key by key.
        let per_bucket = keys as f64 / buckets as f64;
        let mut words = vec![0u64; buckets * 4 + 8];
        let offset = words.as_ptr().align_offset(sbbf_rs::ALIGNMENT);
        for (at, bucket) in words[offset..].as_chunks_mut::<4>().0[..buckets].iter_mut().enumerate()
        {
            for key in 0..poisson(per_bucket, mix(at as u64 ^ 3 << 60)) {
                // Eight lanes of five bits.
                let random = mix((at as u64) << 8 ^ u64::from(key));
                for (word, bits) in bucket.iter_mut().enumerate() {
                    *bits |= 1 << (random >> (10 * word) & 31)
                        | 1 << (32 + (random >> (10 * word + 5) & 31));
                }
            }
        }
        Sbbf { filter: sbbf_rs::FilterFn::new(), words, offset, buckets }
    }

    pub(crate) fn bits(&self) -> u64 {
        self.buckets as u64 * 256
    }

    #[inline(always)]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        let start = self.words[self.offset..].as_ptr();
        // SAFETY: `start` is aligned as asked for and `buckets` buckets follow it.
        unsafe { self.filter.contains(start.cast(), self.buckets, hash) }
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        let start = self.words[self.offset..].as_mut_ptr();
        // SAFETY: as above.
        unsafe { !self.filter.insert(start.cast(), self.buckets, hash) }
    }
}

/// A number of the Poisson distribution with this mean, by inversion.
fn poisson(mean: f64, random: u64) -> u32 {
    let mut left = random as f64 / 2f64.powi(64);
    let mut chance = (-mean).exp();
    let mut number = 0;
    while left > chance && chance > 0.0 {
        left -= chance;
        number += 1;
        chance *= mean / f64::from(number);
    }
    number
}

/// Hash functions of the filters without blocks, which is best for 1 %.
const HASHES: u32 = 7;

/// How many of the bits are on after a number of keys.
fn density(bits: f64, keys: u64) -> f64 {
    1.0 - (-f64::from(HASHES) * keys as f64 / bits).exp()
}

fn fastbloom_words(capacity: u64, keys: u64, rate: f64) -> Vec<u64> {
    let bits = -(capacity as f64) * rate.ln() / 2f64.ln().powi(2);
    random_words((bits / 64.0).ceil() as usize, density(bits, keys))
}

fn bloomfilter(capacity: u64, keys: u64, rate: f64) -> bloomfilter::Bloom<[u8]> {
    // Two hash functions come from the halves of the seed: equal ones would be one function.
    let seed = std::array::from_fn(|at| at as u8);
    let empty =
        bloomfilter::Bloom::<[u8]>::new_for_fp_rate_with_seed(capacity as usize, rate, &seed);
    let empty = empty.unwrap();
    assert_eq!(empty.number_of_hash_functions(), HASHES);
    let bits = empty.len();
    let mut bytes = empty.into_bytes();
    let head = bytes.len() - (bits / 8) as usize;
    let words = random_words(bits.div_ceil(64) as usize, density(bits as f64, keys));
    let drawn = words.iter().flat_map(|word| word.to_le_bytes());
    bytes[head..].iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
    bloomfilter::Bloom::from_bytes(bytes).unwrap()
}

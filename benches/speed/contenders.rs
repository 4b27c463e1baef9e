//! The other crates, filled as they would be at capacity.
//!
//! Their bits are drawn at random at the density that inserting `keys` of them would give: look-ups
//! cannot tell, and filling a gibibyte key by key takes minutes. The keys that are looked up come
//! on top, up to the capacity.

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

/// sbbf-rs: blocks of 256 bits; 10.5 bits per key give 1 %.
pub(crate) struct Sbbf {
    filter: sbbf_rs::FilterFn,
    words: Vec<u64>,
    offset: usize,
    buckets: usize,
}

impl Sbbf {
    pub(crate) fn new(capacity: u64, keys: u64) -> Self {
        let buckets = (capacity as f64 * 10.5 / 256.0).ceil() as usize;
        // One of the 32 bits of each half word is set per key of the block.
        let density = 1.0 - (1.0f64 - 1.0 / 32.0).powf(keys as f64 / buckets as f64);
        let words = random_words(buckets * 4 + 8, density);
        let offset = words.as_ptr().align_offset(sbbf_rs::ALIGNMENT);
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

fn fastbloom_bits(capacity: u64, keys: u64, rate: f64) -> (Vec<u64>, u32) {
    const HASHES: u32 = 7;
    let bits = -(capacity as f64) * rate.ln() / 2f64.ln().powi(2);
    let density = 1.0 - (-f64::from(HASHES) * keys as f64 / bits).exp();
    (random_words((bits / 64.0).ceil() as usize, density), HASHES)
}

pub(crate) fn fastbloom_plain(capacity: u64, keys: u64, rate: f64) -> fastbloom::BloomFilter {
    let (words, hashes) = fastbloom_bits(capacity, keys, rate);
    fastbloom::BloomFilter::from_vec(words).seed(&1).hashes(hashes)
}

pub(crate) fn fastbloom_atomic(
    capacity: u64,
    keys: u64,
    rate: f64,
) -> fastbloom::AtomicBloomFilter {
    let (words, hashes) = fastbloom_bits(capacity, keys, rate);
    fastbloom::AtomicBloomFilter::from_vec(words).seed(&1).hashes(hashes)
}

/// bloomfilter: its bits cannot be given, so large ones stay nearly empty, which is to its favour
/// for absent keys.
pub(crate) struct Bloomfilter(bloomfilter::Bloom<Vec<u8>>);

impl Bloomfilter {
    pub(crate) fn new(capacity: u64, keys: u64, rate: f64) -> Self {
        let seed = [7; 32];
        let mut filter =
            bloomfilter::Bloom::new_for_fp_rate_with_seed(capacity as usize, rate, &seed).unwrap();
        if capacity < 1 << 24 {
            for i in 0..keys {
                filter.set(&crate::measure::key(i ^ 5 << 50, 16));
            }
        }
        Bloomfilter(filter)
    }

    pub(crate) fn bits(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn insert(&mut self, key: &Vec<u8>) {
        self.0.set(key);
    }

    #[inline(always)]
    pub(crate) fn contains(&self, key: &Vec<u8>) -> bool {
        self.0.check(key)
    }
}

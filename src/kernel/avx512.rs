//! The `line` layout with AVX-512: a line is one register, and rows whose cells are off are one
//! instruction away.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::LINE_WORDS;
use crate::geometry::LANE_MULTIPLIERS;
use crate::hash::{Hasher, LANES, Lanes, NARROW, State};

/// For each word of a line, the multiplier of its row.
const OF_4_ROWS: [u64; LINE_WORDS] = multipliers(2);
const OF_8_ROWS: [u64; LINE_WORDS] = multipliers(1);

const fn multipliers(words_per_row: usize) -> [u64; LINE_WORDS] {
    let mut multipliers = [0; LINE_WORDS];
    let mut word = 0;
    while word < LINE_WORDS {
        multipliers[word] = LANE_MULTIPLIERS[word / words_per_row] as u64;
        word += 1;
    }
    multipliers
}

/// Whether this processor has the instructions, and runs them at full speed: those before
/// AVX-512 VBMI2 lower their clock for multiplications of this width.
pub(super) fn found() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vbmi2")
        && std::arch::is_x86_feature_detected!("bmi2")
}

/// The lower half of the hash times the multiplier of each word.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn products(hash: u64, multipliers: [u64; LINE_WORDS]) -> __m512i {
    let m = multipliers.map(u64::cast_signed);
    let multipliers = _mm512_setr_epi64(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]);
    _mm512_mul_epu32(_mm512_set1_epi64(hash.cast_signed()), multipliers)
}

/// The cells of a hash as bits of a line (F-55). A rotation takes its count modulo the width, so
/// that what lies above the cell in a product needs no clearing.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn bits<const ROWS: usize>(hash: u64) -> __m512i {
    match ROWS {
        // A row is a word, its cell the top 6 bits.
        8 => {
            let places = _mm512_srli_epi64::<26>(products(hash, OF_8_ROWS));
            _mm512_rolv_epi64(_mm512_set1_epi64(1), places)
        }
        // A row is two words, its cell the top 7 bits, of which the first chooses the word.
        _ => {
            let products = products(hash, OF_4_ROWS);
            let second = _mm512_test_epi64_mask(products, _mm512_set1_epi64(1 << 31));
            let places = _mm512_srli_epi64::<25>(products);
            _mm512_maskz_rolv_epi64(second ^ 0b0101_0101, _mm512_set1_epi64(1), places)
        }
    }
}

/// Loads a line that others may be writing: the compiler sees neither what is read nor when, so
/// it cannot rely on reading the same twice.
///
/// # Safety
/// `line` points to eight readable words.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
unsafe fn load(line: *const AtomicU64) -> __m512i {
    let words: __m512i;
    // SAFETY: reads 64 bytes from `line`, which the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "vmovdqu64 {words}, [{line}]",
            line = in(reg) line,
            words = out(zmm_reg) words,
            options(nostack, readonly, preserves_flags),
        );
    }
    words
}

/// Stores a line that others may be reading, after all that was stored before.
///
/// # Safety
/// `line` points to eight words that may be changed.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
unsafe fn store(line: *const AtomicU64, words: __m512i) {
    fence(Ordering::Release);
    // SAFETY: writes 64 bytes to `line`, which the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "vmovdqu64 [{line}], {words}",
            line = in(reg) line,
            words = in(zmm_reg) words,
            options(nostack, preserves_flags),
        );
    }
}

/// One bit for each row whose cell in `bits` is not on in the line.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn off<const ROWS: usize>(line: __m512i, bits: __m512i) -> u32 {
    match ROWS {
        8 => _mm512_testn_epi64_mask(line, bits).into(),
        // Two words to a row, and only one of the two has the cell.
        _ => {
            let off = _mm512_andnot_si512(line, bits);
            let words = u32::from(_mm512_test_epi64_mask(off, off));
            _pext_u32(words | words >> 1, 0b0101_0101)
        }
    }
}

/// The line with the bits on.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn union(line: __m512i, bits: __m512i) -> __m512i {
    _mm512_or_si512(line, bits)
}

/// The cells of a hash in 8 rows as bits of a line.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
fn prepare(hash: u64) -> __m512i {
    bits::<8>(hash)
}

/// Whether all bits of 8 rows are on in a line.
///
/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
unsafe fn holds(line: *const AtomicU64, bits: __m512i) -> bool {
    let off: u32;
    // SAFETY: reads 64 bytes from `line`, which the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "vptestnmq {mask}, {bits}, [{line}]",
            "kmovw {off:e}, {mask}",
            line = in(reg) line,
            bits = in(zmm_reg) bits,
            mask = out(kreg) _,
            off = lateout(reg) off,
            options(nostack, readonly, preserves_flags),
        );
    }
    off == 0
}

simd_functions!("avx512f,bmi2");

/// Whether the cells of all rows are on.
///
/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
pub(super) unsafe fn contains<const ROWS: usize>(line: *const AtomicU64, hash: u64) -> bool {
    // SAFETY: the caller's.
    unsafe { missing::<ROWS>(line, hash) == 0 }
}

/// Whether the counters of 8 rows are above 0 (F-58). A row has four words, of which the top 2 bits of
/// its product choose one and the next 4 bits the counter in it; so every line has two rows.
///
/// # Safety
/// As for [`load`], with the 32 words of a block.
#[inline]
#[target_feature(enable = "avx512f,bmi2")]
pub(super) unsafe fn counters_contain(block: *const AtomicU64, hash: u64) -> bool {
    let products = products(hash, OF_8_ROWS);
    // A permutation looks at the lowest 3 bits of an index: the word within a line, in which every
    // second row is the upper half.
    let halves = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    let chosen = _mm512_and_si512(_mm512_srli_epi64::<30>(products), _mm512_set1_epi64(3));
    let words = _mm512_or_si512(chosen, halves);
    // SAFETY: the caller's.
    let line = |number: usize| unsafe { load(block.add(number * LINE_WORDS)) };
    let first = _mm512_permutexvar_epi64(words, line(0));
    let second = _mm512_mask_permutexvar_epi64(first, 0b1100, words, line(1));
    let third = _mm512_mask_permutexvar_epi64(second, 0b11_0000, words, line(2));
    let all = _mm512_mask_permutexvar_epi64(third, 0b1100_0000, words, line(3));
    // Four times the number of the counter, which a rotation takes modulo 64.
    let shift = _mm512_and_si512(_mm512_srli_epi64::<24>(products), _mm512_set1_epi64(60));
    let counters = _mm512_rorv_epi64(all, shift);
    _mm512_testn_epi64_mask(counters, _mm512_set1_epi64(15)) == 0
}

/// What the functions in one piece multiply by, and compare with.
#[repr(C, align(64))]
struct Constants {
    multipliers: [u64; LINE_WORDS],
    one: u64,
}

static CONSTANTS: Constants = Constants { multipliers: OF_8_ROWS, one: 1 };

/// [`contains`] with 8 rows, in one piece of assembly, for the reasons that its twin with AVX2
/// gives. The line is rotated to its cells instead of the cells to the line, because the ones to
/// compare with can then stay in memory.
///
/// # Safety
/// [`found`] said yes, and `start` points to `bytes` readable bytes, a multiple of 64.
#[inline(always)]
pub(super) unsafe fn contains_inline(start: *const AtomicU64, bytes: u64, hash: u64) -> bool {
    let on: u8;
    // SAFETY: reads the constants and 64 bytes from a multiple of 64 below `bytes`, which the caller
    // vouches for; changes nothing but registers. None of them is one that SSE code knows, so it
    // needs no `vzeroupper`.
    unsafe {
        asm!(
            "mulx {offset}, {offset}, {bytes}",
            "vpbroadcastq zmm16, rdx",
            "and {offset}, -64",
            "vpmuludq zmm16, zmm16, [{constants}]",
            "vmovdqu64 zmm17, [{start} + {offset}]",
            "vpsrlq zmm16, zmm16, 26",
            "vprorvq zmm17, zmm17, zmm16",
            "vptestnmq k1, zmm17, qword ptr [{constants} + 64]{{1to8}}",
            "kortestw k1, k1",
            "sete {on}",
            in("rdx") hash,
            start = in(reg) start,
            bytes = in(reg) bytes,
            offset = out(reg) _,
            constants = in(reg) &CONSTANTS,
            on = lateout(reg_byte) on,
            out("zmm16") _, out("zmm17") _, out("k1") _,
            options(nostack, readonly),
        );
    }
    #[expect(clippy::transmute_int_to_bool, reason = "the compiler would keep the comparison")]
    // SAFETY: `sete` gives 0 or 1.
    unsafe {
        std::mem::transmute::<u8, bool>(on)
    }
}

/// [`missing`] with 8 rows, in one piece of assembly as well: an add that is compiled in one piece
/// with its caller keeps that one's registers, and what it asks for next is under way while it takes
/// its stripe.
///
/// # Safety
/// [`found`] said yes, and `line` points to eight readable words.
#[inline(always)]
pub(super) unsafe fn missing_inline(line: *const AtomicU64, hash: u64) -> u32 {
    let mask: u32;
    // SAFETY: reads the constants and 64 bytes from `line`, which the caller vouches for; changes
    // nothing but registers that SSE code does not know.
    unsafe {
        asm!(
            "vpbroadcastq zmm16, {hash}",
            "vpmuludq zmm16, zmm16, [{constants}]",
            "vmovdqu64 zmm17, [{line}]",
            "vpsrlq zmm16, zmm16, 26",
            "vprorvq zmm17, zmm17, zmm16",
            "vptestnmq k1, zmm17, qword ptr [{constants} + 64]{{1to8}}",
            "kmovw {mask:e}, k1",
            hash = in(reg) hash,
            line = in(reg) line,
            constants = in(reg) &CONSTANTS,
            mask = lateout(reg) mask,
            out("zmm16") _, out("zmm17") _, out("k1") _,
            options(nostack, readonly, preserves_flags),
        );
    }
    mask
}

/// Turns on the cells of a hash with 8 rows, after all that was stored before.
///
/// # Safety
/// As for [`missing_inline`], and the words may be changed, which no other thread does at the same time.
#[inline(always)]
pub(super) unsafe fn turn_on_inline(line: *const AtomicU64, hash: u64) {
    fence(Ordering::Release);
    // SAFETY: reads the constants, reads and writes 64 bytes at `line`, which the caller vouches
    // for; changes no other memory, and no registers that SSE code knows.
    unsafe {
        asm!(
            "vpbroadcastq zmm16, {hash}",
            "vpmuludq zmm16, zmm16, [{constants}]",
            "vpbroadcastq zmm17, qword ptr [{constants} + 64]",
            "vpsrlq zmm16, zmm16, 26",
            "vprolvq zmm17, zmm17, zmm16",
            "vporq zmm17, zmm17, [{line}]",
            "vmovdqu64 [{line}], zmm17",
            hash = in(reg) hash,
            line = in(reg) line,
            constants = in(reg) &CONSTANTS,
            out("zmm16") _, out("zmm17") _,
            options(nostack, preserves_flags),
        );
    }
}

/// A word of eight messages.
#[derive(Clone, Copy)]
struct Eight(__m512i);

// Only used by `hash_keyed`, which is compiled with the instructions and called where there are some.
impl Lanes for Eight {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: see above.
        Eight(unsafe { _mm512_set1_epi64(word.cast_signed()) })
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: see above.
        Eight(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        Eight(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        // SAFETY: see above.
        Eight(unsafe { _mm512_rolv_epi64(self.0, _mm512_set1_epi64(by.into())) })
    }
}

/// The hashes of keys of the same length under a secret.
///
/// # Safety
/// The processor has the instructions.
#[target_feature(enable = "avx512f,bmi2")]
pub(super) unsafe fn hash_keyed(hasher: &Hasher, keys: [&[u8]; LANES]) -> [u64; LANES] {
    let Eight(hashes) = hasher.hash_keyed_lanes(keys, |words| {
        // SAFETY: the words are as long as a register.
        Eight(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    });
    let mut words = [0; LANES];
    // SAFETY: as above.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), hashes) };
    words
}

/// The state of one message in two registers: its first and third word, its second and fourth. A round
/// is eight instructions instead of fourteen, so that a processor looks ahead to more look-ups while
/// one waits for its memory.
struct Pairs {
    even: __m128i,
    odd: __m128i,
}

// Only used by `contains_keyed`, which is compiled with the instructions and called where there are some.
impl Pairs {
    /// Half a round, after which the even words have changed places: the two halves differ in what
    /// the odd words are rotated by.
    #[inline(always)]
    fn half_round(&mut self, by: [i64; 2]) {
        // SAFETY: see above.
        unsafe {
            let sums = _mm_add_epi64(self.even, self.odd);
            let rotated = _mm_rolv_epi64(self.odd, _mm_set_epi64x(by[1], by[0]));
            self.odd = _mm_xor_si128(rotated, sums);
            // The second word to the front; the first one, rotated by half its length, behind it.
            self.even = _mm_shuffle_epi32::<0b00_01_11_10>(sums);
        }
    }

    #[inline(always)]
    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.half_round([13, 16]);
            self.half_round([17, 21]);
        }
    }
}

impl State for Pairs {
    #[inline(always)]
    fn new([a, b, c, d]: [u64; 4]) -> Self {
        // SAFETY: see above.
        let pair =
            |low: u64, high: u64| unsafe { _mm_set_epi64x(high.cast_signed(), low.cast_signed()) };
        Pairs { even: pair(a, c), odd: pair(b, d) }
    }

    #[inline(always)]
    fn compress(&mut self, word: u64) {
        // SAFETY: see above.
        unsafe {
            let word = _mm_cvtsi64_si128(word.cast_signed());
            self.odd = _mm_xor_si128(self.odd, _mm_slli_si128::<8>(word));
            self.rounds(2);
            self.even = _mm_xor_si128(self.even, word);
        }
    }

    #[inline(always)]
    fn finish(mut self) -> u64 {
        // SAFETY: see above.
        unsafe {
            self.even = _mm_xor_si128(self.even, _mm_set_epi64x(NARROW.cast_signed(), 0));
            self.rounds(4);
            let both = _mm_xor_si128(self.even, self.odd);
            let folded = _mm_xor_si128(both, _mm_unpackhi_epi64(both, both));
            _mm_cvtsi128_si64(folded).cast_unsigned()
        }
    }
}

/// The hash of a key under a secret.
///
/// # Safety
/// The processor has the instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
pub(super) unsafe fn hash_one_keyed(hasher: &Hasher, key: &[u8]) -> u64 {
    hasher.hash_keyed_in::<Pairs>(key)
}

/// [`contains_inline`] for a key of a keyed file.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f,avx512vl,bmi2")]
pub(super) unsafe fn contains_keyed(
    start: *const AtomicU64,
    bytes: u64,
    hasher: &Hasher,
    key: &[u8],
) -> bool {
    // SAFETY: the caller's.
    unsafe { contains_inline(start, bytes, hash_one_keyed(hasher, key)) }
}

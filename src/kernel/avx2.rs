//! The `line` layout with AVX2: all cells of a key from one or two multiplications, and its line
//! with two loads.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::geometry::LANE_MULTIPLIERS;
use crate::hash::DIFFUSE;
use crate::hash::{Hasher, LANES, Lanes};

/// A line of 64 bytes, as two halves.
type Halves = [__m256i; 2];

// With 4 and 8 rows each word of a line needs its own shift count, so products lie in pairs: the
// lower one of a pair for a word of the first half, the upper one for a word of the second. Two
// shifts take them apart where widening 32-bit lanes would have to cross the register.
const OF_4_ROWS: [i32; 8] = multipliers([0, 2, 0, 2, 1, 3, 1, 3]);
const OF_8_ROWS: [i32; 8] = multipliers([0, 4, 1, 5, 2, 6, 3, 7]);

const fn multipliers(lanes: [usize; 8]) -> [i32; 8] {
    let mut multipliers = [0; 8];
    let mut i = 0;
    while i < lanes.len() {
        multipliers[i] = LANE_MULTIPLIERS[lanes[i]].cast_signed();
        i += 1;
    }
    multipliers
}

/// Whether this processor has the instructions.
pub(super) fn found() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2")
}

/// The lower half of the hash times eight multipliers.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn products(hash: u64, m: [i32; 8]) -> __m256i {
    let multipliers = _mm256_setr_epi32(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]);
    _mm256_mullo_epi32(_mm256_set1_epi32(hash as i32), multipliers)
}

/// The cells of a hash, as counts to shift the words of a line by (F-55).
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn places<const ROWS: usize>(hash: u64) -> Halves {
    match ROWS {
        // A row is a word, its cell the top 6 bits of the product.
        8 => {
            let pairs = products(hash, OF_8_ROWS);
            let low = _mm256_slli_epi64::<32>(pairs);
            [_mm256_srli_epi64::<58>(low), _mm256_srli_epi64::<58>(pairs)]
        }
        // A row is two words, its cell the top 7 bits; for the second word 64 less. A shift by 64
        // or more gives 0, as does one by a negative count.
        _ => {
            let pairs = products(hash, OF_4_ROWS);
            let low = _mm256_slli_epi64::<32>(pairs);
            let before = _mm256_setr_epi64x(0, 64, 0, 64);
            [
                _mm256_sub_epi64(_mm256_srli_epi64::<57>(low), before),
                _mm256_sub_epi64(_mm256_srli_epi64::<57>(pairs), before),
            ]
        }
    }
}

/// The cells of a hash as bits of a line.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn bits<const ROWS: usize>(hash: u64) -> Halves {
    let [low, high] = places::<ROWS>(hash);
    let one = _mm256_set1_epi64x(1);
    [_mm256_sllv_epi64(one, low), _mm256_sllv_epi64(one, high)]
}

/// Loads a line that others may be writing: the compiler sees neither what is read nor when, so
/// it cannot rely on reading the same twice.
///
/// # Safety
/// `line` points to eight readable words.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn load(line: *const AtomicU64) -> Halves {
    let (low, high): (__m256i, __m256i);
    // SAFETY: reads 64 bytes from `line`, which the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "vmovdqu {low}, [{line}]",
            "vmovdqu {high}, [{line} + 32]",
            line = in(reg) line,
            low = out(ymm_reg) low,
            high = out(ymm_reg) high,
            options(nostack, readonly, preserves_flags),
        );
    }
    [low, high]
}

/// Stores a line that others may be reading, after all that was stored before.
///
/// # Safety
/// `line` points to eight words that may be changed.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn store(line: *const AtomicU64, [low, high]: Halves) {
    fence(Ordering::Release);
    // SAFETY: writes 64 bytes to `line`, which the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "vmovdqu [{line}], {low}",
            "vmovdqu [{line} + 32], {high}",
            line = in(reg) line,
            low = in(ymm_reg) low,
            high = in(ymm_reg) high,
            options(nostack, preserves_flags),
        );
    }
}

/// Whether the cells of all rows are on.
///
/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "avx2,bmi2")]
pub(super) unsafe fn contains<const ROWS: usize>(line: *const AtomicU64, hash: u64) -> bool {
    if ROWS == 4 {
        let [low, high] = bits::<ROWS>(hash);
        // SAFETY: the caller's.
        let line = unsafe { load(line) };
        let off =
            _mm256_or_si256(_mm256_andnot_si256(line[0], low), _mm256_andnot_si256(line[1], high));
        return _mm256_testz_si256(off, off) != 0;
    }
    // SAFETY: the caller's.
    unsafe { holds(line, prepare(hash)) }
}

/// How far each word of a line of 8 rows is shifted to have the cell of its row in front.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn prepare(hash: u64) -> Halves {
    places::<8>(hash)
}

/// Whether the cells of 8 rows are on: with one cell in each lane, shifting the line down to the cells
/// takes fewer steps than comparing it with their bits.
///
/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn holds(line: *const AtomicU64, [low, high]: Halves) -> bool {
    // SAFETY: the caller's.
    let line = unsafe { load(line) };
    let (low, high) = (_mm256_srlv_epi64(line[0], low), _mm256_srlv_epi64(line[1], high));
    _mm256_testc_si256(_mm256_and_si256(low, high), _mm256_set1_epi64x(1)) != 0
}

/// What [`contains_inline`] multiplies by, and compares with.
#[repr(C, align(32))]
struct Constants {
    multipliers: [i32; 8],
    ones: [u64; 4],
}

static CONSTANTS: Constants = Constants { multipliers: OF_8_ROWS, ones: [1; 4] };

/// [`contains`] with 8 rows, in one piece of assembly: a function with `target_feature` is never
/// inlined into one without, and the call would cost a tenth of a look-up that hits the cache. The
/// line is found in it too, for a body so small that the compiler moves what a loop over keys has
/// in common out of the loop.
///
/// # Safety
/// The processor has AVX2 and BMI2, and `start` points to `bytes` readable bytes, a multiple of 64.
#[inline(always)]
pub(super) unsafe fn contains_inline(start: *const AtomicU64, bytes: u64, hash: u64) -> bool {
    let on: u8;
    // SAFETY: reads the constants and 64 bytes from a multiple of 64 below `bytes`, which the caller
    // vouches for; changes nothing but registers. `vzeroupper` touches the upper halves of all 16
    // of them, so that all are named, and lets SSE code that follows run at full speed.
    unsafe {
        asm!(
            "mulx {offset}, {offset}, {bytes}",
            "vmovd xmm0, edx",
            "vpbroadcastd ymm0, xmm0",
            "and {offset}, -64",
            "vpmulld ymm0, ymm0, [{constants}]",
            "vmovdqu ymm2, [{start} + {offset}]",
            "vmovdqu ymm3, [{start} + {offset} + 32]",
            "vpsllq ymm1, ymm0, 32",
            "vpsrlq ymm1, ymm1, 58",
            "vpsrlq ymm0, ymm0, 58",
            "vpsrlvq ymm2, ymm2, ymm1",
            "vpsrlvq ymm3, ymm3, ymm0",
            "vpand ymm2, ymm2, ymm3",
            "vptest ymm2, [{constants} + 32]",
            "setc {on}",
            "vzeroupper",
            in("rdx") hash,
            start = in(reg) start,
            bytes = in(reg) bytes,
            offset = out(reg) _,
            constants = in(reg) &CONSTANTS,
            on = lateout(reg_byte) on,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack, readonly),
        );
    }
    #[expect(clippy::transmute_int_to_bool, reason = "the compiler would keep the comparison")]
    // SAFETY: `setc` gives 0 or 1.
    unsafe {
        std::mem::transmute::<u8, bool>(on)
    }
}

/// One bit for each row whose cell in `bits` is not on in the line.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn off<const ROWS: usize>(line: Halves, bits: Halves) -> u32 {
    let low = _mm256_andnot_si256(line[0], bits[0]);
    let high = _mm256_andnot_si256(line[1], bits[1]);
    let zero = _mm256_setzero_si256();
    let low = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(low, zero)));
    let high = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(high, zero)));
    let words = (low | (high << 4)) as u32 ^ 0xff;
    if ROWS == 8 {
        return words;
    }
    // Two words to a row, and at most one of the two has the cell.
    (0..4).fold(0, |mask, row| mask | (u32::from(words >> (2 * row) & 0b11 != 0) << row))
}

/// The line with the bits on.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn union(line: Halves, bits: Halves) -> Halves {
    [_mm256_or_si256(line[0], bits[0]), _mm256_or_si256(line[1], bits[1])]
}

simd_functions!("avx2,bmi2");

/// What SeaHash does to a lane, with a shift that BMI2 brought and the compiler may not use: its
/// count may be in any register.
///
/// # Safety
/// The processor has BMI2.
#[inline(always)]
pub(super) unsafe fn diffuse(mut x: u64) -> u64 {
    // SAFETY: changes nothing but the registers it says.
    unsafe {
        asm!(
            "imul {x}, {multiplier}",
            "mov {shifted}, {x}",
            "mov {places}, {x}",
            "shr {shifted}, 32",
            "shr {places}, 60",
            "shrx {shifted}, {shifted}, {places}",
            "xor {x}, {shifted}",
            "imul {x}, {multiplier}",
            x = inout(reg) x,
            multiplier = in(reg) DIFFUSE,
            shifted = out(reg) _,
            places = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    x
}

/// A word of eight messages, four in each register.
#[derive(Clone, Copy)]
struct Eight([__m256i; 2]);

impl Eight {
    #[inline(always)]
    fn zip(self, other: Self, with: impl Fn(__m256i, __m256i) -> __m256i) -> Self {
        Eight([with(self.0[0], other.0[0]), with(self.0[1], other.0[1])])
    }
}

// Only used by `hash_keyed`, which is compiled with the instructions and called where there are some.
impl Lanes for Eight {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: see above.
        Eight([unsafe { _mm256_set1_epi64x(word.cast_signed()) }; 2])
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: see above.
        self.zip(other, |a, b| unsafe { _mm256_add_epi64(a, b) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        self.zip(other, |a, b| unsafe { _mm256_xor_si256(a, b) })
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        // SAFETY: see above.
        Eight(self.0.map(|words| unsafe {
            let left = _mm256_sll_epi64(words, _mm_cvtsi32_si128(by.cast_signed()));
            let right = _mm256_srl_epi64(words, _mm_cvtsi32_si128(64 - by.cast_signed()));
            _mm256_or_si256(left, right)
        }))
    }
}

/// The hashes of keys of the same length under a secret.
///
/// # Safety
/// The processor has the instructions.
#[target_feature(enable = "avx2,bmi2")]
pub(super) unsafe fn hash_keyed(hasher: &Hasher, keys: [&[u8]; LANES]) -> [u64; LANES] {
    let Eight(hashes) = hasher.hash_keyed_lanes(keys, |words| {
        let (halves, _) = words.as_chunks::<4>();
        // SAFETY: half of the words are as long as a register.
        Eight([0, 1].map(|half: usize| unsafe { _mm256_loadu_si256(halves[half].as_ptr().cast()) }))
    });
    let mut words = [0; LANES];
    let (halves, _) = words.as_chunks_mut::<4>();
    for (half, hashes) in halves.iter_mut().zip(hashes) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), hashes) };
    }
    words
}

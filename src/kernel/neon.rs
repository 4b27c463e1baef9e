//! The `line` layout with NEON: all cells of a key from at most four multiplications, and its line
//! with two loads.

use std::arch::aarch64::*;
use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::line_offset;
use crate::geometry::LANE_MULTIPLIERS;

/// A line of 64 bytes, as four quarters.
type Quarters = [uint64x2_t; 4];

/// Four lanes for each of four registers.
type Lanes = [[u32; 4]; 4];

// With 4 and 8 rows each word of a line needs its own shift count. A shift looks at no more than
// the lowest byte of a count, so products lie in pairs: the lower one of a pair for a word of one
// quarter, the upper one for a word of the next, and no lane has to be widened.
const OF_4_ROWS: [[u32; 4]; 2] = [multipliers([0, 1, 0, 1]), multipliers([2, 3, 2, 3])];
const OF_8_ROWS: [[u32; 4]; 2] = [multipliers([0, 2, 1, 3]), multipliers([4, 6, 5, 7])];

/// Takes the first half of a row's cells away from the place in its second word.
const HALF_A_ROW: [u32; 4] = [0, 0, 1 << 31, 1 << 31];

const fn multipliers(lanes: [usize; 4]) -> [u32; 4] {
    let mut multipliers = [0; 4];
    let mut i = 0;
    while i < lanes.len() {
        multipliers[i] = LANE_MULTIPLIERS[lanes[i]];
        i += 1;
    }
    multipliers
}

/// The bit of its row in the lower lane of each word of a line.
const fn row_bits<const ROWS: usize>() -> Lanes {
    let mut bits = [[0; 4]; 4];
    let mut half = 0;
    while half < 16 {
        bits[half / 4][half % 4] = 1 << (half * ROWS / 16);
        half += 2;
    }
    bits
}

/// Whether this processor has the instructions.
pub(super) fn found() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

#[inline]
#[target_feature(enable = "neon")]
fn lanes(lanes: [u32; 4]) -> uint32x4_t {
    // SAFETY: reads the four lanes, and needs no alignment.
    unsafe { vld1q_u32(lanes.as_ptr()) }
}

/// The lower half of the hash times four multipliers.
#[inline]
#[target_feature(enable = "neon")]
fn products(hash: u64, multipliers: [u32; 4]) -> uint32x4_t {
    vmulq_n_u32(lanes(multipliers), hash as u32)
}

/// Half the bits of 8 rows: a row is a word, its cell the top 6 bits of the product.
#[inline]
#[target_feature(enable = "neon")]
fn half_of_8(hash: u64, multipliers: [u32; 4]) -> [uint64x2_t; 2] {
    let pairs = products(hash, multipliers);
    let low = vreinterpretq_s64_u32(vshrq_n_u32::<26>(pairs));
    let high = vreinterpretq_s64_u64(vshrq_n_u64::<58>(vreinterpretq_u64_u32(pairs)));
    [vshlq_u64(vdupq_n_u64(1), low), vshlq_u64(vdupq_n_u64(1), high)]
}

/// Half the bits of 4 rows: a row is two words, its cell the top 7 bits of the product; for the
/// second word 64 less. Taken as signed numbers, these are negative for the word that does not
/// have the cell: a shift to the right, which gives 0.
#[inline]
#[target_feature(enable = "neon")]
fn half_of_4(hash: u64, multipliers: [u32; 4]) -> [uint64x2_t; 2] {
    let pairs = vaddq_u32(products(hash, multipliers), lanes(HALF_A_ROW));
    let low = vreinterpretq_s64_s32(vshrq_n_s32::<25>(vreinterpretq_s32_u32(pairs)));
    let high = vshrq_n_s64::<57>(vreinterpretq_s64_u32(pairs));
    [vshlq_u64(vdupq_n_u64(1), low), vshlq_u64(vdupq_n_u64(1), high)]
}

/// The cells of a hash as bits of a line (F-55).
#[inline]
#[target_feature(enable = "neon")]
fn bits<const ROWS: usize>(hash: u64) -> Quarters {
    // Written out, because `map` over these arrays is not inlined.
    let ([a, b], [c, d]) = if ROWS == 8 {
        (half_of_8(hash, OF_8_ROWS[0]), half_of_8(hash, OF_8_ROWS[1]))
    } else {
        (half_of_4(hash, OF_4_ROWS[0]), half_of_4(hash, OF_4_ROWS[1]))
    };
    [a, b, c, d]
}

/// Loads a line that others may be writing: the compiler sees neither what is read nor when, so
/// it cannot rely on reading the same twice.
///
/// # Safety
/// `line` points to eight readable words.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(line: *const AtomicU64) -> Quarters {
    let (a, b, c, d): (uint64x2_t, uint64x2_t, uint64x2_t, uint64x2_t);
    // SAFETY: reads 64 bytes from `line`, which the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "ldp {a:q}, {b:q}, [{line}]",
            "ldp {c:q}, {d:q}, [{line}, #32]",
            line = in(reg) line,
            a = out(vreg) a,
            b = out(vreg) b,
            c = out(vreg) c,
            d = out(vreg) d,
            options(nostack, readonly, preserves_flags),
        );
    }
    [a, b, c, d]
}

/// Stores a line that others may be reading, after all that was stored before.
///
/// # Safety
/// `line` points to eight words that may be changed.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store(line: *const AtomicU64, [a, b, c, d]: Quarters) {
    fence(Ordering::Release);
    // SAFETY: writes 64 bytes to `line`, which the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "stp {a:q}, {b:q}, [{line}]",
            "stp {c:q}, {d:q}, [{line}, #32]",
            line = in(reg) line,
            a = in(vreg) a,
            b = in(vreg) b,
            c = in(vreg) c,
            d = in(vreg) d,
            options(nostack, preserves_flags),
        );
    }
}

/// The bits that are not on in the line.
#[inline]
#[target_feature(enable = "neon")]
fn bits_off([a, b, c, d]: Quarters, line: Quarters) -> Quarters {
    [vbicq_u64(a, line[0]), vbicq_u64(b, line[1]), vbicq_u64(c, line[2]), vbicq_u64(d, line[3])]
}

/// The quarters of a line on top of one another.
#[inline]
#[target_feature(enable = "neon")]
fn folded([a, b, c, d]: Quarters) -> uint32x4_t {
    vreinterpretq_u32_u64(vorrq_u64(vorrq_u64(a, b), vorrq_u64(c, d)))
}

/// Whether the cells of all rows are on.
///
/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn contains<const ROWS: usize>(line: *const AtomicU64, hash: u64) -> bool {
    // SAFETY: the caller's.
    unsafe { holds(line, bits::<ROWS>(hash)) }
}

/// The cells of a hash in 8 rows as bits of a line.
#[inline]
#[target_feature(enable = "neon")]
fn prepare(hash: u64) -> Quarters {
    bits::<8>(hash)
}

/// Whether all bits are on in a line.
///
/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "neon")]
unsafe fn holds(line: *const AtomicU64, bits: Quarters) -> bool {
    // SAFETY: the caller's.
    vmaxvq_u32(folded(bits_off(bits, unsafe { load(line) }))) == 0
}

/// [`contains`] with 8 rows, for a caller that has not looked for the line yet.
///
/// # Safety
/// The processor has NEON, and `start` points to `bytes` readable bytes, a multiple of 64.
#[inline(always)]
pub(super) unsafe fn contains_inline(start: *const AtomicU64, bytes: u64, hash: u64) -> bool {
    let line = start.wrapping_byte_add(line_offset(hash, bytes));
    // SAFETY: a whole line, as the caller vouches for.
    unsafe { contains::<8>(line, hash) }
}

/// The bits of the rows whose words are not 0.
#[inline]
#[target_feature(enable = "neon")]
fn where_any(off: uint64x2_t, row_bits: [u32; 4]) -> uint64x2_t {
    vandq_u64(vtstq_u64(off, off), vreinterpretq_u64_u32(lanes(row_bits)))
}

/// One bit for each row whose bit is not on in the line.
#[inline]
#[target_feature(enable = "neon")]
fn off<const ROWS: usize>(line: Quarters, bits: Quarters) -> u32 {
    let [a, b, c, d] = bits_off(bits, line);
    let rows = const { row_bits::<ROWS>() };
    let rows = [
        where_any(a, rows[0]),
        where_any(b, rows[1]),
        where_any(c, rows[2]),
        where_any(d, rows[3]),
    ];
    // Each bit is in one lane at most, so that the sum is the union: of the two words that 4 rows
    // have for each, only one can have the cell.
    vaddvq_u32(folded(rows))
}

/// The line with the bits on.
#[inline]
#[target_feature(enable = "neon")]
fn union([a, b, c, d]: Quarters, bits: Quarters) -> Quarters {
    [vorrq_u64(a, bits[0]), vorrq_u64(b, bits[1]), vorrq_u64(c, bits[2]), vorrq_u64(d, bits[3])]
}

simd_functions!("neon");

/// What SeaHash does to a lane.
///
/// # Safety
/// None: its twin on another processor needs an instruction that not all have.
#[inline(always)]
pub(super) unsafe fn diffuse(x: u64) -> u64 {
    crate::hash::diffuse(x)
}

/// The hashes of keys under a secret: registers of two words bring nothing here, as the rotations of
/// SipHash take three instructions in them and one outside.
///
/// # Safety
/// None is needed.
pub(super) unsafe fn hash_keyed(
    hasher: &crate::hash::Hasher,
    keys: [&[u8]; crate::hash::LANES],
) -> [u64; crate::hash::LANES] {
    keys.map(|key| hasher.hash_keyed(key))
}

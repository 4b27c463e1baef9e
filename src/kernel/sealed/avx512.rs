//! Kernels with AVX-512: rows of a page's equations in registers, column by column.

use std::arch::asm;
use std::arch::x86_64::*;

use super::avx2::two_bytes;
use crate::sealed::PageInMap;
use crate::sealed::banding::{self, Equation, SLOTS, System};
use crate::sealed::place::Place;
use crate::sealed::shape::{PARTS, Shape};

/// Whether this processor has the instructions, and runs them at full speed: those before
/// AVX-512 VBMI2 lower their clock for wide multiplications.
pub(super) fn found() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512dq")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vpopcntdq")
        && std::arch::is_x86_feature_detected!("avx512vbmi2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("popcnt")
}

/// Bands the equations of sorted values; false if their rows depend on one another.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
pub(super) fn band(
    values: &[u64],
    below: &[u32; PARTS + 1],
    shape: &Shape,
    bends: &[i8; PARTS + 1],
    system: &mut System,
) -> bool {
    banding::prepare(values, below, shape, bends, &mut system.keys);
    let (keys, slots) = (&system.keys, &mut system.slots);
    // No more bits of fingerprints than the page has columns.
    match shape.columns_of(shape.blocks() - 1).div_ceil(8) {
        0 | 1 => sweep::<1>(keys, slots, shape.slots()),
        2 => sweep::<2>(keys, slots, shape.slots()),
        3 => sweep::<3>(keys, slots, shape.slots()),
        _ => sweep::<4>(keys, slots, shape.slots()),
    }
}

kernel_functions!(#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt"
)]);

/// The equations that wait for a slot while all slots are visited in order, as a matrix of bits: an
/// equation is one bit of all lanes, a slot one lane of the coefficients.
///
/// More than 64 never wait: those that do have coefficients in the next 64 slots only, and more than
/// 64 rows of that length depend on one another.
struct Waiting<const BYTES: usize> {
    /// Coefficients, of 64 slots. The first register has the slot that is visited and others of its
    /// group of eight: the ones before it are those of the group 64 slots on.
    slots: [__m512i; 8],
    /// Fingerprints, as many bytes of them as are needed: lane k has bit k of them.
    bits: [__m512i; BYTES],
    /// One bit for each equation that could wait and does not.
    free: u64,
}

/// As [`banding::band`], but a slot at a time instead of a key: the first equation that waits with a
/// coefficient at the slot takes it, and is added to all others that have one there, with a few
/// instructions however many they are.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn sweep<const BYTES: usize>(
    keys: &[Equation],
    taken: &mut [Equation; SLOTS],
    slots: usize,
) -> bool {
    let zero = _mm512_setzero_si512();
    let mut waiting = Waiting::<BYTES> { slots: [zero; 8], bits: [zero; BYTES], free: u64::MAX };
    let mut keys = keys.iter();
    let mut key = keys.next();
    for (group, taken) in taken[..slots].chunks_exact_mut(8).enumerate() {
        for (lane, taken) in taken.iter_mut().enumerate() {
            while let Some(equation) = key.filter(|key| key.start() == 8 * group + lane) {
                if waiting.free == 0 {
                    return false;
                }
                add(&mut waiting, equation, lane as u32);
                key = keys.next();
            }
            *taken = eliminate(&mut waiting, lane as u32);
        }
        waiting.slots.rotate_left(1);
        if depends(&waiting) {
            return false;
        }
    }
    waiting.free == u64::MAX
}

/// Lets an equation that starts at a lane of the group wait, as the first one that is free.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn add<const BYTES: usize>(waiting: &mut Waiting<BYTES>, equation: &Equation, lane: u32) {
    let bit = waiting.free & waiting.free.wrapping_neg();
    waiting.free ^= bit;
    let bit = _mm512_set1_epi64(bit.cast_signed());
    let row = equation.row.rotate_left(lane);
    for (at, slots) in waiting.slots.iter_mut().enumerate() {
        *slots = _mm512_mask_or_epi64(*slots, (row >> (8 * at)) as u8, *slots, bit);
    }
    let fingerprint = equation.fingerprint();
    for (at, bits) in waiting.bits.iter_mut().enumerate() {
        *bits = _mm512_mask_or_epi64(*bits, (fingerprint >> (8 * at)) as u8, *bits, bit);
    }
}

/// Takes the first one of the equations with a coefficient at a lane of the group, and adds it to all
/// of them: to itself too, which leaves nothing of it. If there is none, nothing changes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn eliminate<const BYTES: usize>(waiting: &mut Waiting<BYTES>, lane: u32) -> Equation {
    // In every lane.
    let there = _mm512_permutexvar_epi64(_mm512_set1_epi64(lane.into()), waiting.slots[0]);
    let first = _mm512_and_si512(there, _mm512_sub_epi64(_mm512_setzero_si512(), there));
    let mut row = 0;
    for (at, slots) in waiting.slots.iter_mut().enumerate() {
        let on = _mm512_test_epi64_mask(*slots, first);
        *slots = _mm512_mask_xor_epi64(*slots, on, *slots, there);
        row |= u64::from(on) << (8 * at);
    }
    let mut fingerprint = 0;
    for (at, bits) in waiting.bits.iter_mut().enumerate() {
        let on = _mm512_test_epi64_mask(*bits, first);
        *bits = _mm512_mask_xor_epi64(*bits, on, *bits, there);
        fingerprint |= u32::from(on) << (8 * at);
    }
    waiting.free |= _mm_cvtsi128_si64(_mm512_castsi512_si128(first)).cast_unsigned();
    Equation::new(row.rotate_right(lane), fingerprint, 0)
}

/// Whether an equation waits that has no coefficients left.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
fn depends<const BYTES: usize>(waiting: &Waiting<BYTES>) -> bool {
    let any = waiting.slots.iter().fold(_mm512_setzero_si512(), |a, &b| _mm512_or_si512(a, b));
    let any = _mm512_reduce_or_epi64(any).cast_unsigned();
    any | waiting.free != u64::MAX
}

/// Loads the lanes that a mask names of eight words that others may be writing; the other lanes are
/// zero, and their words need not exist. The compiler sees neither what is read nor when, so it
/// cannot rely on reading the same twice.
///
/// # Safety
/// The words from `word` on for which `lanes` has a bit set are in the page.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
unsafe fn load(page: &PageInMap, word: u32, lanes: __mmask8) -> __m256i {
    let words: __m256i;
    // SAFETY: reads the words that the caller vouches for, no others, and changes nothing else.
    unsafe {
        asm!(
            "vmovdqu32 {words}{{{lanes}}}{{z}}, [{page} + 4*{word}]",
            page = in(reg) page.as_ptr(),
            word = in(reg) u64::from(word),
            lanes = in(kreg) lanes,
            words = out(ymm_reg) words,
            options(nostack, readonly, preserves_flags),
        );
    }
    words
}

/// Whether all columns of a place give what they must.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,bmi1,bmi2,popcnt")]
pub(super) fn evaluate(page: &PageInMap, place: &Place) -> bool {
    let rows = place.rows().map(|row| _mm256_set1_epi32(row.cast_signed()));
    let mut done = 0;
    while done < place.columns() {
        let lanes = _bzhi_u32(0xff, place.columns() - done) as __mmask8;
        // SAFETY: the words of all columns of a place are in the page (`Place`).
        let words = unsafe {
            [
                load(page, place.words()[0] + done, lanes),
                load(page, place.words()[1] + done, lanes),
                load(page, place.words()[2] + done, lanes),
            ]
        };
        let ones = _mm256_and_si256(words[0], rows[0]);
        // a ^ (b & c).
        let ones = _mm256_ternarylogic_epi32::<0x78>(ones, words[1], rows[1]);
        let ones = _mm256_ternarylogic_epi32::<0x78>(ones, words[2], rows[2]);
        let odd = _mm256_test_epi32_mask(_mm256_popcnt_epi32(ones), _mm256_set1_epi32(1));
        if odd != (place.fingerprint() >> done) as u8 {
            return false;
        }
        done += 8;
    }
    true
}

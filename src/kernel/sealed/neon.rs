//! Kernels with NEON: eight columns in two registers.

use std::arch::aarch64::*;
use std::arch::asm;

use super::portable;
use crate::sealed::PageInMap;
use crate::sealed::place::Place;
use crate::sealed::shape::{HEADER_WORDS, WORDS};

/// Whether this processor has the instructions.
pub(super) fn found() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

kernel_functions!(#[target_feature(enable = "neon")]);
banding_function!(#[target_feature(enable = "neon")]);

/// Two bytes in a row that others may be writing.
#[inline]
#[target_feature(enable = "neon")]
fn two_bytes(page: &PageInMap, at: usize) -> [u8; 2] {
    assert!(at + 2 <= size_of::<PageInMap>());
    let bytes: u32;
    // SAFETY: reads two bytes of the page, by the assertion, and changes nothing else.
    unsafe {
        asm!(
            "ldrh {bytes:w}, [{page}, {at}]",
            page = in(reg) page.as_ptr(),
            at = in(reg) at,
            bytes = out(reg) bytes,
            options(nostack, readonly, preserves_flags),
        );
    }
    [bytes as u8, (bytes >> 8) as u8]
}

/// Loads eight words that others may be writing: the compiler sees neither what is read nor when, so
/// it cannot rely on reading the same twice.
///
/// # Safety
/// The eight words from `word` on are in the page.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(page: &PageInMap, word: u32) -> [uint32x4_t; 2] {
    let (low, high): (uint32x4_t, uint32x4_t);
    // SAFETY: reads 32 bytes that the caller vouches for, and changes nothing else.
    unsafe {
        asm!(
            "ldp {low:q}, {high:q}, [{words}]",
            words = in(reg) page.as_ptr().wrapping_byte_add(4 * word as usize),
            low = out(vreg) low,
            high = out(vreg) high,
            options(nostack, readonly, preserves_flags),
        );
    }
    [low, high]
}

/// One bit, the lowest of its lane, for each column whose ones are odd in number.
#[inline]
#[target_feature(enable = "neon")]
fn odd(ones: uint32x4_t) -> uint32x4_t {
    let ones = veorq_u32(ones, vshrq_n_u32::<16>(ones));
    let ones = veorq_u32(ones, vshrq_n_u32::<8>(ones));
    let counts = vcntq_u8(vreinterpretq_u8_u32(ones));
    vandq_u32(vreinterpretq_u32_u8(counts), vdupq_n_u32(1))
}

/// Whether all columns of a place give what they must.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn evaluate(page: &PageInMap, place: &Place) -> bool {
    // There are no loads that leave lanes out: the last words of a page are for another kernel.
    if place.words()[2] + place.columns().next_multiple_of(8) > HEADER_WORDS + WORDS {
        return portable::evaluate(page, place);
    }
    // SAFETY: reads the lanes, and needs no alignment.
    let numbers = unsafe { vld1q_s32([0, -1, -2, -3].as_ptr()) };
    let mut done = 0;
    while done < place.columns() {
        let mut ones = [vdupq_n_u32(0); 2];
        for (word, row) in place.words().into_iter().zip(place.rows()) {
            // SAFETY: the third word is the last one, and eight words for each eight columns from there
            // on are in the page, as was found above.
            let [low, high] = unsafe { load(page, word + done) };
            let row = vdupq_n_u32(row);
            ones =
                [veorq_u32(ones[0], vandq_u32(low, row)), veorq_u32(ones[1], vandq_u32(high, row))];
        }
        // A shift by a negative count is one to the right.
        let wanted = |fingerprint: u32| vshlq_u32(vdupq_n_u32(fingerprint), numbers);
        let fingerprint = place.fingerprint() >> done;
        let wrong = [
            veorq_u32(odd(ones[0]), wanted(fingerprint)),
            veorq_u32(odd(ones[1]), wanted(fingerprint >> 4)),
        ];
        // The lanes behind the last column hold other words: they do not count.
        let left = vdupq_n_s32((place.columns() - done).cast_signed());
        let counts = |first: i32| vcgtq_s32(left, vsubq_s32(vdupq_n_s32(first), numbers));
        let wrong = vorrq_u32(vandq_u32(wrong[0], counts(0)), vandq_u32(wrong[1], counts(4)));
        if vmaxvq_u32(vandq_u32(wrong, vdupq_n_u32(1))) != 0 {
            return false;
        }
        done += 8;
    }
    true
}

//! Kernels with AVX2: eight columns in a register.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::sealed::PageInMap;
use crate::sealed::place::Place;

/// Whether this processor has the instructions.
pub(super) fn found() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("popcnt")
}

kernel_functions!(#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]);
banding_function!(#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]);

/// Two bytes in a row that others may be writing.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn two_bytes(page: &PageInMap, at: usize) -> [u8; 2] {
    assert!(at + 2 <= size_of::<PageInMap>());
    let bytes: u32;
    // SAFETY: reads two bytes of the page, by the assertion, and changes nothing else.
    unsafe {
        asm!(
            "movzx {bytes:e}, word ptr [{page} + {at}]",
            page = in(reg) page.as_ptr(),
            at = in(reg) at,
            bytes = out(reg) bytes,
            options(nostack, readonly, preserves_flags),
        );
    }
    [bytes as u8, (bytes >> 8) as u8]
}

/// Loads the lanes that a mask names of eight words that others may be writing; the other lanes are
/// zero, and their words need not exist. The compiler sees neither what is read nor when, so it
/// cannot rely on reading the same twice.
///
/// # Safety
/// The words from `word` on for which `lanes` has a lane set are in the page.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn load(page: &PageInMap, word: u32, lanes: __m256i) -> __m256i {
    let words: __m256i;
    // SAFETY: reads the words that the caller vouches for, no others, and changes nothing else.
    unsafe {
        asm!(
            "vpmaskmovd {words}, {lanes}, [{page} + 4*{word}]",
            page = in(reg) page.as_ptr(),
            word = in(reg) u64::from(word),
            lanes = in(ymm_reg) lanes,
            words = out(ymm_reg) words,
            options(nostack, readonly, preserves_flags),
        );
    }
    words
}

/// Whether all columns of a place give what they must.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn evaluate(page: &PageInMap, place: &Place) -> bool {
    let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let rows = place.rows().map(|row| _mm256_set1_epi32(row.cast_signed()));
    let mut done = 0;
    while done < place.columns() {
        let left = (place.columns() - done).cast_signed();
        let lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), numbers);
        // SAFETY: the words of all columns of a place are in the page (`Place`).
        let words = unsafe {
            [
                load(page, place.words()[0] + done, lanes),
                load(page, place.words()[1] + done, lanes),
                load(page, place.words()[2] + done, lanes),
            ]
        };
        let ones = _mm256_xor_si256(
            _mm256_xor_si256(
                _mm256_and_si256(words[0], rows[0]),
                _mm256_and_si256(words[1], rows[1]),
            ),
            _mm256_and_si256(words[2], rows[2]),
        );
        // Bit k of the fingerprint joins the ones of column k: their parity must then be even.
        let one = _mm256_set1_epi32(1);
        let fingerprint = _mm256_set1_epi32((place.fingerprint() >> done).cast_signed());
        let bits = _mm256_and_si256(_mm256_srlv_epi32(fingerprint, numbers), one);
        let mut odd = _mm256_xor_si256(ones, bits);
        odd = _mm256_xor_si256(odd, _mm256_srli_epi32::<16>(odd));
        odd = _mm256_xor_si256(odd, _mm256_srli_epi32::<8>(odd));
        odd = _mm256_xor_si256(odd, _mm256_srli_epi32::<4>(odd));
        odd = _mm256_xor_si256(odd, _mm256_srli_epi32::<2>(odd));
        odd = _mm256_xor_si256(odd, _mm256_srli_epi32::<1>(odd));
        if _mm256_testz_si256(odd, one) == 0 {
            return false;
        }
        done += 8;
    }
    true
}

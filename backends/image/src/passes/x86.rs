//! Bytes into registers and back.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256,
};

/// Sixteen bytes from `at` on.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load(bytes: &[u8], at: usize) -> __m128i {
    let bytes: &[u8] = &bytes[at..at + 16];
    // SAFETY: there are sixteen bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Thirty-two bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_wide(bytes: &[u8], at: usize) -> __m256i {
    let bytes: &[u8] = &bytes[at..at + 32];
    // SAFETY: there are thirty-two bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// All bytes, the lowest first.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store(register: __m128i) -> [u8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: there is room for sixteen bytes.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), register) };
    bytes
}

/// All bytes, the lowest first.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_wide(register: __m256i) -> [u8; 32] {
    let mut bytes = [0; 32];
    // SAFETY: there is room for thirty-two bytes.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), register) };
    bytes
}

/// Sixteen numbers.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_words(words: &[i16]) -> __m256i {
    let words: &[i16] = &words[..16];
    // SAFETY: there are sixteen numbers of two bytes.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// All numbers, the lowest first.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_words(words: &mut [i16; 16], register: __m256i) {
    // SAFETY: there is room for sixteen numbers of two bytes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), register) };
}

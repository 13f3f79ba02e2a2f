//! The same sums as `portable`, with the instructions that every x86-64 processor has.
//!
//! There is none that multiplies integers of 32 bits. But one multiplies pairs of 16 bits and adds the two products. So
//! a byte `p` goes in as the pair `(p, 128 p)` and a weight as `(low, high)` with `weight = low + 128 high`: the sum is
//! `p * weight`, to the last bit.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si32,
    _mm_cvtsi128_si64, _mm_madd_epi16, _mm_packs_epi32, _mm_packus_epi16, _mm_set1_epi32,
    _mm_setzero_si128, _mm_slli_epi16, _mm_srai_epi32, _mm_unpackhi_epi16, _mm_unpacklo_epi8,
    _mm_unpacklo_epi16,
};

use super::portable;
use crate::{
    part::View,
    rgb::Rgb,
    weights::{BITS, HALF, Weights},
};

/// Values that are summed at once in a column.
const LANES: usize = 8;

/// Weights as pairs, each in all lanes. `None`: one is too far from 0 for a pair, which filters hardly ever make.
#[target_feature(enable = "sse2")]
fn pairs(weights: &Weights) -> Option<Vec<__m128i>> {
    let pair = |weight: &i32| {
        let high = (weight >> 7).clamp(i16::MIN.into(), i16::MAX.into());
        let low = i16::try_from(weight - (high << 7)).ok()?;
        Some(_mm_set1_epi32((high << 16) | i32::from(low as u16)))
    };
    weights.all.iter().map(pair).collect()
}

/// Sums to bytes: rounded, and kept within their range.
#[target_feature(enable = "sse2")]
fn bytes(low: __m128i, high: __m128i) -> __m128i {
    let shifted = [low, high].map(|it| _mm_srai_epi32::<{ BITS as i32 }>(it));
    let words = _mm_packs_epi32(shifted[0], shifted[1]);
    _mm_packus_epi16(words, words)
}

/// Each row at the width of the weights.
pub(super) fn across(image: &View<'_>, weights: &Weights) -> Rgb {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { across_sse2(image, weights) }
}

/// Each column at the height of the weights.
pub(super) fn down(image: &View<'_>, weights: &Weights) -> Rgb {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { down_sse2(image, weights) }
}

#[target_feature(enable = "sse2")]
fn across_sse2(image: &View<'_>, weights: &Weights) -> Rgb {
    let Some(pairs) = pairs(weights) else { return portable::across(image, weights) };
    let zero = _mm_setzero_si128();
    let half = _mm_set1_epi32(HALF);
    let mut out = Rgb::new(weights.length(), image.height);
    let stride = out.stride();
    // The pixels of a row as pairs: red, green, blue, and a lane that does not count.
    let mut row = vec![zero; image.width as usize];
    for (y, line) in out.pixels.chunks_exact_mut(stride).enumerate() {
        for (pixel, value) in row.iter_mut().zip(image.row(y).as_chunks::<3>().0) {
            let word = u32::from_le_bytes([value[0], value[1], value[2], 0]);
            let values = _mm_unpacklo_epi8(_mm_cvtsi32_si128(word as i32), zero);
            *pixel = _mm_unpacklo_epi16(values, _mm_slli_epi16::<7>(values));
        }
        for (pixel, &(first, begin, end)) in
            line.as_chunks_mut::<3>().0.iter_mut().zip(&weights.spans)
        {
            let mut sums = half;
            for (value, weight) in row[first..].iter().zip(&pairs[begin..end]) {
                sums = _mm_add_epi32(sums, _mm_madd_epi16(*value, *weight));
            }
            let [red, green, blue, _] = _mm_cvtsi128_si32(bytes(sums, zero)).to_le_bytes();
            *pixel = [red, green, blue];
        }
    }
    out
}

#[target_feature(enable = "sse2")]
fn down_sse2(image: &View<'_>, weights: &Weights) -> Rgb {
    let Some(pairs) = pairs(weights) else { return portable::down(image, weights) };
    let zero = _mm_setzero_si128();
    let half = _mm_set1_epi32(HALF);
    let mut out = Rgb::new(image.width, weights.length());
    let stride = out.stride();
    for (line, &(first, begin, end)) in out.pixels.chunks_exact_mut(stride).zip(&weights.spans) {
        let rows = &image.pixels[first * image.stride..];
        let mut at = 0;
        while at < stride {
            // The last values of a row are summed together with some before them, a second time.
            let begin_at = at.min(stride.saturating_sub(LANES));
            let (mut low, mut high) = (half, half);
            for (row, weight) in rows.chunks(image.stride).zip(&pairs[begin..end]) {
                let values = _mm_unpacklo_epi8(_mm_cvtsi64_si128(word(&row[begin_at..])), zero);
                let scaled = _mm_slli_epi16::<7>(values);
                let (left, right) =
                    (_mm_unpacklo_epi16(values, scaled), _mm_unpackhi_epi16(values, scaled));
                low = _mm_add_epi32(low, _mm_madd_epi16(left, *weight));
                high = _mm_add_epi32(high, _mm_madd_epi16(right, *weight));
            }
            let found = _mm_cvtsi128_si64(bytes(low, high)).to_le_bytes();
            let line = &mut line[begin_at..];
            let length = line.len().min(LANES);
            line[..length].copy_from_slice(&found[..length]);
            at += LANES;
        }
    }
    out
}

/// Eight bytes, or fewer where a row has no more.
fn word(bytes: &[u8]) -> i64 {
    if let Some(all) = bytes.first_chunk::<LANES>() {
        return i64::from_le_bytes(*all);
    }
    let mut all = [0; LANES];
    all[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

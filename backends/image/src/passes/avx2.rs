//! The same sums as `portable`, with AVX2.
//!
//! One instruction multiplies pairs of 16 bits and adds the two products. So two neighbours go in at once, and a weight
//! as two numbers, `weight = 256 high + low`. Both sums are exact; they are put together behind the last neighbour.

use std::arch::x86_64::{
    __m256i, _mm_add_epi32, _mm_packs_epi32, _mm_packus_epi16, _mm_set1_epi32, _mm_srai_epi32,
    _mm256_add_epi32, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_madd_epi16, _mm256_packs_epi32, _mm256_packus_epi16,
    _mm256_set1_epi32, _mm256_setr_epi8, _mm256_setr_epi32, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_srai_epi32, _mm256_unpackhi_epi8,
    _mm256_unpacklo_epi8,
};

use super::x86::{load, load_wide, store, store_wide};
use crate::{
    part::View,
    rgb::Rgb,
    weights::{BITS, HALF, Weights},
};

/// Neighbours in a row that are multiplied at once.
const NEIGHBOURS: usize = 4;
/// Bytes of theirs.
const STEP: usize = NEIGHBOURS * 3;
/// Bytes that are read for them.
const READ: usize = 16;
/// Rows that share what is read of the weights.
const ROWS: usize = 4;
/// Bytes of a column that are summed at once.
const LANES: usize = 32;

/// Each row at the width of the weights. `None`: the processor has no AVX2, or a weight is out of all proportion.
pub(super) fn across(image: &View<'_>, weights: &Weights) -> Option<Rgb> {
    // SAFETY: the processor has AVX2.
    is_x86_feature_detected!("avx2").then(|| unsafe { across_avx2(image, weights) })?
}

/// Each column at the height of the weights. `None`: as with [`across`], or rows are a few pixels long.
pub(super) fn down(image: &View<'_>, weights: &Weights) -> Option<Rgb> {
    let is_wide = image.length() >= LANES;
    // SAFETY: the processor has AVX2.
    (is_wide && is_x86_feature_detected!("avx2")).then(|| unsafe { down_avx2(image, weights) })?
}

/// The two numbers of the weights of two neighbours, as pairs of 16 bits.
fn halves(first: i32, second: i32) -> Option<[i32; 2]> {
    let high = |weight: i32| i16::try_from(weight >> 8).ok().map(|it| i32::from(it as u16));
    let low = |weight: i32| weight & 0xff;
    Some([high(first)? | (high(second)? << 16), low(first) | (low(second) << 16)])
}

/// The weights of four neighbours, in the lanes in which their bytes will be: the first two in the lower half.
#[target_feature(enable = "avx2")]
fn four(weights: &[i32]) -> Option<[__m256i; 2]> {
    let at = |place: usize| weights.get(place).copied().unwrap_or(0);
    let ([high, low], [next_high, next_low]) = (halves(at(0), at(1))?, halves(at(2), at(3))?);
    let lanes = |a: i32, b: i32| _mm256_setr_epi32(a, a, a, a, b, b, b, b);
    Some([lanes(high, next_high), lanes(low, next_low)])
}

#[target_feature(enable = "avx2")]
fn across_avx2(image: &View<'_>, weights: &Weights) -> Option<Rgb> {
    let mut blocks = Vec::with_capacity(weights.all.len() / NEIGHBOURS + weights.spans.len());
    let mut spans = Vec::with_capacity(weights.spans.len());
    let mut reach = 0;
    for &(first, begin, end) in &weights.spans {
        let start = blocks.len();
        for weights in weights.all[begin..end].chunks(NEIGHBOURS) {
            blocks.push(four(weights)?);
        }
        let count = blocks.len() - start;
        reach = reach.max(first * 3 + count * STEP + READ - STEP);
        spans.push((first * 3, start, blocks.len()));
    }
    // Two neighbours of each channel side by side, each as 16 bits.
    let order = _mm256_setr_epi8(
        0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7, -1, 10, -1, 8,
        -1, 11, -1, -1, -1, -1, -1,
    );
    let half = _mm_set1_epi32(HALF);
    let length = weights.length() as usize * 3;
    let height = image.height as usize;
    // Rows are made four at a time.
    let mut out = vec![0; height.next_multiple_of(ROWS) * length];
    let mut copies = Vec::new();
    for (y, lines) in (0..).step_by(ROWS).zip(out.chunks_exact_mut((length * ROWS).max(1))) {
        let is_inside = (y + ROWS - 1) * image.stride + reach <= image.pixels.len();
        if !is_inside {
            // The weights of what is read behind a row are zero, but there has to be something.
            copies.clear();
            copies.resize(ROWS * reach, 0);
            for (copy, y) in copies.chunks_exact_mut(reach.max(1)).zip(y..height) {
                let row = image.row(y);
                let length = row.len().min(reach);
                copy[..length].copy_from_slice(&row[..length]);
            }
        }
        let rows: [&[u8]; ROWS] = std::array::from_fn(|it| match is_inside {
            true => &image.pixels[(y + it) * image.stride..][..reach],
            false => &copies[it * reach..][..reach],
        });
        for (x, &(first, begin, end)) in spans.iter().enumerate() {
            let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
            for (place, [high, low]) in (first..).step_by(STEP).zip(&blocks[begin..end]) {
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let values = _mm256_broadcastsi128_si256(load(row, place));
                    let values = _mm256_shuffle_epi8(values, order);
                    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(values, *high));
                    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(values, *low));
                }
            }
            let sums = sums.map(|[high, low]| {
                let sum = _mm256_add_epi32(_mm256_slli_epi32::<8>(high), low);
                let (even, odd) = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
                let sum = _mm_add_epi32(_mm_add_epi32(even, odd), half);
                _mm_srai_epi32::<{ BITS as i32 }>(sum)
            });
            let words = [_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3])];
            let pixels: [u8; 16] = store(_mm_packus_epi16(words[0], words[1]));
            for (line, pixel) in lines.chunks_exact_mut(length).zip(pixels.chunks_exact(4)) {
                line[x * 3..][..3].copy_from_slice(&pixel[..3]);
            }
        }
    }
    out.truncate(height * length);
    Some(Rgb { width: weights.length(), height: image.height, pixels: out })
}

#[target_feature(enable = "avx2")]
fn down_avx2(image: &View<'_>, weights: &Weights) -> Option<Rgb> {
    let mut out = Rgb::new(image.width, weights.length());
    let length = image.length();
    let half = _mm256_set1_epi32(HALF);
    let mut pairs = Vec::new();
    for (line, &(first, begin, end)) in out.pixels.chunks_exact_mut(length).zip(&weights.spans) {
        pairs.clear();
        for (y, weights) in (first..).step_by(2).zip(weights.all[begin..end].chunks(2)) {
            let second = weights.get(1).copied().unwrap_or(0);
            let weights = halves(weights[0], second)?;
            // The last one may be alone.
            let below = (y + 1).min(first + (end - begin) - 1);
            pairs.push((image.row(y), image.row(below), weights.map(|it| _mm256_set1_epi32(it))));
        }
        let mut at = 0;
        while at < length {
            // The last values of a row are summed together with some before them, a second time.
            let place = at.min(length - LANES);
            let mut sums = [[_mm256_setzero_si256(); 2]; 4];
            for &(above, below, [high, low]) in &pairs {
                for (sums, values) in sums
                    .iter_mut()
                    .zip(side_by_side(load_wide(above, place), load_wide(below, place)))
                {
                    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(values, high));
                    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(values, low));
                }
            }
            let [a, b, c, d] = sums.map(|[high, low]| {
                let sum = _mm256_add_epi32(_mm256_slli_epi32::<8>(high), low);
                _mm256_srai_epi32::<{ BITS as i32 }>(_mm256_add_epi32(sum, half))
            });
            let words = [_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)];
            let bytes: [u8; LANES] = store_wide(_mm256_packus_epi16(words[0], words[1]));
            line[place..place + LANES].copy_from_slice(&bytes);
            at += LANES;
        }
    }
    Some(out)
}

/// The bytes of two rows as pairs of 16 bits. Packing twice, within halves of a register, brings them back in order.
#[target_feature(enable = "avx2")]
fn side_by_side(above: __m256i, below: __m256i) -> [__m256i; 4] {
    let zero = _mm256_setzero_si256();
    let low = _mm256_unpacklo_epi8(above, below);
    let high = _mm256_unpackhi_epi8(above, below);
    [
        _mm256_unpacklo_epi8(low, zero),
        _mm256_unpackhi_epi8(low, zero),
        _mm256_unpacklo_epi8(high, zero),
        _mm256_unpackhi_epi8(high, zero),
    ]
}

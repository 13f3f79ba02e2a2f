//! Weighted sums of two neighbours, with AVX2: two pixels at once along rows, eight along columns.
//!
//! Sums of rows are kept with four numbers a pixel, of which the last does not count.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi16, _mm256_castsi128_si256, _mm256_inserti128_si256, _mm256_madd_epi16,
    _mm256_mulhi_epi16, _mm256_packs_epi32, _mm256_packus_epi16, _mm256_permute4x64_epi64,
    _mm256_set1_epi16, _mm256_setr_epi8, _mm256_setr_epi32, _mm256_shuffle_epi8, _mm256_srai_epi16,
    _mm256_srai_epi32,
};

use super::{
    bilinear_portable::sums,
    two_rows::TwoRows,
    x86::{load, load_words, store_wide, store_words},
};
use crate::{neighbours::Pair, part::View, rgb::Rgb};

/// Numbers of a pixel in a row of sums.
const LANES: usize = 4;
/// Pixels of a row of the output that are made at once.
const PIXELS: usize = 8;
/// Pixels whose sums are made at once.
const SUMS: usize = 4;
/// Bytes that are read for a pixel.
const READ: usize = 16;

/// `None`: the processor has no AVX2.
pub(super) fn bilinear(image: &View<'_>, columns: &[Pair], rows: &[Pair]) -> Option<Rgb> {
    // SAFETY: the processor has AVX2.
    is_x86_feature_detected!("avx2").then(|| unsafe { bilinear_avx2(image, columns, rows) })
}

#[target_feature(enable = "avx2")]
fn bilinear_avx2(image: &View<'_>, columns: &[Pair], rows: &[Pair]) -> Rgb {
    let mut out = Rgb::new(columns.len() as u32, rows.len() as u32);
    let length = out.stride();
    let padded = columns.len().next_multiple_of(PIXELS);
    let mut held = TwoRows::new(padded * LANES);
    let weights = weights_of(columns);
    // Each write of twelve bytes has four more behind it.
    let mut bytes = vec![0; padded * 3 + LANES];
    for (line, pair) in out.pixels.chunks_exact_mut(length.max(1)).zip(rows) {
        let sums = held.get(pair, |y, out| across(image, y, out, (columns, &weights)));
        down(sums, pair.weights, &mut bytes);
        line.copy_from_slice(&bytes[..length]);
    }
    out
}

/// The weights of two pixels at a time: those of the first in the lower half.
#[target_feature(enable = "avx2")]
fn weights_of(columns: &[Pair]) -> Vec<__m256i> {
    let both = |[left, right]: [i16; 2]| i32::from(left) | (i32::from(right) << 16);
    let two = |pairs: &[Pair; 2]| {
        let [a, b] = pairs.map(|it| both(it.weights));
        _mm256_setr_epi32(a, a, a, a, b, b, b, b)
    };
    columns.as_chunks::<2>().0.iter().map(two).collect()
}

/// The sums of row `y`.
#[target_feature(enable = "avx2")]
fn across(image: &View<'_>, y: usize, out: &mut [i16], (columns, weights): (&[Pair], &[__m256i])) {
    // Reading goes on behind the row, but not behind the image.
    let input = &image.pixels[y * image.stride..];
    let readable = columns.partition_point(|it| it.first * 3 + READ <= input.len());
    // Each channel of both neighbours side by side, as 16 bits.
    let order = _mm256_setr_epi8(
        0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 0, -1, 3, -1, 1, -1, 4, -1, 2,
        -1, 5, -1, -1, -1, -1, -1,
    );
    let two = |pairs: &[Pair; 2], weights: &__m256i| {
        let [a, b] = pairs.map(|it| load(input, it.first * 3));
        let bytes = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
        let values = _mm256_shuffle_epi8(bytes, order);
        _mm256_srai_epi32::<4>(_mm256_madd_epi16(values, *weights))
    };
    let fours = columns[..readable].as_chunks::<SUMS>().0;
    let (found, rest) = out.split_at_mut(fours.len() * SUMS * LANES);
    let found = found.as_chunks_mut::<{ SUMS * LANES }>().0;
    for ((out, pairs), weights) in found.iter_mut().zip(fours).zip(weights.as_chunks::<2>().0) {
        let [[a, b, c, d]] = [*pairs];
        let packed = _mm256_packs_epi32(two(&[a, b], &weights[0]), two(&[c, d], &weights[1]));
        // Packing has put the first and the third into the lower half.
        store_words(out, _mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
    }
    let others = &columns[fours.len() * SUMS..];
    for (out, pair) in rest.as_chunks_mut::<LANES>().0.iter_mut().zip(others) {
        out[..3].copy_from_slice(&sums(input, pair));
    }
}

/// A row of the output, three bytes a pixel.
#[target_feature(enable = "avx2")]
fn down([above, below]: [&[i16]; 2], weights: [i16; 2], out: &mut [u8]) {
    const NUMBERS: usize = PIXELS * LANES;
    let [upper, lower] = weights.map(|it| _mm256_set1_epi16(it));
    let half = _mm256_set1_epi16(2);
    // Three bytes of each four, in both halves.
    let order = _mm256_setr_epi8(
        0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13,
        14, -1, -1, -1, -1,
    );
    let sum = |above: &[i16], below: &[i16]| {
        let above = _mm256_mulhi_epi16(load_words(above), upper);
        let below = _mm256_mulhi_epi16(load_words(below), lower);
        _mm256_srai_epi16::<2>(_mm256_add_epi16(_mm256_add_epi16(above, below), half))
    };
    let rows = above.as_chunks::<NUMBERS>().0.iter().zip(below.as_chunks::<NUMBERS>().0);
    for (place, (above, below)) in (0..).step_by(PIXELS * 3).zip(rows) {
        let (a, b) = (sum(&above[..16], &below[..16]), sum(&above[16..], &below[16..]));
        let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(a, b));
        let bytes = store_wide(_mm256_shuffle_epi8(packed, order));
        let out = &mut out[place..place + PIXELS * 3 + LANES];
        out[..16].copy_from_slice(&bytes[..16]);
        out[12..].copy_from_slice(&bytes[16..]);
    }
}

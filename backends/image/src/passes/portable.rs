//! Sums of weighted bytes along rows and columns, with the instructions of any processor.

use crate::{
    part::View,
    rgb::Rgb,
    weights::{BITS, HALF, Weights},
};

fn rounded(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

/// Each row at the width of the weights.
pub(super) fn across(image: &View<'_>, weights: &Weights) -> Rgb {
    let mut out = Rgb::new(weights.length(), image.height);
    let stride = out.stride();
    for (y, row) in out.pixels.chunks_exact_mut(stride).enumerate() {
        let input = image.row(y);
        for (pixel, &(first, begin, end)) in row.chunks_exact_mut(3).zip(&weights.spans) {
            let weights = &weights.all[begin..end];
            let input = &input[first * 3..][..weights.len() * 3];
            let mut sums = [HALF; 3];
            for (input, weight) in input.chunks_exact(3).zip(weights) {
                sums[0] += i32::from(input[0]) * weight;
                sums[1] += i32::from(input[1]) * weight;
                sums[2] += i32::from(input[2]) * weight;
            }
            pixel.copy_from_slice(&sums.map(rounded));
        }
    }
    out
}

/// Each column at the height of the weights.
pub(super) fn down(image: &View<'_>, weights: &Weights) -> Rgb {
    let mut out = Rgb::new(image.width, weights.length());
    let stride = out.stride();
    let mut sums = vec![HALF; stride];
    for (row, &(first, begin, end)) in out.pixels.chunks_exact_mut(stride).zip(&weights.spans) {
        sums.fill(HALF);
        for (y, weight) in weights.all[begin..end].iter().enumerate() {
            for (sum, value) in sums.iter_mut().zip(image.row(first + y)) {
                *sum += i32::from(*value) * weight;
            }
        }
        for (value, sum) in row.iter_mut().zip(&sums) {
            *value = rounded(*sum);
        }
    }
    out
}

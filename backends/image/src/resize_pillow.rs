//! Resizing that equals Pillow's in every byte: two passes, weights of 22 bits, rounded to bytes between the passes.

use crate::{filter::Filter, rgb::Rgb};

/// Bits behind the point of a weight.
const BITS: u32 = 22;
/// One half, which is added before the bits behind the point are cut off.
const HALF: i32 = 1 << (BITS - 1);

/// The image at another size.
///
/// `width` and `height` are at least one. Costs about a multiplication per weight, of which there are as many as the
/// filter covers pixels of `image`.
pub fn resize(image: &Rgb, width: u32, height: u32, filter: Filter) -> Rgb {
    if (image.width, image.height) == (width, height) {
        return image.clone();
    }
    if filter == Filter::Nearest {
        return nearest(image, width, height);
    }
    let horizontal = |image: &Rgb| across(image, width, &Weights::new(image.width, width, filter));
    let vertical = |image: &Rgb| down(image, height, &Weights::new(image.height, height, filter));
    match (image.width == width, image.height == height) {
        (true, _) => vertical(image),
        (false, true) => horizontal(image),
        (false, false) if rows_go_first(image, width, height) => horizontal(&vertical(image)),
        (false, false) => vertical(&horizontal(image)),
    }
}

/// Pillow from version 13 on: rows go first where more than twice as many of them go as columns. Bytes are rounded
/// between the passes, so that the order is part of the result.
fn rows_go_first(image: &Rgb, width: u32, height: u32) -> bool {
    let fewer_rows = i64::from(image.height) - i64::from(height);
    let fewer_columns = i64::from(image.width) - i64::from(width);
    fewer_rows > 0 && fewer_rows > 2 * fewer_columns
}

/// For each pixel of the output, which pixels of the input it is made of.
struct Weights {
    /// The first pixel, and where its weights begin and end in `all`.
    spans: Vec<(usize, usize, usize)>,
    all: Vec<i32>,
}

impl Weights {
    fn new(from: u32, to: u32, filter: Filter) -> Weights {
        let scale = f64::from(from) / f64::from(to);
        let filter_scale = scale.max(1.0);
        let support = filter.support() * filter_scale;
        let step = 1.0 / filter_scale;
        let mut spans = Vec::with_capacity(to as usize);
        let mut all = Vec::new();
        let mut exact = Vec::new();
        for at in 0..to {
            let centre = (f64::from(at) + 0.5) * scale;
            // `as` cuts off towards zero and keeps to the range, as the reference does by hand.
            let first = (centre - support + 0.5) as u32;
            let last = ((centre + support + 0.5) as u32).min(from);
            exact.clear();
            exact
                .extend((first..last).map(|x| filter.weight((f64::from(x) - centre + 0.5) * step)));
            let sum: f64 = exact.iter().sum();
            let begin = all.len();
            all.extend(exact.iter().map(|it| {
                let share = if sum == 0.0 { *it } else { it / sum };
                let scaled = share * f64::from(1 << BITS);
                (if share < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
            }));
            spans.push((first as usize, begin, all.len()));
        }
        Weights { spans, all }
    }
}

fn rounded(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

/// Each row at another width.
fn across(image: &Rgb, width: u32, weights: &Weights) -> Rgb {
    let mut out = Rgb::new(width, image.height);
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

/// Each column at another height.
fn down(image: &Rgb, height: u32, weights: &Weights) -> Rgb {
    let mut out = Rgb::new(image.width, height);
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

/// Positions are sums of the scale, as the reference has them: the roundings of the sums decide about pixels.
fn nearest(image: &Rgb, width: u32, height: u32) -> Rgb {
    let positions = |from: u32, to: u32| -> Vec<usize> {
        let scale = f64::from(from) / f64::from(to);
        let mut at = scale * 0.5;
        let mut found = Vec::with_capacity(to as usize);
        for _ in 0..to {
            found.push(at as usize);
            at += scale;
        }
        found
    };
    let columns = positions(image.width, width);
    let rows = positions(image.height, height);
    let mut out = Rgb::new(width, height);
    let stride = out.stride();
    for (row, &y) in out.pixels.chunks_exact_mut(stride).zip(&rows) {
        if y >= image.height as usize {
            continue;
        }
        let input = image.row(y);
        for (pixel, &x) in row.chunks_exact_mut(3).zip(&columns) {
            if let Some(value) = input.get(x * 3..x * 3 + 3) {
                pixel.copy_from_slice(value);
            }
        }
    }
    out
}

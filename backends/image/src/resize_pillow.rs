//! Resizing that equals Pillow's in every byte: two passes, weights of 22 bits, rounded to bytes between the passes.

#[cfg(not(target_arch = "x86_64"))]
use crate::passes::{across, down};
#[cfg(target_arch = "x86_64")]
use crate::passes_x86::{across, down};
use crate::{filter::Filter, rgb::Rgb, weights::Weights};

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

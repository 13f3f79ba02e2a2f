//! Resizing that equals Pillow's in every byte: two passes, weights of 22 bits, rounded to bytes between the passes.

use std::ops::Range;

use crate::{
    filter::Filter,
    part::{ImagePart, View},
    passes::{across, down},
    rgb::Rgb,
    weights::Weights,
};

/// The image at another size.
///
/// `width` and `height` are at least one. Costs about a multiplication per weight, of which there are as many as the
/// filter covers pixels of `image`.
pub fn resize(image: &Rgb, width: u32, height: u32, filter: Filter) -> Rgb {
    resize_part(image, (width, height), filter, &ImagePart::whole(width, height))
}

/// A part of the image at another size. Costs as much as what it is made of.
pub(crate) fn resize_part(
    image: &Rgb,
    (width, height): (u32, u32),
    filter: Filter,
    part: &ImagePart,
) -> Rgb {
    if (image.width, image.height) == (width, height) {
        return View::new(image, part).to_rgb();
    }
    if filter == Filter::Nearest {
        return nearest(image, width, height, part);
    }
    let mut used = part.clone();
    let horizontal = (image.width != width).then(|| {
        let weights = Weights::new(image.width, width, filter, part.columns.clone());
        used.columns = weights.covered();
        weights.without_first(used.columns.start)
    });
    let vertical = (image.height != height).then(|| {
        let weights = Weights::new(image.height, height, filter, part.rows.clone());
        used.rows = weights.covered();
        weights.without_first(used.rows.start)
    });
    let view = View::new(image, &used);
    match (horizontal, vertical) {
        (None, None) => view.to_rgb(),
        (Some(horizontal), None) => across(&view, &horizontal),
        (None, Some(vertical)) => down(&view, &vertical),
        (Some(horizontal), Some(vertical)) if rows_go_first(image, width, height) => {
            let between = down(&view, &vertical);
            across(&View::of(&between), &horizontal)
        }
        (Some(horizontal), Some(vertical)) => {
            let between = across(&view, &horizontal);
            down(&View::of(&between), &vertical)
        }
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
fn nearest(image: &Rgb, width: u32, height: u32, part: &ImagePart) -> Rgb {
    let positions = |from: u32, to: u32, part: &Range<u32>| -> Vec<usize> {
        let scale = f64::from(from) / f64::from(to);
        let mut at = scale * 0.5;
        let mut found = Vec::with_capacity(to as usize);
        for _ in 0..part.end {
            found.push(at as usize);
            at += scale;
        }
        found.split_off(part.start as usize)
    };
    let columns = positions(image.width, width, &part.columns);
    let rows = positions(image.height, height, &part.rows);
    let mut out = Rgb::new(part.columns.len() as u32, part.rows.len() as u32);
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

//! OpenCV's bilinear resize of bytes: weights of 11 bits, and shifts that cut off what does not fit.

use crate::{
    neighbours::{of_column, of_row},
    part::View,
    passes::bilinear,
    rgb::Rgb,
};

/// The image at another size. `width` and `height` are at least one.
pub fn resize_bilinear(image: &Rgb, width: u32, height: u32) -> Rgb {
    if (image.width, image.height) == (width, height) {
        return image.clone();
    }
    let columns: Vec<_> = (0..width).map(|it| of_column(it, image.width, width)).collect();
    let rows: Vec<_> = (0..height).map(|it| of_row(it, image.height, height)).collect();
    bilinear(&View::of(image), &columns, &rows)
}

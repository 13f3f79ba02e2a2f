//! Stored pixels turned and mirrored until they stand upright.

use crate::{exif::Orientation, rgb::Rgb};

/// The image upright. What is upright already is not copied.
pub(crate) fn upright(image: Rgb, orientation: Orientation) -> Rgb {
    let (width, height) = (image.width as usize, image.height as usize);
    if orientation == Orientation::Upright || width == 0 || height == 0 {
        return image;
    }
    let (last_x, last_y) = (width - 1, height - 1);
    // Where the pixel (x, y) of the result is stored.
    let stored = |x: usize, y: usize| match orientation {
        Orientation::Upright => (x, y),
        Orientation::FlipHorizontal => (last_x - x, y),
        Orientation::Rotate180 => (last_x - x, last_y - y),
        Orientation::FlipVertical => (x, last_y - y),
        Orientation::Transpose => (y, x),
        Orientation::Rotate90 => (y, last_y - x),
        Orientation::Transverse => (last_x - y, last_y - x),
        Orientation::Rotate270 => (last_x - y, x),
    };
    let (out_width, out_height) =
        if orientation.swaps() { (image.height, image.width) } else { (image.width, image.height) };
    let mut out = Rgb::new(out_width, out_height);
    let stride = out.stride();
    for (y, row) in out.pixels.chunks_exact_mut(stride).enumerate() {
        for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
            let (from_x, from_y) = stored(x, y);
            pixel.copy_from_slice(&image.pixels[(from_y * width + from_x) * 3..][..3]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of three pixels with the values 1 to 6, turned; the result's rows.
    #[track_caller]
    fn check(orientation: Orientation, expect: &[&[u8]]) {
        let pixels = (1..=6).flat_map(|it| [it; 3]).collect();
        let turned = upright(Rgb { width: 3, height: 2, pixels }, orientation);
        let rows: Vec<Vec<u8>> = (0..turned.height as usize)
            .map(|y| turned.row(y).iter().copied().step_by(3).collect())
            .collect();
        assert_eq!(rows, expect, "{orientation:?}");
    }

    #[test]
    fn each_orientation_is_undone() {
        check(Orientation::Upright, &[&[1, 2, 3], &[4, 5, 6]]);
        check(Orientation::FlipHorizontal, &[&[3, 2, 1], &[6, 5, 4]]);
        check(Orientation::Rotate180, &[&[6, 5, 4], &[3, 2, 1]]);
        check(Orientation::FlipVertical, &[&[4, 5, 6], &[1, 2, 3]]);
        check(Orientation::Transpose, &[&[1, 4], &[2, 5], &[3, 6]]);
        check(Orientation::Rotate90, &[&[4, 1], &[5, 2], &[6, 3]]);
        check(Orientation::Transverse, &[&[6, 3], &[5, 2], &[4, 1]]);
        check(Orientation::Rotate270, &[&[3, 6], &[2, 5], &[1, 4]]);
    }
}

//! A part of an image: which rows and columns, and their pixels without a copy.

use std::ops::Range;

use crate::rgb::Rgb;

/// Rows and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImagePart {
    pub(crate) columns: Range<u32>,
    pub(crate) rows: Range<u32>,
}

impl ImagePart {
    /// All of an image of this size.
    pub(crate) fn whole(width: u32, height: u32) -> ImagePart {
        ImagePart { columns: 0..width, rows: 0..height }
    }
}

/// The pixels of a part.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// From the first pixel of the part to the last of the image.
    pub(crate) pixels: &'a [u8],
    /// Bytes from a row to the next.
    pub(crate) stride: usize,
    /// Pixels in a row.
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl<'a> View<'a> {
    /// All of an image.
    pub(crate) fn of(image: &'a Rgb) -> View<'a> {
        View::new(image, &ImagePart::whole(image.width, image.height))
    }

    /// `part` lies within the image.
    pub(crate) fn new(image: &'a Rgb, part: &ImagePart) -> View<'a> {
        let stride = image.stride();
        let first = part.rows.start as usize * stride + part.columns.start as usize * 3;
        let (width, height) = (part.columns.len() as u32, part.rows.len() as u32);
        View { pixels: &image.pixels[first..], stride, width, height }
    }

    /// Bytes of one row.
    pub(crate) fn length(&self) -> usize {
        self.width as usize * 3
    }

    /// The bytes of row `y`.
    pub(crate) fn row(&self, y: usize) -> &'a [u8] {
        &self.pixels[y * self.stride..][..self.length()]
    }

    /// A copy.
    pub(crate) fn to_rgb(self) -> Rgb {
        let mut out = Rgb::new(self.width, self.height);
        let length = self.length().max(1);
        for (y, row) in out.pixels.chunks_exact_mut(length).enumerate() {
            row.copy_from_slice(self.row(y));
        }
        out
    }
}

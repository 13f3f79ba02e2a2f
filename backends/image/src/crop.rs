//! The middle of an image; an image that is too small is put into zeros.

use crate::{part::ImagePart, rgb::Rgb};

/// A crop around the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crop {
    /// Of the result.
    pub height: u32,
    /// Of the result.
    pub width: u32,
    /// Where an odd difference leaves its last pixel.
    pub rounding: CropRounding,
}

/// Where an odd difference leaves its last pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CropRounding {
    /// As transformers does: cut off behind, filled up in front.
    Transformers,
    /// As torchvision does: half a pixel is rounded to the even number, and the rest is filled up behind.
    Torchvision,
}

/// One direction: the pixels `from..from + length` of the input go to `to..`.
struct Span {
    from: usize,
    to: usize,
    length: usize,
}

impl Crop {
    pub(crate) fn apply(&self, image: &Rgb) -> Rgb {
        if (self.width, self.height) == (image.width, image.height) {
            return image.clone();
        }
        let (across, down) =
            (self.span(image.width, self.width), self.span(image.height, self.height));
        let mut out = Rgb::new(self.width, self.height);
        let stride = out.stride();
        for y in 0..down.length {
            let input = &image.row(down.from + y)[across.from * 3..][..across.length * 3];
            out.pixels[(down.to + y) * stride + across.to * 3..][..input.len()]
                .copy_from_slice(input);
        }
        out
    }

    /// What is left of an image of this size, where nothing is filled up.
    pub(crate) fn part(&self, width: u32, height: u32) -> Option<ImagePart> {
        let is_cut = self.width <= width && self.height <= height;
        is_cut.then(|| {
            let range = |span: Span| span.from as u32..(span.from + span.length) as u32;
            ImagePart {
                columns: range(self.span(width, self.width)),
                rows: range(self.span(height, self.height)),
            }
        })
    }

    /// Rows and columns in front of an image of this size in the result; negative where they are cut off.
    pub(crate) fn before(&self, height: u32, width: u32) -> (i64, i64) {
        let before = |span: Span| span.to as i64 - span.from as i64;
        (before(self.span(height, self.height)), before(self.span(width, self.width)))
    }

    fn span(&self, from: u32, to: u32) -> Span {
        let difference = from.abs_diff(to) as usize;
        let (half, larger_half) = (difference / 2, difference.div_ceil(2));
        let even_half = half + (difference % 2) * (half % 2);
        let (cut, fill) = match self.rounding {
            CropRounding::Transformers => (half, larger_half),
            CropRounding::Torchvision => (even_half, half),
        };
        if from >= to {
            Span { from: cut, to: 0, length: to as usize }
        } else {
            Span { from: 0, to: fill, length: from as usize }
        }
    }
}

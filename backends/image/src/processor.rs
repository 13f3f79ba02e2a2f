//! An image processor as plain values, and what it makes of an image.

use crate::{
    crop::Crop,
    error::ImageError,
    filter::Filter,
    part::ImagePart,
    pixels::{OutputShape, Pixels},
    resize_pillow::resize_part,
    rgb::Rgb,
    size::SizeRule,
    values::{Frame, Values},
};

/// What is done with each image. It is immutable and shared by all threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Processor {
    /// The name of its class, without a suffix.
    pub name: String,
    /// The first step. `None`: the image keeps its size.
    pub resize: Option<(SizeRule, Filter)>,
    /// The steps behind it, in this order.
    pub crops: Vec<Crop>,
    /// Bytes to numbers.
    pub values: Values,
    /// The last step.
    pub pad: Pad,
}

/// Zeros to the right and below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pad {
    /// None.
    None,
    /// To the largest image of a batch, with a mask. An image alone is its own largest.
    ToLargest,
    /// To this size.
    To {
        /// Of the result.
        height: u32,
        /// Of the result.
        width: u32,
        /// Is there a mask of the pixels that are no padding?
        mask: bool,
    },
}

/// Most bytes of weights for a row or column of the larger one of an image and its result: some ten weights in two
/// forms, and where they begin.
const WEIGHTS_OF_PIXEL: u64 = 256;

impl Processor {
    /// The shape of the values: fixed, or dependent on the image.
    pub fn output(&self) -> OutputShape {
        let cropped = self.crops.last().map(|it| (it.height, it.width));
        let resized = self.resize.and_then(|(rule, _)| rule.fixed());
        let size = match self.pad {
            Pad::To { height, width, .. } => Some((height, width)),
            Pad::None | Pad::ToLargest => cropped.or(resized),
        };
        size.map_or(OutputShape::Varies, |(height, width)| {
            OutputShape::Fixed([3, height as usize, width as usize])
        })
    }

    /// The size of the values of an image of this size. It says before any work what the work needs.
    pub fn target(&self, height: u32, width: u32) -> (u32, u32) {
        if let OutputShape::Fixed([_, height, width]) = self.output() {
            return (height as u32, width as u32);
        }
        self.resize.map_or((height, width), |(rule, _)| rule.target(height, width))
    }

    /// How an image of this size lies in the values: what its width and its height are multiplied by, and the columns
    /// and rows in front of it, negative where they are cut off.
    pub fn scale(&self, height: u32, width: u32) -> [f64; 4] {
        let resized = self.resize.map_or((height, width), |(rule, _)| rule.target(height, width));
        let factor = |to: u32, from: u32| f64::from(to) / f64::from(from.max(1));
        let (mut down, mut across) = (0, 0);
        let mut current = resized;
        for crop in &self.crops {
            let (rows, columns) = crop.before(current.0, current.1);
            (down, across) = (down + rows, across + columns);
            current = (crop.height, crop.width);
        }
        let (of_height, of_width) = (factor(resized.0, height), factor(resized.1, width));
        [of_width, of_height, across as f64, down as f64]
    }

    /// Most bytes that [`Processor::apply`] holds for an image of this size, the result included.
    ///
    /// # Errors
    ///
    /// The image cannot be brought to a size within bounds.
    pub fn bytes_to_apply(&self, height: u32, width: u32) -> Result<u64, ImageError> {
        let pixels = |height: u32, width: u32| u64::from(height) * u64::from(width);
        let (to_height, to_width) = match self.resize {
            None => (height, width),
            Some((rule, _)) => rule.bounded(height, width)?,
        };
        // Resized in one direction, then in the other, and cut out of that.
        let between = pixels(to_height, width).max(pixels(height, to_width));
        let resized = 3 * (between + 2 * pixels(to_height, to_width));
        let sides = u64::from(height.max(to_height)) + u64::from(width.max(to_width));
        let (height, width) = self.target(height, width);
        Ok(resized + WEIGHTS_OF_PIXEL * sides + 3 * 4 * pixels(height, width))
    }

    /// The values of an image.
    ///
    /// # Errors
    ///
    /// The image cannot be brought to a size of at least one pixel, or becomes larger than the padding.
    pub fn apply(&self, image: &Rgb) -> Result<Pixels, ImageError> {
        let wrong = |problem: String| ImageError::Shape {
            width: image.width,
            height: image.height,
            problem,
        };
        let (height, width) = match self.resize {
            None => (image.height, image.width),
            Some((rule, _)) => rule.bounded(image.height, image.width)?,
        };
        // What the first crop cuts off need not be made.
        let first = self.crops.first().and_then(|it| it.part(width, height));
        let crops = &self.crops[usize::from(first.is_some())..];
        let part = first.unwrap_or_else(|| ImagePart::whole(width, height));
        let filter = self.resize.map_or(Filter::Nearest, |(_, filter)| filter);
        let mut current = resize_part(image, (width, height), filter, &part);
        for crop in crops {
            current = crop.apply(&current);
        }
        let (height, width) = match self.pad {
            Pad::None | Pad::ToLargest => (current.height, current.width),
            Pad::To { height, width, .. } => (height, width),
        };
        if current.height > height || current.width > width {
            let Rgb { width: has_width, height: has_height, .. } = current;
            return Err(wrong(format!(
                "it becomes {has_width} x {has_height} pixels, and is to be filled up to {width} x {height}"
            )));
        }
        let has_mask = matches!(self.pad, Pad::ToLargest | Pad::To { mask: true, .. });
        let (height, width) = (height as usize, width as usize);
        let frame = Frame { height, width, top: 0, left: 0, shade: None };
        Ok(Pixels {
            shape: [3, height, width],
            values: self.values.planes(&current, &frame),
            mask: has_mask.then_some([current.height as usize, current.width as usize]),
            size: [image.height as usize, image.width as usize],
            placement: None,
        })
    }
}

//! What becomes of the pixels of an image before a graph.

use image::{
    ImageError, OutputShape, Pad, Pixels, Processor, Rgb, SizeRule, letterbox::Letterbox,
    resize_bilinear,
};

use crate::detect::Placed;

/// Most bytes of the weights and sums of a row or column that is resized as by OpenCV.
const BYTES_OF_LINE: u64 = 128;

/// What is done with the pixels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Preparation {
    /// As an image processor of Hugging Face's libraries does it.
    Processor(Processor),
    /// The same behind a resize of OpenCV's, which the processor then lacks.
    OpenCv(SizeRule, Processor),
    /// In the middle of a grey area.
    Letterbox(Letterbox),
}

/// An image that has been prepared.
#[derive(Debug)]
pub(crate) struct PreparedImage {
    pub(crate) pixels: Pixels,
    /// What its width and its height were multiplied by, then columns and rows in front of it.
    pub(crate) scale: [f32; 4],
}

impl Preparation {
    /// The values of an image.
    ///
    /// # Errors
    /// When it cannot be brought to the size of the graph.
    pub(crate) fn apply(&self, image: &Rgb) -> Result<PreparedImage, ImageError> {
        let (height, width) = (image.height, image.width);
        match self {
            Preparation::Processor(processor) => {
                let scale = processor.scale(height, width).map(|it| it as f32);
                Ok(PreparedImage { pixels: processor.apply(image)?, scale })
            }
            Preparation::OpenCv(rule, processor) => {
                let (to_height, to_width) = rule.bounded(height, width)?;
                let resized = resize_bilinear(image, to_width, to_height);
                let mut scale = processor.scale(to_height, to_width);
                scale[0] = f64::from(to_width) / f64::from(width);
                scale[1] = f64::from(to_height) / f64::from(height);
                let mut pixels = processor.apply(&resized)?;
                pixels.size = [height as usize, width as usize];
                Ok(PreparedImage { pixels, scale: scale.map(|it| it as f32) })
            }
            Preparation::Letterbox(letterbox) => {
                let pixels = letterbox.apply(image)?;
                let [_, to_height, to_width] = pixels.shape;
                // The sides of an input are far below 2^32.
                let placed = Placed::of([width, height], [to_width as u32, to_height as u32]);
                let ([x, y], [left, top]) = (placed.gain, placed.padding);
                Ok(PreparedImage { pixels, scale: [x, y, left, top] })
            }
        }
    }

    /// The shape of the values of one image, channels first.
    pub(crate) fn output(&self) -> OutputShape {
        match self {
            Preparation::Processor(processor) => processor.output(),
            Preparation::OpenCv(rule, processor) => match (processor.output(), rule) {
                (OutputShape::Varies, SizeRule::Exact { height, width }) => {
                    OutputShape::Fixed([3, *height as usize, *width as usize])
                }
                (shape, _) => shape,
            },
            Preparation::Letterbox(letterbox) => letterbox.output(),
        }
    }

    /// Height and width of the values of an image of that height and width at most.
    pub(crate) fn most(&self, height: u32, width: u32) -> (u32, u32) {
        match self {
            Preparation::Processor(processor) => processor.target(height, width),
            Preparation::OpenCv(rule, processor) => {
                let (height, width) = rule.target(height, width);
                processor.target(height, width)
            }
            Preparation::Letterbox(letterbox) => letterbox.most(),
        }
    }

    /// Most bytes that making the values of an image of that height and width holds, the values included.
    ///
    /// # Errors
    /// When it cannot be brought to the size of the graph, or would become too large on the way.
    pub(crate) fn bytes_to_apply(&self, height: u32, width: u32) -> Result<u64, ImageError> {
        // Resized, and what each row and column is made of.
        let resized = |height: u32, width: u32| {
            let (height, width) = (u64::from(height), u64::from(width));
            3 * height * width + BYTES_OF_LINE * (height + width)
        };
        match self {
            Preparation::Processor(processor) => processor.bytes_to_apply(height, width),
            Preparation::OpenCv(rule, processor) => {
                let (height, width) = rule.bounded(height, width)?;
                Ok(resized(height, width) + processor.bytes_to_apply(height, width)?)
            }
            Preparation::Letterbox(letterbox) => {
                let (height, width) = letterbox.most();
                Ok(resized(height, width) + 3 * 4 * u64::from(height) * u64::from(width))
            }
        }
    }

    /// What it is, for the log.
    pub(crate) fn describe(&self) -> String {
        let name = match self {
            Preparation::Processor(it) | Preparation::OpenCv(_, it) => &it.name,
            Preparation::Letterbox(_) => "letterbox",
        };
        match self.output() {
            OutputShape::Fixed([_, height, width]) => format!("{name} {height} x {width}"),
            OutputShape::Varies => name.to_owned(),
        }
    }

    /// Does it tell pixels of the image from those that fill up its area?
    pub(crate) fn has_mask(&self) -> bool {
        self.processor().is_some_and(|it| it.pad != Pad::None)
    }

    /// Are images padded to the largest of a request?
    pub(crate) fn pads_to_largest(&self) -> bool {
        self.processor().is_some_and(|it| it.pad == Pad::ToLargest)
    }

    /// By what a value is multiplied to be the byte again that it was. Of a processor that does nothing with bytes.
    pub(crate) fn byte_of_value(&self) -> f32 {
        match self {
            Preparation::Processor(_) | Preparation::OpenCv(..) => 1.0,
            Preparation::Letterbox(_) => 255.0,
        }
    }

    fn processor(&self) -> Option<&Processor> {
        match self {
            Preparation::Processor(it) | Preparation::OpenCv(_, it) => Some(it),
            Preparation::Letterbox(_) => None,
        }
    }
}

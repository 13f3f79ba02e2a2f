//! What Ultralytics' prediction does with an image: a letterbox for detectors, a crop for classifiers.

use crate::{
    crop::{Crop, CropRounding},
    error::ImageError,
    filter::Filter,
    pixels::{OutputShape, Pixels, Placement},
    processor::{Pad, Processor},
    resize_opencv::resize_bilinear,
    rgb::Rgb,
    size::SizeRule,
    values::{ChannelOrder, Frame, Rescale, Values},
};

/// The shade of grey around the image.
const GREY: u8 = 114;

/// The image as large as fits into the input of the graph, in the middle of grey.
#[derive(Debug, Clone, PartialEq)]
pub struct Letterbox {
    height: u32,
    width: u32,
    /// `None`: the input always has the whole size.
    stride: Option<u32>,
    values: Values,
}

impl Letterbox {
    /// For a graph of fixed size, `imgsz` of its metadata.
    pub fn fixed(height: u32, width: u32) -> Letterbox {
        let values = Values::new(Rescale::DivideBy255, &[], ChannelOrder::Rgb);
        Letterbox { height: height.max(1), width: width.max(1), stride: None, values }
    }

    /// For a graph whose height and width are free: grey only up to the next multiple of `stride`.
    pub fn dynamic(height: u32, width: u32, stride: u32) -> Letterbox {
        Letterbox { stride: Some(stride.max(1)), ..Letterbox::fixed(height, width) }
    }

    /// The shape of the values.
    pub fn output(&self) -> OutputShape {
        match self.stride {
            None => OutputShape::Fixed([3, self.height as usize, self.width as usize]),
            Some(_) => OutputShape::Varies,
        }
    }

    /// Height and width of the input, which that of an image of any size does not exceed.
    pub fn most(&self) -> (u32, u32) {
        let whole = |side: u32| self.stride.map_or(side, |stride| side.next_multiple_of(stride));
        (whole(self.height), whole(self.width))
    }

    /// The values of an image.
    ///
    /// # Errors
    ///
    /// The image is so long that nothing is left of its other side.
    pub fn apply(&self, image: &Rgb) -> Result<Pixels, ImageError> {
        let (image_height, image_width) = (f64::from(image.height), f64::from(image.width));
        let gain = (f64::from(self.height) / image_height).min(f64::from(self.width) / image_width);
        let scaled = |side: f64| (side * gain).round_ties_even() as u32;
        let (height, width) = (scaled(image_height), scaled(image_width));
        if height == 0 || width == 0 {
            let problem = format!("it would become {width} x {height} pixels");
            return Err(ImageError::Shape { width: image.width, height: image.height, problem });
        }
        let grey = |most: u32, side: u32| {
            let around = most.saturating_sub(side);
            self.stride.map_or(around, |stride| around % stride)
        };
        // Half a pixel goes behind the image.
        let before = |around: u32| (f64::from(around) / 2.0 - 0.1).round_ties_even() as usize;
        let (around_height, around_width) = (grey(self.height, height), grey(self.width, width));
        let (top, left) = (before(around_height), before(around_width));
        let frame = Frame {
            height: (height + around_height) as usize,
            width: (width + around_width) as usize,
            top,
            left,
            shade: Some(GREY),
        };
        Ok(Pixels {
            shape: [3, frame.height, frame.width],
            values: self.values.planes(&resize_bilinear(image, width, height), &frame),
            mask: None,
            size: [image.height as usize, image.width as usize],
            placement: Some(Placement { gain, left, top }),
        })
    }
}

/// What is left of the preparation of Ultralytics' RT-DETR behind a resize to the whole input: divided by 255.
pub fn stretched() -> Processor {
    Processor {
        name: "Ultralytics".to_owned(),
        resize: None,
        crops: Vec::new(),
        values: Values::new(Rescale::DivideBy255, &[], ChannelOrder::Rgb),
        pad: Pad::None,
    }
}

/// The preparation of Ultralytics' classifiers: the shorter side resized, the middle cut out, divided by 255.
pub fn classify(height: u32, width: u32) -> Processor {
    let rule = if height == width {
        SizeRule::ShortestEdge(height)
    } else {
        SizeRule::Exact { height, width }
    };
    Processor {
        name: "Ultralytics".to_owned(),
        resize: Some((rule, Filter::Bilinear)),
        crops: vec![Crop { height, width, rounding: CropRounding::Torchvision }],
        values: Values::new(Rescale::DivideBy255, &[], ChannelOrder::Rgb),
        pad: Pad::None,
    }
}

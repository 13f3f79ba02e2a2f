//! The step `image`: files of images to the values that a graph takes.
//!
//! Rows of one request have one size. Where the processor pads to the largest image, smaller ones are padded; otherwise
//! an image that becomes another size than the first is refused by its row.

use ::image::{Header, ImageError, OutputShape, Pad, Pixels, Rgb, header, resize_bilinear};
use backend::{BackendError, DataType, NamedTensor, Shape, Tensor};
use half::f16;

pub(super) use super::image_settings::PARAMETERS;
use super::{
    call::{Call, invalid, named},
    image_settings::{ImageSettings, Preparation},
    kind::{Opened, Run},
    ports::{FLOAT, INTEGERS, TEXT, port, spec},
    settings::Settings,
};
use crate::detect::Letterbox;

const IMAGE: &str = "image";
const PIXELS: &str = "pixel_values";
const MASK: &str = "pixel_mask";
pub(super) const SIZE: &str = "size";
pub(super) const SCALE: &str = "scale";

/// Opens it.
///
/// # Errors
/// When a parameter or the file is wrong.
pub(super) fn open(settings: &Settings<'_>) -> Result<Opened, BackendError> {
    let step = ImageSettings::read(settings)?;
    let (height, width) = match step.preparation.output() {
        OutputShape::Fixed([_, height, width]) => (Some(height), Some(width)),
        OutputShape::Varies => (None, None),
    };
    let dims = match step.is_channels_last {
        true => [None, height, width, Some(3)],
        false => [None, Some(3), height, width],
    };
    let dtypes = [step.dtype];
    let outputs = [
        port(PIXELS, &dtypes, &dims),
        port(MASK, INTEGERS, &[None, height, width]),
        port(SIZE, INTEGERS, &[None, Some(2)]),
        port(SCALE, FLOAT, &[None, Some(4)]),
    ];
    let spec = spec(settings.source, &[port(IMAGE, TEXT, &[None, Some(1)])], &outputs);
    Ok(Opened { spec, run: Box::new(step) })
}

/// An image that has been prepared.
struct Prepared {
    pixels: Pixels,
    /// What its width and its height were multiplied by, then columns and rows in front of it.
    scale: [f32; 4],
}

impl Run for ImageSettings {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let tensor = call.tensor(IMAGE)?;
        if tensor.dtype() != DataType::Bytes {
            let problem = format!("it is {}, files of images are BYTES", tensor.dtype());
            return Err(invalid(IMAGE, &problem));
        }
        let files: Vec<&[u8]> = tensor.strings().collect();
        self.check(&files)?;
        let mut rows: Vec<Prepared> = Vec::with_capacity(files.len());
        for (row, file) in files.into_iter().enumerate() {
            call.check()?;
            let prepared = self.prepare(file).map_err(|error| of_row(row, &error))?;
            if let Some(first) = rows.first()
                && first.pixels.shape != prepared.pixels.shape
                && !self.pads()
            {
                let ([_, height, width], [_, first_height, first_width]) =
                    (prepared.pixels.shape, first.pixels.shape);
                let problem = format!(
                    "row {row}: it becomes {width} x {height} pixels, and row 0 {first_width} x {first_height}; \
                     send images that become unequal one by one"
                );
                return Err(invalid(IMAGE, &problem));
            }
            rows.push(prepared);
        }
        let side = |at: usize| rows.iter().map(|it| it.pixels.shape[at]).max().unwrap_or(0);
        let (height, width) = (side(1), side(2));
        let count = rows.len();
        let output = |name: &std::sync::Arc<str>| match &**name {
            SIZE => {
                let size = |it: &Prepared| it.pixels.size.map(|it| it as i64);
                call.integer_output(SIZE, &[count, 2], rows.iter().flat_map(size).collect())
            }
            SCALE => {
                let scales = rows.iter().flat_map(|it| it.scale).collect();
                call.float_output(SCALE, &[count, 4], scales)
            }
            MASK => {
                let masks = rows.iter().flat_map(|it| mask(&it.pixels, height, width)).collect();
                call.integer_output(MASK, &[count, height, width], masks)
            }
            _ => self.values(&rows, height, width),
        };
        call.batch.outputs.iter().map(output).collect()
    }
}

impl ImageSettings {
    /// Refuses images by their headers: one of too many pixels, and together those whose values would be. Nothing is
    /// decoded.
    fn check(&self, files: &[&[u8]]) -> Result<(), BackendError> {
        let varies = self.preparation.output() == OutputShape::Varies;
        let (mut longest, mut widest) = (0u64, 0u64);
        for (row, file) in files.iter().enumerate() {
            let checked = header(file).and_then(|it| it.check(&self.limits).map(|()| it));
            let (height, width) = self.most(&checked.map_err(|error| of_row(row, &error))?);
            (longest, widest) = (longest.max(height.into()), widest.max(width.into()));
            let all = longest.saturating_mul(widest).saturating_mul(row as u64 + 1);
            if varies && row > 0 && all > self.limits.max_pixels {
                let problem = format!(
                    "row {row}: with it the values have {all} pixels, at most {} are taken; send fewer images",
                    self.limits.max_pixels
                );
                return Err(invalid(IMAGE, &problem));
            }
        }
        Ok(())
    }

    /// Height and width of the values of an image at most.
    fn most(&self, header: &Header) -> (u32, u32) {
        let (height, width) = header.upright();
        match &self.preparation {
            Preparation::Processor(processor) => processor.target(height, width),
            Preparation::OpenCv(rule, processor) => {
                let (height, width) = rule.target(height, width);
                processor.target(height, width)
            }
            Preparation::Letterbox(letterbox) => letterbox.most(),
        }
    }

    /// Are images padded to the largest of a request?
    fn pads(&self) -> bool {
        match &self.preparation {
            Preparation::Processor(it) | Preparation::OpenCv(_, it) => it.pad == Pad::ToLargest,
            Preparation::Letterbox(_) => false,
        }
    }

    fn prepare(&self, file: &[u8]) -> Result<Prepared, ImageError> {
        let image = self.decoder.decode(file, &self.limits)?;
        let Rgb { width, height, .. } = image;
        match &self.preparation {
            Preparation::Processor(processor) => {
                let scale = processor.scale(height, width).map(|it| it as f32);
                Ok(Prepared { pixels: processor.apply(&image)?, scale })
            }
            Preparation::OpenCv(rule, processor) => {
                let (to_height, to_width) = rule.bounded(height, width)?;
                let resized = resize_bilinear(&image, to_width, to_height);
                let mut scale = processor.scale(to_height, to_width);
                scale[0] = f64::from(to_width) / f64::from(width);
                scale[1] = f64::from(to_height) / f64::from(height);
                let mut pixels = processor.apply(&resized)?;
                pixels.size = [height as usize, width as usize];
                Ok(Prepared { pixels, scale: scale.map(|it| it as f32) })
            }
            Preparation::Letterbox(letterbox) => {
                let pixels = letterbox.apply(&image)?;
                let [_, to_height, to_width] = pixels.shape;
                // The sides of an input are far below 2^32.
                let lies = Letterbox::of([width, height], [to_width as u32, to_height as u32]);
                let ([x, y], [left, top]) = (lies.gain, lies.padding);
                Ok(Prepared { pixels, scale: [x, y, left, top] })
            }
        }
    }

    /// The values of all rows, of `height` x `width` each: those of smaller images in the upper left of zeros.
    fn values(
        &self,
        rows: &[Prepared],
        height: usize,
        width: usize,
    ) -> Result<NamedTensor, BackendError> {
        let dims = match self.is_channels_last {
            true => [rows.len(), height, width, 3],
            false => [rows.len(), 3, height, width],
        };
        let mut all = vec![0.0f32; rows.len() * 3 * height * width];
        for (row, out) in rows.iter().zip(all.chunks_mut((3 * height * width).max(1))) {
            let [_, rows, columns] = row.pixels.shape;
            let lines = row.pixels.values.chunks_exact(columns.max(1)).enumerate();
            for (line, values) in lines {
                let (channel, y) = (line / rows, line % rows);
                match self.is_channels_last {
                    false => {
                        let from = (channel * height + y) * width;
                        out[from..from + columns].copy_from_slice(values);
                    }
                    true => {
                        let places = out[y * width * 3 + channel..].iter_mut().step_by(3);
                        places.zip(values).for_each(|(place, value)| *place = *value);
                    }
                }
            }
        }
        let shape = Shape::new(&dims);
        let tensor = match self.dtype {
            DataType::Fp16 => {
                let halves: Vec<f16> = all.into_iter().map(f16::from_f32).collect();
                Tensor::from_vec(shape, halves)
            }
            DataType::Uint8 => {
                // A letterbox divides by 255; the quotient of a byte is the byte again when it is rounded.
                let is_divided = matches!(self.preparation, Preparation::Letterbox(_));
                let factor = if is_divided { 255.0 } else { 1.0 };
                let bytes: Vec<u8> =
                    all.into_iter().map(|it| (it * factor).round() as u8).collect();
                Tensor::new(DataType::Uint8, shape, bytes.into())
            }
            _ => Tensor::from_vec(shape, all),
        };
        named(PIXELS, tensor)
    }
}

/// One for each pixel that is no padding.
fn mask(pixels: &Pixels, height: usize, width: usize) -> impl Iterator<Item = i64> + use<> {
    let [_, rows, columns] = pixels.shape;
    let [rows, columns] = pixels.mask.unwrap_or([rows, columns]);
    (0..height * width).map(move |at| i64::from(at / width < rows && at % width < columns))
}

fn of_row(row: usize, error: &ImageError) -> BackendError {
    invalid(IMAGE, &format!("row {row}: {error}"))
}

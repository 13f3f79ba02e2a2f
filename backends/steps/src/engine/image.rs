//! The step `image`: files of images to the values that a graph takes.
//!
//! Rows of one request have one size. Where the processor pads to the largest image, smaller ones are padded; otherwise
//! an image that becomes another size than the first is refused by its row.

use ::image::{Header, ImageError, OutputShape, Pixels, header};
use audio::StillWanted;
use backend::{BackendError, DataType, NamedTensor};

pub(super) use super::image_settings::PARAMETERS;
use super::{
    bounds::granted,
    call::{Call, invalid, named, stopped},
    image_settings::ImageSettings,
    kind::{Opened, Run},
    ports::{FLOAT, INTEGERS, TEXT, port, spec},
    settings::StepSettings,
};
use crate::vision::PreparedImage;

const IMAGE: &str = "image";
const PIXELS: &str = "pixel_values";
const MASK: &str = "pixel_mask";
pub(super) const SIZE: &str = "size";
pub(super) const SCALE: &str = "scale";

/// Opens it.
///
/// # Errors
/// When a parameter or the file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let step = ImageSettings::read(settings)?;
    let (height, width) = match step.preparation.output() {
        OutputShape::Fixed([_, height, width]) => (Some(height), Some(width)),
        OutputShape::Varies => (None, None),
    };
    let [first, second, third] = step.layout.dims(Some(3), height, width);
    let dims = [None, first, second, third];
    let dtypes = [step.layout.dtype];
    let outputs = [
        port(PIXELS, &dtypes, &dims),
        port(MASK, INTEGERS, &[None, height, width]),
        port(SIZE, INTEGERS, &[None, Some(2)]),
        port(SCALE, FLOAT, &[None, Some(4)]),
    ];
    let spec = spec(settings.source, &[port(IMAGE, TEXT, &[None, Some(1)])], &outputs);
    Ok(Opened { spec, run: Box::new(step) })
}

impl Run for ImageSettings {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let tensor = call.tensor(IMAGE)?;
        if tensor.dtype() != DataType::Bytes {
            let problem = format!("it is {}, files of images are BYTES", tensor.dtype());
            return Err(invalid(IMAGE, &problem));
        }
        let files: Vec<&[u8]> = tensor.strings().collect();
        let headers = self.check(&files)?;
        let mut room = self.bounds.room();
        let mut rows: Vec<PreparedImage> = Vec::with_capacity(files.len());
        for (row, (file, header)) in files.into_iter().zip(headers).enumerate() {
            call.check()?;
            let (height, width) = header.upright();
            let bytes = self.preparation.bytes_to_apply(height, width);
            let bytes = bytes.map_err(|error| of_row(row, &error))?;
            let bytes = header.decoded_bytes.saturating_add(bytes);
            granted(room.take(usize::try_from(bytes).unwrap_or(usize::MAX)))?;
            let is_wanted = || !call.batch.stop.is_over();
            let prepared = self.prepare(file, &is_wanted).map_err(|error| match error {
                ImageError::Stopped => stopped(),
                error => of_row(row, &error),
            })?;
            room.keep(size_of_val(&*prepared.pixels.values));
            if let Some(first) = rows.first()
                && first.pixels.shape != prepared.pixels.shape
                && !self.preparation.pads_to_largest()
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
        // The values of all rows beside those of each, and the mask.
        let is_wanted = |name: &str| call.batch.outputs.iter().any(|it| &**it == name);
        let of_pixel = if is_wanted(MASK) { 3 * 4 + 8 } else { 3 * 4 };
        granted(room.take(count * height * width * of_pixel))?;
        let mut output = |name: &std::sync::Arc<str>| match &**name {
            SIZE => {
                let size = |it: &PreparedImage| it.pixels.size.map(|it| it as i64);
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
        let made: Result<_, _> = call.batch.outputs.iter().map(&mut output).collect();
        Ok(room.hold(made?))
    }
}

impl ImageSettings {
    /// Refuses images by their headers: one of too many pixels, and together those whose values would be. What the
    /// headers say; nothing is decoded.
    fn check(&self, files: &[&[u8]]) -> Result<Vec<Header>, BackendError> {
        let varies = self.preparation.output() == OutputShape::Varies;
        let (mut longest, mut widest) = (0u64, 0u64);
        let mut headers = Vec::with_capacity(files.len());
        for (row, file) in files.iter().enumerate() {
            let checked = header(file).and_then(|it| it.check(&self.limits).map(|()| it));
            let header = checked.map_err(|error| of_row(row, &error))?;
            let (height, width) = header.upright();
            headers.push(header);
            let (height, width) = self.preparation.most(height, width);
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
        Ok(headers)
    }

    fn prepare(
        &self,
        file: &[u8],
        is_wanted: StillWanted<'_>,
    ) -> Result<PreparedImage, ImageError> {
        self.preparation.apply(&self.decoder.decode_while(file, &self.limits, is_wanted)?)
    }

    /// The values of all rows, of `height` x `width` each: those of smaller images in the upper left of zeros.
    fn values(
        &self,
        rows: &[PreparedImage],
        height: usize,
        width: usize,
    ) -> Result<NamedTensor, BackendError> {
        let images: Vec<&Pixels> = rows.iter().map(|it| &it.pixels).collect();
        let byte_of_value = self.preparation.byte_of_value();
        let tensor = self.layout.all(&images, [height, width], byte_of_value);
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

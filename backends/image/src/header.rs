//! What an image is by its header. Nothing is decoded, and nothing is allocated in proportion to what it says.

use crate::{
    error::ImageError,
    exif::Orientation,
    format::Format,
    limits::{LONGEST_SIDE, Limits},
};

/// What the header of an image says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// By the first bytes.
    pub format: Format,
    /// Pixels in a row, as they are stored; at least one.
    pub width: u32,
    /// Rows, as they are stored; at least one.
    pub height: u32,
    /// How the pixels are turned to stand upright.
    pub orientation: Orientation,
    /// Most bytes that decoding holds at one time, the result included.
    pub decoded_bytes: u64,
}

impl Header {
    /// A header of which decoding holds `bytes_per_pixel` beside the result.
    pub(crate) fn new(
        format: Format,
        (width, height): (u32, u32),
        orientation: Orientation,
        bytes_per_pixel: u64,
    ) -> Result<Header, ImageError> {
        if width == 0 || height == 0 {
            return Err(ImageError::broken(format, format!("its size is {width} x {height}")));
        }
        let bytes =
            3 + bytes_per_pixel.max(if orientation == Orientation::Upright { 0 } else { 3 });
        let pixels = u64::from(width) * u64::from(height);
        // What decoders hold besides does not grow with the image.
        let decoded_bytes = pixels.saturating_mul(bytes).saturating_add(256 * 1024);
        Ok(Header { format, width, height, orientation, decoded_bytes })
    }

    /// Height and width of the image when it stands upright.
    pub fn upright(&self) -> (u32, u32) {
        if self.orientation.swaps() { (self.width, self.height) } else { (self.height, self.width) }
    }

    /// Width times height.
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Compares it with the limits.
    ///
    /// # Errors
    ///
    /// The header promises more pixels than are allowed, or a side that is too long.
    pub fn check(&self, limits: &Limits) -> Result<(), ImageError> {
        if self.pixels() > limits.max_pixels {
            return Err(ImageError::TooManyPixels {
                width: self.width,
                height: self.height,
                limit: limits.max_pixels,
            });
        }
        if self.width.max(self.height) > LONGEST_SIDE {
            let (width, height, limit) = (self.width, self.height, LONGEST_SIDE);
            return Err(ImageError::TooLong { width, height, limit });
        }
        Ok(())
    }
}

//! Bytes of an image to pixels that stand upright.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    bmp,
    error::ImageError,
    format::{Format, unknown},
    gif,
    header::Header,
    jpeg::{self, JpegDecoder, JpegLibrary, LibraryError},
    limits::Limits,
    orient::upright,
    png,
    rgb::Rgb,
    tiff,
    watched::StillWanted,
    webp,
};

/// Reads the header of an image.
///
/// # Errors
///
/// The format is unknown, or the header is broken or of a kind that is not decoded.
pub fn header(bytes: &[u8]) -> Result<Header, ImageError> {
    match Format::of(bytes).ok_or_else(|| ImageError::UnknownFormat(unknown(bytes)))? {
        Format::Jpeg => jpeg::header(bytes),
        Format::Png => png::header(bytes),
        Format::WebP => webp::header(bytes),
        Format::Gif => gif::header(bytes),
        Format::Bmp => bmp::header(bytes),
        Format::Tiff => tiff::header(bytes),
    }
}

/// Decodes images of all formats. Shared by all threads.
#[derive(Debug)]
pub struct Decoder {
    jpeg: JpegDecoder,
}

impl Decoder {
    /// Looks for the library that decodes JPEG. May read files.
    ///
    /// # Errors
    ///
    /// A library was named, and cannot be opened.
    pub fn open(library: &JpegLibrary) -> Result<Decoder, LibraryError> {
        Ok(Decoder { jpeg: JpegDecoder::open(library)? })
    }

    /// What decodes JPEG: `libjpeg-turbo 2.1.5`, `zune-jpeg`.
    pub fn jpeg(&self) -> &str {
        self.jpeg.name()
    }

    /// Are pixels of JPEG the same as Pillow's, OpenCV's and torchvision's?
    pub fn is_exact(&self) -> bool {
        self.jpeg.is_exact()
    }

    /// The pixels of an image, upright. Blocks for as long as decoding takes.
    ///
    /// # Errors
    ///
    /// The bytes are no image, break its format, or exceed the limits, which are asked before anything is allocated.
    pub fn decode(&self, bytes: &[u8], limits: &Limits) -> Result<Rgb, ImageError> {
        self.decode_while(bytes, limits, &|| true)
    }

    /// The same as long as it is wanted, which is asked after some kilobytes of the file. A lossy WebP, and a JPEG that
    /// libjpeg-turbo decodes, are decoded in one piece.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode`]; [`ImageError::Stopped`] where it is not wanted any more.
    pub fn decode_while(
        &self,
        bytes: &[u8],
        limits: &Limits,
        wanted: StillWanted<'_>,
    ) -> Result<Rgb, ImageError> {
        let header = header(bytes)?;
        header.check(limits)?;
        let decoded = guarded(header.format, || match header.format {
            Format::Jpeg => self.jpeg.decode(bytes, &header, wanted),
            Format::Png => png::decode(bytes, &header, wanted),
            Format::WebP => webp::decode(bytes, &header, wanted),
            Format::Gif => gif::decode(bytes, &header, wanted),
            Format::Bmp => bmp::decode(bytes, &header),
            Format::Tiff => tiff::decode(bytes, &header, wanted),
        });
        // What a decoder says that has been stopped is of no use, and what follows takes its time, too.
        if !wanted() {
            return Err(ImageError::Stopped);
        }
        Ok(upright(decoded?, header.orientation))
    }
}

/// The last line against a decoder that panics: a panic of it is an error of the image.
fn guarded<T>(
    format: Format,
    decode: impl FnOnce() -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    // What the closure borrows is the image and what it made itself; neither is looked at after a panic.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ImageError::broken(format, "its decoder has given up")))
}

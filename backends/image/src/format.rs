//! Which format an image has, by its first bytes.

use std::fmt;

/// The formats that are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Baseline and progressive, grey, colour and CMYK.
    Jpeg,
    /// All depths, palettes and interlacing.
    Png,
    /// Lossy and lossless; of an animation the first frame.
    WebP,
    /// The first frame.
    Gif,
    /// Uncompressed and run-length encoded.
    Bmp,
    /// The first page.
    Tiff,
}

impl Format {
    /// The format of these bytes. `None`: of none that is known.
    pub fn of(bytes: &[u8]) -> Option<Format> {
        match bytes {
            [0xFF, 0xD8, 0xFF, ..] => Some(Format::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some(Format::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Format::WebP),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Format::Gif),
            [b'B', b'M', ..] => Some(Format::Bmp),
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Some(Format::Tiff),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Format::Jpeg => "JPEG",
            Format::Png => "PNG",
            Format::WebP => "WebP",
            Format::Gif => "GIF",
            Format::Bmp => "BMP",
            Format::Tiff => "TIFF",
        })
    }
}

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

/// Files that are no images that are read, by bytes and their place.
const OTHERS: [(usize, &[u8], &str); 12] = [
    (8, b"WAVE", "it is a sound, WAV"),
    (0, b"fLaC", "it is a sound, FLAC"),
    (0, b"OggS", "it is a sound, Ogg"),
    (0, b"ID3", "it is a sound, MP3"),
    (8, b"avif", "it is AVIF"),
    (8, b"heic", "it is HEIC"),
    (0, b"\x00\x00\x00\x0cjP", "it is JPEG 2000"),
    (0, b"\xff\x4f\xff\x51", "it is JPEG 2000"),
    (0, b"\xff\x0a", "it is JPEG XL"),
    (0, b"%PDF", "it is PDF"),
    (0, b"<svg", "it is SVG"),
    (4, b"ftyp", "it is MP4"),
];

/// What bytes of no known format are or begin with.
pub(crate) fn unknown(bytes: &[u8]) -> String {
    let has = |at: usize, what: &[u8]| bytes.get(at..).is_some_and(|it| it.starts_with(what));
    if let Some((.., name)) = OTHERS.iter().find(|(at, what, _)| has(*at, what)) {
        return (*name).to_owned();
    }
    match &bytes[..bytes.len().min(8)] {
        [] => "there are none".to_owned(),
        first => format!("they begin with {first:02x?}"),
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

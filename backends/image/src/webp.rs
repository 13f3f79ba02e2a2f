//! WebP, lossy and lossless; of an animation the first frame.

use image_webp::WebPDecoder;

use crate::{
    error::ImageError,
    exif::{self, Orientation},
    format::Format,
    header::Header,
    rgb::Rgb,
    vp8::partitions_fit,
    watched::{StillWanted, WatchedImage},
};

/// Most chunks that are passed in the search for the orientation.
const MOST_CHUNKS: usize = 10_000;

pub(crate) fn header(bytes: &[u8]) -> Result<Header, ImageError> {
    let size = size(bytes);
    let size = size.ok_or_else(|| ImageError::broken(Format::WebP, "it has no header"))?;
    // Four bytes of a pixel with alpha, and as many of planes within the decoder.
    Header::new(Format::WebP, size, orientation(bytes), 8)
}

fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    let data = bytes.get(20..)?;
    match bytes.get(12..16)? {
        b"VP8X" => Some((number(data.get(4..7)?) + 1, number(data.get(7..10)?) + 1)),
        b"VP8L" if data.first() == Some(&0x2F) => {
            let bits = u32::from_le_bytes(data.get(1..5)?.try_into().ok()?);
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        b"VP8 " => lossy_size(data),
        _ => None,
    }
}

/// The size of a lossy frame by its own first bytes; `None` where they are none of such a frame.
fn lossy_size(frame: &[u8]) -> Option<(u32, u32)> {
    let size = frame.get(3..10)?.strip_prefix(&[0x9D, 0x01, 0x2A])?;
    Some((number(&size[..2]) & 0x3FFF, number(&size[2..]) & 0x3FFF))
}

/// Of up to four bytes, the lowest first.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// The chunks behind each other in these bytes: names, and contents as far as they are there.
struct Chunks<'a>(&'a [u8]);

impl<'a> Iterator for Chunks<'a> {
    type Item = ([u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        let [n, a, m, e, size @ ..] = *head;
        let length = u32::from_le_bytes(size) as usize;
        let content = &rest[..length.min(rest.len())];
        self.0 = rest.get(length + length % 2..).unwrap_or_default();
        Some(([n, a, m, e], content))
    }
}

/// The chunks of the file.
fn chunks(bytes: &[u8]) -> Chunks<'_> {
    Chunks(bytes.get(12..).unwrap_or_default())
}

fn orientation(bytes: &[u8]) -> Orientation {
    let mut chunks = chunks(bytes).take(MOST_CHUNKS);
    let exif = chunks.find(|(name, _)| name == b"EXIF");
    exif.map_or(Orientation::Upright, |(_, exif)| {
        exif::orientation(exif.strip_prefix(b"Exif\0\0").unwrap_or(exif))
    })
}

/// Fails where a lossy frame is not as long, or as large, as the file says outside of it. The decoder takes both from
/// the frame, and makes room, before it compares.
fn check_frames(bytes: &[u8], header: &Header) -> Result<(), ImageError> {
    for (name, content) in chunks(bytes) {
        match &name {
            b"VP8 " => check_frame(content, (header.width, header.height))?,
            // A frame of an animation: where it lies, how large it is, and chunks of its own.
            b"ANMF" => {
                let number = |at: usize| Some(number(content.get(at..at + 3)?) + 1);
                let (Some(width), Some(height)) = (number(6), number(9)) else { continue };
                let inner = Chunks(content.get(16..).unwrap_or_default());
                for (_, frame) in inner.filter(|(name, _)| name == b"VP8 ") {
                    check_frame(frame, (width, height))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_frame(frame: &[u8], expected: (u32, u32)) -> Result<(), ImageError> {
    if !partitions_fit(frame) {
        return Err(ImageError::broken(Format::WebP, "its parts are longer than the file"));
    }
    match lossy_size(frame) {
        Some((width, height)) if (width, height) != expected => {
            let (expected_width, expected_height) = expected;
            Err(ImageError::broken(
                Format::WebP,
                format!(
                    "a frame of {expected_width}x{expected_height} pixels is said to have {width}x{height} where it \
                     begins"
                ),
            ))
        }
        _ => Ok(()),
    }
}

pub(crate) fn decode(
    bytes: &[u8],
    header: &Header,
    wanted: StillWanted<'_>,
) -> Result<Rgb, ImageError> {
    let broken = |error: image_webp::DecodingError| ImageError::broken(Format::WebP, error);
    check_frames(bytes, header)?;
    let mut decoder = WebPDecoder::new(WatchedImage::new(bytes, wanted)).map_err(broken)?;
    decoder.set_memory_limit(usize::try_from(header.decoded_bytes).unwrap_or(usize::MAX));
    if decoder.dimensions() != (header.width, header.height) {
        return Err(ImageError::broken(Format::WebP, "its size is not the one of its header"));
    }
    let pixels = header.width as usize * header.height as usize;
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut raw = vec![0; pixels * channels];
    if decoder.is_animated() {
        decoder.read_frame(&mut raw).map_err(broken)?;
    } else {
        decoder.read_image(&mut raw).map_err(broken)?;
    }
    if channels == 4 {
        // Alpha is dropped. Each pixel moves to the front, where nothing is needed any more.
        for at in 0..pixels {
            raw.copy_within(at * 4..at * 4 + 3, at * 3);
        }
        raw.truncate(pixels * 3);
    }
    Ok(Rgb { width: header.width, height: header.height, pixels: raw })
}

//! WebP, lossy and lossless; of an animation the first frame.

use image_webp::WebPDecoder;

use crate::{
    error::ImageError,
    exif::{self, Orientation},
    format::Format,
    header::Header,
    rgb::Rgb,
    vp8::partitions_fit,
    watched::{StillWanted, Watched},
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
        b"VP8X" => {
            let number = |at: usize| {
                Some(u32::from_le_bytes([
                    *data.get(at)?,
                    *data.get(at + 1)?,
                    *data.get(at + 2)?,
                    0,
                ]))
            };
            Some((number(4)? + 1, number(7)? + 1))
        }
        b"VP8L" if data.first() == Some(&0x2F) => {
            let bits = u32::from_le_bytes(data.get(1..5)?.try_into().ok()?);
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        b"VP8 " if data.get(3..6) == Some(&[0x9D, 0x01, 0x2A]) => {
            let number = |at: usize| {
                Some(u32::from(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?) & 0x3FFF))
            };
            Some((number(6)?, number(8)?))
        }
        _ => None,
    }
}

fn orientation(bytes: &[u8]) -> Orientation {
    let mut at = 12_usize;
    for _ in 0..MOST_CHUNKS {
        let Some([name @ .., a, b, c, d]) = bytes.get(at..at + 8) else { break };
        let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        if name == b"EXIF" {
            let exif = bytes.get(at + 8..at + 8 + length).unwrap_or_default();
            return exif::orientation(exif.strip_prefix(b"Exif\0\0").unwrap_or(exif));
        }
        at += 8 + length + length % 2;
    }
    Orientation::Upright
}

/// Is each lossy frame as long as it says?
fn frames_fit(bytes: &[u8]) -> bool {
    let mut at = 12_usize;
    for _ in 0..MOST_CHUNKS {
        let Some([name @ .., a, b, c, d]) = bytes.get(at..at + 8) else { break };
        let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        match name {
            // A frame of an animation: 16 bytes, and chunks of its own.
            b"ANMF" => at += 8 + 16,
            b"VP8 " => {
                let frame = &bytes[at + 8..bytes.len().min(at + 8 + length)];
                if !partitions_fit(frame) {
                    return false;
                }
                at += 8 + length + length % 2;
            }
            _ => at += 8 + length + length % 2,
        }
    }
    true
}

pub(crate) fn decode(
    bytes: &[u8],
    header: &Header,
    wanted: StillWanted<'_>,
) -> Result<Rgb, ImageError> {
    let broken = |error: image_webp::DecodingError| ImageError::broken(Format::WebP, error);
    if !frames_fit(bytes) {
        return Err(ImageError::broken(Format::WebP, "its parts are longer than the file"));
    }
    let mut decoder = WebPDecoder::new(Watched::new(bytes, wanted)).map_err(broken)?;
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

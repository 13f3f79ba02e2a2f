//! PNG: all depths and colours, interlaced or not, to what Pillow's `convert("RGB")` makes of them.

use png::{BitDepth, ColorType, Transformations};

use crate::{
    error::ImageError,
    exif::{self, Orientation},
    format::Format,
    header::Header,
    palette::{Palette, samples},
    rgb::Rgb,
    watched::{StillWanted, WatchedImage},
};

/// Bytes of a chunk beside its data: length, name, check sum.
const CHUNK: usize = 12;
/// Most chunks that are passed in the search for the orientation.
const MOST_CHUNKS: usize = 100_000;

pub(crate) fn header(bytes: &[u8]) -> Result<Header, ImageError> {
    let broken = |problem: &str| ImageError::broken(Format::Png, problem);
    let first = bytes.get(8..33).ok_or_else(|| broken("it ends within its header"))?;
    if &first[4..8] != b"IHDR" {
        return Err(broken("its first chunk is not IHDR"));
    }
    let number =
        |at: usize| u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
    let samples = match first[17] {
        0 | 3 => 1,
        4 => 2,
        2 => 3,
        6 => 4,
        other => return Err(broken(&format!("colour type {other}"))),
    };
    let depth = match first[16] {
        it @ (1 | 2 | 4 | 8 | 16) => u64::from(it),
        other => return Err(broken(&format!("bit depth {other}"))),
    };
    let bytes_per_pixel = (samples * depth).div_ceil(8);
    Header::new(Format::Png, (number(8), number(12)), orientation(bytes), bytes_per_pixel)
}

fn orientation(bytes: &[u8]) -> Orientation {
    let mut at = 8_usize;
    for _ in 0..MOST_CHUNKS {
        let Some([a, b, c, d, name @ ..]) = bytes.get(at..at + 8) else { break };
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if name == b"eXIf" {
            return exif::orientation(bytes.get(at + 8..at + 8 + length).unwrap_or_default());
        }
        at += length + CHUNK;
    }
    Orientation::Upright
}

pub(crate) fn decode(
    bytes: &[u8],
    header: &Header,
    wanted: StillWanted<'_>,
) -> Result<Rgb, ImageError> {
    let broken = |error: png::DecodingError| ImageError::broken(Format::Png, error);
    let limits = png::Limits { bytes: usize::try_from(header.decoded_bytes).unwrap_or(usize::MAX) };
    let mut decoder = png::Decoder::new_with_limits(WatchedImage::new(bytes, wanted), limits);
    decoder.set_transformations(Transformations::IDENTITY);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(broken)?;
    let size = reader.info().size();
    if size != (header.width, header.height) {
        return Err(ImageError::broken(Format::Png, "its size is not the one of its header"));
    }
    let palette = reader.info().palette.as_deref().map(Palette::new).unwrap_or_default();
    let length = reader.output_buffer_size();
    let length = length.ok_or_else(|| ImageError::broken(Format::Png, "its size overflows"))?;
    let mut raw = vec![0; length];
    let info = reader.next_frame(&mut raw).map_err(broken)?;
    let mut out = Rgb::new(header.width, header.height);
    let stride = out.stride();
    let rows = raw.chunks_exact(info.line_size.max(1));
    for (row, out) in rows.zip(out.pixels.chunks_exact_mut(stride)) {
        convert(row, out, info.color_type, info.bit_depth, &palette);
    }
    Ok(out)
}

fn convert(row: &[u8], out: &mut [u8], color: ColorType, depth: BitDepth, palette: &Palette) {
    let pixels = out.chunks_exact_mut(3);
    let bits = depth as u32;
    match (color, depth) {
        (ColorType::Grayscale, BitDepth::Sixteen) => {
            // Pillow keeps 16 bits here, and makes all that does not fit into 8 bits white.
            for (pixel, value) in pixels.zip(row.chunks_exact(2)) {
                pixel.fill(if value[0] == 0 { value[1] } else { 255 });
            }
        }
        (ColorType::Grayscale, _) => {
            let scale = 255 / ((1_u32 << bits) - 1) as u8;
            for (pixel, value) in pixels.zip(samples(row, bits)) {
                pixel.fill(value * scale);
            }
        }
        (ColorType::Indexed, _) => {
            for (pixel, index) in pixels.zip(samples(row, bits)) {
                pixel.copy_from_slice(&palette.get(index));
            }
        }
        // Of 16 bits the upper 8 are taken.
        (ColorType::GrayscaleAlpha, _) => {
            for (pixel, value) in pixels.zip(row.chunks_exact(2 * bits as usize / 8)) {
                pixel.fill(value[0]);
            }
        }
        (ColorType::Rgb | ColorType::Rgba, _) => {
            let bytes = bits as usize / 8;
            let channels = if color == ColorType::Rgb { 3 } else { 4 };
            for (pixel, value) in pixels.zip(row.chunks_exact(channels * bytes)) {
                for (channel, it) in pixel.iter_mut().enumerate() {
                    *it = value[channel * bytes];
                }
            }
        }
    }
}

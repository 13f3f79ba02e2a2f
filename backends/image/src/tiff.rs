//! The first page of a TIFF, of a list of kinds: grey, RGB, palette and CMYK, not compressed or without loss.

use std::io::{Read, Seek, SeekFrom};

use tiff::{
    ColorType,
    decoder::{Decoder, DecodingResult, Limits},
};

use crate::{
    cmyk,
    error::ImageError,
    exif::{self, Numbers, TiffEntry},
    format::Format,
    header::Header,
    palette::samples,
    rgb::Rgb,
    watched::{StillWanted, WatchedImage},
};

const WIDTH: u16 = 256;
const HEIGHT: u16 = 257;
const BITS: u16 = 258;
const COMPRESSION: u16 = 259;
const PHOTOMETRIC: u16 = 262;
const SAMPLES: u16 = 277;
const COLOR_MAP: u16 = 320;
/// Tags with one value, or one for each sample.
const OF_IMAGE: [u16; 15] = [
    WIDTH,
    HEIGHT,
    BITS,
    COMPRESSION,
    PHOTOMETRIC,
    SAMPLES,
    278,
    284,
    317,
    322,
    323,
    338,
    339,
    530,
    532,
];
/// Most values of these.
const MOST_VALUES: u64 = 16;
/// Tags with a value for each strip or tile: where they lie, and how long they are.
const OF_PARTS: [u16; 4] = [273, 279, 324, 325];
/// Pixels of the smallest tile that is taken in an image of many.
const PIXELS_OF_PART: u64 = 64;
/// The kind of colours that are indices of a palette.
const INDICES: u32 = 3;

fn broken(problem: impl ToString) -> ImageError {
    ImageError::broken(Format::Tiff, problem)
}

fn unsupported(problem: impl ToString) -> ImageError {
    ImageError::unsupported(Format::Tiff, problem)
}

pub(crate) fn header(bytes: &[u8]) -> Result<Header, ImageError> {
    let (numbers, first) = Numbers::new(bytes).ok_or_else(|| broken("it has no header"))?;
    let (mut size, mut bits, mut samples) = ((0, 0), 1_u64, 1_u64);
    for entry in numbers.entries(first) {
        let value = || value(numbers, entry).ok_or_else(|| broken(format!("tag {}", entry.tag)));
        match entry.tag {
            WIDTH => size.0 = value()?,
            HEIGHT => size.1 = value()?,
            BITS => bits = value()?.into(),
            SAMPLES => samples = value()?.into(),
            COMPRESSION => match value()? {
                // None, LZW, Deflate by both of its numbers, PackBits.
                1 | 5 | 8 | 32946 | 32773 => {}
                other => return Err(unsupported(format!("compression {other}"))),
            },
            _ => {}
        }
    }
    let pixels = u64::from(size.0) * u64::from(size.1);
    let most_parts = u64::from(size.0.max(size.1)).max(pixels / PIXELS_OF_PART) * samples.max(1);
    for entry in numbers.entries(first) {
        // The decoder keeps all values of these before it looks at one.
        let most = match entry.tag {
            it if OF_IMAGE.contains(&it) => MOST_VALUES,
            it if OF_PARTS.contains(&it) => most_parts,
            _ => continue,
        };
        if most < u64::from(entry.count) {
            let (tag, count) = (entry.tag, entry.count);
            return Err(broken(format!("tag {tag} has {count} values, at most {most} are taken")));
        }
    }
    if bits > 16 || samples > 8 {
        return Err(unsupported(format!("{samples} samples of {bits} bits")));
    }
    Header::new(Format::Tiff, size, exif::orientation(bytes), 2 * (bits * samples).div_ceil(8))
}

/// The first number of an entry.
fn value(numbers: Numbers<'_>, entry: TiffEntry) -> Option<u32> {
    match (entry.kind, entry.count) {
        (3, 1 | 2) => numbers.u16(entry.at).map(u32::from),
        (3, _) => numbers.u16(numbers.u32(entry.at)? as usize).map(u32::from),
        (4, 1) => numbers.u32(entry.at),
        _ => None,
    }
}

/// The place of a palette: where the kind of colours is written, and 16 bits for each channel of each index.
struct Palette {
    kind_at: usize,
    colours: Vec<u16>,
}

/// The palette of a file that has one.
fn palette(bytes: &[u8]) -> Option<Palette> {
    let (numbers, first) = Numbers::new(bytes)?;
    let entry = |tag| numbers.entries(first).find(|it| it.tag == tag);
    let kind = entry(PHOTOMETRIC).filter(|it| value(numbers, *it) == Some(INDICES))?;
    let map = entry(COLOR_MAP).filter(|it| it.kind == 3 && it.count <= 3 * 256)?;
    let at = numbers.u32(map.at)? as usize;
    let colours = (0..map.count as usize).map(|it| numbers.u16(at + it * 2));
    Some(Palette { kind_at: kind.at, colours: colours.collect::<Option<_>>()? })
}

pub(crate) fn decode(
    bytes: &[u8],
    header: &Header,
    wanted: StillWanted<'_>,
) -> Result<Rgb, ImageError> {
    let Some(palette) = palette(bytes) else {
        return converted(read(WatchedImage::new(bytes, wanted), header)?, header, None);
    };
    // The decoder knows no palettes. It is given the indices as shades of grey.
    let kind = if bytes.first() == Some(&b'I') { [1, 0] } else { [0, 1] };
    let reader =
        Replaced { reader: WatchedImage::new(bytes, wanted), at: palette.kind_at as u64, kind };
    converted(read(reader, header)?, header, Some(&palette.colours))
}

/// A file with another kind of colours than it says. Not a copy: a file may be large.
struct Replaced<R> {
    reader: R,
    /// Where the kind is written.
    at: u64,
    kind: [u8; 2],
}

impl<R: Read + Seek> Read for Replaced<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let from = self.reader.stream_position()?;
        let length = self.reader.read(out)?;
        for (at, byte) in (self.at..).zip(self.kind) {
            let place = at.checked_sub(from).and_then(|it| usize::try_from(it).ok());
            if let Some(place) = place.and_then(|it| out[..length].get_mut(it)) {
                *place = byte;
            }
        }
        Ok(length)
    }
}

impl<R: Seek> Seek for Replaced<R> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.reader.seek(to)
    }
}

/// Samples as the decoder gives them.
enum Raw {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

fn read(reader: impl Read + Seek, header: &Header) -> Result<(ColorType, Raw), ImageError> {
    let most = usize::try_from(header.decoded_bytes).unwrap_or(usize::MAX);
    let mut limits = Limits::default();
    (limits.decoding_buffer_size, limits.intermediate_buffer_size) = (most, most);
    let mut decoder = Decoder::new(reader).map_err(broken)?.with_limits(limits);
    if decoder.dimensions().map_err(broken)? != (header.width, header.height) {
        return Err(broken("its size is not the one of its header"));
    }
    let color = decoder.colortype().map_err(broken)?;
    let raw = match decoder.read_image().map_err(broken)? {
        DecodingResult::U8(bytes) => Raw::Bytes(bytes),
        DecodingResult::U16(words) => Raw::Words(words),
        _ => return Err(unsupported("samples that are no unsigned numbers of at most 16 bits")),
    };
    Ok((color, raw))
}

fn converted(
    (color, raw): (ColorType, Raw),
    header: &Header,
    palette: Option<&[u16]>,
) -> Result<Rgb, ImageError> {
    let mut out = Rgb::new(header.width, header.height);
    let stride = out.stride();
    let channels = usize::from(color.num_samples());
    match (color, raw) {
        (ColorType::Gray(bits @ (1 | 2 | 4 | 8)), Raw::Bytes(raw)) => {
            let line = (header.width as usize * usize::from(bits)).div_ceil(8);
            let scale = 255 / ((1_u32 << bits) - 1) as u8;
            let colour = |index: u8| match palette {
                None => [index * scale; 3],
                Some(palette) => [0, 1, 2].map(|channel| {
                    let at = channel * (palette.len() / 3) + usize::from(index);
                    palette.get(at).map_or(0, |it| (it >> 8) as u8)
                }),
            };
            for (row, raw) in out.pixels.chunks_exact_mut(stride).zip(raw.chunks(line)) {
                for (pixel, value) in row.chunks_exact_mut(3).zip(samples(raw, bits.into())) {
                    pixel.copy_from_slice(&colour(value));
                }
            }
        }
        (ColorType::Gray(16), Raw::Words(raw)) => {
            for (pixel, value) in out.pixels.chunks_exact_mut(3).zip(raw) {
                pixel.fill(u8::try_from(value).unwrap_or(255));
            }
        }
        (ColorType::CMYK(8), Raw::Bytes(raw)) => {
            for (pixel, raw) in out.pixels.chunks_exact_mut(3).zip(raw.chunks_exact(4)) {
                pixel.copy_from_slice(&cmyk::rgb([raw[0], raw[1], raw[2], raw[3]]));
            }
        }
        (ColorType::RGB(8) | ColorType::RGBA(8), Raw::Bytes(raw)) => {
            for (pixel, raw) in out.pixels.chunks_exact_mut(3).zip(raw.chunks_exact(channels)) {
                pixel.copy_from_slice(&raw[..3]);
            }
        }
        (
            ColorType::GrayA(8) | ColorType::Multiband { bit_depth: 8, num_samples: 2 },
            Raw::Bytes(raw),
        ) => {
            for (pixel, raw) in out.pixels.chunks_exact_mut(3).zip(raw.chunks_exact(2)) {
                pixel.fill(raw[0]);
            }
        }
        (ColorType::RGB(16) | ColorType::RGBA(16), Raw::Words(raw)) => {
            for (pixel, raw) in out.pixels.chunks_exact_mut(3).zip(raw.chunks_exact(channels)) {
                for (value, word) in pixel.iter_mut().zip(raw) {
                    *value = (word >> 8) as u8;
                }
            }
        }
        _ => return Err(unsupported(format!("{color:?}"))),
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bytes_are_replaced_wherever_a_read_begins_and_ends() {
        let bytes: Vec<u8> = (10..20).collect();
        for at in 0..9 {
            let mut expect = bytes.clone();
            expect[at..at + 2].copy_from_slice(&[1, 0]);
            for (from, length) in (0..10).flat_map(|from| (1..=10 - from).map(move |it| (from, it)))
            {
                let reader = WatchedImage::new(&bytes, &|| true);
                let mut replaced = Replaced { reader, at: at as u64, kind: [1, 0] };
                replaced.seek(SeekFrom::Start(from as u64)).unwrap();
                let mut out = vec![0; length];
                replaced.read_exact(&mut out).unwrap();
                assert_eq!(out, expect[from..from + length], "{at} {from} {length}");
            }
        }
    }
}

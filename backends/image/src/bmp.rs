//! BMP: 1 to 32 bits, palettes, bit fields, run lengths, as Pillow reads them.

use crate::{
    error::ImageError,
    exif::Orientation,
    format::Format,
    header::Header,
    palette::{Palette, samples},
    rgb::Rgb,
};

/// How pixels are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    Plain,
    RunLengths,
    BitFields,
}

/// What stands in front of the pixels.
#[derive(Debug, Clone, Copy)]
struct Layout {
    width: u32,
    height: u32,
    is_top_down: bool,
    bits: u16,
    storage: Storage,
    /// Bytes of the file's and the bitmap's header.
    headers: usize,
    /// Bytes of a colour of the palette.
    colour: usize,
    colours: usize,
    /// Where the pixels begin.
    pixels: usize,
}

fn broken(problem: impl ToString) -> ImageError {
    ImageError::broken(Format::Bmp, problem)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ImageError> {
    let found = bytes.get(at..at + 2).and_then(|it| it.try_into().ok());
    found.map(u16::from_le_bytes).ok_or_else(|| broken("it ends within its header"))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, ImageError> {
    let found = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    found.map(u32::from_le_bytes).ok_or_else(|| broken("it ends within its header"))
}

impl Layout {
    fn read(bytes: &[u8]) -> Result<Layout, ImageError> {
        let pixels = u32_at(bytes, 10)? as usize;
        let size = u32_at(bytes, 14)?;
        let layout = match size {
            12 => {
                let (width, height) = (u16_at(bytes, 18)?.into(), u16_at(bytes, 20)?.into());
                let bits = u16_at(bytes, 24)?;
                Layout {
                    width,
                    height,
                    is_top_down: false,
                    bits,
                    storage: Storage::Plain,
                    headers: 14 + 12,
                    colour: 3,
                    colours: 1 << bits.min(8),
                    pixels,
                }
            }
            40 | 52 | 56 | 64 | 108 | 124 => {
                let height = u32_at(bytes, 22)? as i32;
                let bits = u16_at(bytes, 28)?;
                let storage = match (u32_at(bytes, 30)?, bits) {
                    (0, _) => Storage::Plain,
                    (1, 8) | (2, 4) => Storage::RunLengths,
                    (3, 16 | 24 | 32) => Storage::BitFields,
                    (other, bits) => {
                        let problem = format!("compression {other} of {bits} bits");
                        return Err(ImageError::unsupported(Format::Bmp, problem));
                    }
                };
                let colours = match u32_at(bytes, 46)? {
                    0 => 1 << bits.min(8),
                    some => some.min(256) as usize,
                };
                // Of the smallest header the masks of bit fields lie behind it.
                let masks = if size == 40 && storage == Storage::BitFields { 12 } else { 0 };
                Layout {
                    width: u32_at(bytes, 18)?,
                    height: height.unsigned_abs(),
                    is_top_down: height < 0,
                    bits,
                    storage,
                    headers: 14 + size as usize + masks,
                    colour: 4,
                    colours,
                    pixels,
                }
            }
            other => {
                return Err(ImageError::unsupported(
                    Format::Bmp,
                    format!("a header of {other} bytes"),
                ));
            }
        };
        if !matches!(layout.bits, 1 | 2 | 4 | 8 | 16 | 24 | 32) {
            return Err(broken(format!("{} bits of a pixel", layout.bits)));
        }
        Ok(layout)
    }

    fn palette(&self, bytes: &[u8]) -> Palette {
        let colours = bytes.get(self.headers..).unwrap_or_default();
        let colours = colours.chunks_exact(self.colour).take(self.colours);
        let colours: Vec<u8> = colours.flat_map(|it| [it[2], it[1], it[0]]).collect();
        Palette::new(&colours)
    }

    /// Shift and bits of red, green and blue.
    fn fields(&self, bytes: &[u8]) -> Result<[(u32, u32); 3], ImageError> {
        match (self.storage, self.bits) {
            (Storage::BitFields, _) => {}
            (_, 16) => return Ok([(10, 5), (5, 5), (0, 5)]),
            _ => return Ok([(16, 8), (8, 8), (0, 8)]),
        }
        let masks = [u32_at(bytes, 54)?, u32_at(bytes, 58)?, u32_at(bytes, 62)?];
        let unsupported = || {
            let problem = format!("bit fields {masks:x?} of {} bits", self.bits);
            ImageError::unsupported(Format::Bmp, problem)
        };
        if masks == [0; 3] && self.bits == 32 {
            return Ok([(16, 8), (8, 8), (0, 8)]);
        }
        let fields = masks.map(|it| (it.trailing_zeros(), it.count_ones()));
        let is_known = match self.bits {
            16 => matches!(fields, [(11, 5), (5, 6), (0, 5)] | [(10, 5), (5, 5), (0, 5)]),
            24 => fields == [(16, 8), (8, 8), (0, 8)],
            _ => fields.iter().all(|(shift, bits)| *bits == 8 && shift % 8 == 0),
        };
        let is_whole = masks.iter().zip(fields).all(|(mask, (shift, bits))| {
            bits > 0 && shift < 32 && u64::from(*mask) == ((1_u64 << bits) - 1) << shift
        });
        if is_known && is_whole { Ok(fields) } else { Err(unsupported()) }
    }
}

pub(crate) fn header(bytes: &[u8]) -> Result<Header, ImageError> {
    let layout = Layout::read(bytes)?;
    Header::new(Format::Bmp, (layout.width, layout.height), Orientation::Upright, 1)
}

pub(crate) fn decode(bytes: &[u8], _: &Header) -> Result<Rgb, ImageError> {
    let layout = Layout::read(bytes)?;
    let data = bytes.get(layout.pixels..).ok_or_else(|| broken("it has no pixels"))?;
    let width = layout.width as usize;
    let mut out = Rgb::new(layout.width, layout.height);
    let stride = out.stride();
    let expanded;
    let (data, line, bits) = if layout.storage == Storage::RunLengths {
        expanded = run_lengths(bytes, &layout)?;
        (&*expanded, width, 8)
    } else {
        (data, (width * usize::from(layout.bits)).div_ceil(32) * 4, layout.bits)
    };
    let rows = layout.height as usize;
    // The last row may lack what fills it up.
    let needed = (line * (rows - 1)).saturating_add((width * usize::from(bits)).div_ceil(8));
    if data.len() < needed {
        return Err(broken(format!("it has {} bytes of pixels, expected {needed}", data.len())));
    }
    let (palette, fields) = (layout.palette(bytes), layout.fields(bytes)?);
    for (y, row) in data.chunks(line).take(rows).enumerate() {
        let y = if layout.is_top_down { y } else { rows - 1 - y };
        let pixels = out.pixels[y * stride..][..stride].chunks_exact_mut(3);
        if bits <= 8 {
            for (pixel, index) in pixels.zip(samples(row, bits.into())) {
                pixel.copy_from_slice(&palette.get(index));
            }
            continue;
        }
        for (pixel, raw) in pixels.zip(row.chunks_exact(usize::from(bits) / 8)) {
            let mut word = [0; 4];
            word[..raw.len()].copy_from_slice(raw);
            let word = u32::from_le_bytes(word);
            for (value, (shift, bits)) in pixel.iter_mut().zip(fields) {
                let most = (1_u32 << bits) - 1;
                *value = ((word >> shift & most) * 255 / most) as u8;
            }
        }
    }
    Ok(out)
}

/// Runs of indices, from the bottom, to one byte for each pixel. As Pillow does it: runs end with their row, and a file
/// that ends before its last pixel is broken.
fn run_lengths(bytes: &[u8], layout: &Layout) -> Result<Vec<u8>, ImageError> {
    let width = layout.width as usize;
    let total = width * layout.height as usize;
    let mut out = Vec::with_capacity(total);
    let (mut at, mut x) = (layout.pixels, 0);
    while out.len() < total {
        let Some(&[count, value]) = bytes.get(at..at + 2) else { break };
        at += 2;
        match (usize::from(count), value) {
            (0, 0) => {
                out.resize(out.len().next_multiple_of(width), 0);
                x = 0;
            }
            (0, 1) => break,
            (0, 2) => {
                let Some(&[right, up]) = bytes.get(at..at + 2) else { break };
                at += 2;
                let skipped = usize::from(right) + usize::from(up) * width;
                out.resize((out.len() + skipped).min(total), 0);
                x = out.len() % width;
            }
            (0, indices) => {
                let count = usize::from(indices).min(total - out.len());
                let length = (count * usize::from(layout.bits)).div_ceil(8);
                let Some(raw) = bytes.get(at..at + length) else { break };
                out.extend(samples(raw, layout.bits.into()).take(count));
                // The next run begins at an even place of the file.
                at = (at + length).next_multiple_of(2);
                x += usize::from(indices);
            }
            (count, value) => {
                let count = count.min(width.saturating_sub(x)).min(total - out.len());
                let pair = if layout.bits == 8 { [value; 2] } else { [value >> 4, value & 15] };
                out.extend(pair.iter().cycle().take(count));
                x += count;
            }
        }
    }
    if out.len() < total {
        return Err(broken("it ends within its pixels"));
    }
    Ok(out)
}

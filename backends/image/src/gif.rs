//! The first frame of a GIF.

use gif::{ColorOutput, DecodeOptions, MemoryLimit};

use crate::{
    error::ImageError,
    exif::Orientation,
    format::Format,
    header::Header,
    palette::Palette,
    rgb::Rgb,
    watched::{StillWanted, WatchedImage},
};

pub(crate) fn header(bytes: &[u8]) -> Result<Header, ImageError> {
    let [.., a, b, c, d] = bytes.get(..10).unwrap_or_default() else {
        return Err(ImageError::broken(Format::Gif, "it ends within its header"));
    };
    let size = (u16::from_le_bytes([*a, *b]).into(), u16::from_le_bytes([*c, *d]).into());
    Header::new(Format::Gif, size, Orientation::Upright, 1)
}

pub(crate) fn decode(
    bytes: &[u8],
    header: &Header,
    wanted: StillWanted<'_>,
) -> Result<Rgb, ImageError> {
    let broken = |problem: &dyn ToString| ImageError::broken(Format::Gif, problem.to_string());
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    options.check_frame_consistency(true);
    if let Some(limit) = std::num::NonZeroU64::new(header.decoded_bytes) {
        options.set_memory_limit(MemoryLimit::Bytes(limit));
    }
    let mut decoder =
        options.read_info(WatchedImage::new(bytes, wanted)).map_err(|it| broken(&it))?;
    let global = decoder.global_palette().map(<[u8]>::to_vec);
    let frame = decoder.read_next_frame().map_err(|it| broken(&it))?;
    let frame = frame.ok_or_else(|| broken(&"it has no frame"))?;
    let palette = frame.palette.clone().or(global);
    let palette = palette.map_or_else(Palette::grey, |it| Palette::new(&it));
    // Around the frame lies the transparent colour, or the first.
    let around = palette.get(frame.transparent.unwrap_or(0));
    let mut out = Rgb::new(header.width, header.height);
    for pixel in out.pixels.chunks_exact_mut(3) {
        pixel.copy_from_slice(&around);
    }
    let stride = out.stride();
    let left = usize::from(frame.left) * 3;
    let rows = out.pixels.chunks_exact_mut(stride).skip(usize::from(frame.top));
    for (row, indices) in rows.zip(frame.buffer.chunks_exact(usize::from(frame.width).max(1))) {
        for (pixel, index) in row[left.min(stride)..].chunks_exact_mut(3).zip(indices) {
            pixel.copy_from_slice(&palette.get(*index));
        }
    }
    Ok(out)
}

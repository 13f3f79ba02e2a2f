//! JPEG by zune-jpeg, which is part of the program. Its pixels differ a little from libjpeg-turbo's.

use zune_core::{colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

use super::watched_reader::WatchedReader;
use crate::{error::ImageError, format::Format, header::Header, rgb::Rgb, watched::StillWanted};

/// Fails where the image is not wanted any more.
pub(super) fn decode(
    bytes: &[u8],
    header: &Header,
    wanted: StillWanted<'_>,
) -> Result<Rgb, ImageError> {
    let broken = |problem: &dyn ToString| ImageError::broken(Format::Jpeg, problem.to_string());
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_max_width(header.width as usize)
        .set_max_height(header.height as usize);
    let mut decoder = JpegDecoder::new_with_options(WatchedReader::new(bytes, wanted), options);
    decoder.decode_headers().map_err(|it| broken(&it))?;
    let mut out = Rgb::new(header.width, header.height);
    if decoder.output_buffer_size() != Some(out.pixels.len()) {
        return Err(broken(&"its size is not the one of its header"));
    }
    decoder.decode_into(&mut out.pixels).map_err(|it| broken(&it))?;
    Ok(out)
}

//! The decoder of JPEG that was found.

use super::{
    library::{JpegLibrary, LibraryError},
    markers::{check_scans, frame},
    turbo::Turbo,
    zune,
};
use crate::{cmyk, error::ImageError, header::Header, rgb::Rgb, watched::StillWanted};

/// Decodes JPEG. Shared by all threads.
#[derive(Debug)]
pub(crate) struct JpegDecoder {
    /// `None`: zune-jpeg.
    library: Option<Turbo>,
}

impl JpegDecoder {
    pub(crate) fn open(library: &JpegLibrary) -> Result<JpegDecoder, LibraryError> {
        for candidate in library.candidates() {
            match (Turbo::open(&candidate), library) {
                (Ok(library), _) => return Ok(JpegDecoder { library: Some(library) }),
                (Err(error), JpegLibrary::File(_)) => return Err(error),
                (Err(_), JpegLibrary::Auto | JpegLibrary::None) => {}
            }
        }
        Ok(JpegDecoder { library: None })
    }

    pub(crate) fn name(&self) -> &str {
        self.library.as_ref().map_or("zune-jpeg", Turbo::name)
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.library.is_some()
    }

    /// Of the two decoders the one inside ends where the image is not wanted any more; the library takes it in one
    /// piece, of which [`check_scans`] bounds the time.
    pub(crate) fn decode(
        &self,
        bytes: &[u8],
        header: &Header,
        wanted: StillWanted<'_>,
    ) -> Result<Rgb, ImageError> {
        let frame = frame(bytes)?;
        check_scans(bytes, &frame)?;
        let (width, height) = (header.width, header.height);
        let Some(library) = &self.library else { return zune::decode(bytes, header, wanted) };
        if frame.components < 4 {
            let mut out = Rgb::new(width, height);
            library.decode_rgb(bytes, (width, height), &mut out.pixels)?;
            return Ok(out);
        }
        let mut inks = vec![0; width as usize * height as usize * 4];
        library.decode_cmyk(bytes, (width, height), &mut inks)?;
        let mut out = Rgb::new(width, height);
        for (pixel, inks) in out.pixels.chunks_exact_mut(3).zip(inks.chunks_exact(4)) {
            // Adobe's programs store inks inverted, and Pillow takes all files as theirs.
            let inks = [255 - inks[0], 255 - inks[1], 255 - inks[2], 255 - inks[3]];
            pixel.copy_from_slice(&cmyk::rgb(inks));
        }
        Ok(out)
    }
}

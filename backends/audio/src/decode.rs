//! A sound's header, and its samples.

use crate::{
    bounds::check, error::SoundError, format::Format, header::Header, limits::Limits,
    packets::Stream, resample::resample, sniff::format_of, wav::Wav,
};

/// Samples of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    /// Samples a second.
    pub rate: u32,
    /// Between -1 and 1, or beyond where the file says so. Never empty, and all finite.
    pub samples: Vec<f32>,
}

/// What the header says, within the limits. Samples are not decoded, and memory of the size of the sound is not taken.
/// Packets of MP3 are counted where no tag says their number.
///
/// # Errors
/// When the form is not read, the header is broken, or the sound is out of bounds.
pub fn inspect(bytes: &[u8], limits: &Limits) -> Result<Header, SoundError> {
    let header = match format_of(bytes)? {
        Format::Wav => Wav::open(bytes)?.header,
        format => {
            let stream = Stream::open(format, bytes)?;
            check(&stream.header, limits)?;
            stream.counted(limits)
        }
    };
    check(&header, limits)?;
    Ok(header)
}

/// The samples at the sound's own rate, channels averaged. Takes time in proportion to the length of the sound.
///
/// # Errors
/// As [`inspect`], and when the samples are broken, too many or none.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Sound, SoundError> {
    let format = format_of(bytes)?;
    let (rate, samples) = match format {
        Format::Wav => {
            let wav = Wav::open(bytes)?;
            check(&wav.header, limits)?;
            (wav.header.rate, wav.samples()?)
        }
        _ => {
            let stream = Stream::open(format, bytes)?;
            check(&stream.header, limits)?;
            (stream.header.rate, stream.samples(limits)?)
        }
    };
    match samples.is_empty() {
        true => Err(SoundError::Empty(format)),
        false => Ok(Sound { rate, samples }),
    }
}

/// The samples at `rate`.
///
/// # Errors
/// As [`decode`].
pub fn read(bytes: &[u8], rate: u32, limits: &Limits) -> Result<Vec<f32>, SoundError> {
    let sound = decode(bytes, limits)?;
    Ok(resample(sound.samples, sound.rate, rate))
}

//! A sound's header, and its samples.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    bounds::check, error::SoundError, format::Format, header::Header, limits::Limits,
    packets::Stream, resample::resample_while, sniff::format_of, watched::StillWanted, wav::Wav,
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
        format => guarded(format, || {
            let stream = Stream::open(format, bytes, &|| true)?;
            check(&stream.header, limits)?;
            Ok(stream.counted(limits))
        })?,
    };
    check(&header, limits)?;
    Ok(header)
}

/// The samples at the sound's own rate, channels averaged. Takes time in proportion to the length of the sound.
///
/// # Errors
/// As [`inspect`], and when the samples are broken, too many or none.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Sound, SoundError> {
    decode_while(bytes, limits, &|| true)
}

fn decode_while(
    bytes: &[u8],
    limits: &Limits,
    wanted: StillWanted<'_>,
) -> Result<Sound, SoundError> {
    let format = format_of(bytes)?;
    let (rate, samples) = match format {
        Format::Wav => {
            let wav = Wav::open(bytes)?;
            check(&wav.header, limits)?;
            (wav.header.rate, wav.samples()?)
        }
        _ => guarded(format, || {
            let stream = Stream::open(format, bytes, wanted)?;
            check(&stream.header, limits)?;
            Ok((stream.header.rate, stream.samples(limits, wanted)?))
        })?,
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
    read_while(bytes, rate, limits, &|| true)
}

/// The same as long as it is wanted, which is asked after every packet and some thousand samples.
///
/// # Errors
/// As [`decode`]; [`SoundError::Stopped`] where it is not wanted any more.
pub fn read_while(
    bytes: &[u8],
    rate: u32,
    limits: &Limits,
    wanted: StillWanted<'_>,
) -> Result<Vec<f32>, SoundError> {
    // What a decoder says that has been stopped is of no use.
    let sound = decode_while(bytes, limits, wanted)
        .map_err(|error| if wanted() { error } else { SoundError::Stopped })?;
    resample_while(sound.samples, sound.rate, rate, wanted)
}

/// The last line against a decoder that panics: a panic of it is an error of the sound.
fn guarded<T>(
    format: Format,
    decode: impl FnOnce() -> Result<T, SoundError>,
) -> Result<T, SoundError> {
    // What the closure borrows is the sound and what it made itself; neither is looked at after a panic.
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        let problem = "its decoder has given up".to_owned();
        Err(SoundError::Broken { format, at: 0, problem })
    })
}

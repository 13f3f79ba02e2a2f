//! Why a sound cannot be read.

use crate::format::Format;

/// Why a sound cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SoundError {
    /// It is of no form that is read.
    #[error("the sound is no WAV, FLAC, MP3 or Ogg Vorbis: {0}")]
    Unknown(String),
    /// The form is read, but not in this variety.
    #[error("the sound is {format} with {what}, which is not read")]
    Unsupported {
        /// Its form.
        format: Format,
        /// What is not read of it.
        what: String,
    },
    /// The bytes are not what the form says.
    #[error("the sound is {format} and broken at byte {at}: {problem}")]
    Broken {
        /// Its form.
        format: Format,
        /// The byte, counted from 0.
        at: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A compressed stream cannot be decoded on.
    #[error("the sound is {format} and broken after {samples} samples: {problem}")]
    BrokenStream {
        /// Its form.
        format: Format,
        /// Samples of each channel before that.
        samples: u64,
        /// What is wrong there.
        problem: String,
    },
    /// More seconds than are taken.
    #[error("the sound has {what}{seconds:.1} s, at most {allowed} s are taken")]
    TooLong {
        /// `""`, or `"more than "` where its end was not reached.
        what: &'static str,
        /// Its length.
        seconds: f64,
        /// The bound.
        allowed: f64,
    },
    /// A stream that goes on behind the number of samples in its header.
    #[error("the sound is {format} and has more than the {said} samples that its header says")]
    LongerThanSaid {
        /// Its form.
        format: Format,
        /// Samples of each channel by its header.
        said: u64,
    },
    /// Its rate is out of bounds.
    #[error("the sound has {rate} samples a second, {least} to {most} are taken")]
    Rate {
        /// Its rate.
        rate: u32,
        /// The lowest that is taken.
        least: u32,
        /// The highest that is taken.
        most: u32,
    },
    /// Its channels are too many, or none.
    #[error("the sound has {channels} channels, 1 to {most} are taken")]
    Channels {
        /// Its channels.
        channels: usize,
        /// The bound.
        most: usize,
    },
    /// It was given up, since nobody waits for it any more.
    #[error("the sound is not wanted any more")]
    Stopped,
    /// It has no samples.
    #[error("the sound is {0} without any samples")]
    Empty(Format),
}

impl SoundError {
    /// Is the sound refused for its size rather than for what it is?
    pub fn is_too_large(&self) -> bool {
        matches!(self, SoundError::TooLong { .. })
    }
}

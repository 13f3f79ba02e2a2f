//! The forms of sounds that are read.

/// A form of sounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// RIFF WAVE.
    Wav,
    /// FLAC in its own container.
    Flac,
    /// MPEG layer III.
    Mp3,
    /// Vorbis in Ogg.
    Ogg,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Wav => "WAV",
            Format::Flac => "FLAC",
            Format::Mp3 => "MP3",
            Format::Ogg => "Ogg Vorbis",
        })
    }
}

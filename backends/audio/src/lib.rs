//! Sounds as files → samples of one channel at one rate → what models of speech take. Pure: no file, no thread.
//!
//! [`inspect`] reads the header only: how much memory the samples take at most is known before any is taken.
//! [`decode`] gives the samples at the sound's own rate, [`resample`] brings them to another, and [`read`] does all of
//! it. WAV is read by `wav`; FLAC, MP3 and Ogg Vorbis by `symphonia`. Arbitrary bytes are an error, never a panic.
#![forbid(unsafe_code)]

mod bounds;
mod decode;
mod error;
mod features;
mod format;
mod header;
mod limits;
mod log_mel;
mod mel;
mod mp3;
mod packets;
mod resample;
mod sniff;
mod spectrum;
mod vorbis;
mod watched;
mod wav;

pub use decode::{Sound, decode, inspect, read, read_while};
pub use error::SoundError;
pub use features::{Features, Wav2Vec2};
pub use format::Format;
pub use header::Header;
pub use limits::Limits;
pub use log_mel::{Ast, LogMel, Whisper};
pub use resample::resample;
pub use watched::StillWanted;

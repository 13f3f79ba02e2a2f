//! FLAC, MP3 and Ogg Vorbis, packet by packet.

use symphonia::{
    core::{
        codecs::audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_VORBIS,
        },
        errors::Error,
        formats::{FormatOptions, FormatReader, TrackType},
        io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions},
    },
    default::{
        codecs::{FlacDecoder, MpaDecoder, VorbisDecoder},
        formats::{FlacReader, MpaReader, OggReader},
    },
};

use crate::{
    bounds::too_long,
    error::SoundError,
    format::Format,
    header::{Header, OF_DECODER},
    limits::Limits,
    mp3,
    sniff::without_tags,
    vorbis,
    watched::{StillWanted, WatchedSound},
};

impl MediaSource for WatchedSound<'_> {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length())
    }
}

/// A compressed sound whose header has been read.
pub(crate) struct Stream<'a> {
    pub(crate) header: Header,
    reader: Box<dyn FormatReader + 'a>,
    parameters: AudioCodecParameters,
    track: u32,
    /// Are samples that the encoder has put in front and behind left out?
    gapless: bool,
}

/// Packets of a stream of MP3 may begin with what an earlier one holds, so some that are broken are no fault.
const BROKEN_PACKETS: usize = 16;

impl<'a> Stream<'a> {
    /// Reads no further than it is wanted.
    pub(crate) fn open(
        format: Format,
        file: &'a [u8],
        wanted: StillWanted<'a>,
    ) -> Result<Stream<'a>, SoundError> {
        let unreadable = |problem: String| SoundError::Broken { format, at: 0, problem };
        let bytes = match format {
            Format::Mp3 => frames_of_mp3(file)?,
            Format::Flac | Format::Ogg | Format::Wav => file,
        };
        if format == Format::Flac {
            check_flac(file)?;
        }
        let source = Box::new(WatchedSound::new(bytes, wanted));
        let stream = MediaSourceStream::new(source, MediaSourceStreamOptions::default());
        let options = FormatOptions::default();
        let reader: Result<Box<dyn FormatReader + 'a>, Error> = match format {
            Format::Flac => FlacReader::try_new(stream, options).map(|it| Box::new(it) as _),
            Format::Ogg => OggReader::try_new(stream, options).map(|it| Box::new(it) as _),
            Format::Mp3 => MpaReader::try_new(stream, options).map(|it| Box::new(it) as _),
            Format::Wav => return Err(unreadable("it is read elsewhere".to_owned())),
        };
        let reader = reader.map_err(|error| unreadable(said(&error)))?;
        let track = reader.default_track(TrackType::Audio);
        let track = track.ok_or_else(|| unreadable("it has no sound that is read".to_owned()))?;
        let parameters = track.codec_params.as_ref().and_then(|it| it.audio()).cloned();
        let parameters =
            parameters.ok_or_else(|| unreadable("its coding is not said".to_owned()))?;
        let rate = parameters.sample_rate;
        let channels = parameters.channels.as_ref().map_or(0, |it| it.count());
        // Without a tag the length of a file of MP3 is an estimate, by which its end must not be cut.
        let gapless = format != Format::Mp3 || track.delay.is_some();
        let samples = track.num_frames.filter(|it| *it > 0 && gapless);
        let header = Header {
            format,
            rate: rate.unwrap_or(0),
            channels,
            samples,
            decoder: OF_DECODER + tables(&parameters, channels)?,
        };
        Ok(Stream { header, track: track.id, reader, parameters, gapless })
    }

    /// The header. Where it does not have the number of samples, which is usual for MP3 without a tag, the packets of
    /// such a file are counted up to the bound.
    pub(crate) fn counted(mut self, limits: &Limits) -> Header {
        let Header { format, rate, samples, .. } = self.header;
        if format != Format::Mp3 || samples.is_some() {
            return self.header;
        }
        let mut samples = 0u64;
        while samples <= limits.most_samples(rate)
            && let Ok(Some(packet)) = self.reader.next_packet()
        {
            samples += packet.dur.get();
        }
        Header { samples: Some(samples), ..self.header }
    }

    /// The samples, channels averaged. Never more than the header says and the limits allow.
    pub(crate) fn samples(
        mut self,
        limits: &Limits,
        wanted: StillWanted<'_>,
    ) -> Result<Vec<f32>, SoundError> {
        let Header { format, rate, channels, samples, .. } = self.header;
        let mut decoder = decoder(format, &self.parameters, self.gapless)
            .map_err(|error| broken(format, 0, &error))?;
        let most = limits.most_samples(rate);
        let (mut mono, mut packet_samples) = (Vec::new(), Vec::new());
        let mut failures = 0;
        loop {
            if !wanted() {
                return Err(SoundError::Stopped);
            }
            let done = mono.len() as u64;
            let packet = match self.reader.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                // The end of what a file of MP3 has is its end.
                Err(Error::IoError(_)) if format == Format::Mp3 => break,
                Err(error) => return Err(broken(format, done, &error)),
            };
            if packet.track_id != self.track {
                continue;
            }
            let decoded = match decoder.decode(&packet) {
                Ok(decoded) => decoded,
                Err(Error::DecodeError(_))
                    if format == Format::Mp3 && failures < BROKEN_PACKETS =>
                {
                    failures += 1;
                    continue;
                }
                Err(error) => return Err(broken(format, done, &error)),
            };
            let spec = decoded.spec();
            if spec.rate() != rate || spec.channels().count() != channels {
                let problem = "rate or channels change".to_owned();
                return Err(SoundError::BrokenStream { format, samples: done, problem });
            }
            let after = done + decoded.frames() as u64;
            if let Some(said) = samples.filter(|it| after > *it) {
                return Err(SoundError::LongerThanSaid { format, said });
            }
            if after > most {
                return Err(too_long("more than ", most, rate, limits));
            }
            decoded.copy_to_vec_interleaved::<f32>(&mut packet_samples);
            match channels {
                1 => mono.extend_from_slice(&packet_samples),
                _ => mono.extend(
                    packet_samples
                        .chunks_exact(channels)
                        .map(|it| it.iter().sum::<f32>() / channels as f32),
                ),
            }
        }
        Ok(mono)
    }
}

/// Bytes of the tables that the decoder of these parameters makes by what the file says.
fn tables(parameters: &AudioCodecParameters, channels: usize) -> Result<u64, SoundError> {
    if parameters.codec != CODEC_ID_VORBIS {
        return Ok(0);
    }
    let headers = parameters.extra_data.as_deref().unwrap_or_default();
    let format = Format::Ogg;
    if channels > vorbis::MOST_CHANNELS {
        return Err(SoundError::Unsupported { format, what: format!("{channels} channels") });
    }
    let bytes = vorbis::most_bytes(headers, channels).map_err(|problem| SoundError::Broken {
        format,
        at: 0,
        problem: problem.to_string(),
    })?;
    if bytes > vorbis::MOST {
        let what = format!("codebooks of more than {} MiB", vorbis::MOST >> 20);
        return Err(SoundError::Unsupported { format, what });
    }
    Ok(bytes)
}

fn decoder(
    format: Format,
    parameters: &AudioCodecParameters,
    gapless: bool,
) -> Result<Box<dyn AudioDecoder>, Error> {
    let options = AudioDecoderOptions::default().gapless(gapless);
    match format {
        Format::Flac => FlacDecoder::try_new(parameters, &options).map(|it| Box::new(it) as _),
        Format::Ogg => VorbisDecoder::try_new(parameters, &options).map(|it| Box::new(it) as _),
        Format::Mp3 | Format::Wav => {
            MpaDecoder::try_new(parameters, &options).map(|it| Box::new(it) as _)
        }
    }
}

fn broken(format: Format, samples: u64, error: &Error) -> SoundError {
    SoundError::BrokenStream { format, samples, problem: said(error) }
}

fn said(error: &Error) -> String {
    match error {
        Error::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "it ends early".to_owned()
        }
        Error::ResetRequired => "another stream follows the first".to_owned(),
        other => other.to_string(),
    }
}

/// An MP3 from its first frame on. The decoder would look for one at every byte, each time as far as it may be long.
fn frames_of_mp3(file: &[u8]) -> Result<&[u8], SoundError> {
    let bytes = without_tags(file);
    let first = mp3::first_frame(bytes).ok_or_else(|| SoundError::Broken {
        format: Format::Mp3,
        at: file.len() - bytes.len(),
        problem: format!("no two frames follow one another in the first {} bytes", mp3::SEARCHED),
    })?;
    Ok(&bytes[first..])
}

/// Fails where a block of metadata is longer than the file: its length is allocated before it is read.
fn check_flac(file: &[u8]) -> Result<(), SoundError> {
    let mut at = 4;
    while let Some(&[kind, a, b, c]) = file.get(at..).and_then(|it| it.first_chunk()) {
        let end = at + 4 + u32::from_be_bytes([0, a, b, c]) as usize;
        if end > file.len() {
            let problem = "a block of metadata is longer than the file".to_owned();
            return Err(SoundError::Broken { format: Format::Flac, at, problem });
        }
        at = end;
        if kind & 0x80 != 0 {
            return Ok(());
        }
    }
    let problem = "the file ends within its metadata".to_owned();
    Err(SoundError::Broken { format: Format::Flac, at: file.len(), problem })
}

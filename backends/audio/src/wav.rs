//! RIFF WAVE: PCM of 8, 16, 24 and 32 bits and floating point, read where it lies.

use crate::{error::SoundError, format::Format, header::Header};

/// The largest sample that is taken. Sounds have samples up to 1, and some files up to 32,768.
const LOUDEST: f32 = 1e6;

/// A file of WAV: its header and the bytes of its samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wav<'a> {
    pub(crate) header: Header,
    kind: Kind,
    /// Where the samples begin in the file.
    from: usize,
    /// Whole samples of all channels.
    data: &'a [u8],
}

/// How a number is written. All are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    U8,
    I16,
    I24,
    I32,
    F32,
    F64,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::U8 => 1,
            Kind::I16 => 2,
            Kind::I24 => 3,
            Kind::I32 | Kind::F32 => 4,
            Kind::F64 => 8,
        }
    }
}

/// What the chunk `fmt ` says.
#[derive(Debug, Clone, Copy)]
struct Description {
    kind: Kind,
    channels: usize,
    rate: u32,
}

fn broken(at: usize, problem: impl Into<String>) -> SoundError {
    SoundError::Broken { format: Format::Wav, at, problem: problem.into() }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u16::from_le_bytes(*it))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u32::from_le_bytes(*it))
}

impl<'a> Wav<'a> {
    /// The chunks of a file up to that of the samples. One that is longer than the file ends with it, since programs
    /// that write into a pipe do not know the length.
    pub(crate) fn open(file: &'a [u8]) -> Result<Wav<'a>, SoundError> {
        let mut at = 12;
        let mut description = None;
        while let Some(head) = file.get(at..at + 8) {
            let (name, size) = (&head[..4], u32_at(head, 4) as usize);
            let from = at + 8;
            let content = &file[from..from.saturating_add(size).min(file.len())];
            match name {
                b"fmt " => description = Some(Description::read(content, from)?),
                b"data" => {
                    let Some(Description { kind, channels, rate }) = description else {
                        return Err(broken(at, "samples come before the chunk 'fmt '"));
                    };
                    // Zero, too, is what is written for a length that is not known.
                    let data = if size == 0 { &file[from..] } else { content };
                    let block = kind.bytes() * channels;
                    let count = data.len() / block.max(1);
                    let data = &data[..count * block];
                    let samples = Some(count as u64);
                    let header =
                        Header { format: Format::Wav, rate, channels, samples, decoder: 0 };
                    return Ok(Wav { header, kind, from, data });
                }
                _ => {}
            }
            // Chunks begin at even places.
            at = from.saturating_add(size).saturating_add(size % 2);
        }
        Err(broken(at.min(file.len()), "the chunk 'data' is missing"))
    }

    /// The samples, channels averaged.
    pub(crate) fn samples(&self) -> Result<Vec<f32>, SoundError> {
        let samples = match self.kind {
            Kind::U8 => self.mono(|[it]| (f32::from(it) - 128.0) / 128.0),
            Kind::I16 => self.mono(|it| f32::from(i16::from_le_bytes(it)) / 32_768.0),
            Kind::I24 => {
                // In the upper three bytes, so that the sign is in its place.
                self.mono(|[a, b, c]| i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0)
            }
            Kind::I32 => self.mono(|it| i32::from_le_bytes(it) as f32 / 2_147_483_648.0),
            Kind::F32 => self.mono(f32::from_le_bytes),
            Kind::F64 => self.mono(|it| f64::from_le_bytes(it) as f32),
        };
        match samples.iter().position(|it| it.is_nan() || LOUDEST < it.abs()) {
            Some(place) => {
                let at = self.from + place * self.kind.bytes() * self.header.channels;
                Err(broken(at, "a sample is no number from -1e6 to 1e6"))
            }
            None => Ok(samples),
        }
    }

    fn mono<const N: usize>(&self, convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        let (numbers, _) = self.data.as_chunks::<N>();
        match self.header.channels {
            1 => numbers.iter().map(|it| convert(*it)).collect(),
            channels => {
                let mean = |all: &[[u8; N]]| {
                    all.iter().map(|it| convert(*it)).sum::<f32>() / channels as f32
                };
                numbers.chunks_exact(channels).map(mean).collect()
            }
        }
    }
}

impl Description {
    /// `from` is where the chunk's content begins in the file.
    fn read(content: &[u8], from: usize) -> Result<Description, SoundError> {
        if content.len() < 16 {
            let problem = format!("the chunk 'fmt ' has {} bytes, not 16 or more", content.len());
            return Err(broken(from, problem));
        }
        let (mut tag, channels) = (u16_at(content, 0), usize::from(u16_at(content, 2)));
        let (rate, block, bits) = (u32_at(content, 4), u16_at(content, 12), u16_at(content, 14));
        // The extensible form has the tag at the begin of an identifier.
        if tag == 0xfffe {
            tag = u16_at(content, 24);
        }
        let kind = match (tag, bits) {
            (1, 8) => Kind::U8,
            (1, 16) => Kind::I16,
            (1, 24) => Kind::I24,
            (1, 32) => Kind::I32,
            (3, 32) => Kind::F32,
            (3, 64) => Kind::F64,
            _ => {
                let name = match tag {
                    1 => "PCM",
                    3 => "floating point",
                    2 | 17 => "ADPCM",
                    6 => "A-law",
                    7 => "µ-law",
                    85 => "MP3",
                    _ => "coding",
                };
                let what = format!("{name} of {bits} bits (format {tag})");
                return Err(SoundError::Unsupported { format: Format::Wav, what });
            }
        };
        if channels == 0 || usize::from(block) != channels * kind.bytes() {
            let problem =
                format!("{channels} channels of {bits} bits do not make blocks of {block} bytes");
            return Err(broken(from + 12, problem));
        }
        Ok(Description { kind, channels, rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [name, &(content.len() as u32).to_le_bytes()[..], content].concat()
    }

    fn description(tag: u16, channels: u16, bits: u16) -> Vec<u8> {
        let block = channels * bits / 8;
        let mut content = [tag.to_le_bytes(), channels.to_le_bytes()].concat();
        content.extend(8_000u32.to_le_bytes());
        content.extend((8_000 * u32::from(block)).to_le_bytes());
        content.extend(block.to_le_bytes());
        content.extend(bits.to_le_bytes());
        chunk(b"fmt ", &content)
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        [b"RIFF\0\0\0\0WAVE".to_vec(), chunks.concat()].concat()
    }

    fn read(bytes: &[u8]) -> Result<Vec<f32>, String> {
        Wav::open(bytes).and_then(|it| it.samples()).map_err(|it| it.to_string())
    }

    #[test]
    fn channels_are_averaged_and_other_chunks_passed_over() {
        let samples = chunk(b"data", &[0, 0x40, 0, 0x20, 0, 0x80, 0, 0]);
        let odd = [chunk(b"LIST", b"abc"), vec![0]].concat();
        let bytes = file(&[description(1, 2, 16), odd, samples]);
        assert_eq!(read(&bytes), Ok(vec![0.375, -0.5]));
    }

    #[test]
    fn the_end_of_the_file_ends_the_samples() {
        for size in [0u32, 100, u32::MAX] {
            let data = [b"data", &size.to_le_bytes()[..], &[255, 0, 128]].concat();
            let bytes = file(&[description(1, 1, 8), data]);
            assert_eq!(read(&bytes), Ok(vec![127.0 / 128.0, -1.0, 0.0]), "{size}");
        }
        let half = file(&[description(1, 1, 16), chunk(b"data", &[0, 0x40, 7])]);
        assert_eq!(read(&half), Ok(vec![0.5]));
    }

    #[test]
    fn what_is_broken_or_not_read_is_said_with_its_byte() {
        let data = chunk(b"data", &[0; 8]);
        for (bytes, expect) in [
            (file(&[description(1, 1, 16)]), "broken at byte 36: the chunk 'data' is missing"),
            (
                file(std::slice::from_ref(&data)),
                "broken at byte 12: samples come before the chunk 'fmt '",
            ),
            (
                file(&[chunk(b"fmt ", &[1, 0]), data.clone()]),
                "broken at byte 20: the chunk 'fmt ' has 2 bytes, not 16 or more",
            ),
            (
                file(&[description(7, 1, 8), data.clone()]),
                "the sound is WAV with µ-law of 8 bits (format 7), which is not read",
            ),
            (
                file(&[description(1, 0, 16), data.clone()]),
                "broken at byte 32: 0 channels of 16 bits do not make blocks of 0 bytes",
            ),
            (
                file(&[description(3, 1, 32), chunk(b"data", &[0, 0, 0, 0, 0, 0, 0x80, 0x7f])]),
                "broken at byte 48: a sample is no number from -1e6 to 1e6",
            ),
        ] {
            let error = read(&bytes).unwrap_err();
            assert!(error.ends_with(expect), "{error}");
        }
    }
}

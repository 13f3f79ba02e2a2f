//! Pictures and sounds: what their first bytes say, and made-up files that every decoder takes. Pure.

use crate::random::Random;

/// Sides of a picture, in pixels, as most classifiers make them.
const SIDE: u32 = 224;
/// Samples of a sound in a second, as most models of speech take them, and how many there are.
const RATE: u32 = 16_000;
const SAMPLES: u32 = RATE;
/// A block of deflate that is not compressed has no more bytes.
const LONGEST_BLOCK: usize = 0xffff;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A picture, as PNG.
    Picture,
    /// A sound, as WAV.
    Sound,
}

impl Medium {
    /// A file with something random in it.
    pub(crate) fn file(self, random: &mut Random) -> Vec<u8> {
        match self {
            Medium::Picture => png(random),
            Medium::Sound => wav(random),
        }
    }
}

/// The type of a picture or of a sound, by its first bytes; `None` where they say nothing.
pub(crate) fn media_type(body: &[u8]) -> Option<&'static str> {
    Some(match body {
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => "audio/wav",
        [b'f', b'L', b'a', b'C', ..] => "audio/flac",
        [b'O', b'g', b'g', b'S', ..] => "audio/ogg",
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => "audio/mpeg",
        _ => return None,
    })
}

/// A slope of two colours with noise on it.
fn png(random: &mut Random) -> Vec<u8> {
    let mut colour = || [0; 3].map(|_: u8| random.below(200) as u32);
    let (from, to) = (colour(), colour());
    let mut rows = Vec::with_capacity((SIDE * (3 * SIDE + 1)) as usize);
    for y in 0..SIDE {
        // The filter of the row: none.
        rows.push(0);
        for x in 0..SIDE {
            let share = x + y;
            let noise = random.below(32) as u32;
            let mixed = from
                .iter()
                .zip(to)
                .map(|(from, to)| (from * (2 * SIDE - share) + to * share) / (2 * SIDE) + noise);
            rows.extend(mixed.map(|it| it.min(255) as u8));
        }
    }
    // Eight bits of red, green and blue for each pixel, not interlaced.
    let header = [&SIDE.to_be_bytes()[..], &SIDE.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", header), (b"IDAT", zlib(&rows)), (b"IEND", Vec::new())] {
        file.extend_from_slice(&(data.len() as u32).to_be_bytes());
        let chunk = [&kind[..], &data].concat();
        file.extend_from_slice(&chunk);
        file.extend_from_slice(&crc32(&chunk).to_be_bytes());
    }
    file
}

/// A tone with noise on it: 16 bits, one channel.
fn wav(random: &mut Random) -> Vec<u8> {
    let pitch = 200.0 + random.unit() * 600.0;
    let bytes = 2 * SAMPLES;
    let mut file = Vec::with_capacity(44 + bytes as usize);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + bytes).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    // PCM, one channel.
    file.extend_from_slice(&[1, 0, 1, 0]);
    file.extend_from_slice(&RATE.to_le_bytes());
    file.extend_from_slice(&(2 * RATE).to_le_bytes());
    file.extend_from_slice(&[2, 0, 16, 0]);
    file.extend_from_slice(b"data");
    file.extend_from_slice(&bytes.to_le_bytes());
    for nth in 0..SAMPLES {
        let turn = f64::from(nth) / f64::from(RATE) * pitch * std::f64::consts::TAU;
        let sample = turn.sin() * 8000.0 + (random.unit() - 0.5) * 2000.0;
        file.extend_from_slice(&(sample as i16).to_le_bytes());
    }
    file
}

/// Bytes as zlib has them, in blocks that are not compressed.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(LONGEST_BLOCK).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        let length = block.len() as u16;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    out.extend_from_slice(&(high << 16 | low).to_be_bytes());
    out
}

/// The checksum of PNG's chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        let shift = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| shift(crc))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(zlib(b"Wikipedia")[2 + 5 + 9..], 0x11e6_0398_u32.to_be_bytes());
    }

    #[test]
    fn a_picture_is_a_png_of_three_chunks_and_a_sound_a_wav_of_a_second() {
        let picture = Medium::Picture.file(&mut Random::new(1));
        assert!(
            picture.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\xe0\0\0\0\xe0\x08\x02")
        );
        assert!(picture.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"), "the chunk of every PNG");
        let sound = Medium::Sound.file(&mut Random::new(1));
        assert_eq!(sound.len(), 44 + 32_000);
        assert_eq!(sound[4..8], (sound.len() as u32 - 8).to_le_bytes());
        assert_ne!(Medium::Sound.file(&mut Random::new(2)), sound);
        assert_eq!(Medium::Picture.file(&mut Random::new(1)), picture);
    }
}

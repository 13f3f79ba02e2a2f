//! Which form a sound has, by its first bytes.

use crate::{error::SoundError, format::Format};

/// Forms that are known but not read, by bytes and their place.
const OTHERS: [(usize, &[u8], &str); 8] = [
    (0, b"RIFX", "it is a WAV with the bytes of numbers reversed (RIFX)"),
    (0, b"RF64", "it is a WAV for more than 4 GiB (RF64)"),
    (0, b"FORM", "it is AIFF"),
    (4, b"ftyp", "it is MP4 or M4A"),
    (0, b"\x1a\x45\xdf\xa3", "it is Matroska or WebM"),
    (0, b".snd", "it is AU"),
    (0, b"caff", "it is CAF"),
    (0, b"#!AMR", "it is AMR"),
];

/// The form of a sound.
///
/// # Errors
/// When it is none that is read; with what it is or begins with.
pub(crate) fn format_of(bytes: &[u8]) -> Result<Format, SoundError> {
    let has = |at: usize, what: &[u8]| bytes.get(at..).is_some_and(|it| it.starts_with(what));
    if has(0, b"RIFF") && has(8, b"WAVE") {
        return Ok(Format::Wav);
    }
    if has(0, b"fLaC") {
        return Ok(Format::Flac);
    }
    if has(0, b"OggS") {
        return Ok(Format::Ogg);
    }
    if has(0, b"ID3") || is_mp3_frame(bytes) {
        return Ok(Format::Mp3);
    }
    if let Some((.., name)) = OTHERS.iter().find(|(at, what, _)| has(*at, what)) {
        return Err(SoundError::Unknown((*name).to_owned()));
    }
    let first = &bytes[..bytes.len().min(8)];
    Err(SoundError::Unknown(match first {
        [] => "it has no bytes".to_owned(),
        _ => format!("it begins with the bytes {first:02x?}"),
    }))
}

/// The head of a frame of layer III, of which only values that are allowed count.
fn is_mp3_frame(bytes: &[u8]) -> bool {
    let &[first, second, third, ..] = bytes else { return false };
    let (version, layer) = (second >> 3 & 3, second >> 1 & 3);
    let (rate, bits) = (third >> 2 & 3, third >> 4);
    first == 0xff && second >= 0xe0 && version != 1 && layer == 1 && rate != 3 && bits != 15
}

/// The bytes behind a tag that stands in front of a file of MP3; tags may follow one another.
pub(crate) fn without_tags(mut bytes: &[u8]) -> &[u8] {
    while let [b'I', b'D', b'3', _, _, flags, a, b, c, d, rest @ ..] = bytes {
        let seven = |it: &u8| usize::from(it & 0x7f);
        let size = seven(a) << 21 | seven(b) << 14 | seven(c) << 7 | seven(d);
        let footer = if flags & 0x10 != 0 { 10 } else { 0 };
        bytes = rest.get(size + footer..).unwrap_or_default();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_say_the_form() {
        assert_eq!(format_of(b"RIFF\0\0\0\0WAVE"), Ok(Format::Wav));
        assert_eq!(format_of(b"fLaC"), Ok(Format::Flac));
        assert_eq!(format_of(b"OggS"), Ok(Format::Ogg));
        assert_eq!(format_of(b"ID3\x04"), Ok(Format::Mp3));
        assert_eq!(format_of(&[0xff, 0xfb, 0x90]), Ok(Format::Mp3));
        // Layer II, and what begins a JPEG.
        assert!(format_of(&[0xff, 0xfd, 0x90]).is_err());
        assert!(format_of(&[0xff, 0xd8, 0xff]).is_err());
    }

    #[test]
    fn what_is_not_read_is_named() {
        let text = |bytes: &[u8]| format_of(bytes).unwrap_err().to_string();
        let start = "the sound is no WAV, FLAC, MP3 or Ogg Vorbis: ";
        assert_eq!(text(b"FORM1234AIFF"), format!("{start}it is AIFF"));
        assert_eq!(text(b"\0\0\0\x18ftypM4A "), format!("{start}it is MP4 or M4A"));
        assert_eq!(text(b"\x89PNG"), format!("{start}it begins with the bytes [89, 50, 4e, 47]"));
        assert_eq!(text(b""), format!("{start}it has no bytes"));
    }

    #[test]
    fn tags_in_front_are_passed_over() {
        let tag = |size: u8| [b"ID3\x04\0\0\0\0\0".as_slice(), &[size], &[7; 3]].concat();
        assert_eq!(without_tags(&[tag(3), b"rest".to_vec()].concat()), b"rest");
        assert_eq!(without_tags(&[tag(3), tag(3), b"rest".to_vec()].concat()), b"rest");
        assert_eq!(without_tags(&tag(100)), b"");
    }
}

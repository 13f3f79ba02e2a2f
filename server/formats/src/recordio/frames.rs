//! MXNet's RecordIO: payloads behind a magic number and their length, padded to whole words.

/// What every frame begins with, least significant byte first.
pub const MAGIC: [u8; 4] = 0xCED7_230A_u32.to_le_bytes();

/// Bits of the second word that are the length; the others say which part of a record the frame is.
const LENGTH: u32 = (1 << 29) - 1;

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum FrameError {
    #[error("at byte {at}: expected 8 bytes of header, found {found}")]
    NoHeader { at: usize, found: usize },
    #[error("at byte {at}: expected the number 0xced7230a, found {found:#010x}")]
    NoMagic { at: usize, found: u32 },
    #[error(
        "at byte {at}: the frame is part of a record (flag {part}); expected whole records only"
    )]
    Part { at: usize, part: u32 },
    #[error("at byte {at}: a payload of {length} bytes was announced, {left} are left")]
    Cut { at: usize, length: usize, left: usize },
    #[error("a record of {0} bytes; a frame takes at most {LENGTH}")]
    TooLong(usize),
}

/// The payloads of a body, one after another; an error ends them.
pub struct Frames<'a> {
    body: &'a [u8],
    position: usize,
}

impl<'a> Frames<'a> {
    /// Those of `body`.
    pub fn new(body: &'a [u8]) -> Frames<'a> {
        Frames { body, position: 0 }
    }

    fn read(&mut self) -> Result<&'a [u8], FrameError> {
        let at = self.position;
        let rest = self.body.get(at..).unwrap_or_default();
        let (magic, word) = match (word(rest, 0), word(rest, 4)) {
            (Some(magic), Some(length)) => (magic, u32::from_le_bytes(length)),
            _ => return Err(FrameError::NoHeader { at, found: rest.len() }),
        };
        if magic != MAGIC {
            return Err(FrameError::NoMagic { at, found: u32::from_le_bytes(magic) });
        }
        let (part, length) = (word >> 29, (word & LENGTH) as usize);
        if part != 0 {
            return Err(FrameError::Part { at, part });
        }
        let payload = rest.get(8..8 + length).ok_or_else(|| FrameError::Cut {
            at,
            length,
            left: rest.len().saturating_sub(8),
        })?;
        // Whoever writes the last record may leave out what only separates it from the next.
        self.position = (at + 8 + length.next_multiple_of(4)).min(self.body.len());
        Ok(payload)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<&'a [u8], FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.body.len() {
            return None;
        }
        let frame = self.read();
        if frame.is_err() {
            self.position = self.body.len();
        }
        Some(frame)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

/// Appends a frame.
///
/// # Errors
/// When the payload is too long for one.
pub fn write(out: &mut Vec<u8>, payload: &[u8]) -> Result<(), FrameError> {
    let length = u32::try_from(payload.len()).ok().filter(|&it| it <= LENGTH);
    let length = length.ok_or(FrameError::TooLong(payload.len()))?;
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(4), 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(body: &[u8]) -> Result<Vec<&[u8]>, FrameError> {
        Frames::new(body).collect()
    }

    #[test]
    fn a_frame_is_magic_length_payload_and_padding() {
        let mut out = Vec::new();
        write(&mut out, b"abcde").unwrap();
        assert_eq!(out, b"\x0a\x23\xd7\xce\x05\0\0\0abcde\0\0\0");
        assert_eq!(read(&out), Ok(vec![&b"abcde"[..]]));
        assert_eq!(read(&out[..13]), Ok(vec![&b"abcde"[..]]), "without padding at the end");
    }

    #[test]
    fn a_part_of_a_record_is_refused() {
        let error = read(b"\x0a\x23\xd7\xce\x04\0\0\x20abcd").unwrap_err();
        assert_eq!(
            error.to_string(),
            "at byte 0: the frame is part of a record (flag 1); expected whole records only"
        );
    }

    #[test]
    fn what_is_no_frame_is_refused_with_its_place() {
        let whole = b"\x0a\x23\xd7\xce\x04\0\0\0abcd";
        let broken = |tail: &[u8]| read(&[whole, tail].concat()).unwrap_err().to_string();
        assert_eq!(broken(b"abc"), "at byte 12: expected 8 bytes of header, found 3");
        assert_eq!(
            broken(b"abcdefgh"),
            "at byte 12: expected the number 0xced7230a, found 0x64636261"
        );
        let error = broken(b"\x0a\x23\xd7\xce\x09\0\0\0abcd");
        assert_eq!(error, "at byte 12: a payload of 9 bytes was announced, 4 are left");
    }

    proptest! {
        #[test]
        fn what_was_framed_is_read_back(payloads in prop::collection::vec(any::<Vec<u8>>(), 0..5)) {
            let mut out = Vec::new();
            payloads.iter().for_each(|it| write(&mut out, it).unwrap());
            let expected: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(read(&out), Ok(expected));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = read(&bytes);
            let _ = read(&[&MAGIC[..], &bytes].concat());
        }
    }
}

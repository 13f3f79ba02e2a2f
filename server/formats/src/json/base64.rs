//! Base64 in a string of JSON, read as leniently as Abseil's decoder reads it, with which TensorFlow Serving reads its
//! own: white space anywhere, padding that is there, absent or of points, and whatever bits the last letter has beyond
//! the last byte.

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

/// Why a text is no base64.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Base64Error {
    #[error("Invalid symbol {byte}, offset {offset}.")]
    Symbol { byte: u8, offset: usize },
    #[error("{letters} letters, of which the last one makes no byte")]
    LoneLetter { letters: usize },
    #[error("{given} characters of padding, expected {expected} or none")]
    Padding { given: usize, expected: usize },
}

/// What most strings are: nothing but letters, and all of the padding.
const PLAIN: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The most bytes that a text of base64 stands for.
pub(super) fn most_bytes(text: &str) -> usize {
    text.len().div_ceil(4) * 3
}

/// Appends the bytes that `text` stands for, for which there is room: see [`most_bytes`]. It takes no memory beside
/// them.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn decode_into(text: &str, out: &mut Vec<u8>) -> Result<(), Base64Error> {
    let start = out.len();
    if PLAIN.decode_vec(text, out).is_ok() {
        return Ok(());
    }
    out.truncate(start);
    decode_spaced(text, out)
}

#[cold]
fn decode_spaced(text: &str, out: &mut Vec<u8>) -> Result<(), Base64Error> {
    let (mut bits, mut letters, mut padding) = (0u32, 0usize, 0usize);
    let mut first_padding = None;
    for (offset, byte) in text.bytes().enumerate() {
        let value = match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => continue,
            b'=' | b'.' => {
                padding += 1;
                first_padding.get_or_insert((byte, offset));
                continue;
            }
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(Base64Error::Symbol { byte, offset }),
        };
        // No letter stands behind padding.
        if let Some((byte, offset)) = first_padding {
            return Err(Base64Error::Symbol { byte, offset });
        }
        bits = bits << 6 | u32::from(value);
        letters += 1;
        if letters.is_multiple_of(4) {
            let [_, bytes @ ..] = bits.to_be_bytes();
            out.extend_from_slice(&bytes);
            bits = 0;
        }
    }
    let expected = match letters % 4 {
        0 => 0,
        1 => return Err(Base64Error::LoneLetter { letters }),
        2 => {
            out.push((bits >> 4) as u8);
            2
        }
        _ => {
            out.extend_from_slice(&((bits >> 2) as u16).to_be_bytes());
            1
        }
    };
    match padding == 0 || padding == expected {
        true => Ok(()),
        false => Err(Base64Error::Padding { given: padding, expected }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        decode_into(text, &mut out).ok().map(|()| out.split_off(6))
    }

    #[test]
    fn spaces_padding_and_bits_are_taken_as_abseil_takes_them() {
        for text in
            ["/wA=", "/wA", "/wA.", " /w\r\nA\t=\n", "/w A\x0b\x0c", "/wB", "/wB=", "/wA = "]
        {
            assert_eq!(bytes(text).as_deref(), Some(&[0xff, 0][..]), "{text:?}");
        }
        for text in ["/w==", "/w", "/w..", "/w.=", "/w =\n=", "/x"] {
            assert_eq!(bytes(text).as_deref(), Some(&[0xff][..]), "{text:?}");
        }
        for text in ["", " ", "\n"] {
            assert_eq!(bytes(text).as_deref(), Some(&[][..]), "{text:?}");
        }
        for text in
            ["/", "/w=", "/w===", "/wA==", "/wAA=", "=", "/w==A", "_wA=", "-wA=", "/w?A", "/w\0A"]
        {
            assert_eq!(bytes(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_reads_back_wherever_there_are_spaces(
            data in any::<Vec<u8>>(), width in 1usize..80, space in "[ \t\r\n]{0,3}",
        ) {
            let encoded = STANDARD.encode(&data);
            let lines: Vec<&str> = encoded
                .as_bytes()
                .chunks(width)
                .map(|it| std::str::from_utf8(it).unwrap())
                .collect();
            prop_assert_eq!(bytes(&lines.join(&space)), Some(data));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[A-Za-z0-9+/=. \n\u{e9}]*") {
            let _ = bytes(&text);
        }
    }
}

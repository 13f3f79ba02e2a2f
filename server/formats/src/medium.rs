//! Bodies that are the file of an image or a sound: which of them they are, whether their model takes it, and the input
//! that they become.

use backend::{NamedTensor, Shape, Tensor};

use inference::{
    error::Error,
    grant::Grant,
    signature::{Port, Signature},
    task::Medium,
};

/// Longest content type that an error repeats.
const LONGEST_SHOWN: usize = 60;

/// The medium that a content type names.
pub fn of_type(content_type: &str) -> Option<Medium> {
    let name = content_type.split(';').next().unwrap_or_default().trim();
    let (kind, rest) = name.split_once('/')?;
    match kind.to_ascii_lowercase().as_str() {
        "image" => Some(Medium::Image),
        "audio" => Some(Medium::Audio),
        "application" if rest.eq_ignore_ascii_case("x-image") => Some(Medium::Image),
        "application" if rest.eq_ignore_ascii_case("x-audio") => Some(Medium::Audio),
        _ => None,
    }
}

/// The medium of a file, by its first bytes: PNG, JPEG, GIF, WebP, TIFF or BMP; WAV, FLAC, Ogg or MP3.
pub fn of_bytes(body: &[u8]) -> Option<Medium> {
    const IMAGES: [&[u8]; 6] =
        [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"];
    const SOUNDS: [&[u8]; 3] = [b"fLaC", b"OggS", b"ID3"];
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
    match body {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Medium::Image),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(Medium::Audio),
        // Two letters alone would be too little: the length of the file follows them.
        [b'B', b'M', a, b, c, d, ..] if [*a, *b, *c, *d] == length => Some(Medium::Image),
        _ if IMAGES.iter().any(|it| body.starts_with(it)) => Some(Medium::Image),
        _ if SOUNDS.iter().any(|it| body.starts_with(it)) => Some(Medium::Audio),
        _ => None,
    }
}

/// Checks that a pipeline takes this medium. `found` says where it was found.
///
/// # Errors
/// [`Error::UnsupportedMediaType`], with what the model takes.
pub fn check(signature: &Signature, given: Medium, found: &str) -> Result<(), Error> {
    match signature.medium() {
        Some(taken) if taken != given => Err(refusal(signature, taken, found)),
        _ => Ok(()),
    }
}

/// The error of a body that a pipeline of this medium does not take. `found` says what the body is.
pub fn refusal(signature: &Signature, taken: Medium, found: &str) -> Error {
    let forms = match taken {
        Medium::Text => "text/plain, or application/json with the text in 'inputs'",
        Medium::Image => {
            "image/*, application/x-image, or application/json with base64 in 'inputs'"
        }
        Medium::Audio => "audio/*, or application/json with base64 in 'inputs'",
    };
    let (model, medium) = (&signature.model, taken.one());
    Error::UnsupportedMediaType(format!("{found}: model '{model}' takes {medium}; send {forms}"))
}

/// A content type, as an error names it.
pub fn named(content_type: &str) -> String {
    let shown: String = content_type.chars().take(LONGEST_SHOWN).collect();
    format!("content type '{shown}'")
}

/// What the first bytes say, as an error names it.
pub fn described(medium: Medium) -> &'static str {
    match medium {
        Medium::Text => "the body is a text",
        Medium::Image => "the body is the file of an image",
        Medium::Audio => "the body is the file of a sound",
    }
}

/// The body as the one element of a row of that input. What is in it is the model's business: nothing is unpacked here.
///
/// # Errors
/// When the body is too long for an element.
pub fn input(
    signature: &Signature,
    port: &Port,
    body: &[u8],
    grant: &Grant,
) -> Result<NamedTensor, Error> {
    if u32::try_from(body.len()).is_err() {
        let problem = format!("expected a file below 4 GiB, given {} bytes", body.len());
        return Err(Error::input(&*port.name, problem));
    }
    let rows = signature.batches().then_some(1);
    let shape: Shape = rows.into_iter().chain(port.dims.iter().map(|_| 1)).collect();
    // It becomes a string, with its length in front of it.
    grant.hold(body.len().saturating_add(size_of::<u32>()))?;
    let tensor = Tensor::from_strings(shape, [body])
        .map_err(|problem| Error::input(&*port.name, problem.to_string()))?;
    Ok(NamedTensor { name: port.name.clone(), tensor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_first_bytes() {
        let images: [&[u8]; 6] = [
            b"\x89PNG\r\n\x1a\n.",
            b"\xff\xd8\xff\xe0",
            b"GIF89a",
            b"RIFF....WEBPVP8 ",
            b"MM\0*",
            b"BM\x08\0\0\0..",
        ];
        let sounds: [&[u8]; 4] = [b"RIFF....WAVEfmt ", b"fLaC\0\0", b"OggS\0", b"ID3\x04\0"];
        assert!(images.iter().all(|it| of_bytes(it) == Some(Medium::Image)));
        assert!(sounds.iter().all(|it| of_bytes(it) == Some(Medium::Audio)));
        for other in [&b"BMW,VW\n"[..], b"RIFF", b"{", b""] {
            assert_eq!(of_bytes(other), None);
        }
    }

    #[test]
    fn types_name_a_medium_in_letters_of_any_case() {
        for (name, medium) in [
            ("image/jpeg", Some(Medium::Image)),
            ("Application/X-Image", Some(Medium::Image)),
            ("audio/x-flac; rate=16000", Some(Medium::Audio)),
            ("application/x-audio", Some(Medium::Audio)),
            ("application/octet-stream", None),
            ("image", None),
        ] {
            assert_eq!(of_type(name), medium, "{name}");
        }
    }
}

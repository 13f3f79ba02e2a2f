//! A file as a string of JSON: base64 by itself, or a `data:` address with it. Addresses of other kinds are refused:
//! nothing is fetched for a request.

use std::fmt::Display;

use super::base64;
use inference::error::Error;

/// Beginnings of addresses.
const ADDRESSES: [&str; 6] = ["http://", "https://", "s3://", "gs://", "ftp://", "file:"];

/// Characters of an address that an error repeats.
const SHOWN: usize = 60;

/// Appends the bytes of a file.
///
/// # Errors
/// What `wrong` makes of what is wrong with the string.
pub(super) fn bytes_into(
    text: &str,
    out: &mut Vec<u8>,
    wrong: impl Fn(&dyn Display) -> Error,
) -> Result<(), Error> {
    const EXPECTED: &str = "expected the bytes of a file as base64";
    if let Some(address) = ADDRESSES.into_iter().find(|it| begins_with(text, it)) {
        let shown: String = text.chars().take(SHOWN).collect();
        return Err(wrong(&format_args!(
            "{EXPECTED}, found the address '{shown}': nothing is fetched for a request, whether from {address} or \
             elsewhere"
        )));
    }
    let encoded = match begins_with(text, "data:") {
        true => of_data_address(text)
            .ok_or_else(|| wrong(&"expected 'data:<type>;base64,' in front of base64"))?,
        false => text,
    };
    if encoded.is_empty() {
        return Err(wrong(&format_args!("{EXPECTED}, found an empty string")));
    }
    base64::decode_into(encoded, out)
        .map_err(|problem| wrong(&format_args!("{EXPECTED}: {problem}")))
}

/// What stands behind the comma of `data:image/jpeg;base64,..`.
fn of_data_address(text: &str) -> Option<&str> {
    let (head, encoded) = text.split_once(',').unwrap_or((text, ""));
    head.to_ascii_lowercase().ends_with(";base64").then_some(encoded)
}

/// Does the text begin so, in letters of any case?
fn begins_with(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|it| it.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<Vec<u8>, Error> {
        let mut out = b"before".to_vec();
        bytes_into(text, &mut out, |it| Error::InvalidRequest(it.to_string()))?;
        Ok(out.split_off(6))
    }

    #[test]
    fn a_file_is_base64_with_or_without_padding_lines_and_type() {
        for text in [
            "/9j/4A==",
            "/9j/4A",
            "/9j/\r\n4A==\n",
            "data:image/jpeg;base64,/9j/4A==",
            "DATA:;BASE64,/9j/4A",
        ] {
            assert_eq!(bytes(text).unwrap(), [0xff, 0xd8, 0xff, 0xe0], "{text}");
        }
    }

    #[track_caller]
    fn refused(text: &str, problem: &str) {
        let error = bytes(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }

    #[test]
    fn no_address_is_fetched() {
        refused(
            "https://example.com/tiger.jpg",
            "'https://example.com/tiger.jpg': nothing is fetched",
        );
        refused("S3://bucket/key", "nothing is fetched for a request, whether from s3://");
        let long = format!("http://{}", "x".repeat(100_000));
        assert!(bytes(&long).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        refused("tiger.jpg", "expected the bytes of a file as base64: Invalid symbol 46, offset 5");
        refused("tiger?jpg", "expected the bytes of a file as base64: Invalid symbol 63, offset 5");
        refused("", "found an empty string");
        refused("data:image/jpeg;base64,", "found an empty string");
        refused("data:image/jpeg,abc", "expected 'data:<type>;base64,'");
    }
}

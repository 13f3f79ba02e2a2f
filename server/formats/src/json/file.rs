//! A file as a string of JSON: base64 by itself, or a `data:` address with it. Addresses of other kinds are refused:
//! nothing is fetched for a request.

use super::base64;

/// Beginnings of addresses.
const ADDRESSES: [&str; 6] = ["http://", "https://", "s3://", "gs://", "ftp://", "file:"];

/// Characters of an address that an error repeats.
const SHOWN: usize = 60;

/// Appends the bytes of a file.
///
/// # Errors
/// What is wrong with the string.
pub(super) fn bytes_into(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    if let Some(address) = ADDRESSES.into_iter().find(|it| begins_with(text, it)) {
        let shown: String = text.chars().take(SHOWN).collect();
        return Err(format!(
            "expected the bytes of a file as base64, found the address '{shown}': nothing is fetched for a request, \
             whether from {address} or elsewhere"
        ));
    }
    let encoded = match begins_with(text, "data:") {
        true => of_data_address(text)?,
        false => text,
    };
    if encoded.is_empty() {
        return Err("expected the bytes of a file as base64, found an empty string".to_owned());
    }
    let decoded = base64::decode_into(encoded, out);
    decoded.map_err(|problem| format!("expected the bytes of a file as base64: {problem}"))
}

/// What stands behind the comma of `data:image/jpeg;base64,..`.
fn of_data_address(text: &str) -> Result<&str, String> {
    let (head, encoded) = text.split_once(',').unwrap_or((text, ""));
    match head.to_ascii_lowercase().ends_with(";base64") {
        true => Ok(encoded),
        false => Err("expected 'data:<type>;base64,' in front of base64".to_owned()),
    }
}

/// Does the text begin so, in letters of any case?
fn begins_with(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|it| it.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<Vec<u8>, String> {
        let mut out = b"before".to_vec();
        bytes_into(text, &mut out)?;
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
        let error = bytes(text).unwrap_err();
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
        assert!(bytes(&long).unwrap_err().len() < 300);
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

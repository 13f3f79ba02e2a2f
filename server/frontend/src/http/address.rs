//! Addresses: their words, the names and versions in them, and the errors of those that are unknown.

use std::borrow::Cow;

use hyper::{HeaderMap, Method};

use super::parts::Parts;
use inference::error::Error;

/// Words of a path that are kept: the longest address has seven, and an eighth shows that there are too many.
const MOST_WORDS: usize = 8;

/// The head of a request, by which a protocol knows its own.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path.
    pub path: &'a str,
    /// The header fields.
    pub headers: &'a HeaderMap,
    words: [&'a str; MOST_WORDS],
    length: usize,
}

impl<'a> RequestHead<'a> {
    /// The head of these parts.
    pub fn of(parts: &'a Parts) -> RequestHead<'a> {
        RequestHead::new(&parts.method, parts.uri.path(), &parts.headers)
    }

    /// A head of these.
    pub fn new(method: &'a Method, path: &'a str, headers: &'a HeaderMap) -> RequestHead<'a> {
        let (mut words, mut length) = ([""; MOST_WORDS], 0);
        let trimmed = path.strip_prefix('/').unwrap_or(path);
        let mut rest = Some(trimmed.strip_suffix('/').unwrap_or(trimmed));
        for slot in &mut words {
            let Some(text) = rest else { break };
            // Words are short: a loop over their bytes ends before a search has begun.
            let end = text.bytes().position(|it| it == b'/');
            *slot = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
            rest = end.and_then(|it| text.get(it + 1..));
            length += 1;
        }
        RequestHead { method, path, headers, words, length }
    }

    /// The words of the path, between its slashes.
    pub fn words(&self) -> &[&'a str] {
        self.words.get(..self.length).unwrap_or(&[])
    }
}

/// A model from an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPath<'a> {
    /// Name of the model, percent-decoded.
    pub name: Cow<'a, str>,
    /// The version, where the address names one.
    pub version: Option<u64>,
}

/// The methods of addresses that are only read.
pub const GET: &[Method] = &[Method::GET, Method::HEAD];
/// The methods of addresses that act.
pub const POST: &[Method] = &[Method::POST];
/// The methods of addresses that act, for clients that put files there, too.
pub const POST_OR_PUT: &[Method] = &[Method::POST, Method::PUT];
/// The methods of addresses that are read and that act.
pub const ANY: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
/// The methods of addresses that are read and deleted.
pub const GET_OR_DELETE: &[Method] = &[Method::GET, Method::HEAD, Method::DELETE];

/// That a method is among those of an address.
///
/// # Errors
/// [`Error::MethodNotAllowed`] where it is not.
pub fn check_method(method: &Method, allowed: &[Method]) -> Result<(), Error> {
    if allowed.contains(method) {
        return Ok(());
    }
    let allowed = match () {
        () if allowed == POST => "POST",
        () if allowed == ANY => "GET, POST",
        () if allowed == GET_OR_DELETE => "GET, DELETE",
        () => "GET",
    };
    Err(Error::MethodNotAllowed { method: method.to_string(), allowed })
}

/// A model, and its version where the address names one.
///
/// # Errors
/// [`Error::InvalidRequest`] for a version that is not a number, and a name that is not percent-encoded.
pub fn model_path<'a>(name: &'a str, version: Option<&str>) -> Result<ModelPath<'a>, Error> {
    let name = percent_decode(name)?;
    let parse = |text: &str| {
        // A sign is not a digit, though the standard library would accept one.
        let digits = text.bytes().all(|it| it.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or_else(|| {
            Error::InvalidRequest(format!(
                "the version in the address must be a whole number, given '{text}'"
            ))
        })
    };
    Ok(ModelPath { name, version: version.map(parse).transpose()? })
}

/// Decodes percent-encoding, once, and only inside one part of the path or of the query.
///
/// # Errors
/// [`Error::InvalidRequest`] for text that is not percent-encoded UTF-8.
pub fn percent_decode(text: &str) -> Result<Cow<'_, str>, Error> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let invalid =
        || Error::InvalidRequest(format!("'{text}' in the address is not percent-encoded UTF-8"));
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|it| char::from(it).to_digit(16));
        let (high, low) = (digit().ok_or_else(invalid)?, digit().ok_or_else(invalid)?);
        decoded.push((high * 16 + low) as u8);
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| invalid())
}

/// Percent-encodes one part of a path: all but letters, digits and `-._~`.
pub fn percent_encode(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// The error of an unknown address.
pub fn unknown(path: &str) -> Error {
    let shown: String = path.chars().take(100).collect();
    Error::NotFound(format!("there is nothing at '{shown}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_percent_decoded_once() {
        let name = |text| model_path(text, None).map(|it| it.name.into_owned());
        assert_eq!(name("a%20b"), Ok("a b".to_owned()));
        assert_eq!(name("a%252fb"), Ok("a%2fb".to_owned()));
        for text in ["a%2", "%zz", "%ff"] {
            assert!(matches!(name(text), Err(Error::InvalidRequest(_))), "{text}");
        }
    }

    #[test]
    fn what_is_percent_encoded_is_one_part_of_a_path_and_reads_back() {
        assert_eq!(percent_encode("a b/{c}:é~"), "a%20b%2F%7Bc%7D%3A%C3%A9~");
        let text = "a b/{c}:é~%41";
        assert_eq!(percent_decode(&percent_encode(text)).as_deref(), Ok(text));
    }

    #[test]
    fn a_version_is_a_whole_number() {
        for version in ["x", "-1", "+1", "", "1.0", "99999999999999999999"] {
            let found = model_path("m", Some(version));
            assert!(matches!(found, Err(Error::InvalidRequest(_))), "{version}");
        }
    }

    #[test]
    fn a_path_has_as_many_words_as_can_matter() {
        let headers = HeaderMap::new();
        let words = |path| RequestHead::new(&Method::GET, path, &headers).words().join(" ");
        assert_eq!(words("/v2/models/m/"), "v2 models m");
        assert_eq!(words("/"), "");
        assert_eq!(words("/a/b/c/d/e/f/g/h/i/j/k"), "a b c d e f g h");
    }
}

//! Parts of addresses: names, versions, and what is not there.

use std::borrow::Cow;

use hyper::Method;

use super::route::ModelPath;
use inference::error::Error;

/// Methods of what is read.
pub const GET: &[Method] = &[Method::GET, Method::HEAD];
/// Methods of what is done.
pub const POST: &[Method] = &[Method::POST];
/// Methods of what is read and done.
pub const ANY: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
/// Methods of what is read and deleted.
pub const GET_OR_DELETE: &[Method] = &[Method::GET, Method::HEAD, Method::DELETE];

/// A model, and its version where the address holds one.
///
/// # Errors
/// [`Error::InvalidRequest`] for a version that is no number, and a name that is not percent-encoded.
pub fn model_path<'a>(name: &'a str, version: Option<&str>) -> Result<ModelPath<'a>, Error> {
    let name = percent_decode(name)?;
    let parse = |text: &str| {
        // A sign is no digit, though the standard library would read one.
        let digits = text.bytes().all(|it| it.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or_else(|| {
            Error::InvalidRequest(format!(
                "the version in the address must be a whole number, given '{text}'"
            ))
        })
    };
    Ok(ModelPath { name, version: version.map(parse).transpose()? })
}

/// Undoes percent-encoding. Decoded once, and only inside one part of the path or of the query.
///
/// # Errors
/// [`Error::InvalidRequest`] for what is not percent-encoded UTF-8.
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

/// The error of an address that is not there.
pub fn unknown(path: &str) -> Error {
    let shown: String = path.chars().take(100).collect();
    Error::NotFound(format!("there is nothing at '{shown}'"))
}

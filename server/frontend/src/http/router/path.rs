//! Parts of addresses: names, versions, and the errors of unknown addresses.

use std::borrow::Cow;

use hyper::Method;

use super::route::ModelPath;
use inference::error::Error;

/// The methods of addresses that are only read.
pub const GET: &[Method] = &[Method::GET, Method::HEAD];
/// The methods of addresses that act.
pub const POST: &[Method] = &[Method::POST];
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

/// The error of an unknown address.
pub fn unknown(path: &str) -> Error {
    let shown: String = path.chars().take(100).collect();
    Error::NotFound(format!("there is nothing at '{shown}'"))
}

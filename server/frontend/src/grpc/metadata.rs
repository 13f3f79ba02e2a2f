//! Reading of a call's metadata: deadlines, encodings, and how a stream reports errors. Pure.

use std::time::Duration;

use hyper::{
    HeaderMap,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};

use crate::exchange::{compression::Encoding, has_any};
use inference::error::Error;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const ENCODING: HeaderName = HeaderName::from_static(super::message::ENCODING);
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Headers with the time that a client gives its request: gRPC's own, and those in milliseconds, which are the same as
/// over HTTP.
const TIMEOUTS: [HeaderName; 3] = [
    GRPC_TIMEOUT,
    HeaderName::from_static("x-request-timeout-ms"),
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms"),
];

/// Metadata by which a stream ends with the status of its first error, rather than report it and go on.
const ERRORS_AS_STATUS: HeaderName = HeaderName::from_static("triton_grpc_error");

/// Is the request a gRPC call, rather than some other request over HTTP/2?
pub fn is_call(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|it| it.starts_with(b"application/grpc"))
}

/// The shortest time that the client gives the call.
///
/// # Errors
/// [`Error::InvalidRequest`] for a time that cannot be read.
pub fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Error> {
    if !has_any(headers, &TIMEOUTS) {
        return Ok(None);
    }
    let mut shortest: Option<Duration> = None;
    let mut take = |timeout: Duration| {
        shortest = Some(shortest.map_or(timeout, |it| it.min(timeout)));
    };
    let [grpc, milliseconds @ ..] = &TIMEOUTS;
    if let Some(value) = headers.get(grpc) {
        let timeout = value.to_str().ok().and_then(grpc_timeout).ok_or_else(|| {
            let expected = "up to 8 digits and one of H, M, S, m, u, n";
            Error::InvalidRequest(format!("metadata {GRPC_TIMEOUT}: expected {expected}"))
        })?;
        take(timeout);
    }
    for name in milliseconds {
        let Some(value) = headers.get(name) else { continue };
        let millis = value.to_str().ok().and_then(|it| it.trim().parse().ok());
        take(millis.map(Duration::from_millis).ok_or_else(|| {
            Error::InvalidRequest(format!("metadata {name}: expected a number of milliseconds"))
        })?);
    }
    Ok(shortest)
}

/// `100m` → 100 ms.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The encoding of the request's compressed messages.
///
/// # Errors
/// [`Error::Unimplemented`] for an encoding that the server does not have.
pub fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, Error> {
    if !has_any(headers, &[ENCODING]) {
        return Ok(None);
    }
    let Some(value) = headers.get(&ENCODING) else { return Ok(None) };
    match value.as_bytes() {
        b"identity" | b"" => Ok(None),
        b"gzip" => Ok(Some(Encoding::Gzip)),
        b"deflate" => Ok(Some(Encoding::Deflate)),
        other => {
            let shown: String = String::from_utf8_lossy(other).chars().take(40).collect();
            let expected = "expected identity, gzip or deflate";
            Err(Error::Unimplemented(format!("metadata {ENCODING}: {expected}, given '{shown}'")))
        }
    }
}

/// The best encoding that the client accepts.
pub fn accepted(headers: &HeaderMap) -> Option<Encoding> {
    let accepts = headers.get(&ACCEPT_ENCODING)?.to_str().ok()?;
    let names = || accepts.split(',').map(str::trim);
    match names().any(|it| it == "gzip") {
        true => Some(Encoding::Gzip),
        false => names().any(|it| it == "deflate").then_some(Encoding::Deflate),
    }
}

/// Shall a stream end at the first error?
pub fn errors_end_the_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(&ERRORS_AS_STATUS).map(HeaderValue::as_bytes);
    value.is_some_and(|it| it.eq_ignore_ascii_case(b"true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let given = given.iter();
        given
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn the_shortest_timeout_counts() {
        let both = headers(&[("grpc-timeout", "2S"), ("x-request-timeout-ms", "1500")]);
        assert_eq!(timeout(&both), Ok(Some(Duration::from_millis(1500))));
        assert_eq!(timeout(&headers(&[])), Ok(None));
        for (text, nanos) in [("99999999H", 359_999_996_400_000_000_000), ("1n", 1), ("0m", 0)] {
            let given = timeout(&headers(&[("grpc-timeout", text)])).unwrap().unwrap();
            assert_eq!(given.as_nanos(), nanos, "{text}");
        }
        for wrong in ["", "S", "1", "123456789S", "-1S", "1.5S", "1s", "1 S"] {
            let error = timeout(&headers(&[("grpc-timeout", wrong)])).unwrap_err();
            assert!(error.to_string().starts_with("metadata grpc-timeout: expected"), "{wrong}");
        }
    }

    #[test]
    fn encodings_that_are_not_known_are_refused_by_name() {
        assert_eq!(encoding(&headers(&[("grpc-encoding", "gzip")])), Ok(Some(Encoding::Gzip)));
        let error = encoding(&headers(&[("grpc-encoding", "zstd")])).unwrap_err();
        assert!(error.to_string().contains("given 'zstd'"), "{error}");
        let accepts = |text| accepted(&headers(&[("grpc-accept-encoding", text)]));
        assert_eq!(accepts("identity, deflate, gzip"), Some(Encoding::Gzip));
        assert_eq!(accepts("identity,deflate"), Some(Encoding::Deflate));
        assert_eq!(accepts("identity"), None);
    }
}

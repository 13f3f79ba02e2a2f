//! What makes a request ambiguous although it can be read: another server on its way may have seen another request.

use hyper::{
    HeaderMap, Version,
    header::{HOST, TRANSFER_ENCODING},
};

use inference::error::Error;

/// Refuses a request whose framing or host could be understood in two ways. What is wrong with a request's lengths,
/// hyper refuses itself.
///
/// # Errors
/// [`Error::InvalidRequest`], after which the connection must close.
pub fn check(version: Version, headers: &HeaderMap) -> Result<(), Error> {
    // One pass: a lookup of a header costs more than to look at the few that there are.
    let (mut hosts, mut encodings, mut is_plain) = (0, 0, true);
    for (name, value) in headers {
        if name == HOST {
            hosts += 1;
        } else if name == TRANSFER_ENCODING {
            encodings += 1;
            is_plain = value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        }
    }
    if 1 < hosts || (hosts == 0 && version == Version::HTTP_11) {
        return Err(Error::InvalidRequest(format!("expected one header host, not {hosts}")));
    }
    if !is_plain || 1 < encodings {
        return Err(Error::InvalidRequest("transfer-encoding: expected chunked, once".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn is_taken(version: Version, fields: &[(hyper::header::HeaderName, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        check(version, &headers).is_ok()
    }

    #[test]
    fn one_host_is_expected() {
        assert!(is_taken(Version::HTTP_11, &[(HOST, "a")]));
        assert!(is_taken(Version::HTTP_10, &[]));
        assert!(!is_taken(Version::HTTP_11, &[]));
        assert!(!is_taken(Version::HTTP_11, &[(HOST, "a"), (HOST, "a")]));
        assert!(!is_taken(Version::HTTP_10, &[(HOST, "a"), (HOST, "b")]));
    }

    #[test]
    fn a_body_is_in_chunks_or_not() {
        let takes = |values: &[&'static str]| {
            let encodings = values.iter().map(|it| (TRANSFER_ENCODING, *it));
            is_taken(Version::HTTP_11, &encodings.chain([(HOST, "a")]).collect::<Vec<_>>())
        };
        assert!(takes(&[]) && takes(&["chunked"]) && takes(&["Chunked"]));
        assert!(!takes(&["chunked, chunked"]) && !takes(&["gzip, chunked"]));
        assert!(!takes(&["chunked", "chunked"]) && !takes(&["identity, chunked"]));
    }
}

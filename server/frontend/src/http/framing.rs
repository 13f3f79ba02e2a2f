//! What makes a request ambiguous although it can be read: another server on its way may have seen another request.

use hyper::{
    HeaderMap, Version,
    header::{HOST, HeaderValue, TRANSFER_ENCODING},
};

use super::service::INFERENCE_ID;
use crate::exchange::request_id::X_REQUEST_ID;
use inference::error::Error;

/// What one look at the fields of a request tells. A lookup of a field costs more than to look at the few that there
/// are.
#[derive(Debug)]
pub struct Look<'a> {
    /// The client's name for its request, of its own field or else of SageMaker's.
    pub name: Option<&'a HeaderValue>,
    /// [`Error::InvalidRequest`] for a request whose framing or host could be understood in two ways, after which the
    /// connection must close. What is wrong with a request's lengths, hyper refuses itself.
    pub framing: Result<(), Error>,
}

/// Looks at the fields of a request.
pub fn look(version: Version, headers: &HeaderMap) -> Look<'_> {
    let (mut hosts, mut encodings, mut is_plain) = (0, 0, true);
    let (mut name, mut inference_id) = (None, None);
    for (field, value) in headers {
        if field == HOST {
            hosts += 1;
        } else if field == TRANSFER_ENCODING {
            encodings += 1;
            is_plain = value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        } else if field == X_REQUEST_ID {
            name = name.or(Some(value));
        } else if field == INFERENCE_ID {
            inference_id = inference_id.or(Some(value));
        }
    }
    let framing = match () {
        () if 1 < hosts || (hosts == 0 && version == Version::HTTP_11) => {
            Err(Error::InvalidRequest(format!("expected one header host, not {hosts}")))
        }
        () if !is_plain || 1 < encodings => {
            Err(Error::InvalidRequest("transfer-encoding: expected chunked, once".to_owned()))
        }
        () => Ok(()),
    };
    Look { name: name.or(inference_id), framing }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn is_taken(version: Version, fields: &[(HeaderName, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_static(value));
        }
        look(version, &headers).framing.is_ok()
    }

    #[test]
    fn a_request_has_the_name_of_its_own_field_or_of_sagemakers() {
        let name = |fields: &[(HeaderName, &'static str)]| {
            let fields = fields.iter().map(|it| (it.0.clone(), HeaderValue::from_static(it.1)));
            let headers: HeaderMap = fields.collect();
            look(Version::HTTP_11, &headers).name.map(|it| it.to_str().unwrap().to_owned())
        };
        assert_eq!(name(&[(HOST, "a")]), None);
        assert_eq!(name(&[(INFERENCE_ID, "i"), (HOST, "a")]).as_deref(), Some("i"));
        assert_eq!(name(&[(INFERENCE_ID, "i"), (X_REQUEST_ID, "x")]).as_deref(), Some("x"));
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

//! The encoding of a request's body and of its reply, by the headers. Pure.

use hyper::{
    HeaderMap,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue},
};

use crate::exchange::compression::Encoding;
use inference::error::Error;

/// The encodings that a client may send, for the header `Accept-Encoding` of a refusal.
const ACCEPTED: &str = "gzip, deflate";

fn named(text: &str) -> Option<Encoding> {
    let is = |name| text.eq_ignore_ascii_case(name);
    match () {
        () if is("gzip") || is("x-gzip") => Some(Encoding::Gzip),
        () if is("deflate") => Some(Encoding::Deflate),
        () => None,
    }
}

/// The encoding of a request's body; `None` where it is plain. `allowed`: are compressed bodies accepted?
///
/// # Errors
/// [`Error::UnsupportedEncoding`] for an unknown encoding, for several encodings, and for any encoding where none is
/// allowed.
pub fn of_body(headers: &HeaderMap, allowed: bool) -> Result<Option<Encoding>, Error> {
    let mut lines = headers.get_all(&CONTENT_ENCODING).iter();
    let Some(first) = lines.next() else { return Ok(None) };
    let name = first.to_str().unwrap_or("?").trim();
    let several = lines.next().is_some();
    if !several && (name.is_empty() || name.eq_ignore_ascii_case("identity")) {
        return Ok(None);
    }
    let found = named(name).filter(|_| !several);
    match (found, allowed) {
        (Some(encoding), true) => Ok(Some(encoding)),
        (_, true) => {
            let given: String = if several { "several".into() } else { shown(name) };
            Err(Error::UnsupportedEncoding {
                problem: format!("expected gzip, deflate or identity, once, given {given}"),
                accepted: ACCEPTED,
            })
        }
        (_, false) => Err(Error::UnsupportedEncoding {
            problem: format!(
                "expected a body that is not compressed, given {} (--http-compression is off)",
                shown(name)
            ),
            accepted: "identity",
        }),
    }
}

fn shown(name: &str) -> String {
    let name: String = name.chars().take(40).collect();
    format!("'{name}'")
}

/// The encoding that a client prefers for its reply; `None` for a plain reply. The highest weight wins, and among
/// equal weights the first name. An encoding that is not named is not accepted.
pub fn wanted(headers: &HeaderMap) -> Option<Encoding> {
    let lines = headers.get_all(&ACCEPT_ENCODING).iter().map(HeaderValue::to_str);
    let mut best = (None, 0.0);
    for entry in lines.filter_map(Result::ok).flat_map(|it| it.split(',')) {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let encoding = named(name);
        if encoding.is_none() && !name.eq_ignore_ascii_case("identity") {
            continue;
        }
        let Some(weight) = weight(parts) else { continue };
        if best.1 < weight {
            best = (encoding, weight);
        }
    }
    best.0
}

/// The value of `q` among an entry's parameters, from 0 to 1; 1 without one, `None` where it is not a weight.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> Option<f32> {
    let text = parameters.find_map(|it| {
        let (name, value) = it.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value.trim())
    });
    let Some(text) = text else { return Some(1.0) };
    text.parse().ok().filter(|it| (0.0..=1.0).contains(it))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[track_caller]
    fn check(accept: &[&str], expect: Option<Encoding>) {
        assert_eq!(wanted(&headers(ACCEPT_ENCODING, accept)), expect, "{accept:?}");
    }

    #[test]
    fn the_highest_weight_wins_and_then_the_first() {
        use Encoding::{Deflate, Gzip};
        check(&[], None);
        check(&[""], None);
        check(&["gzip"], Some(Gzip));
        check(&["GZIP"], Some(Gzip));
        check(&["gzip, deflate"], Some(Gzip));
        check(&["deflate, gzip"], Some(Deflate));
        check(&["deflate;q=0.5, gzip;q=0.8"], Some(Gzip));
        check(&["deflate ; Q=0.9", "gzip;q=0.8"], Some(Deflate));
        check(&["br, zstd, gzip;q=0.1"], Some(Gzip));
        check(&["identity;q=0.5, gzip;q=0.4"], None);
        check(&["identity, gzip"], None);
        check(&["gzip, identity"], Some(Gzip));
        check(&["identity;q=0, gzip;q=0.1"], Some(Gzip));
        check(&["gzip;q=0"], None);
        check(&["gzip;q=0.000, deflate;q=0.001"], Some(Deflate));
        check(&["*"], None);
        check(&["gzip;level=9;q=0.3, deflate;q=0.2"], Some(Gzip));
    }

    #[test]
    fn a_weight_that_is_none_makes_its_entry_none() {
        for odd in [
            "gzip;q=x",
            "gzip;q=2",
            "gzip;q=-1",
            "gzip;q=nan",
            "gzip;q=inf",
            "gzip;q=",
            ";q=1",
            ",,;;",
        ] {
            check(&[odd], None);
        }
        check(&["gzip;q=x, deflate"], Some(Encoding::Deflate));
        check(&["gzip\u{e9}, deflate"], None);
    }

    #[test]
    fn a_body_has_one_encoding_at_most() {
        let of = |values: &[&str]| of_body(&headers(CONTENT_ENCODING, values), true);
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["identity"]), Ok(None));
        assert_eq!(of(&[""]), Ok(None));
        assert_eq!(of(&["gzip"]), Ok(Some(Encoding::Gzip)));
        assert_eq!(of(&["X-GZip"]), Ok(Some(Encoding::Gzip)));
        assert_eq!(of(&[" deflate "]), Ok(Some(Encoding::Deflate)));
        for wrong in [
            &["br"][..],
            &["gzip, gzip"],
            &["gzip", "gzip"],
            &["identity", "gzip"],
            &["gzip,"],
            &["\u{e9}"],
            &["zstd"],
            &["compress"],
            &["*"],
            &["gzip;q=1"],
        ] {
            let error = of(wrong).unwrap_err();
            assert!(
                matches!(error, Error::UnsupportedEncoding { accepted: ACCEPTED, .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn where_compression_is_off_a_compressed_body_is_refused_and_another_is_not() {
        let of = |value: &str| of_body(&headers(CONTENT_ENCODING, &[value]), false);
        assert_eq!(of("identity"), Ok(None));
        assert!(of("gzip").unwrap_err().to_string().contains("--http-compression"));
    }
}

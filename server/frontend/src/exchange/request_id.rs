//! The name of a request: the client's, or one that the server makes. It is in the reply, in the log and in traces.

use std::{
    borrow::Cow,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use hyper::header::{HeaderName, HeaderValue};

/// The header of the name, in requests and in replies.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest name of a client's that is repeated, in characters.
const LONGEST: usize = 128;

/// The name of one request. A name of the server's own is written only where it is asked for.
#[derive(Debug, Clone)]
pub struct RequestId {
    /// The client's.
    given: Option<HeaderValue>,
    /// The server's.
    number: u64,
}

impl RequestId {
    /// Is it the client's?
    pub fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// As the value of a header.
    pub fn value(&self) -> HeaderValue {
        match &self.given {
            Some(given) => given.clone(),
            None => HeaderValue::from_bytes(&hex(self.number))
                .unwrap_or_else(|_| HeaderValue::from_static("")),
        }
    }

    /// As a text.
    pub fn text(&self) -> Cow<'_, str> {
        match self.given.as_ref().and_then(|it| it.to_str().ok()) {
            Some(given) => given.into(),
            None => format!("{:016x}", self.number).into(),
        }
    }
}

/// 16 digits.
fn hex(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (at, digit) in text.iter_mut().enumerate() {
        let value = (number >> (60 - 4 * at)) & 15;
        *digit = b"0123456789abcdef"[value as usize];
    }
    text
}

/// May a client name its request so? A name is repeated in lines and in headers, so it is short, and of visible
/// characters of ASCII.
fn is_name(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

/// Makes names for requests that their clients have not named.
#[derive(Debug, Default)]
pub struct RequestIds {
    /// The standard library's only source of randomness: it makes the names of two processes differ.
    random: RandomState,
    sources: AtomicU64,
}

impl RequestIds {
    /// Names for the requests of one connection. They are counted there, and not in one place for all threads.
    pub fn source(&self) -> IdSource {
        let number = self.sources.fetch_add(1, Relaxed);
        IdSource { next: self.random.hash_one(number).into() }
    }

    /// A name for a request that belongs to no connection.
    pub fn one(&self) -> RequestId {
        self.source().name(None)
    }
}

/// The client's name for its request, less the end of a very long one; `None` for none.
pub fn named(given: &str) -> Option<String> {
    (!given.is_empty()).then(|| given.chars().take(LONGEST).collect())
}

/// Names requests of one connection: a number that is random, and a count.
#[derive(Debug)]
pub struct IdSource {
    next: AtomicU64,
}

impl IdSource {
    /// The name of a request whose head has `given` one. A value that is no name is as good as none.
    pub fn name(&self, given: Option<&HeaderValue>) -> RequestId {
        let given = given.filter(|it| is_name(it)).cloned();
        RequestId { given, number: self.next.fetch_add(1, Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_name_of_the_client_is_kept_where_it_is_short_and_visible() {
        let ids = RequestIds::default();
        let name = |given: &[u8]| {
            let given = HeaderValue::from_bytes(given).unwrap();
            let id = ids.source().name(Some(&given));
            assert_eq!(id.value().as_bytes(), id.text().as_bytes());
            id.text().into_owned()
        };
        let longest = "x".repeat(LONGEST);
        for kept in ["a", "1e9b-77", "{\"a\":1}", &longest] {
            assert_eq!(name(kept.as_bytes()), kept);
        }
        let too_long = "x".repeat(LONGEST + 1);
        for other in [&b""[..], b"a b", b"a\tb", b"\xe9", too_long.as_bytes()] {
            let made = name(other);
            let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
            assert!(made.len() == 16 && made.bytes().all(is_digit), "{made}");
        }
    }

    #[test]
    fn every_request_has_a_name_of_its_own() {
        let ids = RequestIds::default();
        let sources = [ids.source(), ids.source()];
        let of_connections = sources.iter().flat_map(|it| (0..1000).map(|_| it.name(None)));
        let names: HashSet<String> =
            of_connections.chain([ids.one()]).map(|it| it.text().into_owned()).collect();
        assert_eq!(names.len(), 2001);
    }

    #[test]
    fn a_name_has_all_its_digits() {
        assert_eq!(&hex(0), b"0000000000000000");
        assert_eq!(&hex(0x0123_4567_89ab_cdef), b"0123456789abcdef");
    }
}

//! Whose requests are answered, and what an answer is. A page in a browser that comes from here by a name of its own
//! says that name as `Host`.

use std::net::IpAddr;

use hyper::{HeaderMap, StatusCode, Uri, header::HOST, http::uri::Authority};

/// A status and a body of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Of HTTP.
    pub status: u16,
    /// Empty where the operation has no output.
    pub body: Vec<u8>,
}

/// The reply to a request that names this server by neither an address nor `localhost`; `None` to any other.
pub fn misdirected(uri: &Uri, headers: &HeaderMap) -> Option<Reply> {
    let text = "expected the header Host to be an address or localhost, given another name\n";
    let status = StatusCode::MISDIRECTED_REQUEST.as_u16();
    (!is_here(uri, headers)).then(|| Reply { status, body: text.into() })
}

/// Does the request name this server by an address, or as `localhost`? Other names may be anybody's.
fn is_here(uri: &Uri, headers: &HeaderMap) -> bool {
    let named: Option<Authority> = match (uri.authority(), headers.get(HOST)) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(host)) => Authority::try_from(host.as_bytes()).ok(),
        // No browser leaves it out.
        (None, None) => return true,
    };
    named.is_some_and(|it| {
        let host = it.host().trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
    })
}

//! Requests that a browser makes for a page of another site. A browser lets any page send requests to any server, also
//! to one that only this machine reaches, and names the page's site in the header `Origin`. Other programs send none.

use std::borrow::Cow;

/// The site of the page that a request is made for, where it is not this server's own, of which `host` is the header
/// `Host`. A request may have several `origins`.
pub fn foreign_origin<'a>(
    origins: impl IntoIterator<Item = &'a [u8]>,
    host: Option<&[u8]>,
) -> Option<Cow<'a, str>> {
    let is_own = |origin: &[u8]| {
        let authority = origin.windows(3).position(|it| it == b"://");
        let authority = authority.and_then(|at| origin.get(at + 3..));
        authority.zip(host).is_some_and(|(it, host)| it.eq_ignore_ascii_case(host))
    };
    let foreign = origins.into_iter().find(|it| !is_own(it))?;
    Some(String::from_utf8_lossy(foreign))
}

/// What is said of such a request.
pub fn foreign_origin_text(origin: &str, host: Option<&[u8]>) -> String {
    let host = String::from_utf8_lossy(host.unwrap_or_default());
    format!(
        "header origin: expected a page of this server's own, of '{host}' as in the header host, given '{origin}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(origin: Option<&str>, host: Option<&str>, foreign: Option<&str>) {
        let found = foreign_origin(origin.map(str::as_bytes), host.map(str::as_bytes));
        assert_eq!(found.as_deref(), foreign);
    }

    #[test]
    fn only_a_page_of_another_site_is_foreign() {
        check(None, Some("a:8000"), None);
        check(None, None, None);
        check(Some("http://a:8000"), Some("a:8000"), None);
        check(Some("https://A:8000"), Some("a:8000"), None);
        for origin in
            ["http://b:8000", "http://a", "http://a:8000.b", "null", "", "a:8000", "http://"]
        {
            check(Some(origin), Some("a:8000"), Some(origin));
        }
        check(Some("http://a"), None, Some("http://a"));
    }
}

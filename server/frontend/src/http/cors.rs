//! Cross-origin resource sharing: what a browser needs to hear before a page of another site may read replies, and
//! replies to `OPTIONS`. The rules are those of the standard "Fetch".

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, ORIGIN, VARY,
    },
};

use super::{body::Segments, respond};
use inference::access::Origins;

/// The methods that any address has.
pub const METHODS: [Method; 4] = [Method::GET, Method::HEAD, Method::POST, Method::DELETE];

/// Seconds for which a browser need not ask again before it sends a request.
const REMEMBERED: HeaderValue = HeaderValue::from_static("3600");

/// Lets the page that a request was made for read its reply, where it may: all fields of its head, too.
pub fn share(origins: &Origins, request: &HeaderMap, reply: &mut HeaderMap) {
    let allowed = match origins {
        Origins::None => return,
        Origins::Any => HeaderValue::from_static("*"),
        Origins::These(_) => {
            // A cache is not to give one page what was made for another, even where this one may not read it.
            reply.append(VARY, HeaderValue::from_static("origin"));
            match request.get(ORIGIN).filter(|it| origins.allow(it.as_bytes())) {
                Some(origin) => origin.clone(),
                None => return,
            }
        }
    };
    // What a browser shows in any case, and what is of no use to a page.
    let is_plain =
        |it: &str| [CONTENT_TYPE, VARY, CONNECTION, ALLOW].iter().any(|other| it == other);
    let names = reply.keys().map(|it| it.as_str());
    let names: Vec<&str> =
        names.filter(|it| !is_plain(it) && !it.starts_with("access-control-")).collect();
    if let Ok(names) = HeaderValue::try_from(names.join(", ")) {
        reply.insert(ACCESS_CONTROL_EXPOSE_HEADERS, names);
    }
    reply.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
}

/// The reply to `OPTIONS` at an address that has these methods. `None` where the address has none, and no browser asks
/// whether a page may send a request there.
pub fn options(
    origins: &Origins,
    request: &HeaderMap,
    methods: &[Method],
) -> Option<Response<Segments>> {
    let wanted = request
        .get(ACCESS_CONTROL_REQUEST_METHOD)
        .filter(|_| request.get(ORIGIN).is_some_and(|it| origins.allow(it.as_bytes())));
    if methods.is_empty() && wanted.is_none() {
        return None;
    }
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    if let Ok(allowed) = HeaderValue::try_from([&names[..], &["OPTIONS"]].concat().join(", ")) {
        headers.insert(ALLOW, allowed);
    }
    if let Some(wanted) = wanted {
        let allowed = match methods {
            // So the page gets to read what is wrong with its address.
            [] => Ok(wanted.clone()),
            _ => HeaderValue::try_from(names.join(", ")),
        };
        headers.extend(allowed.ok().map(|it| (ACCESS_CONTROL_ALLOW_METHODS, it)));
        // A field by itself gives no access: tokens are checked with the request.
        let fields = request.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        headers.extend(fields.map(|it| (ACCESS_CONTROL_ALLOW_HEADERS, it)));
        headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, RETRY_AFTER};

    use super::*;

    const PAGE: &str = "https://app.example";

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|it| (it.0.clone(), HeaderValue::from_static(it.1))).collect()
    }

    /// The fields about pages that a reply gets.
    #[track_caller]
    fn check(origins: &str, origin: Option<&'static str>, expect: &[(HeaderName, &str)]) {
        let origins = match origins {
            "" => Origins::None,
            text => Origins::parse(text).unwrap(),
        };
        let request = origin.map(|it| headers(&[(ORIGIN, it)])).unwrap_or_default();
        let mut reply = headers(&[(CONTENT_TYPE, "text/plain"), (RETRY_AFTER, "1")]);
        share(&origins, &request, &mut reply);
        let given: Vec<_> = reply.iter().map(|it| (it.0.clone(), it.1.to_str().unwrap())).collect();
        let given: Vec<_> = given
            .into_iter()
            .filter(|it| it.0 == VARY || it.0.as_str().starts_with("access-control"))
            .collect();
        let mut expect = expect.to_vec();
        expect.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        let mut given = given;
        given.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        assert_eq!(given, expect);
    }

    #[test]
    fn only_pages_that_may_read_a_reply_are_told_so() {
        let exposed = (ACCESS_CONTROL_EXPOSE_HEADERS, "retry-after");
        let vary = (VARY, "origin");
        check("", Some(PAGE), &[]);
        check("*", None, &[(ACCESS_CONTROL_ALLOW_ORIGIN, "*"), exposed.clone()]);
        check("*", Some(PAGE), &[(ACCESS_CONTROL_ALLOW_ORIGIN, "*"), exposed.clone()]);
        let two = "http://localhost:3000, https://app.example";
        let allowed = [(ACCESS_CONTROL_ALLOW_ORIGIN, PAGE), exposed, vary.clone()];
        check(two, Some(PAGE), &allowed);
        for other in [None, Some("https://evil.example"), Some("null"), Some("")] {
            check(two, other, std::slice::from_ref(&vary));
        }
    }

    #[test]
    fn options_says_the_methods_and_what_a_page_may_send() {
        let origins = Origins::parse(PAGE).unwrap();
        let plain = options(&origins, &HeaderMap::new(), &[Method::GET, Method::HEAD]).unwrap();
        assert_eq!(plain.status(), 204);
        assert_eq!(plain.headers()[ALLOW], "GET, HEAD, OPTIONS");
        assert_eq!(plain.headers().len(), 1);
        let asked = |origin| {
            headers(&[
                (ORIGIN, origin),
                (ACCESS_CONTROL_REQUEST_METHOD, "POST"),
                (ACCESS_CONTROL_REQUEST_HEADERS, "authorization,content-type"),
            ])
        };
        let reply = options(&origins, &asked(PAGE), &[Method::POST]).unwrap();
        assert_eq!(reply.headers()[ACCESS_CONTROL_ALLOW_METHODS], "POST");
        assert_eq!(reply.headers()[ACCESS_CONTROL_ALLOW_HEADERS], "authorization,content-type");
        assert_eq!(reply.headers()[ACCESS_CONTROL_MAX_AGE], "3600");
        let elsewhere = options(&origins, &asked("https://evil.example"), &[Method::POST]).unwrap();
        assert_eq!(elsewhere.headers().len(), 1, "{elsewhere:?}");
        // An address that is none.
        assert!(options(&origins, &HeaderMap::new(), &[]).is_none());
        assert!(options(&origins, &asked("https://evil.example"), &[]).is_none());
        let unknown = options(&origins, &asked(PAGE), &[]).unwrap();
        assert_eq!(unknown.headers()[ACCESS_CONTROL_ALLOW_METHODS], "POST");
    }
}

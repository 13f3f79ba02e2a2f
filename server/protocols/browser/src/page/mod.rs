//! `/docs`: the page on which a person tries the models and sees what the server does. It is one file, the same for
//! all, and holds nothing of the server. What it shows, it asks for by the addresses that programs use, with the token
//! that the person gives it.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use frontend::http::{body::Segments, respond};
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use ring::digest::{SHA256, digest};

const HTML: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/page.css");
/// One module, in reading order: each file uses what those before it declare. The last one starts the page.
const SCRIPT: &str = concat!(
    include_str!("assets/dom.js"),
    include_str!("assets/server.js"),
    include_str!("assets/tensors.js"),
    include_str!("assets/sound.js"),
    include_str!("assets/fields.js"),
    include_str!("assets/forms.js"),
    include_str!("assets/answer.js"),
    include_str!("assets/code.js"),
    include_str!("assets/readings.js"),
    include_str!("assets/charts.js"),
    include_str!("assets/live.js"),
    include_str!("assets/page.js"),
);

/// The page and its headers, made once. Every reply shares the bytes.
#[derive(Debug)]
pub struct Page {
    html: Bytes,
    policy: HeaderValue,
    tag: HeaderValue,
}

impl Page {
    /// Joins the parts of the page.
    pub fn new() -> Page {
        let html = HTML.replacen("{style}", STYLE, 1).replacen("{script}", SCRIPT, 1);
        let value = |text: String| HeaderValue::try_from(text).expect("it is ASCII");
        // Only this style and this script count, wherever a text of an answer might end up. And the page can make no
        // element of a text, whatever its script does.
        let policy = format!(
            "default-src 'none'; connect-src 'self'; img-src data: blob:; media-src blob:; \
             style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            sha256(STYLE),
            sha256(SCRIPT)
        );
        let tag = value(format!("\"{}\"", sha256(&html)));
        Page { html: html.into(), policy: value(policy), tag }
    }

    /// The reply to a request with these headers: the page, or that the browser has it.
    pub fn reply(&self, headers: &HeaderMap) -> Response<Segments> {
        let mut response = match self.is_known(headers) {
            true => respond::empty(StatusCode::NOT_MODIFIED),
            false => respond::raw("text/html; charset=utf-8", self.html.clone()),
        };
        let fixed = HeaderValue::from_static;
        response.headers_mut().extend([
            (CONTENT_SECURITY_POLICY, self.policy.clone()),
            (X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
            (REFERRER_POLICY, fixed("no-referrer")),
            // A server of another version has another page: a browser asks each time, and mostly gets no body.
            (CACHE_CONTROL, fixed("no-cache")),
            (ETAG, self.tag.clone()),
        ]);
        response
    }

    /// Does the client have this page?
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let given = headers.get_all(IF_NONE_MATCH).iter().filter_map(|it| it.to_str().ok());
        given.flat_map(|it| it.split(',')).any(|it| {
            let tag = it.trim();
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == self.tag.as_bytes()
        })
    }
}

fn sha256(text: &str) -> String {
    STANDARD.encode(digest(&SHA256, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(if_none_match: &[&str], expect: StatusCode) {
        let page = Page::new();
        let mut headers = HeaderMap::new();
        for it in if_none_match {
            let value = it.replace("TAG", page.tag.to_str().unwrap());
            headers.append(IF_NONE_MATCH, value.try_into().unwrap());
        }
        let response = page.reply(&headers);
        assert_eq!(response.status(), expect, "{if_none_match:?}");
        assert_eq!(response.headers()[ETAG], page.tag);
        assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], page.policy);
    }

    #[test]
    fn a_browser_that_has_the_page_is_told_so() {
        for known in [&["TAG"][..], &["W/TAG"], &["\"a\", TAG"], &["\"a\"", "TAG"], &["*"]] {
            check(known, StatusCode::NOT_MODIFIED);
        }
        for other in [&[][..], &["\"a\""], &["TAG-"], &[""]] {
            check(other, StatusCode::OK);
        }
    }

    #[test]
    fn the_page_is_small_and_whole() {
        let page = Page::new();
        let html = std::str::from_utf8(&page.html).unwrap();
        assert!(html.len() <= 120_000, "{} bytes", html.len());
        for (part, element) in [(STYLE, "style>"), (SCRIPT, "script>")] {
            assert_eq!(html.matches(part).count(), 1);
            // Nothing in a part ends its element.
            assert!(!part.contains("</"), "{element}");
            assert!(html.contains(&format!("{part}</{element}")));
        }
    }

    #[test]
    fn the_page_names_no_other_server() {
        let page = Page::new();
        let html = std::str::from_utf8(&page.html).unwrap();
        let addresses =
            html.match_indices("://").map(|(at, _)| &html[at.saturating_sub(5)..at + 26]);
        let foreign: Vec<_> =
            addresses.filter(|it| !it.contains("http://www.w3.org/2000/svg")).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    }
}

//! The pages of other sites that may read replies, by their origins: `https://app.example:8443`.

use std::sync::Arc;

/// The pages of other sites that may read replies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origins {
    /// None.
    #[default]
    None,
    /// All.
    Any,
    /// Those of these origins, in small letters and without the port that is usual for their scheme.
    These(Arc<[String]>),
}

/// What was expected of a text that is no list of origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "*, or origins with commas between them, each a scheme and a host, and a port where it is not the usual one: \
     https://app.example,http://localhost:3000"
)]
pub struct NoOrigins;

impl Origins {
    /// Reads a setting's text: `*`, or origins with commas between them.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Origins, NoOrigins> {
        if text.trim() == "*" {
            return Ok(Origins::Any);
        }
        let origins: Option<Vec<String>> = text.split(',').map(origin).collect();
        origins.map(|it| Origins::These(it.into())).ok_or(NoOrigins)
    }

    /// May pages of that origin read replies?
    pub fn allow(&self, origin: &[u8]) -> bool {
        match self {
            Origins::None => false,
            Origins::Any => true,
            Origins::These(origins) => {
                origins.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(origin))
            }
        }
    }
}

/// An origin as browsers write it; `None` for another text. That includes `null`, which any page can have.
fn origin(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let (scheme, authority) = text.split_once("://")?;
    let mut letters = scheme.bytes();
    let is_scheme = letters.next().is_some_and(|it| it.is_ascii_lowercase())
        && letters.all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it));
    let (host, port) = match authority.rfind(':').filter(|it| !authority.ends_with(']') || *it == 0)
    {
        Some(at) => (authority.get(..at)?, authority.get(at + 1..)),
        None => (authority, None),
    };
    let is_port = port.is_none_or(|it| it.parse::<u16>().is_ok_and(|port| it == port.to_string()));
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"-._".contains(&it);
    let is_address = |it: &str| it.parse::<std::net::Ipv6Addr>().is_ok();
    let is_host = match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(address) => is_address(address),
        None => !host.is_empty() && host.bytes().all(is_letter),
    };
    if !is_scheme || !is_host || !is_port {
        return None;
    }
    let is_usual = matches!((scheme, port), ("http", Some("80")) | ("https", Some("443")));
    Some(if is_usual { format!("{scheme}://{host}") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_write_them() {
        let text = "https://App.example:443, http://localhost:3000,http://[::1]:8080,http://a:80";
        let Origins::These(origins) = Origins::parse(text).unwrap() else { panic!("{text}") };
        let expect =
            ["https://app.example", "http://localhost:3000", "http://[::1]:8080", "http://a"];
        assert_eq!(*origins, expect);
        assert_eq!(Origins::parse(" * "), Ok(Origins::Any));
        for wrong in [
            "",
            "null",
            "app.example",
            "https://",
            "https://a/",
            "https://a:x",
            "https://a:99999",
            "https://a,*",
            "https://a,,https://b",
            "https://a b",
            "https://*.example",
            "://a",
            "http://[::1",
            "http://user@a",
        ] {
            assert_eq!(Origins::parse(wrong), Err(NoOrigins), "{wrong}");
        }
    }

    #[test]
    fn a_page_is_allowed_by_its_whole_origin() {
        let these = Origins::parse("https://app.example").unwrap();
        assert!(these.allow(b"https://app.example"));
        for other in [
            "https://app.example:8443",
            "http://app.example",
            "https://app.example.evil",
            "null",
            "",
        ] {
            assert!(!these.allow(other.as_bytes()), "{other}");
        }
        assert!(Origins::Any.allow(b"null"));
        assert!(!Origins::None.allow(b"https://app.example"));
    }
}

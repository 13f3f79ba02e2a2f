//! Names of images and artifacts in a registry. Pure.

use std::{fmt, net::IpAddr};

/// Begins the name of an image.
const SCHEME: &str = "oci://";

/// An image, or another artifact, of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciName {
    /// The registry's host, with its port where it has an unusual one.
    pub host: String,
    /// Its path there.
    pub repository: String,
    /// Which one is meant.
    pub reference: OciReference,
}

/// Which image of a repository is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OciReference {
    /// `:v1`, and `:latest` where nothing is said.
    Tag(String),
    /// `@sha256:<digest>`, in small hexadecimal letters. A tag beside it says nothing more.
    Digest(String),
}

impl OciName {
    /// The image that a text names; `None` for a text that does not begin so.
    pub(crate) fn parse(text: &str) -> Option<Option<OciName>> {
        Some(OciName::of_rest(text.strip_prefix(SCHEME)?))
    }

    fn of_rest(rest: &str) -> Option<OciName> {
        let (host, path) = rest.split_once('/')?;
        let (path, digest) = match path.split_once("@sha256:") {
            Some((path, digest)) => (path, Some(digest.to_ascii_lowercase())),
            None => (path, None),
        };
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        let is_hex = |it: &str| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit());
        let is_known = tag.is_none_or(is_tag) && digest.as_deref().is_none_or(is_hex);
        let is_repository = repository.len() <= 200 && repository.split('/').all(is_component);
        let reference = match digest {
            Some(digest) => OciReference::Digest(digest),
            None => OciReference::Tag(tag.unwrap_or("latest").to_owned()),
        };
        (is_host(host) && is_known && is_repository).then(|| OciName {
            host: host.to_owned(),
            repository: repository.to_owned(),
            reference,
        })
    }

    /// Is the registry on this machine? Only there it is asked without TLS.
    pub fn is_local(&self) -> bool {
        is_loopback(self.host.rsplit_once(':').map_or(&*self.host, |it| it.0))
    }
}

/// Is it a name of this machine, or an address that never leaves it?
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

impl fmt::Display for OciName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OciName { host, repository, reference } = self;
        match reference {
            OciReference::Tag(tag) => write!(f, "{SCHEME}{host}/{repository}:{tag}"),
            OciReference::Digest(digest) => {
                write!(f, "{SCHEME}{host}/{repository}@sha256:{digest}")
            }
        }
    }
}

/// A host, perhaps with a port.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().is_ok()),
        None => (text, true),
    };
    let is_letter = |it: char| it.is_ascii_alphanumeric() || "-.".contains(it);
    let is_plain = !host.starts_with(['-', '.']) && host.len() <= 200;
    port && is_plain && !host.is_empty() && host.chars().all(is_letter)
}

/// A part of a repository's path.
fn is_component(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_plain = text.starts_with(is_letter) && text.ends_with(is_letter);
    is_plain && text.chars().all(|it| is_letter(it) || "-_.".contains(it))
}

fn is_tag(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let is_plain = !text.is_empty() && text.len() <= 128 && !text.starts_with(['-', '.']);
    is_plain && text.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rest: &str, whole: &str, is_local: bool) {
        let name = OciName::parse(&format!("{SCHEME}{rest}")).unwrap().unwrap();
        assert_eq!(name.to_string(), format!("{SCHEME}{whole}"));
        assert_eq!(name.is_local(), is_local);
        assert_eq!(OciName::parse(&name.to_string()), Some(Some(name)));
    }

    #[test]
    fn an_image_has_a_tag_or_a_digest() {
        let digest = "ab".repeat(32);
        check("ghcr.io/org/churn:v1.2", "ghcr.io/org/churn:v1.2", false);
        check("ghcr.io/org/churn", "ghcr.io/org/churn:latest", false);
        let by_digest = format!("h:5000/churn@sha256:{digest}");
        check(&format!("h:5000/churn:v1@sha256:{}", digest.to_uppercase()), &by_digest, false);
        check("localhost:5000/a/b_c/d-e.f:x", "localhost:5000/a/b_c/d-e.f:x", true);
        check("127.0.0.1:5000/a", "127.0.0.1:5000/a:latest", true);
    }

    #[test]
    fn what_could_lead_elsewhere_is_refused() {
        for rest in [
            "",
            "host",
            "host/",
            "/a",
            "h/A",
            "h/a:",
            "h/a:.x",
            "h/a@sha256:12",
            "h/a//b",
            "h/../b",
            "u:p@h/a",
            "h:99999/a",
            "h?x/a",
            "h/a?x",
            "h/a:x/y",
            "h/a#x",
        ] {
            assert_eq!(OciName::parse(&format!("{SCHEME}{rest}")), Some(None), "{rest}");
        }
        assert_eq!(OciName::parse("host/a:v1"), None);
    }
}

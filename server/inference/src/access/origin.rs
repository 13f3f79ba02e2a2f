//! Requests that a browser makes for a page of another site. A browser lets any page send requests to any server, also
//! to one that only this machine reaches, and names the page's site in the header `Origin`. Other programs send none.

use std::{borrow::Cow, net::IpAddr, sync::Arc};

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

/// What was expected of a text that is no list of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("names of hosts without ports, with commas between them")]
pub struct NoHostNames;

/// The names of this server in the header `Host` of its own pages, beside `localhost` and addresses.
///
/// A page of another site can be its own by its name alone: whoever owns a name may have it lead to this machine once
/// the page is there (DNS rebinding). An address and `localhost` lead nowhere else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames(Arc<[String]>);

impl HostNames {
    /// Reads a setting's text: names with commas between them.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<HostNames, NoHostNames> {
        let is_name = |it: &str| {
            let is_letter = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'.';
            !it.is_empty() && it.bytes().all(is_letter)
        };
        let names: Vec<String> = text.split(',').map(|it| it.trim().to_ascii_lowercase()).collect();
        match names.iter().all(|it| is_name(it)) {
            true => Ok(HostNames(names.into())),
            false => Err(NoHostNames),
        }
    }

    /// May pages of this `host`, a name or an address with or without a port, be this server's own?
    pub fn lead_here(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        let is_port = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return false;
        }
        let name = name.to_ascii_lowercase();
        let is_local = name == "localhost" || name.ends_with(".localhost");
        is_local || name.parse::<IpAddr>().is_ok() || self.0.contains(&name)
    }
}

/// What is said of a page of this server's own whose name may lead anywhere.
pub fn foreign_name_text(host: Option<&[u8]>) -> String {
    let host = String::from_utf8_lossy(host.unwrap_or_default());
    format!(
        "header host: expected an address, localhost or a name of --allowed-hosts for what changes the server and is \
         asked for by a page, given '{host}'; add the name if it is this server's"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_that_are_configured_lead_here_and_no_others() {
        let names = HostNames::parse("models.example, Gateway").unwrap();
        for host in [
            "127.0.0.1:8000",
            "127.0.0.1",
            "10.0.0.7:80",
            "[::1]:8000",
            "[::1]",
            "localhost:8000",
            "LOCALHOST",
            "a.localhost:1",
            "models.example",
            "Models.Example:8000",
            "gateway:443",
        ] {
            assert!(names.lead_here(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":8000",
            "evil.example:8000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "x.models.example",
            "[evil]:1",
            "127.0.0.1:8000.evil.example",
        ] {
            assert!(!names.lead_here(host.as_bytes()), "{host}");
        }
        assert!(!HostNames::default().lead_here(b"models.example"));
        for wrong in ["", "a,,b", "a:8000", "http://a", "*"] {
            assert!(HostNames::parse(wrong).is_err(), "{wrong}");
        }
    }

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

//! Where a server is: the parts of an `http://` or `https://` address, and its resolution.

use std::{
    fmt,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    str::FromStr,
};

use crate::{
    Error,
    tls::{Dialer, Tls},
    trust::Trust,
};

/// A server's address: `http://host[:port][/path]` or `https://..`. The port is 80 or 443 where none is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name or address; an IPv6 address without its brackets.
    host: String,
    port: u16,
    path: String,
    /// How TLS is spoken, where the address asks for it.
    tls: Option<Tls>,
}

impl Target {
    /// The server at this address, believing these certificates where it speaks TLS. Reads files.
    ///
    /// # Errors
    /// When it is no address, or a file of authorities cannot be used.
    pub fn trusted(address: &str, trust: &Trust) -> Result<Target, Error> {
        address.parse::<Target>()?.trusting(trust)
    }

    /// Is one of these servers one that a file of authorities is for, if one is named?
    ///
    /// # Errors
    /// When none is.
    pub fn check_trust<'a>(
        servers: impl IntoIterator<Item = &'a Target>,
        trust: &Trust,
    ) -> Result<(), Error> {
        let is_secure = servers.into_iter().any(|it| it.tls.is_some());
        match trust.names_authorities() && !is_secure {
            true => {
                let problem =
                    "expected a server at https://, given none: write https:// or leave it out";
                Err(Error::plan("--cacert", problem))
            }
            false => Ok(()),
        }
    }

    /// The same, believing these certificates where it speaks TLS. Reads files.
    ///
    /// # Errors
    /// When a file of authorities cannot be used.
    pub(crate) fn trusting(self, trust: &Trust) -> Result<Target, Error> {
        let tls = self.tls.is_some().then(|| Tls::new(trust)).transpose()?;
        Ok(Target { tls, ..self })
    }

    /// What its connections are made TLS by, for that protocol; `None` where they are not.
    ///
    /// # Errors
    /// When no certificate can have the host's name.
    pub(crate) fn dialer(&self, protocol: &str) -> Result<Option<Dialer>, Error> {
        self.tls.as_ref().map(|it| it.dialer(&self.host, protocol)).transpose()
    }

    /// `http` or `https`.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The path of the address, with its query; empty where none was given or it was `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Its address, where its name is one of this machine alone.
    pub(crate) fn loopback(&self) -> Option<SocketAddr> {
        let is_here =
            self.host == "localhost" || self.host.parse().is_ok_and(|it: IpAddr| it.is_loopback());
        is_here.then(|| self.resolve().ok()).flatten().filter(|it| it.ip().is_loopback())
    }

    /// The first address of the host. May block on the resolver.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Error> {
        let failed = |source| Error::Resolve { host: self.host.clone(), source };
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(failed)?;
        addresses.next().ok_or_else(|| failed(std::io::Error::other("the name has no address")))
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(given: &str) -> Result<Target, Error> {
        let wrong = |problem| Error::Url { given: given.to_owned(), problem };
        let (rest, is_secure) =
            match (given.strip_prefix("http://"), given.strip_prefix("https://")) {
                (Some(rest), _) => (rest, false),
                (_, Some(rest)) => (rest, true),
                _ => return Err(wrong("expected http://host[:port][/path], or https://")),
            };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => bracketed
                .split_once(']')
                .map(|(host, port)| (host, port.strip_prefix(':')))
                .ok_or_else(|| wrong("expected ']' after an IPv6 address"))?,
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() || host.contains(['@', ' ']) {
            return Err(wrong("expected a host name or address"));
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| wrong("expected a port from 1 to 65535"))?,
            None if is_secure => 443,
            None => 80,
        };
        let path = if path == "/" { "" } else { path };
        let tls = is_secure.then(|| Tls::new(&Trust::default())).transpose()?;
        Ok(Target { host: host.to_owned(), port, path: path.to_owned(), tls })
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Target {
        let (host, port) = (address.ip().to_string(), address.port());
        Target { host, port, path: String::new(), tls: None }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, authority: &str, path: &str) {
        let target: Target = given.parse().unwrap();
        assert_eq!((target.authority().as_str(), target.path()), (authority, path));
    }

    #[test]
    fn an_address_is_taken_apart() {
        check("http://localhost:8000", "localhost:8000", "");
        check("http://localhost:8000/", "localhost:8000", "");
        check("http://h/v2/models/m/infer?x=1", "h:80", "/v2/models/m/infer?x=1");
        check("http://[::1]:8080/invocations", "[::1]:8080", "/invocations");
        check("http://[::1]", "[::1]:80", "");
        check("https://h/x", "h:443", "/x");
        let secure: Target = "https://h:1/x".parse().unwrap();
        assert_eq!((secure.scheme(), secure.to_string().as_str()), ("https", "https://h:1/x"));
    }

    #[test]
    fn only_names_of_this_machine_alone_are_loopback() {
        let of = |it: &str| it.parse::<Target>().unwrap().loopback().map(|it| it.port());
        for here in ["http://127.0.0.1:81/v2", "http://[::1]:81", "http://localhost:81"] {
            assert_eq!(of(here), Some(81), "{here}");
        }
        assert_eq!((of("http://10.0.0.1:81"), of("http://h:81")), (None, None));
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_what_was_expected() {
        for (given, expected) in [
            ("ftp://h", "https://"),
            ("localhost:8000", "http://host"),
            ("http://:80", "host name"),
            ("http://h:port", "port"),
            ("http://[::1", "']'"),
        ] {
            let error = given.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(given), "{error}");
        }
    }
}

//! Who asks a registry of images: what `docker login` has kept, and what a registry wants to know. Pure.

use reqwest::{Url, header::HeaderValue};
use serde_json::Value;

use crate::{
    http::{basic, secret},
    source_settings::Secret,
};

/// What a registry wants of who asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A user and a password with each request.
    Basic,
    /// A token of another address, which gets the user and the password.
    Bearer {
        /// The address, with the service and the scope as its query.
        realm: Url,
    },
}

impl Challenge {
    /// Reads the header `WWW-Authenticate`. `None` for what nobody here can answer.
    pub(crate) fn parse(header: &str, scope: &str) -> Option<Challenge> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters(rest);
        let find = |name: &str| {
            let found = parameters.iter().find(|it| it.0.eq_ignore_ascii_case(name));
            found.map(|it| it.1.as_str())
        };
        let mut realm = Url::parse(find("realm")?).ok()?;
        {
            let mut query = realm.query_pairs_mut();
            if let Some(service) = find("service") {
                query.append_pair("service", service);
            }
            query.append_pair("scope", find("scope").unwrap_or(scope));
        }
        Some(Challenge::Bearer { realm })
    }
}

/// `name="value"` and `name=value`, with commas between them: within quotes a comma stands for itself.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        let name = name.trim_matches([',', ' ']);
        found.push((name.to_owned(), value.trim().to_owned()));
        rest = left;
    }
    found
}

/// The credentials for a registry that `docker login` has kept in its file.
pub(crate) fn kept(config: &Secret, host: &str) -> Option<HeaderValue> {
    let config: Value = serde_json::from_str(config.reveal()).ok()?;
    let all = config["auths"].as_object()?;
    let plain = |it: &str| {
        let rest = it.strip_prefix("https://").or_else(|| it.strip_prefix("http://"));
        rest.unwrap_or(it).split('/').next().unwrap_or_default().to_owned()
    };
    let names = [host, if host == DOCKER_HUB { "index.docker.io" } else { host }];
    let (_, entry) = all.iter().find(|(it, _)| names.contains(&&*plain(it)))?;
    let text = |name: &str| entry[name].as_str().filter(|it| !it.is_empty());
    match text("auth") {
        Some(auth) => secret(&format!("Basic {auth}")),
        None => basic(text("username")?, text("password")?),
    }
}

/// The host that images of Docker's own registry are named by, which is asked at another one.
pub(crate) const DOCKER_HUB: &str = "docker.io";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_says_where_a_token_is_to_be_had() {
        let header = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let Some(Challenge::Bearer { realm }) = Challenge::parse(header, "") else { panic!() };
        let query: Vec<_> = realm.query_pairs().into_owned().collect();
        assert_eq!(realm.host_str(), Some("auth.docker.io"));
        let expected = [("service", "registry.docker.io"), ("scope", "repository:a/b:pull,push")];
        assert_eq!(query, expected.map(|it| (it.0.to_owned(), it.1.to_owned())));
        let header = r#"bearer service=x, realm="http://h/t?a=1""#;
        let Some(Challenge::Bearer { realm }) = Challenge::parse(header, "s") else { panic!() };
        assert_eq!(realm.as_str(), "http://h/t?a=1&service=x&scope=s");
        assert_eq!(Challenge::parse("Basic realm=\"x\"", ""), Some(Challenge::Basic));
        for header in ["Negotiate", "Bearer", "Bearer realm=\"nowhere\"", ""] {
            assert_eq!(Challenge::parse(header, ""), None, "{header}");
        }
    }

    #[test]
    fn docker_keeps_credentials_by_the_host_or_by_an_address() {
        let config = r#"{"auths": {"ghcr.io": {"auth": "YTpi"}, "https://index.docker.io/v1/": {"auth": "Yzpk"},
            "h:5000": {"username": "a", "password": "b"}, "kept.elsewhere": {}}}"#;
        let config = Secret::new(config.to_owned());
        let find = |host: &str| kept(&config, host).map(|it| it.to_str().unwrap().to_owned());
        assert_eq!(find("ghcr.io").as_deref(), Some("Basic YTpi"));
        assert_eq!(find(DOCKER_HUB).as_deref(), Some("Basic Yzpk"));
        assert_eq!(find("h:5000").as_deref(), Some("Basic YTpi"));
        assert_eq!((find("kept.elsewhere"), find("h")), (None, None));
        assert!(!format!("{:?}", kept(&config, "ghcr.io")).contains("YTpi"));
    }
}

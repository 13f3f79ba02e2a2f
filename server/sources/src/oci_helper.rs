//! Logins that a credential helper keeps: a program of Docker's, named in its file, which is asked for one registry.
//! <https://github.com/docker/docker-credential-helpers#development>

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use reqwest::header::HeaderValue;
use serde_json::Value;

use crate::{http::basic, oci_login::DOCKER_HUB, source_settings::Secret};

/// How long a helper may take: some ask their user, or a service of a cloud.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most bytes of an answer.
const LONGEST: u64 = 64 << 10;

/// The user that a helper names where what it has is no password.
const TOKEN: &str = "<token>";

/// The helper that Docker's file names for a registry: one of its own, or that of all.
pub(crate) fn helper_of(config: &Secret, host: &str) -> Option<String> {
    let config: Value = serde_json::from_str(config.reveal()).ok()?;
    let own = server(host);
    let own = config["credHelpers"][own].as_str().or_else(|| config["credHelpers"][host].as_str());
    let name = own.or_else(|| config["credsStore"].as_str())?;
    // It becomes the name of a program.
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    is_name.then(|| format!("docker-credential-{name}"))
}

/// What helpers call a registry.
fn server(host: &str) -> &str {
    if host == DOCKER_HUB { "https://index.docker.io/v1/" } else { host }
}

/// The login that a helper has for a registry. Where it has none, or cannot be run, the log says why. Blocking.
pub(crate) fn ask(helper: &str, host: &str) -> Option<HeaderValue> {
    match answer(helper, server(host)) {
        Ok((user, _)) if user == TOKEN => {
            tracing::warn!(
                helper,
                host,
                "the credential helper has a token for other tools, and no password"
            );
            None
        }
        Ok((user, password)) => basic(&user, &password),
        Err(problem) => {
            tracing::warn!(helper, host, "no login of the credential helper: {problem}");
            None
        }
    }
}

/// The user and the password. How the program ends is not asked: the server waits for all of its children in one place.
fn answer(helper: &str, server: &str) -> Result<(String, String), String> {
    let mut program = Command::new(helper)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|it| it.to_string())?;
    // One that reads nothing has its answer all the same.
    if let Some(mut input) = program.stdin.take() {
        let _ = input.write_all(server.as_bytes());
    }
    let output = program.stdout.take().ok_or("it has no output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut said = String::new();
        let _ = output.take(LONGEST).read_to_string(&mut said);
        let _ = sender.send(said);
    });
    let said = receiver.recv_timeout(PATIENCE);
    let _ = program.kill();
    let _ = program.wait();
    let said = said.map_err(|_| format!("it has not answered within {PATIENCE:?}"))?;
    let json: Value = serde_json::from_str(&said).map_err(|_| {
        format!("expected JSON, it said '{}'", said.lines().next().unwrap_or_default().trim())
    })?;
    let text = |name: &str| json[name].as_str().map(str::to_owned);
    text("Username").zip(text("Secret")).ok_or_else(|| "expected Username and Secret".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_has_the_helper_of_its_own_or_that_of_all() {
        let config = r#"{"credHelpers": {"ecr.aws": "ecr-login", "https://index.docker.io/v1/": "hub", "x": "../x"},
            "credsStore": "secretservice"}"#;
        let config = Secret::new(config.to_owned());
        for (host, helper) in [
            ("ecr.aws", Some("docker-credential-ecr-login")),
            (DOCKER_HUB, Some("docker-credential-hub")),
            ("other", Some("docker-credential-secretservice")),
            ("x", None),
        ] {
            assert_eq!(helper_of(&config, host).as_deref(), helper, "{host}");
        }
        assert_eq!(helper_of(&Secret::new("{}".to_owned()), "x"), None);
    }
}

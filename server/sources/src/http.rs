//! Requests to a hub or a registry: asked again where that may help, and with credentials for the one host that they
//! are of.

use std::{error::Error, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER},
    redirect::Policy,
};
use serde_json::Value;

use crate::error::SourceProblem;

/// How often something is asked for that does not come through.
pub(crate) const ATTEMPTS: u32 = 5;

/// Longest time in which nothing comes.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// Longest wait that the other side may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Redirects of one request.
const MOST_HOPS: usize = 8;

/// Longest document that is read as a whole.
const LONGEST_DOCUMENT: usize = 32 << 20;

/// Longest document of an error that is read.
const LONGEST_REFUSAL: usize = 64 << 10;

/// Longest part of an error that is repeated.
const LONGEST_SAID: usize = 300;

/// What asks.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: Client,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// `Authorization`, which only the host of `url` gets.
    pub(crate) credentials: Option<HeaderValue>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) redirects: Redirects,
}

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// All of them.
    All,
    /// Those that stay on the host. Another one is an answer.
    OnHost,
}

impl Ask {
    /// Asks for what lies at an address.
    pub(crate) fn get(url: Url, credentials: Option<HeaderValue>) -> Ask {
        let headers = Vec::new();
        Ask { method: Method::GET, url, credentials, headers, redirects: Redirects::All }
    }

    /// The same, with a further header.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Ask {
        self.headers.push((name, value));
        self
    }
}

impl Http {
    /// Makes ready; nothing is asked yet.
    pub(crate) fn new() -> Result<Http, SourceProblem> {
        let client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(STALL)
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = client.map_err(|it| SourceProblem::System(std::io::Error::other(it)))?;
        Ok(Http { client })
    }

    /// The answer to a request, whose status is one of success, or of a redirect that is not to be followed.
    ///
    /// # Errors
    /// When the other side refuses, or cannot be asked.
    pub(crate) async fn send(&self, ask: &Ask) -> Result<Response, SourceProblem> {
        succeeded(self.answer(ask).await?).await
    }

    /// The answer to a request, whatever its status. Where another attempt may help it is asked again.
    ///
    /// # Errors
    /// When the other side cannot be asked.
    pub(crate) async fn answer(&self, ask: &Ask) -> Result<Response, SourceProblem> {
        let mut attempt = 1;
        loop {
            let answer = self.follow(ask).await;
            let wait = match &answer {
                Ok(it) => may_pass(it.status()).then(|| wait(it.headers(), attempt)),
                Err(SourceProblem::Away { .. }) => Some(pause(attempt)),
                Err(_) => None,
            };
            let Some(wait) = wait.filter(|_| attempt < ATTEMPTS) else { return answer };
            let problem = match answer {
                Ok(answer) => refused(answer).await,
                Err(problem) => problem,
            };
            tracing::warn!(seconds = wait.as_secs_f32(), "asked again after a pause: {problem}");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// A document of JSON.
    ///
    /// # Errors
    /// As [`Http::document`], and when it is something else.
    pub(crate) async fn json(&self, ask: &Ask) -> Result<Value, SourceProblem> {
        let document = self.document(ask).await?;
        serde_json::from_slice(&document)
            .map_err(|it| unexpected(&ask.url, &format!("expected JSON, it is none: {it}")))
    }

    /// A document, as a whole.
    ///
    /// # Errors
    /// As [`Http::send`], and when it is too long or breaks off.
    pub(crate) async fn document(&self, ask: &Ask) -> Result<Vec<u8>, SourceProblem> {
        read(self.send(ask).await?).await
    }

    /// Asks once, and goes where the answers lead.
    async fn follow(&self, ask: &Ask) -> Result<Response, SourceProblem> {
        let mut url = ask.url.clone();
        for _ in 0..MOST_HOPS {
            let mut request = self.client.request(ask.method.clone(), url.clone());
            for (name, value) in &ask.headers {
                request = request.header(name, value);
            }
            if let Some(credentials) = &ask.credentials
                && url.origin() == ask.url.origin()
            {
                request = request.header(AUTHORIZATION, credentials);
            }
            let answer = request.send().await.map_err(|it| away(&url, &it))?;
            let Some(next) = target(&answer) else { return Ok(answer) };
            if ask.redirects == Redirects::OnHost && next.origin() != ask.url.origin() {
                return Ok(answer);
            }
            let is_downgrade = url.scheme() == "https" && next.scheme() != "https";
            if is_downgrade || !["http", "https"].contains(&next.scheme()) {
                let problem = format!("expected to be led to https, was led to {}", shown(&next));
                return Err(SourceProblem::Answer { url: shown(&url), problem });
            }
            url = next;
        }
        let problem = format!("expected at most {MOST_HOPS} redirects, there are more");
        Err(SourceProblem::Answer { url: shown(&ask.url), problem })
    }
}

/// Where an answer leads to; `None` where it is no redirect.
fn target(answer: &Response) -> Option<Url> {
    let is_redirect = [301, 302, 303, 307, 308].contains(&answer.status().as_u16());
    let location = answer.headers().get(LOCATION).filter(|_| is_redirect)?.to_str().ok()?;
    answer.url().join(location).ok()
}

/// May another attempt succeed?
fn may_pass(status: StatusCode) -> bool {
    [408, 429, 500, 502, 503, 504].contains(&status.as_u16())
}

/// How long to wait: as long as the other side says, else longer each time.
fn wait(headers: &HeaderMap, attempt: u32) -> Duration {
    let said = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.trim().parse().ok());
    said.map_or_else(|| pause(attempt), |it| Duration::from_secs(it).min(LONGEST_WAIT))
}

/// The pause after an attempt of which nobody says how long to wait.
pub(crate) fn pause(attempt: u32) -> Duration {
    Duration::from_millis(250) * 2u32.pow(attempt.saturating_sub(1).min(6))
}

/// The answer, unless it refuses.
///
/// # Errors
/// What it says then.
pub(crate) async fn succeeded(answer: Response) -> Result<Response, SourceProblem> {
    let status = answer.status();
    match status.is_client_error() || status.is_server_error() {
        true => Err(refused(answer).await),
        false => Ok(answer),
    }
}

/// The document of an answer, as a whole.
///
/// # Errors
/// When it is too long or breaks off.
pub(crate) async fn read(mut answer: Response) -> Result<Vec<u8>, SourceProblem> {
    let url = answer.url().clone();
    let mut document = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|it| away(&url, &it))? {
        if LONGEST_DOCUMENT < document.len() + chunk.len() {
            let problem =
                format!("expected a document of at most {LONGEST_DOCUMENT} bytes, it is longer");
            return Err(unexpected(&url, &problem));
        }
        document.extend_from_slice(&chunk);
    }
    Ok(document)
}

/// What the other side says in refusing: in a header, or in a short document.
async fn refused(mut answer: Response) -> SourceProblem {
    let (url, status) = (shown(answer.url()), answer.status().as_u16());
    let header = answer.headers().get("x-error-message").and_then(|it| it.to_str().ok());
    let said = match header.map(str::to_owned) {
        Some(said) => said,
        None => {
            let mut document = Vec::new();
            while let Ok(Some(chunk)) = answer.chunk().await
                && document.len() + chunk.len() <= LONGEST_REFUSAL
            {
                document.extend_from_slice(&chunk);
            }
            message(&document)
        }
    };
    let said: String = said.chars().filter(|it| !it.is_control()).take(LONGEST_SAID).collect();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    SourceProblem::Refused { url, status, said, hint: "" }
}

/// What a document says in refusing: that of MLflow has a message, that of a registry of images a list of errors.
fn message(document: &[u8]) -> String {
    let document: Value = serde_json::from_slice(document).unwrap_or_default();
    let said = document["message"].as_str().or_else(|| document["errors"][0]["message"].as_str());
    said.unwrap_or_default().to_owned()
}

/// What came is not what was expected.
pub(crate) fn unexpected(url: &Url, problem: &str) -> SourceProblem {
    SourceProblem::Answer { url: shown(url), problem: problem.to_owned() }
}

/// The other side could not be asked, or broke off.
fn away(url: &Url, error: &reqwest::Error) -> SourceProblem {
    SourceProblem::Away { url: shown(url), reason: reason(error) }
}

/// What happened on the way, without the address.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !reasons.contains(&text) {
            reasons.push(text);
        }
        source = cause.source();
    }
    let mut reason = match (error.is_timeout(), reasons.is_empty()) {
        (true, _) => format!("no answer for {} s", STALL.as_secs()),
        (false, true) => "it cannot be asked".to_owned(),
        (false, false) => reasons.join(": "),
    };
    if reason.contains("certificate") {
        reason.push_str(
            "; for a certificate of your own, name its authority's file in SSL_CERT_FILE",
        );
    }
    reason
}

/// An address without what may be secret in it.
pub(crate) fn shown(url: &Url) -> String {
    let mut plain = url.clone();
    plain.set_query(None);
    plain.set_fragment(None);
    // Neither can fail for what has a host.
    let _ = plain.set_password(None);
    let _ = plain.set_username("");
    plain.to_string()
}

/// `Authorization: Bearer`, which no log shows.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    secret(&format!("Bearer {token}"))
}

/// `Authorization: Basic` of a user and a password, which no log shows.
pub(crate) fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    secret(&format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
}

/// `Authorization`, which no log shows.
pub(crate) fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_it_is_signed_by() {
        let url = Url::parse("https://user:pass@host/a/b?X-Amz-Signature=secret#x").unwrap();
        assert_eq!(shown(&url), "https://host/a/b");
    }

    #[test]
    fn a_refusal_says_why_as_mlflow_or_as_a_registry_does() {
        let of_mlflow = br#"{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such model"}"#;
        assert_eq!(message(of_mlflow), "no such model");
        let of_registry = br#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "unknown"}]}"#;
        assert_eq!(message(of_registry), "unknown");
        assert_eq!(message(b"<html>"), "");
    }

    #[test]
    fn the_other_side_says_how_long_to_wait_up_to_a_bound() {
        let said = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            wait(&headers, 1)
        };
        assert_eq!(said("7"), Duration::from_secs(7));
        assert_eq!(said("86400"), LONGEST_WAIT);
        assert_eq!(said("Wed, 21 Oct 2026 07:28:00 GMT"), pause(1));
        assert_eq!(wait(&HeaderMap::new(), 3), Duration::from_secs(1));
    }
}

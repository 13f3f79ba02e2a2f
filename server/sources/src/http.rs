//! Requests to a hub or a registry: asked again where that may help, and with credentials for the one host that they
//! are of.

use std::{error::Error, time::Duration};

use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER},
    redirect::Policy,
};

use crate::error::Problem;

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
    pub(crate) fn new() -> Result<Http, Problem> {
        let client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(STALL)
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = client.map_err(|it| Problem::System(std::io::Error::other(it)))?;
        Ok(Http { client })
    }

    /// The answer to a request, whose status is one of success, or of a redirect that is not to be followed.
    ///
    /// # Errors
    /// When the other side refuses, or cannot be asked.
    pub(crate) async fn send(&self, ask: &Ask) -> Result<Response, Problem> {
        let mut attempt = 1;
        loop {
            let (problem, wait) = match self.follow(ask).await {
                Ok(answer)
                    if !answer.status().is_client_error() && !answer.status().is_server_error() =>
                {
                    return Ok(answer);
                }
                Ok(answer) => {
                    let wait = may_pass(answer.status()).then(|| wait(answer.headers(), attempt));
                    (refused(answer).await, wait)
                }
                Err(problem @ Problem::Away { .. }) => (problem, Some(pause(attempt))),
                Err(problem) => (problem, None),
            };
            let Some(wait) = wait.filter(|_| attempt < ATTEMPTS) else { return Err(problem) };
            tracing::warn!(seconds = wait.as_secs_f32(), "asked again after a pause: {problem}");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// A document, as a whole.
    ///
    /// # Errors
    /// As [`Http::send`], and when it is too long or breaks off.
    pub(crate) async fn document(&self, ask: &Ask) -> Result<Vec<u8>, Problem> {
        let mut answer = self.send(ask).await?;
        let mut document = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|it| away(&ask.url, &it))? {
            if LONGEST_DOCUMENT < document.len() + chunk.len() {
                let problem = format!(
                    "expected a document of at most {LONGEST_DOCUMENT} bytes, it is longer"
                );
                return Err(Problem::Answer { url: shown(&ask.url), problem });
            }
            document.extend_from_slice(&chunk);
        }
        Ok(document)
    }

    /// Asks once, and goes where the answers lead.
    async fn follow(&self, ask: &Ask) -> Result<Response, Problem> {
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
                return Err(Problem::Answer { url: shown(&url), problem });
            }
            url = next;
        }
        let problem = format!("expected at most {MOST_HOPS} redirects, there are more");
        Err(Problem::Answer { url: shown(&ask.url), problem })
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

async fn refused(answer: Response) -> Problem {
    let (url, status) = (shown(answer.url()), answer.status().as_u16());
    let said = answer.headers().get("x-error-message").and_then(|it| it.to_str().ok());
    let said: String = said.unwrap_or_default().chars().take(LONGEST_SAID).collect();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Problem::Refused { url, status, said, hint: "" }
}

/// The other side could not be asked, or broke off.
fn away(url: &Url, error: &reqwest::Error) -> Problem {
    Problem::Away { url: shown(url), reason: reason(error) }
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
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
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

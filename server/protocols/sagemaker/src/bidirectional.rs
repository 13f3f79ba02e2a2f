//! `GET /invocations-bidirectional-stream`: the upgrade from HTTP to a WebSocket.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{
    HeaderMap, Response, StatusCode, Version,
    header::{
        ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
        EXPECT, HOST, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT,
        SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
        TRANSFER_ENCODING, UPGRADE,
    },
    upgrade::OnUpgrade,
};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::{front::Hosting, sessions::handler as sessions};
use frontend::http::{
    address::percent_decode,
    answer::Answer,
    body::Segments,
    in_parts::InMessages,
    parts::Parts,
    respond,
    service::{TARGET_MODEL, text},
    websocket::Opening,
};
use inference::{
    access::{foreign_origin, foreign_origin_text},
    error::Error,
};

/// The text that a server appends to the client's key, by RFC 6455.
const PROOF: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The version of the WebSocket protocol: the only one.
const SPOKEN: &str = "13";

/// Keys of the query that stand for headers: browsers and the platform cannot send other headers.
const QUERY: [(&str, HeaderName); 3] =
    [("content-type", CONTENT_TYPE), ("accept", ACCEPT), ("target-model", TARGET_MODEL)];

/// The key of the query that asks for an empty message behind the last part of an answer in parts.
const EMPTY_FINAL: &str = "empty-final-response";

/// Headers that belong to the request for the upgrade, not to its messages.
const OWN: [HeaderName; 11] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    EXPECT,
    SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Accepts an upgrade. The task that serves the connection finds the [`Opening`] among the extensions of the answer.
pub fn open(hosting: &Hosting<'_>, parts: &Parts) -> Answer {
    if !hosting.websocket {
        let problem = "there are no WebSockets here (--allow-websocket=false)";
        return Err(Error::NotFound(problem.to_owned()).into());
    }
    if !hosting.http.serving.drain.is_serving() {
        return Err(Error::ShuttingDown.into());
    }
    let host = parts.headers.get(HOST).map(HeaderValue::as_bytes);
    // A page that may read replies may talk, too.
    let allowed = &hosting.http.settings.origins;
    let origins = parts.headers.get_all(ORIGIN).iter().map(HeaderValue::as_bytes);
    if let Some(origin) = foreign_origin(origins.filter(|it| !allowed.allow(it)), host) {
        return Err(Error::Forbidden(foreign_origin_text(&origin, host)).into());
    }
    let upgrade = parts.extensions.get::<OnUpgrade>().filter(|_| wants_websocket(parts));
    let Some(upgrade) = upgrade else {
        return Ok(refuse(
            "this address is for WebSockets: expected 'Connection: Upgrade' and 'Upgrade: websocket', \
                          over HTTP/1.1",
        ));
    };
    let version = text(&parts.headers, &SEC_WEBSOCKET_VERSION).unwrap_or_default();
    if version != SPOKEN {
        return Ok(refuse(&format!(
            "header sec-websocket-version: expected {SPOKEN}, given '{version}'"
        )));
    }
    let key = text(&parts.headers, &SEC_WEBSOCKET_KEY).unwrap_or_default().trim();
    if !BASE64_STANDARD.decode(key).is_ok_and(|it| it.len() == 16) {
        let problem = "header sec-websocket-key: expected 16 bytes in base64";
        return Err(Error::InvalidRequest(problem.to_owned()).into());
    }
    let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{PROOF}").as_bytes());
    let proof = HeaderValue::try_from(BASE64_STANDARD.encode(proof));
    let proof = proof.map_err(|_| Error::Internal("a proof is no header".to_owned()))?;
    let opening = Opening {
        upgrade: upgrade.clone(),
        parts: Arc::new(of_messages(parts)?),
        is_in_order: parts.headers.contains_key(sessions::SESSION),
    };
    let mut response = respond::empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, proof);
    response.extensions_mut().insert(opening);
    Ok(response)
}

fn wants_websocket(parts: &Parts) -> bool {
    parts.version == Version::HTTP_11 && has_word(&parts.headers, &UPGRADE, "websocket")
}

/// Is `word` in the comma-separated list of the header?
fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|it| it.split(',')).any(|it| it.trim().eq_ignore_ascii_case(word))
}

/// A refusal that names the protocol to upgrade to.
fn refuse(problem: &str) -> Response<Segments> {
    let mut response = respond::unhealthy(StatusCode::UPGRADE_REQUIRED, problem);
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(SPOKEN));
    response
}

/// The head that each message gets.
fn of_messages(parts: &Parts) -> Result<Parts, Error> {
    let mut parts = parts.clone();
    parts.extensions.clear();
    let mut in_messages = InMessages { ends_empty: false };
    OWN.iter().for_each(|it| drop(parts.headers.remove(it)));
    let query = parts.uri.query().unwrap_or_default().to_owned();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key == EMPTY_FINAL {
            in_messages.ends_empty = match &*percent_decode(value)? {
                "true" => true,
                "false" => false,
                given => return Err(not_a_switch(given)),
            };
        }
        // Other keys may be the platform's, or meant for a proxy.
        let known = QUERY.into_iter().find(|it| it.0 == key);
        let Some((_, header)) = known else { continue };
        let value: Cow<'_, str> = percent_decode(value)?;
        let value = HeaderValue::try_from(&*value);
        let value = value.map_err(|_| {
            Error::InvalidRequest(format!("{key} in the query: expected what a header can have"))
        })?;
        parts.headers.insert(header, value);
    }
    parts.extensions.insert(in_messages);
    Ok(parts)
}

fn not_a_switch(given: &str) -> Error {
    let given: String = given.chars().take(20).collect();
    Error::InvalidRequest(format!(
        "{EMPTY_FINAL} in the query: expected true or false, given '{given}'"
    ))
}

//! Stateful sessions on SageMaker's addresses: opening, using and closing them.

use std::sync::Arc;

use hyper::{
    Response, StatusCode,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};

use crate::{
    codec::invocations::{Invocation, session::Control},
    front::Hosting,
    invocations,
    sessions::{
        open::{Used, is_id},
        table::SessionTable,
    },
};
use frontend::{
    exchange::payload::Payload,
    http::{answer::Answer, body::Segments, parts::Parts, respond, service::text},
};
use inference::{
    error::Error,
    request::{Sequence, SequenceId},
};
use serving::ServedModel;

/// The header with the session's id, or with the wish for a new session.
pub const SESSION: HeaderName = HeaderName::from_static("x-amzn-sagemaker-session-id");

const NEW: HeaderName = HeaderName::from_static("x-amzn-sagemaker-new-session-id");
const CLOSED: HeaderName = HeaderName::from_static("x-amzn-sagemaker-closed-session-id");

/// The header's value that asks for a new session.
const WISH: &str = "NEW_SESSION";

/// Answers a request with the session header.
pub async fn answer(
    hosting: &Hosting<'_>,
    model: Arc<ServedModel>,
    parts: &Parts,
    invocation: Invocation,
    body: Payload<'_, Incoming>,
) -> Answer {
    let Some(table) = &hosting.sessions else {
        return Err(invalid("there are no sessions here: start the server with --sessions").into());
    };
    let given = text(&parts.headers, &SESSION).unwrap_or_default();
    let json_length = invocation.declared.json_length();
    let received = body.receive(json_length, &hosting.http.settings.body).await?.whole().await?;
    let models = &hosting.http.serving.models;
    match (given, Control::of(&received.bytes)) {
        (WISH, Some(Control::New)) => {
            let opened = table.open(models, &model)?;
            // Two headers: the platform's, and that of AWS's own containers.
            said([(NEW, opened.clone()), (SESSION, opened)])
        }
        (WISH, _) => Err(invalid(
            "expected the body {\"requestType\":\"NEW_SESSION\"}, which opens a session; inference takes the id that \
             this gives",
        )
        .into()),
        (id, _) if !is_id(id) => Err(invalid(
            "expected NEW_SESSION, or the id of a session: letters and digits with dashes between them, at most 256",
        )
        .into()),
        (_, Some(Control::New)) => {
            Err(invalid("expected NEW_SESSION where the body asks for a session").into())
        }
        (id, Some(Control::Close)) => {
            table.close(models, id)?;
            said([(CLOSED, id.to_owned())])
        }
        (id, None) => {
            let used = table.find(models, id, &model.signature.model)?;
            run(hosting, model, parts, invocation, Payload::Here(received), Use { table, id, used }).await
        }
    }
}

/// A request of a session.
struct Use<'a> {
    table: &'a SessionTable,
    id: &'a str,
    used: Used,
}

async fn run(
    hosting: &Hosting<'_>,
    model: Arc<ServedModel>,
    parts: &Parts,
    invocation: Invocation,
    body: Payload<'_, Incoming>,
    Use { table, id, used: Used { session, is_first } }: Use<'_>,
) -> Answer {
    if model.signature.model != session.model {
        return Err(Error::InvalidRequest(format!(
            "session '{id}' is one of model '{}', this request is for '{}'",
            session.model, model.signature.model
        ))
        .into());
    }
    // The version at the opening of the session has its state, as long as that version serves.
    let own = || hosting.http.serving.models.get(&session.model, Some(session.version)).ok();
    let model = match model.signature.version == session.version {
        true => model,
        false => own().unwrap_or(model),
    };
    let _first =
        is_first.then(|| First { table, id, model: model.clone(), sequence: &session.sequence });
    let place = Sequence { id: session.sequence.clone(), start: is_first, end: false };
    invocations::infer(hosting, model, parts, invocation, body, Some(&place)).await
}

/// The first request of a session, until it is answered or its client leaves. If the request has begun no sequence by
/// then, the next request counts as the first.
struct First<'a> {
    table: &'a SessionTable,
    id: &'a str,
    model: Arc<ServedModel>,
    sequence: &'a SequenceId,
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        if !self.model.has_sequence(self.sequence) {
            self.table.forget_use(self.id);
        }
    }
}

/// An empty reply with these headers.
fn said<const N: usize>(headers: [(HeaderName, String); N]) -> Answer {
    let mut response: Response<Segments> = respond::empty(StatusCode::OK);
    for (name, value) in headers {
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|_| Error::Internal("a session's id is no header".to_owned()))?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

fn invalid(problem: &str) -> Error {
    Error::InvalidRequest(format!("header {SESSION}: {problem}"))
}

//! SageMaker's `/invocations`: one request in whatever format, on the model that it is for.

use std::sync::Arc;

use backend::BackendError;
use bytes::Bytes;
use hyper::{
    StatusCode,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE},
    http::request::Parts,
};

use super::{
    super::{
        respond,
        service::{Service, text},
    },
    Answer,
    inference::{HttpCodec, Work, inference},
    observed::{CUSTOM_ATTRIBUTES, Observed},
    owned_text, sessions,
};
use crate::exchange::{Failure, intake::Payload};
use inference::{error::Error, request::Sequence, signature::Signature};
use models::ServedModel;
use protocol::{
    sagemaker::{self, Attributes},
    xgboost,
};

/// `POST /invocations`.
pub(super) async fn invocations(
    service: &Service,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Answer {
    let model = chosen(service, parts).await?;
    invoke(service, model, parts, body).await
}

/// The model that a request's headers choose.
pub(super) async fn chosen(service: &Service, parts: &Parts) -> Result<Arc<ServedModel>, Error> {
    let attributes = attributes(parts)?;
    match attributes.model {
        Some(name) => {
            let deadline = || service.deadline(&parts.headers);
            service.serving.model(name, attributes.version, deadline).await
        }
        None => service.invoked(&parts.headers, attributes.version).await,
    }
}

/// The same on a model that is known, for every address that takes what `/invocations` takes.
pub(super) async fn invoke(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Answer {
    if parts.headers.contains_key(sessions::SESSION) {
        // In a box: other requests carry no room for it.
        return Box::pin(sessions::answer(service, model, parts, body)).await;
    }
    infer(service, model, parts, body, None).await
}

/// The same for what is an inference, whatever its headers say of a session. `sequence` is the one of its session.
pub(super) async fn infer(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    mut body: Payload<'_, Incoming>,
    sequence: Option<&Sequence>,
) -> Answer {
    let content_type = owned_text(&parts.headers, &CONTENT_TYPE);
    let accept = owned_text(&parts.headers, &ACCEPT);
    let json_length = content_type.as_deref().and_then(sagemaker::json_length);
    let work = match (sagemaker::may_be_sparse(content_type.as_deref()), json_length) {
        (true, _) => Work::SparseBody,
        (false, Some(length)) => Work::Bytes(length),
        (false, None) => Work::Body,
    };
    let method = attributes(parts)?.method;
    let objective = model.config.parameters.get(xgboost::PARAMETER).cloned();
    let options = service.settings.sagemaker.clone();
    let head = sagemaker::Head {
        content_type: content_type.as_deref(),
        accept: accept.as_deref(),
        method,
        objective: objective.as_deref(),
    };
    let is_xgboost = sagemaker::speaks_xgboost(&options, head);
    if is_xgboost && body.length().is_none() {
        // Whether there is anything in it, only its end tells.
        model.admit()?;
        let received = Box::pin(body.receive(json_length, &service.settings.body)).await?;
        body = Payload::Here(received);
    }
    if is_xgboost && body.length() == Some(0) {
        // So its container says that there is nothing to predict.
        return Ok(respond::empty(StatusCode::NO_CONTENT));
    }
    let observed = Observed::begin(service, &model, parts);
    let captured = observed.captured();
    let decode = move |signature: &Signature, body: Bytes| {
        if let Some(captured) = captured {
            captured.input(&body);
        }
        let head = sagemaker::Head {
            content_type: content_type.as_deref(),
            accept: accept.as_deref(),
            method,
            objective: objective.as_deref(),
        };
        Ok(sagemaker::decode(signature, head, &options, body)?)
    };
    let expanded = move |signature: &Signature, body: &Bytes| {
        let _ = (signature, body);
        0
    };
    let codec =
        HttpCodec { header_length: json_length, expanded, work, decode, encode: sagemaker::encode };
    let mut answer = inference(service, model, parts, body, codec, sequence).await;
    if is_xgboost {
        answer = answer.map_err(blame_the_body);
    }
    observed.end(&mut answer);
    let mut response = answer?;
    if let Some(attributes) = parts.headers.get(&CUSTOM_ATTRIBUTES)
        && service.settings.hosted.echo_attributes
    {
        // The platform passes them on to the client only if the container repeats them.
        response.headers_mut().insert(CUSTOM_ATTRIBUTES.clone(), attributes.clone());
    }
    Ok(response)
}

/// What clients of the TensorFlow Serving container say of model, version and method.
fn attributes(parts: &Parts) -> Result<Attributes<'_>, Error> {
    let header = text(&parts.headers, &CUSTOM_ATTRIBUTES);
    header.map_or_else(|| Ok(Attributes::default()), Attributes::read)
}

/// A run that failed is the fault of its rows to XGBoost's container, and its clients look for that status.
fn blame_the_body(failure: Failure) -> Failure {
    let error = match failure.error {
        Error::Backend(BackendError::Execute(problem)) => Error::InvalidRequest(problem),
        other => other,
    };
    Failure { error, ..failure }
}

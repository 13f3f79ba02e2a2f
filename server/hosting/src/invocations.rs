//! SageMaker's `/invocations`: one request in any of its formats, on the model that it is for.

use std::sync::Arc;

use backend::BackendError;
use bytes::Bytes;
use hyper::{
    StatusCode,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE},
    http::request::Parts,
};

use crate::{
    front::Hosting,
    observed::{CUSTOM_ATTRIBUTES, Observed},
};
use frontend::exchange::{Failure, intake::Payload};
use frontend::http::{
    answer::{Answer, owned_text},
    inference::{HttpCodec, Work, inference},
    respond,
    service::text,
};
use inference::{error::Error, request::Sequence, signature::Signature};
use models::ServedModel;
use protocol::{
    sagemaker::{self, Attributes},
    tfs::Method,
    xgboost,
};

/// The model that a request's headers choose.
pub async fn chosen(hosting: &Hosting, parts: &Parts) -> Result<Arc<ServedModel>, Error> {
    let attributes = attributes(parts)?;
    match attributes.model {
        Some(name) => {
            let deadline = || hosting.http.deadline(&parts.headers);
            hosting.http.serving.model(name, attributes.version, deadline).await
        }
        None => hosting.invoked(&parts.headers, attributes.version).await,
    }
}

/// What the head of a request says of its body and of the reply.
struct Described {
    content_type: Option<String>,
    accept: Option<String>,
    method: Method,
    objective: Option<String>,
}

impl Described {
    fn head(&self) -> sagemaker::Head<'_> {
        sagemaker::Head {
            content_type: self.content_type.as_deref(),
            accept: self.accept.as_deref(),
            method: self.method,
            objective: self.objective.as_deref(),
        }
    }
}

/// Runs a body in any format on a model. `sequence` is the one of its session.
pub async fn infer(
    hosting: &Hosting,
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
    let options = hosting.http.settings.sagemaker.clone();
    let described = Arc::new(Described { content_type, accept, method, objective });
    let is_xgboost = sagemaker::speaks_xgboost(&options, described.head());
    if is_xgboost && body.length().is_none() {
        // A body of unknown length shows only at its end whether it is empty.
        model.admit()?;
        let received = Box::pin(body.receive(json_length, &hosting.http.settings.body)).await?;
        body = Payload::Here(received);
    }
    if is_xgboost && body.length() == Some(0) {
        // XGBoost's container answers an empty body with 204.
        return Ok(respond::empty(StatusCode::NO_CONTENT));
    }
    let observed = Observed::begin(hosting, &model, parts);
    let captured = observed.captured();
    // Read twice: for the bound of what decoding takes, and by decoding.
    let (bounded, rules) = (described.clone(), options.clone());
    let expanded = move |signature: &Signature, body: &Bytes, loose| {
        sagemaker::expanded(signature, bounded.head(), &rules, body, loose)
    };
    let decode = move |signature: &Signature, body: Bytes| {
        if let Some(captured) = captured {
            captured.input(&body);
        }
        Ok(sagemaker::decode(signature, described.head(), &options, body)?)
    };
    let codec =
        HttpCodec { header_length: json_length, expanded, work, decode, encode: sagemaker::encode };
    let mut answer = inference(&hosting.http, model, parts, body, codec, sequence).await;
    if is_xgboost {
        answer = answer.map_err(blame_the_body);
    }
    observed.end(&mut answer);
    let mut response = answer?;
    if let Some(attributes) = parts.headers.get(&CUSTOM_ATTRIBUTES)
        && hosting.answers.echo_attributes
    {
        // The platform passes these attributes on to the client only if the container repeats them.
        response.headers_mut().insert(CUSTOM_ATTRIBUTES.clone(), attributes.clone());
    }
    Ok(response)
}

/// The attributes in which clients of the TensorFlow Serving container name model, version and method.
fn attributes(parts: &Parts) -> Result<Attributes<'_>, Error> {
    let header = text(&parts.headers, &CUSTOM_ATTRIBUTES);
    header.map_or_else(|| Ok(Attributes::default()), Attributes::read)
}

/// XGBoost's container blames a failed run on the rows, with 400, and its clients look for that status.
fn blame_the_body(failure: Failure) -> Failure {
    let error = match failure.error {
        Error::Backend(BackendError::Execute(problem)) => Error::InvalidRequest(problem),
        other => other,
    };
    Failure { error, ..failure }
}

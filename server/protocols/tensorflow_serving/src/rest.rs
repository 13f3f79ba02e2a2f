//! TensorFlow Serving's REST API: inference, the states of a model's versions, and its signature.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;

use crate::{
    route::{Operation, VersionChoice, VersionPath},
    states::version_states,
};
use formats::{
    EncodedReply,
    tfs::{self, Method, Results},
};
use frontend::{
    exchange::{Decoded, Failure, offload::offload},
    http::{
        answer::Answer,
        inference::{HttpCodec, inference},
        parts::Parts,
        respond,
        service::Service,
    },
};
use inference::{
    boxed::BoxFuture, error::Error, grant::Grant, request::InferenceResponse, signature::Signature,
};
use serving::ServedModel;
use telemetry::metrics::CONTENT_TYPE;

/// Answers a request.
pub fn answer<'a>(
    service: &'a Service,
    operation: &'a Operation<'_>,
    parts: &'a Parts,
    body: &'a mut Incoming,
) -> BoxFuture<'a, Answer> {
    Box::pin(async move {
        match operation {
            Operation::Apply(method, path) => apply(service, *method, path, parts, body).await,
            Operation::Status(path) => status(service, path),
            Operation::Metadata(path) => metadata(service, path, parts).await,
            Operation::Metrics => metrics(service).await,
        }
    })
}

/// `:predict`, `:classify` and `:regress`.
async fn apply(
    service: &Service,
    method: Method,
    path: &VersionPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = find(service, path, parts).await?;
    inference(service, model, parts, body, Apply { method }, None).await
}

/// The codec of these.
pub struct Apply {
    /// Which of them.
    pub method: Method,
}

impl HttpCodec for Apply {
    type Format = Results;

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<Results>, Failure> {
        let (request, format) = tfs::decode_examples(signature, self.method, &body, grant)?;
        Ok(Decoded { request, format, shared: None })
    }

    fn encode(
        results: &Results,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        tfs::encode_results(results, signature, response, grant)
    }
}

/// The state of one version, or of all.
fn status(service: &Service, path: &VersionPath<'_>) -> Answer {
    let models = &service.serving.models;
    let version = number(service, path)?;
    let states = version_states(models, &path.name, version)?;
    Ok(respond::ok(tfs::status(&states)))
}

async fn metadata(service: &Service, path: &VersionPath<'_>, parts: &Parts) -> Answer {
    let model = find(service, path, parts).await?;
    model.check_ready()?;
    Ok(respond::ok(tfs::metadata(&model.signature)))
}

async fn find(
    service: &Service,
    path: &VersionPath<'_>,
    parts: &Parts,
) -> Result<Arc<ServedModel>, Error> {
    let deadline = || service.deadline(&parts.headers);
    service.serving.model(&path.name, number(service, path)?, deadline).await
}

/// The number of the version, where one is named.
fn number(service: &Service, path: &VersionPath<'_>) -> Result<Option<u64>, Error> {
    match &path.version {
        VersionChoice::Any => Ok(None),
        VersionChoice::Number(version) => Ok(Some(*version)),
        VersionChoice::Label(label) => service.serving.models.labelled(&path.name, label).map(Some),
    }
}

/// The metrics of models, with TensorFlow Serving's names.
async fn metrics(service: &Service) -> Answer {
    let metrics = service.serving.metrics.clone();
    let text = offload(move || metrics.render_tensorflow()).await?;
    Ok(respond::raw(CONTENT_TYPE, text))
}

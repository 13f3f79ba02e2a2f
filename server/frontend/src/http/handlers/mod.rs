//! Each route: decode, one call of the core, encode. Here the way in and out of all of them; the routes are in
//! files by what they are about.

pub(super) mod aws;
mod describe;
mod generate;
mod health;
mod inference;
mod invocations;
mod memory;
mod metrics;
mod multi_model;
mod observed;
mod repository;
mod sessions;
mod settings;
mod shared;
mod statistics;
mod tensorflow;
mod vertex;
mod websocket;

use std::sync::Arc;

use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Incoming},
    header::{
        ACCEPT_ENCODING, ALLOW, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue, WWW_AUTHENTICATE,
    },
    http::request::Parts,
};

use super::{
    body::{self, Segments},
    respond,
    router::{Family, ModelPath, Route, route},
    service::{Service, TARGET_MODEL, text},
};
use crate::exchange::{
    Failure, failure,
    intake::{Payload, Received},
};
use ::inference::error::{Error, Kind};
use models::ServedModel;
use protocol::sagemaker::ErrorForm;
use telemetry::metrics::Protocol;

/// What SageMaker tells a container of a request, and the log repeats beside its errors.
const LOGGED_HEADERS: [HeaderName; 5] = [
    TARGET_MODEL,
    HeaderName::from_static("x-amzn-sagemaker-target-variant"),
    HeaderName::from_static("x-amzn-sagemaker-target-container-hostname"),
    HeaderName::from_static("x-amzn-sagemaker-inference-component"),
    HeaderName::from_static("x-amzn-sagemaker-custom-attributes"),
];

type Answer = Result<Response<Segments>, Failure>;

/// Answers any request.
pub async fn answer(service: &Arc<Service>, request: Request<Incoming>) -> Response<Segments> {
    let (parts, mut body) = request.into_parts();
    if let Some(facade) = aws::asked(service, &parts) {
        // In a box: other requests carry no room for it.
        return Box::pin(aws::answer(service, &facade, parts, body)).await;
    }
    let route = match &service.settings.vertex_ai {
        // Its address is a setting, and no part of the table.
        None if service.settings.tensorflow_metrics.as_deref() == Some(parts.uri.path()) => {
            metrics::route(&parts.method)
        }
        None => route(&parts.method, parts.uri.path()),
        Some(routes) => vertex::route(routes, &parts),
    };
    let (family, answer) = match route {
        Ok(route) => (Some(route.family()), admit(service, route, &parts, &mut body).await),
        Err(error) => (Family::of(parts.uri.path()), Err(Failure::from(error))),
    };
    let response = answer.unwrap_or_else(|failure| {
        forget(&parts, body);
        failed(service, &parts, family, &failure)
    });
    let protocol = match family {
        Some(Family::KServe) => Protocol::KserveV2,
        Some(Family::TensorFlowServing) => Protocol::TensorflowServing,
        Some(Family::SageMaker) => Protocol::Sagemaker,
        Some(Family::Metrics) | None => Protocol::Other,
    };
    service.serving.metrics.http(protocol, response.status().as_u16());
    response
}

/// Answers a message of a WebSocket as the body of a request to `/invocations` with this head.
pub async fn message(service: &Service, parts: &Parts, body: Received) -> Response<Segments> {
    // A conversation may last for days: who might ask when it began need not any more.
    let need = Route::InvocationsStream.need(&parts.method);
    let answer = match service.check(need, &parts.headers) {
        Ok(()) => invocations::invocations(service, parts, Payload::Here(body)).await,
        Err(error) => Err(error.into()),
    };
    let response =
        answer.unwrap_or_else(|failure| failed(service, parts, Some(Family::SageMaker), &failure));
    service.serving.metrics.http(Protocol::Sagemaker, response.status().as_u16());
    response
}

/// The answer to such a message that was refused before it came.
pub fn refused(service: &Service, parts: &Parts, error: Error) -> Response<Segments> {
    let response = failed(service, parts, Some(Family::SageMaker), &error.into());
    service.serving.metrics.http(Protocol::Sagemaker, response.status().as_u16());
    response
}

/// The rest of a request's body is of no use.
fn forget(parts: &Parts, body: Incoming) {
    // Who asked whether to send the body at all has its answer now.
    if !body.is_end_stream() && !parts.headers.contains_key(EXPECT) {
        tokio::spawn(body::discard(body));
    }
}

/// What a failure looks like, which is logged.
fn failed(
    service: &Service,
    parts: &Parts,
    family: Option<Family>,
    failure: &Failure,
) -> Response<Segments> {
    let id = service.request_id(&parts.headers, failure.id.as_deref());
    let [target_model, target_variant, target_container, inference_component, custom_attributes] =
        LOGGED_HEADERS.each_ref().map(|it| text(&parts.headers, it));
    let context = failure::Context {
        method: parts.method.as_str(),
        path: Some(parts.uri.path()),
        target_model,
        target_variant,
        target_container,
        inference_component,
        custom_attributes,
    };
    failure::log(context, &failure.error, &id);
    let mut response = match family {
        Some(Family::TensorFlowServing) => respond::tensorflow_error(&failure.error, &id),
        Some(Family::SageMaker) => {
            let content_type = text(&parts.headers, &CONTENT_TYPE);
            let form = service.settings.sagemaker.error_form(content_type);
            respond::error(&failure.error, &id, form)
        }
        Some(Family::KServe | Family::Metrics) | None => {
            respond::error(&failure.error, &id, ErrorForm::Plain)
        }
    };
    if let Error::MethodNotAllowed { allowed, .. } = failure.error {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    if let Error::UnsupportedEncoding { accepted, .. } = failure.error {
        let accepted = HeaderValue::from_static(accepted);
        response.headers_mut().insert(ACCEPT_ENCODING, accepted);
    }
    if failure.error.kind() == Kind::Unauthenticated {
        let scheme = HeaderValue::from_static("Bearer realm=\"muster\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

/// Nothing else is looked at before it is known that who asks may do so.
async fn admit(
    service: &Arc<Service>,
    route: Route<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    service.check(route.need(&parts.method), &parts.headers)?;
    dispatch(service, route, parts, body).await
}

async fn dispatch(
    service: &Arc<Service>,
    route: Route<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    match route {
        Route::Infer(model) => inference::infer_v2(service, &model, parts, body).await,
        Route::Apply(method, path) => tensorflow::apply(service, method, &path, parts, body).await,
        Route::Invocations => invocations::invocations(service, parts, body.into()).await,
        Route::InvocationsStream => websocket::open(service, parts),
        Route::Ping => Ok(health::ping(service)),
        Route::Live => Ok(health::live(service)),
        Route::Ready => Ok(health::ready(service)),
        Route::ModelReady(path) => health::model_ready(service, &path),
        Route::ServerMetadata => Ok(describe::server(service)),
        Route::ModelMetadata(path) => describe::model(service, &path, parts).await,
        Route::ModelConfig(path) => describe::config(service, &path, parts).await,
        Route::ModelStatus(path) => tensorflow::status(service, &path),
        Route::TensorFlowMetadata(path) => tensorflow::metadata(service, &path, parts).await,
        Route::MultiModel(path) => multi_model::answer(service, &path, parts, body).await,
        Route::Version => Ok(describe::version()),
        Route::ExecutionParameters => Ok(describe::execution_parameters(service).await),
        Route::Metrics => metrics::ours(service).await,
        Route::TensorFlowMetrics => metrics::tensorflow(service).await,
        Route::RepositoryIndex => repository::index(service, body).await,
        Route::LoadModel(path) => repository::load(service, &path, body).await,
        Route::UnloadModel(path) => repository::unload(service, &path, body).await,
        Route::Generate(path) => generate::object(service, &path, parts, body).await,
        Route::GenerateStream(path) => generate::events(service, &path, parts, body).await,
        Route::Statistics(path) => statistics::of(service, path.as_ref()),
        Route::TraceSetting(path) => settings::trace(service, path.as_ref(), parts, body).await,
        Route::Logging => settings::logging(service, parts, body).await,
        Route::SharedMemory(path) => memory::answer(service, &path, body).await,
        Route::VertexHealth => Ok(vertex::health(service)),
        Route::VertexInfer(path) => vertex::infer(service, path.as_ref(), parts, body).await,
    }
}

/// The model that an address names, loaded for the purpose where models are loaded on demand.
async fn find(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
) -> Result<Arc<ServedModel>, Error> {
    let deadline = || service.deadline(&parts.headers);
    service.serving.model(&path.name, path.version, deadline).await
}

fn owned_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    text(headers, name).map(str::to_owned)
}

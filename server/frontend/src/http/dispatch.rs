//! The way of every HTTP request: its route, its permission, its handler, its answer, its count.

use std::sync::Arc;

use hyper::{Request, Response, body::Incoming, http::request::Parts};

use super::{
    answer::{Answer, failed, forget},
    body::Segments,
    handlers::{
        describe, generate, health, infer, memory, metrics, repository, settings, statistics,
        tensorflow,
    },
    router::{Family, Route, route},
    service::Service,
};
use crate::{
    exchange::Failure,
    hosting::{bidirectional, facade::runtime, invoke, multi_model, vertex},
};
use telemetry::metrics::Protocol;

/// Answers any request.
pub async fn answer(service: &Arc<Service>, request: Request<Incoming>) -> Response<Segments> {
    let (parts, mut body) = request.into_parts();
    if let Some(facade) = runtime::facade_for(service, &parts) {
        // Boxed: the futures of other requests stay small.
        return Box::pin(runtime::answer(service, &facade, parts, body)).await;
    }
    let route = match &service.settings.vertex_ai {
        // The address of these metrics is a setting, and not in the table of routes.
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

/// Checks the permission before anything else of the request is read.
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
        Route::Infer(model) => infer::infer_v2(service, &model, parts, body).await,
        Route::Apply(method, path) => tensorflow::apply(service, method, &path, parts, body).await,
        Route::Invocations => invoke::invocations(service, parts, body.into()).await,
        Route::InvocationsStream => bidirectional::open(service, parts),
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

//! The way of every HTTP request: its route, its permission, its handler, its answer, its count.

use hyper::{Response, body::Incoming, http::request::Parts};

use super::{
    answer::{Answer, failed, forget},
    body::Segments,
    handlers::{
        describe, generate, health, infer, memory, metrics, repository, settings, statistics,
        tensorflow,
    },
    pipelines,
    platform::Platform,
    router::{self, Family, Route},
    service::Service,
};
use crate::exchange::Failure;
use inference::error::Error;
use telemetry::metrics::Protocol;

/// The route of a request.
///
/// # Errors
/// Those of [`router::route`].
pub fn route<'a>(service: &Service, parts: &'a Parts) -> Result<Route<'a>, Error> {
    // The address of these metrics is a setting, and not in the table of routes.
    if service.settings.tensorflow_metrics.as_deref() == Some(parts.uri.path()) {
        return metrics::route(&parts.method);
    }
    router::route(&parts.method, parts.uri.path())
}

/// Answers a request on its route.
pub async fn answer<P: Platform>(
    platform: &P,
    route: Result<Route<'_>, Error>,
    parts: &Parts,
    mut body: Incoming,
) -> Response<Segments> {
    let service = platform.service();
    let (family, answer) = match route {
        Ok(route) => {
            let (family, need) = route.family_and_need(&parts.method);
            // The permission is checked before anything else of the request is read.
            let answer = match service.check(need, &parts.headers) {
                Ok(()) => dispatch(platform, route, parts, &mut body).await,
                Err(error) => Err(error.into()),
            };
            (Some(family), answer)
        }
        Err(error) => (Family::of(parts.uri.path()), Err(Failure::from(error))),
    };
    let response = answer.unwrap_or_else(|failure| {
        let mut response = failed(service, parts, family, &failure);
        forget(parts, body, &mut response);
        response
    });
    let protocol = match family {
        Some(Family::KServe) => Protocol::KserveV2,
        Some(Family::TensorFlowServing) => Protocol::TensorflowServing,
        Some(Family::SageMaker | Family::MultiModel) => Protocol::Sagemaker,
        Some(Family::OpenAi) => Protocol::OpenAi,
        Some(Family::TextEmbeddingsInference) => Protocol::TextEmbeddingsInference,
        Some(Family::Rerank) => Protocol::Rerank,
        Some(Family::HuggingFace) => Protocol::HuggingFace,
        Some(Family::Metrics) | None => Protocol::Other,
    };
    service.serving.metrics.http(protocol, response.status().as_u16());
    response
}

async fn dispatch<P: Platform>(
    platform: &P,
    route: Route<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let service = platform.service();
    match route {
        Route::Platform(route) => platform.handle(route, parts, body).await,
        // Boxed: the futures of other requests stay small.
        Route::Pipeline(route) => Box::pin(pipelines::answer(service, &route, parts, body)).await,
        Route::Infer(model) => infer::infer_v2(service, &model, parts, body).await,
        Route::Apply(method, path) => tensorflow::apply(service, method, &path, parts, body).await,
        Route::Live => Ok(health::live(service)),
        Route::Ready => Ok(health::ready(service)),
        Route::ModelReady(path) => health::model_ready(service, &path),
        Route::Addresses => Ok(describe::addresses()),
        Route::ServerMetadata => Ok(describe::server(service)),
        Route::ModelMetadata(path) => describe::model(service, &path, parts).await,
        Route::ModelConfig(path) => describe::config(service, &path, parts).await,
        Route::ModelStatus(path) => tensorflow::status(service, &path),
        Route::TensorFlowMetadata(path) => tensorflow::metadata(service, &path, parts).await,
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
    }
}

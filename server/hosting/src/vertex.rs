//! The Vertex AI port: two addresses that the platform chooses. A header redirects one of them to other routes.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{
    Method, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName},
    http::request::Parts,
};

use crate::{front::Hosting, settings::vertex::VertexAi};
use frontend::http::{
    answer::{Answer, find},
    body::Segments,
    inference::{HttpCodec, Work, inference, of_request},
    respond,
    router::{self, MemoryAction, MemoryPath, ModelPath, PlatformRoute, Route},
    service::text,
};
use inference::{error::Error, request::InferenceResponse, signature::Signature};
use models::ServedModel;
use protocol::{
    EncodedReply,
    kserve_v2::{self, media},
};

/// The header that names the address to redirect to.
const REDIRECT: HeaderName = HeaderName::from_static("x-vertex-ai-triton-redirect");

/// The route of a request on this port.
pub fn route<'a>(routes: &VertexAi, parts: &'a Parts) -> Result<Route<'a>, Error> {
    let (method, path) = (&parts.method, parts.uri.path());
    let wrong_method = |allowed| Error::MethodNotAllowed { method: method.to_string(), allowed };
    if path == routes.health_route {
        return match *method {
            Method::GET | Method::HEAD => Ok(PlatformRoute::VertexHealth.into()),
            _ => Err(wrong_method("GET")),
        };
    }
    if path != routes.predict_route {
        return Err(Error::NotFound(format!(
            "on the Vertex AI port there are only {} and {}",
            routes.predict_route, routes.health_route
        )));
    }
    if method != Method::POST {
        return Err(wrong_method("POST"));
    }
    match parts.headers.get(&REDIRECT) {
        None => Ok(PlatformRoute::VertexInfer(None).into()),
        Some(_) => redirect(text(&parts.headers, &REDIRECT).unwrap_or_default()),
    }
}

/// The route of the address in the header.
fn redirect(target: &str) -> Result<Route<'_>, Error> {
    let refused = |error: Error| {
        Error::InvalidRequest(format!("header {REDIRECT}: {error}, given '{target}'"))
    };
    // The query is ignored, as in all routes.
    let path = target.split('?').next().unwrap_or_default();
    // The platform sends only POST, whatever method the address takes on other ports.
    let found = match router::route(&Method::GET, path) {
        Err(Error::MethodNotAllowed { .. }) => router::route(&Method::POST, path),
        found => found,
    };
    match found.map_err(refused)? {
        Route::Infer(path) => Ok(PlatformRoute::VertexInfer(Some(path)).into()),
        route @ (Route::ServerMetadata
        | Route::ModelMetadata(_)
        | Route::ModelReady(_)
        | Route::ModelConfig(_)
        | Route::Live
        | Route::Ready
        | Route::Statistics(_)
        | Route::RepositoryIndex
        | Route::SharedMemory(MemoryPath { action: MemoryAction::Status, .. })
        | Route::Metrics) => Ok(route),
        Route::LoadModel(_) | Route::UnloadModel(_) | Route::SharedMemory(_) => Err(Error::Forbidden(format!(
            "header {REDIRECT}: models and memory cannot be changed through the Vertex AI port, given '{target}'"
        ))),
        _ => Err(refused(Error::NotFound(
            "expected an address of metadata, health, configuration, statistics, inference, the repository's \
             index, the status of shared memory, or metrics"
                .to_owned(),
        ))),
    }
}

/// May the platform send requests? Not ready either where no model answers requests without a name.
pub fn health(hosting: &Hosting) -> Response<Segments> {
    let reason = hosting.http.serving.not_ready().map(str::to_owned);
    match reason.or_else(|| invoked(hosting).err().map(|it| it.to_string())) {
        None => respond::empty(StatusCode::OK),
        Some(reason) => respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}

/// Inference on a model, or on the one that answers requests without a name. The content type gives the offset of
/// binary tensors, in both directions.
pub async fn infer(
    hosting: &Hosting,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = match path {
        Some(path) => find(&hosting.http, path, parts).await?,
        None => invoked(hosting)?,
    };
    let content_type = text(&parts.headers, &CONTENT_TYPE).unwrap_or_default();
    let json_length = media::json_length(content_type)?;
    let decode = move |signature: &Signature, body: Bytes| {
        let decoded = kserve_v2::decode(signature, json_length, body);
        decoded.map_err(of_request)
    };
    let codec = HttpCodec {
        header_length: json_length,
        expanded: move |signature: &Signature, body: &Bytes, loose| {
            kserve_v2::expanded(signature, json_length, body, loose)
        },
        work: json_length.map_or(Work::Body, Work::Bytes),
        decode,
        encode,
    };
    inference(&hosting.http, model, parts, body, codec, None).await
}

fn encode(
    format: &kserve_v2::ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    kserve_v2::encode(format, signature, response).map(media::under_type)
}

/// The model that answers requests without a name: the default one, or the only one.
fn invoked(hosting: &Hosting) -> Result<Arc<ServedModel>, Error> {
    let models = &hosting.http.serving.models;
    let routes = hosting.vertex_ai.as_ref();
    if let Some(name) = routes.and_then(|it| it.default_model.as_ref()) {
        return models.get(name, None);
    }
    match models.names().as_slice() {
        [only] => models.get(only, None),
        [] => Err(Error::Unavailable("there is no model to invoke".to_owned())),
        several => Err(Error::InvalidRequest(format!(
            "there are several models ({}); start with --vertex-ai-default-model, or name one in the header \
             X-Vertex-AI-Triton-Redirect: v2/models/<name>/infer",
            several.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(method: Method, path: &str, target: Option<&str>) -> String {
        let routes = VertexAi {
            health_route: "/health".to_owned(),
            predict_route: "/predict".to_owned(),
            default_model: None,
        };
        let request = hyper::Request::builder().method(method).uri(path);
        let request = match target {
            Some(target) => request.header(&REDIRECT, target),
            None => request,
        };
        let (parts, ()) = request.body(()).unwrap().into_parts();
        match route(&routes, &parts) {
            Ok(route) => format!("{route:?}"),
            Err(error) => format!("{:?}: {error}", error.kind()),
        }
    }

    fn redirected(target: &str) -> String {
        routed(Method::POST, "/predict", Some(target))
    }

    #[test]
    fn only_the_two_addresses_of_the_platform_are_there() {
        assert_eq!(routed(Method::GET, "/health", None), "Platform(VertexHealth)");
        assert_eq!(routed(Method::POST, "/predict?x=1", None), "Platform(VertexInfer(None))");
        assert!(routed(Method::GET, "/predict", None).starts_with("MethodNotAllowed"));
        assert!(routed(Method::POST, "/health", None).starts_with("MethodNotAllowed"));
        for path in ["/", "/v2", "/v2/health/ready", "/ping", "/metrics"] {
            assert!(routed(Method::GET, path, None).starts_with("NotFound"), "{path}");
        }
    }

    #[test]
    fn the_header_leads_to_what_reads_and_infers() {
        let infer = redirected("v2/models/m/infer");
        assert!(infer.starts_with("Platform(VertexInfer(Some(ModelPath { name: \"m\""), "{infer}");
        for (target, route) in [
            ("v2", "ServerMetadata"),
            ("/v2/health/ready", "Ready"),
            ("v2/repository/index", "RepositoryIndex"),
            ("v2/models/stats?x=1", "Statistics(None)"),
            ("metrics", "Metrics"),
        ] {
            assert_eq!(redirected(target), route);
        }
        assert!(redirected("v2/systemsharedmemory/status").starts_with("SharedMemory"));
    }

    #[test]
    fn what_changes_the_server_is_forbidden_and_the_rest_is_refused() {
        for target in [
            "v2/repository/models/m/load",
            "v2/repository/models/m/unload",
            "v2/systemsharedmemory/region/r/register",
            "v2/cudasharedmemory/unregister",
        ] {
            let outcome = redirected(target);
            assert!(
                outcome.starts_with("Forbidden: header x-vertex-ai-triton-redirect"),
                "{outcome}"
            );
        }
        for target in ["", "v3", "ping", "v2/logging", "v2/trace/setting", "v1/models/m:predict"] {
            let outcome = redirected(target);
            assert!(outcome.starts_with("InvalidArgument: header x-vertex"), "{outcome}");
        }
    }
}

//! The Vertex AI port: two addresses that the platform chooses. A header redirects one of them to what KServe v2 asks.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName},
};

use super::{
    KServe, Operation, infer,
    operation::{MemoryAction, MemoryPath},
};
use crate::settings::VertexAi;
use formats::{
    EncodedReply,
    kserve_v2::{self, ReplyFormat, media},
};
use frontend::either::Either;
use frontend::exchange::{Decoded, Failure};
use frontend::http::{
    Service,
    address::{GET, ModelPath, POST, RequestHead, check_method},
    answer::{Answer, find},
    body::Segments,
    failed::Failed,
    inference::{HttpCodec, Work, inference},
    metrics::{self, Page, Prometheus},
    parts::Parts,
    protocol::Protocol,
    respond,
    routes::Route,
    service::text,
};
use inference::{
    access::{Category, Need},
    boxed::BoxFuture,
    error::Error,
    grant::Grant,
    request::InferenceResponse,
    signature::Signature,
};
use serving::ServedModel;
use telemetry::metrics::Protocol as Label;

/// The header that names the address to redirect to.
const REDIRECT: HeaderName = HeaderName::from_static("x-vertex-ai-triton-redirect");

/// Addresses that the header may lead to.
const REACHED: (KServe, Prometheus) = (KServe, Prometheus);

/// What the platform asks of its port, where every address is its own; of other ports nothing.
#[derive(Debug, Clone)]
pub struct VertexAiPort {
    /// The addresses; `None` on the other ports.
    pub routes: Option<Arc<VertexAi>>,
}

/// What the platform asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked<'a> {
    /// May it send requests?
    Health,
    /// Inference on that model, or on the one for requests without a name.
    Infer(Option<ModelPath<'a>>),
    /// What a header leads to.
    Redirected(Either<Operation<'a>, Page>),
}

impl Protocol for VertexAiPort {
    type Operation<'a> = Asked<'a>;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Asked<'a>, Error>> {
        self.routes.as_ref().map(|it| route(it, head))
    }

    /// None: its addresses are the platform's, on a port of their own.
    fn routes(&self) -> Vec<Route> {
        Vec::new()
    }

    fn need(&self, asked: &Asked<'_>, method: &Method) -> Need {
        match asked {
            Asked::Health => Need::reading(Category::Health),
            Asked::Infer(_) => Need::reading(Category::Inference),
            Asked::Redirected(operation) => REACHED.need(operation, method),
        }
    }

    fn label(&self, asked: Option<&Asked<'_>>, head: &RequestHead<'_>) -> Label {
        match asked {
            None => Label::Other,
            Some(Asked::Redirected(operation)) => REACHED.label(Some(operation), head),
            Some(Asked::Health | Asked::Infer(_)) => Label::KserveV2,
        }
    }

    async fn answer(
        &self,
        service: &Service,
        asked: &Self::Operation<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> Answer {
        match asked {
            Asked::Health => Ok(health(self, service)),
            Asked::Infer(path) => infer(self, service, path.as_ref(), parts, body).await,
            Asked::Redirected(Either::First(operation)) => {
                KServe.answer(service, operation, parts, body).await
            }
            Asked::Redirected(Either::Other(Page)) => metrics::page(service).await,
        }
    }

    fn failure(
        &self,
        service: &Service,
        _: Option<&Asked<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        KServe.failure(service, None, failed)
    }
}

/// What a request on this port asks for.
fn route<'a>(routes: &VertexAi, head: &RequestHead<'a>) -> Result<Asked<'a>, Error> {
    if head.path == routes.health_route {
        return check_method(head.method, GET).map(|()| Asked::Health);
    }
    if head.path != routes.predict_route {
        return Err(Error::NotFound(format!(
            "on the Vertex AI port there are only {} and {}",
            routes.predict_route, routes.health_route
        )));
    }
    check_method(head.method, POST)?;
    match head.headers.get(&REDIRECT) {
        None => Ok(Asked::Infer(None)),
        Some(_) => redirect(text(head.headers, &REDIRECT).unwrap_or_default(), head.headers),
    }
}

/// What the address in the header asks for.
fn redirect<'a>(target: &'a str, headers: &'a HeaderMap) -> Result<Asked<'a>, Error> {
    let refused = |error: Error| {
        Error::InvalidRequest(format!("header {REDIRECT}: {error}, given '{target}'"))
    };
    // The query is ignored, as in all addresses.
    let path = target.split('?').next().unwrap_or_default();
    let nowhere = || {
        Error::NotFound(
            "expected an address of metadata, health, configuration, statistics, inference, the repository's \
             index, the status of shared memory, or metrics"
                .to_owned(),
        )
    };
    // The platform sends only POST, whatever method the address takes on other ports.
    let found =
        [&Method::GET, &Method::POST].map(|it| REACHED.route(&RequestHead::new(it, path, headers)));
    let found = match found {
        [Some(Err(Error::MethodNotAllowed { .. })) | None, posted] => posted,
        [found, _] => found,
    };
    match found.unwrap_or_else(|| Err(nowhere())).map_err(refused)? {
        Either::First(Operation::Infer(path)) => Ok(Asked::Infer(Some(path))),
        operation @ (Either::Other(Page)
        | Either::First(
            Operation::ServerMetadata
            | Operation::ListModels
            | Operation::ModelMetadata(_)
            | Operation::ModelReady(_)
            | Operation::ModelConfig(_)
            | Operation::Live
            | Operation::Ready
            | Operation::Statistics(_)
            | Operation::RepositoryIndex
            | Operation::SharedMemory(MemoryPath { action: MemoryAction::Status, .. }),
        )) => Ok(Asked::Redirected(operation)),
        Either::First(
            Operation::LoadModel(_) | Operation::UnloadModel(_) | Operation::SharedMemory(_),
        ) => Err(Error::Forbidden(format!(
            "header {REDIRECT}: models and memory cannot be changed through the Vertex AI port, given '{target}'"
        ))),
        Either::First(
            Operation::Addresses
            | Operation::Generate(_)
            | Operation::GenerateStream(_)
            | Operation::TraceSetting(_)
            | Operation::Logging,
        ) => Err(refused(nowhere())),
    }
}

/// May the platform send requests? Not ready either where no model answers requests without a name.
fn health(port: &VertexAiPort, service: &Service) -> Response<Segments> {
    let reason = service.serving.not_ready().map(str::to_owned);
    match reason.or_else(|| invoked(port, service).err().map(|it| it.to_string())) {
        None => respond::empty(StatusCode::OK),
        Some(reason) => respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}

/// Inference on a model, or on the one that answers requests without a name. The content type gives the offset of
/// binary tensors, in both directions.
fn infer<'a>(
    port: &'a VertexAiPort,
    service: &'a Service,
    path: Option<&'a ModelPath<'_>>,
    parts: &'a Parts,
    body: &'a mut Incoming,
) -> BoxFuture<'a, Answer> {
    Box::pin(async move {
        let model = match path {
            Some(path) => find(service, path, parts).await?,
            None => invoked(port, service)?,
        };
        let content_type = text(&parts.headers, &CONTENT_TYPE).unwrap_or_default();
        let codec = Predict { json_length: media::json_length(content_type)? };
        inference(service, model, parts, body, codec, None).await
    })
}

/// The codec of inference on the platform.
struct Predict {
    json_length: Option<usize>,
}

impl HttpCodec for Predict {
    type Format = ReplyFormat;

    fn header_length(&self) -> Option<usize> {
        self.json_length
    }

    fn work(&self) -> Work {
        self.json_length.map_or(Work::Body, Work::Bytes)
    }

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<ReplyFormat>, Failure> {
        infer::decode(signature, self.json_length, body, grant)
    }

    fn encode(
        format: &ReplyFormat,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        kserve_v2::encode(format, signature, response, grant).map(media::under_type)
    }
}

/// The model that answers requests without a name: the default one, or the only one.
fn invoked(port: &VertexAiPort, service: &Service) -> Result<Arc<ServedModel>, Error> {
    let models = &service.serving.models;
    let routes = port.routes.as_ref();
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
        match route(&routes, &RequestHead::new(&parts.method, parts.uri.path(), &parts.headers)) {
            Ok(asked) => format!("{asked:?}"),
            Err(error) => format!("{:?}: {error}", error.kind()),
        }
    }

    fn redirected(target: &str) -> String {
        routed(Method::POST, "/predict", Some(target))
    }

    #[test]
    fn only_the_two_addresses_of_the_platform_are_there() {
        assert_eq!(routed(Method::GET, "/health", None), "Health");
        assert_eq!(routed(Method::POST, "/predict?x=1", None), "Infer(None)");
        assert!(routed(Method::GET, "/predict", None).starts_with("MethodNotAllowed"));
        assert!(routed(Method::POST, "/health", None).starts_with("MethodNotAllowed"));
        for path in ["/", "/v2", "/v2/health/ready", "/ping", "/metrics"] {
            assert!(routed(Method::GET, path, None).starts_with("NotFound"), "{path}");
        }
    }

    #[test]
    fn the_header_leads_to_what_reads_and_infers() {
        let infer = redirected("v2/models/m/infer");
        assert!(infer.starts_with("Infer(Some(ModelPath { name: \"m\""), "{infer}");
        for (target, route) in [
            ("v2", "First(ServerMetadata)"),
            ("/v2/health/ready", "First(Ready)"),
            ("v2/repository/index", "First(RepositoryIndex)"),
            ("v2/models/stats?x=1", "First(Statistics(None))"),
            ("metrics", "Other(Page)"),
        ] {
            assert_eq!(redirected(target), format!("Redirected({route})"));
        }
        assert!(redirected("v2/systemsharedmemory/status").contains("SharedMemory"));
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

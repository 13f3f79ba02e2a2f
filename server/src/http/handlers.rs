//! Each route: decode, one call of the core, encode.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Body, Incoming},
    header::{ACCEPT, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue},
    http::request::Parts,
};

use super::{
    body::{self, Received, Segments},
    respond,
    router::{Family, ModelPath, Route, route},
    service::{Service, text},
};
use crate::{
    drain::Stage,
    error::{Error, Kind},
    infer,
    limits::out_of_bytes,
    metrics::{self, Protocol},
    models::{IndexEntry, ServedModel, State},
    protocol::{EncodedReply, kserve_v2, sagemaker, tfs},
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// JSON above this many bytes is read and written on a thread of its own, so that health checks and other
/// clients of the same I/O thread need not wait for it.
const LARGE: usize = 256 << 10;

/// Where the JSON of a KServe request ends and its tensors begin.
const HEADER_LENGTH: HeaderName = HeaderName::from_static(kserve_v2::HEADER_LENGTH);

/// What SageMaker passes through from client to client.
const CUSTOM_ATTRIBUTES: HeaderName = HeaderName::from_static("x-amzn-sagemaker-custom-attributes");

/// An error, and the name that the client gave its request inside the body.
struct Failure {
    id: Option<Arc<str>>,
    error: Error,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { id: None, error }
    }
}

type Answer = Result<Response<Segments>, Failure>;

/// Answers any request.
pub async fn answer(service: &Arc<Service>, request: Request<Incoming>) -> Response<Segments> {
    let (parts, mut body) = request.into_parts();
    let (family, answer) = match route(&parts.method, parts.uri.path()) {
        Ok(route) => (Some(route.family()), dispatch(service, route, &parts, &mut body).await),
        Err(error) => (None, Err(Failure::from(error))),
    };
    let response = answer.unwrap_or_else(|failure| {
        let id = service.request_id(&parts.headers, failure.id.as_deref());
        log(&parts, &failure.error, &id);
        // Who asked whether to send the body at all has its answer now.
        if !body.is_end_stream() && !parts.headers.contains_key(EXPECT) {
            tokio::spawn(body::discard(body));
        }
        let mut response = respond::error(&failure.error, &id);
        if let Error::MethodNotAllowed { allowed, .. } = failure.error {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        response
    });
    let protocol = match family {
        Some(Family::KServe) => Protocol::KserveV2,
        Some(Family::TensorFlowServing) => Protocol::TensorflowServing,
        Some(Family::SageMaker) => Protocol::Sagemaker,
        Some(Family::Metrics) | None => Protocol::Other,
    };
    service.metrics.http(protocol, response.status().as_u16());
    response
}

/// One line for every error that is answered. Refusals under load are many and say nothing new: they are
/// counted, and logged only when somebody looks closely.
fn log(parts: &Parts, error: &Error, request_id: &str) {
    let (method, path) = (&parts.method, parts.uri.path());
    match error.kind() {
        Kind::Internal | Kind::OutOfMemory => {
            tracing::error!(%method, path, request_id, %error, "request failed");
        }
        Kind::Overloaded | Kind::Unavailable => {
            tracing::debug!(%method, path, request_id, %error, "request refused");
        }
        _ => tracing::info!(%method, path, request_id, %error, "request rejected"),
    }
}

async fn dispatch(
    service: &Arc<Service>,
    route: Route<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    match route {
        Route::Infer(model) => infer_v2(service, &model, parts, body).await,
        Route::Predict(model) => predict(service, &model, parts, body).await,
        Route::Invocations => invocations(service, parts, body).await,
        Route::Ping => Ok(ping(service)),
        Route::Live => Ok(live(service)),
        Route::Ready => Ok(ready(service)),
        Route::ServerMetadata => Ok(respond::ok(kserve_v2::server_metadata(
            &service.settings.server_name,
            env!("CARGO_PKG_VERSION"),
        ))),
        Route::ModelMetadata(path) => model_metadata(service, &path),
        Route::ModelReady(path) => {
            find(service, &path)?;
            Ok(respond::empty(StatusCode::OK))
        }
        Route::ModelConfig(path) => {
            let model = find(service, &path)?;
            Ok(respond::raw("application/json", model.config_json.clone()))
        }
        Route::RepositoryIndex => repository_index(service, body).await,
        Route::RepositoryControl => Err(Failure::from(Error::Unavailable(
            "models are loaded and unloaded by request only with --model-control-mode=explicit"
                .into(),
        ))),
        Route::ModelStatus(path) => model_status(service, &path),
        Route::TensorFlowMetadata(path) => {
            let model = find(service, &path)?;
            Ok(respond::ok(tfs::metadata(&model.signature)))
        }
        Route::ExecutionParameters => Ok(execution_parameters(service)),
        Route::Metrics => metrics_text(service).await,
    }
}

fn find(service: &Service, path: &ModelPath<'_>) -> Result<Arc<ServedModel>, Error> {
    service.models.get(&path.name, path.version)
}

/// The three inference routes: admit, read, decode, run, encode. `decode` turns the body into a request and
/// the form of its reply, `encode` the response into that form.
async fn inference<F: Send + 'static>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: &mut Incoming,
    json_length: Option<usize>,
    decode: impl FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
    encode: fn(&F, &Signature, &InferenceResponse) -> Result<EncodedReply, Error>,
) -> Answer {
    // Before the body is read: a refusal must be cheap.
    model.scheduler.admit()?;
    check_encoding(&parts.headers)?;
    let deadline = service.deadline(&parts.headers)?;
    let aligned_at = json_length.unwrap_or(0);
    let Received { bytes, permit } = body::read(body, aligned_at, &service.settings.body).await?;

    let large = LARGE < json_length.unwrap_or(bytes.len());
    // The permit goes where the memory goes: a client that leaves does not stop what is put aside.
    let (decoded, mut permit) = match large {
        true => {
            let model = model.clone();
            aside(move || (decode(&model.signature, bytes), permit)).await?
        }
        false => (decode(&model.signature, bytes), permit),
    };
    let (mut request, form) = decoded?;
    // A short text can be a large tensor: too large for the budget only where others have a part of it.
    let length = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
    if permit.grow_to(length) || permit.is_alone() {
        permit.cover(length);
    } else {
        return Err(Failure { id: request.id, error: out_of_bytes(&service.settings.body.budget) });
    }
    request.deadline = deadline;
    let id = request.id.clone();
    let response = infer::run(&model, request).await;
    let response = response.map_err(|error| Failure { id: id.clone(), error })?;

    let length = response.outputs.iter().map(|it| it.tensor.byte_len()).sum();
    permit.cover(length);
    let (encoded, permit) = match LARGE < length {
        true => aside(move || (encode(&form, &model.signature, &response), permit)).await?,
        false => (encode(&form, &model.signature, &response), permit),
    };
    let mut response = respond::ok(encoded.map_err(|error| Failure { id, error })?);
    response.body_mut().hold(permit);
    Ok(response)
}

/// A compressed body is not taken for a broken one.
fn check_encoding(headers: &HeaderMap) -> Result<(), Error> {
    match text(headers, &CONTENT_ENCODING) {
        None | Some("" | "identity") => Ok(()),
        Some(encoding) => {
            let shown: String = encoding.chars().take(40).collect();
            Err(Error::UnsupportedMediaType(format!(
                "header content-encoding: expected a body that is not compressed, given '{shown}'"
            )))
        }
    }
}

/// Runs `work` on another thread.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Internal(format!("a thread was lost: {error}")))
}

async fn infer_v2(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = find(service, path)?;
    let mut headers = parts.headers.get_all(&HEADER_LENGTH).iter();
    let header = headers.next().cloned();
    if headers.next().is_some() {
        // A proxy that believes the other one would see another request than the one that runs.
        let problem =
            format!("{}: expected one such header, found several", kserve_v2::HEADER_LENGTH);
        return Err(Error::InvalidRequest(problem).into());
    }
    let json_length = header.as_ref().and_then(|it| it.to_str().ok()?.trim().parse().ok());
    let decode = move |signature: &Signature, body: Bytes| {
        let length = header.map(|it| {
            let text = String::from_utf8_lossy(it.as_bytes());
            kserve_v2::parse_header_length(&text, body.len())
        });
        let length = length.transpose()?;
        kserve_v2::decode(signature, length, body)
            .map_err(|it| Failure { id: it.id, error: it.error })
    };
    inference(service, model, parts, body, json_length, decode, kserve_v2::encode).await
}

async fn predict(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = find(service, path)?;
    let decode = |signature: &Signature, body: Bytes| Ok(tfs::decode_predict(signature, &body)?);
    let encode = |form: &tfs::Form, signature: &Signature, response: &InferenceResponse| {
        tfs::encode(*form, signature, response)
    };
    inference(service, model, parts, body, None, decode, encode).await
}

async fn invocations(service: &Service, parts: &Parts, body: &mut Incoming) -> Answer {
    let model = service.invoked(&parts.headers)?;
    let content_type = owned_text(&parts.headers, &CONTENT_TYPE);
    let accept = owned_text(&parts.headers, &ACCEPT);
    let json_length = content_type.as_deref().and_then(sagemaker::json_length);
    let options = service.settings.sagemaker.clone();
    let decode = move |signature: &Signature, body: Bytes| {
        let (content_type, accept) = (content_type.as_deref(), accept.as_deref());
        Ok(sagemaker::decode(signature, content_type, accept, &options, body)?)
    };
    let mut response =
        inference(service, model, parts, body, json_length, decode, sagemaker::encode).await?;
    if let Some(attributes) = parts.headers.get(&CUSTOM_ATTRIBUTES) {
        // The platform passes them on to the client only if the container repeats them.
        response.headers_mut().insert(CUSTOM_ATTRIBUTES.clone(), attributes.clone());
    }
    Ok(response)
}

fn owned_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    text(headers, name).map(str::to_owned)
}

fn ping(service: &Service) -> Response<Segments> {
    match service.ping_fails() {
        None => respond::empty(StatusCode::OK),
        Some(reason) => respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}

fn live(service: &Service) -> Response<Segments> {
    match service.drain.stage() {
        Stage::Serving => respond::empty(StatusCode::OK),
        Stage::Leaving | Stage::Closing => {
            respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")
        }
    }
}

fn ready(service: &Service) -> Response<Segments> {
    match service.not_ready() {
        None => respond::empty(StatusCode::OK),
        Some(reason) if service.drain.stage() != Stage::Serving => {
            respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
        Some(reason) => respond::unhealthy(StatusCode::BAD_REQUEST, reason),
    }
}

fn model_metadata(service: &Service, path: &ModelPath<'_>) -> Answer {
    let model = find(service, path)?;
    let versions = match path.version {
        Some(version) => vec![version],
        None => service.models.ready_versions(&path.name),
    };
    let platform = model.platform();
    Ok(respond::ok(kserve_v2::model_metadata(&model.signature, platform, &versions)))
}

async fn repository_index(service: &Service, body: &mut Incoming) -> Answer {
    let received = body::read(body, 0, &service.settings.body).await?;
    let only_ready = kserve_v2::index_request(&received.bytes)?;
    let index = service.models.index();
    let shown = index.iter().filter(|it| !only_ready || it.state == State::Ready);
    let entries = shown.map(|it| kserve_v2::IndexEntry {
        name: &it.name,
        version: it.version,
        state: Some(it.state.name()),
        reason: &it.reason,
    });
    Ok(respond::ok(kserve_v2::repository_index(entries)))
}

fn model_status(service: &Service, path: &ModelPath<'_>) -> Answer {
    let states = service.models.states(&path.name);
    let wanted = |it: &&IndexEntry| path.version.is_none_or(|version| it.version == Some(version));
    let versions: Vec<_> = states
        .iter()
        .filter(wanted)
        .filter_map(|it| {
            let state = match it.state {
                State::Loading => tfs::VersionState::Loading,
                State::Ready => tfs::VersionState::Available,
                State::Unavailable => tfs::VersionState::End,
            };
            let failure = (!it.reason.is_empty()).then_some(&*it.reason);
            Some(tfs::VersionStatus { version: it.version?, state, failure })
        })
        .collect();
    if versions.is_empty() {
        find(service, path)?;
    }
    Ok(respond::ok(tfs::status(&versions)))
}

/// How a batch transform job should send its records.
fn execution_parameters(service: &Service) -> Response<Segments> {
    const PAYLOAD_MB: u64 = 6;
    let model = service.invoked(&HeaderMap::new()).ok();
    let instances = model.map_or(1, |it| it.scheduler.instances());
    // All concurrent payloads together may have 100 MB.
    let concurrent = instances.max(service.settings.cpus.get()).min(16);
    let body = format!(
        "{{\"MaxConcurrentTransforms\":{concurrent},\"BatchStrategy\":\"MULTI_RECORD\",\
         \"MaxPayloadInMB\":{PAYLOAD_MB}}}"
    );
    respond::raw("application/json", body.into())
}

async fn metrics_text(service: &Arc<Service>) -> Answer {
    let budget = &service.settings.body.budget;
    service.metrics.bytes_in_flight().set(budget.used() as u64);
    let metrics = service.metrics.clone();
    let text = aside(move || metrics.render()).await?;
    Ok(respond::raw(metrics::CONTENT_TYPE, text))
}

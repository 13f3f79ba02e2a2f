//! (method, path) → route: one table for every HTTP protocol, on every port.

pub mod aws;
mod extensions;
mod multi_model;
mod tensorflow;

use std::borrow::Cow;

use hyper::Method;

pub use extensions::{MemoryAction, MemoryKind, MemoryPath};
pub use multi_model::MultiModelPath;
pub use tensorflow::{VersionChoice, VersionPath};

use inference::{
    access::{Category, Need},
    error::Error,
};
use protocol::tfs;

/// A model as an address names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPath<'a> {
    /// Name of the model, percent-decoded.
    pub name: Cow<'a, str>,
    /// The version, where the address holds one.
    pub version: Option<u64>,
}

/// What an address and a method ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Route<'a> {
    // KServe v2
    Live,
    Ready,
    ServerMetadata,
    ModelMetadata(ModelPath<'a>),
    ModelReady(ModelPath<'a>),
    ModelConfig(ModelPath<'a>),
    Infer(ModelPath<'a>),
    RepositoryIndex,
    LoadModel(ModelPath<'a>),
    UnloadModel(ModelPath<'a>),
    // Triton's extensions of it
    Generate(ModelPath<'a>),
    GenerateStream(ModelPath<'a>),
    /// Of one model, or of all.
    Statistics(Option<ModelPath<'a>>),
    /// Of one model, or of the server; read or changed.
    TraceSetting(Option<ModelPath<'a>>),
    /// Read or changed.
    Logging,
    SharedMemory(MemoryPath<'a>),
    // Vertex AI
    VertexHealth,
    /// Inference on that model, or on the default one.
    VertexInfer(Option<ModelPath<'a>>),
    // TensorFlow Serving
    Apply(tfs::Method, VersionPath<'a>),
    ModelStatus(VersionPath<'a>),
    TensorFlowMetadata(VersionPath<'a>),
    // SageMaker
    Ping,
    Invocations,
    /// Over a WebSocket.
    InvocationsStream,
    ExecutionParameters,
    MultiModel(MultiModelPath<'a>),
    // MLflow
    Version,
    // Prometheus
    Metrics,
    /// With TensorFlow Serving's names.
    TensorFlowMetrics,
}

/// The protocol that a route belongs to, as a label of metrics and as the dialect of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Family {
    KServe,
    TensorFlowServing,
    SageMaker,
    Metrics,
}

impl Family {
    /// The protocol of an address that has no route.
    pub fn of(path: &str) -> Option<Family> {
        tensorflow::is_below(path).then_some(Family::TensorFlowServing)
    }
}

impl Route<'_> {
    /// The protocol that this route belongs to.
    pub fn family(&self) -> Family {
        match self {
            Route::Live
            | Route::Ready
            | Route::ServerMetadata
            | Route::ModelMetadata(_)
            | Route::ModelReady(_)
            | Route::ModelConfig(_)
            | Route::Infer(_)
            | Route::RepositoryIndex
            | Route::LoadModel(_)
            | Route::UnloadModel(_)
            | Route::Generate(_)
            | Route::GenerateStream(_)
            | Route::Statistics(_)
            | Route::TraceSetting(_)
            | Route::Logging
            | Route::SharedMemory(_)
            | Route::VertexHealth
            | Route::VertexInfer(_) => Family::KServe,
            Route::Apply(..) | Route::ModelStatus(_) | Route::TensorFlowMetadata(_) => {
                Family::TensorFlowServing
            }
            Route::Ping
            | Route::Invocations
            | Route::ExecutionParameters
            | Route::InvocationsStream
            | Route::Version
            | Route::MultiModel(_) => Family::SageMaker,
            Route::Metrics | Route::TensorFlowMetrics => Family::Metrics,
        }
    }

    /// What a request must be allowed to come here, on whichever port.
    pub fn need(&self, method: &Method) -> Need {
        let by_method = |category| match *method {
            Method::POST => Need::changing(category),
            _ => Need::reading(category),
        };
        match self {
            Route::Live
            | Route::Ready
            | Route::ModelReady(_)
            | Route::Ping
            | Route::VertexHealth => Need::reading(Category::Health),
            Route::ServerMetadata
            | Route::ModelMetadata(_)
            | Route::ModelStatus(_)
            | Route::TensorFlowMetadata(_)
            | Route::Version
            | Route::ExecutionParameters => Need::reading(Category::Metadata),
            Route::ModelConfig(_) => Need::reading(Category::ModelConfig),
            Route::Infer(_)
            | Route::Generate(_)
            | Route::GenerateStream(_)
            | Route::Apply(..)
            | Route::Invocations
            | Route::InvocationsStream
            | Route::VertexInfer(_) => Need::reading(Category::Inference),
            Route::Statistics(_) => Need::reading(Category::Statistics),
            Route::TraceSetting(_) => by_method(Category::Trace),
            Route::Logging => by_method(Category::Logging),
            Route::SharedMemory(_) => by_method(Category::SharedMemory),
            Route::RepositoryIndex => Need::reading(Category::ModelRepository),
            Route::LoadModel(_) | Route::UnloadModel(_) => {
                Need::changing(Category::ModelRepository)
            }
            Route::MultiModel(path) => path.need(),
            Route::Metrics | Route::TensorFlowMetrics => Need::reading(Category::Metrics),
        }
    }
}

pub const GET: &[Method] = &[Method::GET, Method::HEAD];
const POST: &[Method] = &[Method::POST];
const ANY: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
const GET_OR_DELETE: &[Method] = &[Method::GET, Method::HEAD, Method::DELETE];

/// The route of a request.
///
/// # Errors
/// [`Error::NotFound`] for an unknown address, [`Error::MethodNotAllowed`] for a known one,
/// [`Error::InvalidRequest`] where the address is malformed.
pub fn route<'a>(method: &Method, path: &'a str) -> Result<Route<'a>, Error> {
    // The longest address has six parts; a seventh is enough to see that there are too many.
    let mut parts = [""; 7];
    let mut length = 0;
    let trimmed = path.strip_prefix('/').unwrap_or(path);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    for (slot, part) in parts.iter_mut().zip(trimmed.split('/')) {
        (*slot, length) = (part, length + 1);
    }
    let (allowed, route) = match parts.get(..length).unwrap_or(&[]) {
        ["v2"] => (GET, Route::ServerMetadata),
        ["v2", "health", "live"] => (GET, Route::Live),
        ["v2", "health", "ready"] => (GET, Route::Ready),
        // A repository's name is not looked at, as in Triton.
        ["v2", "repository", "index"] | ["v2", "repository", _, "index"] => {
            (POST, Route::RepositoryIndex)
        }
        ["v2", "repository", "models", name, "load"] => {
            (POST, Route::LoadModel(model_path(name, None)?))
        }
        ["v2", "repository", "models", name, "unload"] => {
            (POST, Route::UnloadModel(model_path(name, None)?))
        }
        ["v2", "repository", _, "models", _, "load" | "unload"] => {
            return Err(Error::Unimplemented(
                "a repository cannot be named here; leave its name out of the address".into(),
            ));
        }
        // Before the models, one of which could have such a name.
        ["v2", "models", "stats"] => (GET, Route::Statistics(None)),
        ["v2", "trace", "setting"] => (ANY, Route::TraceSetting(None)),
        ["v2", "models", name, "trace", "setting"] => {
            (ANY, Route::TraceSetting(Some(model_path(name, None)?)))
        }
        ["v2", "logging"] => (ANY, Route::Logging),
        ["v2", kind @ ("systemsharedmemory" | "cudasharedmemory"), rest @ ..] => {
            extensions::memory(kind, rest)?.ok_or_else(|| unknown(path))?
        }
        ["v2", "models", name, rest @ ..] => {
            let (version, action) = match rest {
                ["versions", version, action @ ..] => (Some(*version), action),
                action => (None, action),
            };
            let (allowed, make): (_, fn(ModelPath<'a>) -> Route<'a>) = match action {
                [] => (GET, Route::ModelMetadata),
                ["ready"] => (GET, Route::ModelReady),
                ["config"] => (GET, Route::ModelConfig),
                ["infer"] => (POST, Route::Infer),
                ["generate"] => (POST, Route::Generate),
                ["generate_stream"] => (POST, Route::GenerateStream),
                ["stats"] => (GET, |it| Route::Statistics(Some(it))),
                _ => return Err(unknown(path)),
            };
            (allowed, make(model_path(name, version)?))
        }
        ["ping"] => (ANY, Route::Ping),
        // MLflow's names of health and of the version.
        ["health"] => (GET, Route::Ping),
        ["version"] => (GET, Route::Version),
        ["invocations"] => (POST, Route::Invocations),
        ["invocations-bidirectional-stream"] => (GET, Route::InvocationsStream),
        ["execution-parameters"] => (GET, Route::ExecutionParameters),
        ["models", rest @ ..] => multi_model::route(method, rest)?.ok_or_else(|| unknown(path))?,
        ["metrics"] => (GET, Route::Metrics),
        _ if tensorflow::is_below(path) => {
            tensorflow::route(path, parts.get(2..length).unwrap_or(&[]))?
        }
        _ => return Err(unknown(path)),
    };
    if allowed.contains(method) {
        return Ok(route);
    }
    let allowed = match () {
        () if allowed == POST => "POST",
        () if allowed == ANY => "GET, POST",
        () if allowed == GET_OR_DELETE => "GET, DELETE",
        () => "GET",
    };
    Err(Error::MethodNotAllowed { method: method.to_string(), allowed })
}

fn model_path<'a>(name: &'a str, version: Option<&str>) -> Result<ModelPath<'a>, Error> {
    let name = percent_decode(name)?;
    let parse = |text: &str| {
        // A sign is no digit, though the standard library would read one.
        let digits = text.bytes().all(|it| it.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or_else(|| {
            Error::InvalidRequest(format!(
                "the version in the address must be a whole number, given '{text}'"
            ))
        })
    };
    Ok(ModelPath { name, version: version.map(parse).transpose()? })
}

/// Undoes percent-encoding. Decoded once, and only inside one part of the path or of the query.
///
/// # Errors
/// [`Error::InvalidRequest`] for what is not percent-encoded UTF-8.
pub fn percent_decode(text: &str) -> Result<Cow<'_, str>, Error> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let invalid =
        || Error::InvalidRequest(format!("'{text}' in the address is not percent-encoded UTF-8"));
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|it| char::from(it).to_digit(16));
        let (high, low) = (digit().ok_or_else(invalid)?, digit().ok_or_else(invalid)?);
        decoded.push((high * 16 + low) as u8);
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| invalid())
}

fn unknown(path: &str) -> Error {
    let shown: String = path.chars().take(100).collect();
    Error::NotFound(format!("there is nothing at '{shown}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, version: Option<u64>) -> ModelPath<'_> {
        ModelPath { name: name.into(), version }
    }

    #[track_caller]
    fn check(method: Method, path: &str, expect: Route<'_>) {
        assert_eq!(route(&method, path), Ok(expect));
    }

    #[test]
    fn every_address_has_its_route() {
        check(Method::GET, "/v2", Route::ServerMetadata);
        check(Method::GET, "/v2/", Route::ServerMetadata);
        check(Method::GET, "/v2/health/live", Route::Live);
        check(Method::GET, "/v2/health/ready", Route::Ready);
        check(Method::POST, "/v2/repository/index", Route::RepositoryIndex);
        let load = "/v2/repository/models/a%20b/load";
        check(Method::POST, load, Route::LoadModel(model("a b", None)));
        let unload = "/v2/repository/models/m/unload";
        check(Method::POST, unload, Route::UnloadModel(model("m", None)));
        check(Method::GET, "/v2/models/m", Route::ModelMetadata(model("m", None)));
        check(Method::GET, "/v2/models/m/versions/3/ready", Route::ModelReady(model("m", Some(3))));
        check(Method::GET, "/v2/models/m/config", Route::ModelConfig(model("m", None)));
        check(Method::POST, "/v2/repository/r/index", Route::RepositoryIndex);
        check(Method::POST, "/v2/models/m/generate", Route::Generate(model("m", None)));
        check(
            Method::POST,
            "/v2/models/m/versions/2/generate_stream",
            Route::GenerateStream(model("m", Some(2))),
        );
        check(Method::GET, "/v2/models/stats", Route::Statistics(None));
        check(Method::GET, "/v2/models/m/stats", Route::Statistics(Some(model("m", None))));
        check(Method::GET, "/v2/trace/setting/", Route::TraceSetting(None));
        check(
            Method::POST,
            "/v2/models/m/trace/setting",
            Route::TraceSetting(Some(model("m", None))),
        );
        check(Method::POST, "/v2/logging", Route::Logging);
        check(Method::POST, "/v2/models/m/infer", Route::Infer(model("m", None)));
        check(Method::POST, "/v2/models/m/versions/1/infer", Route::Infer(model("m", Some(1))));
        check(Method::HEAD, "/ping", Route::Ping);
        check(Method::GET, "/health", Route::Ping);
        check(Method::GET, "/version", Route::Version);
        check(Method::POST, "/invocations", Route::Invocations);
        check(Method::GET, "/invocations-bidirectional-stream", Route::InvocationsStream);
        check(Method::GET, "/metrics", Route::Metrics);
    }

    #[test]
    fn models_of_a_named_repository_are_not_loaded() {
        for path in ["/v2/repository/r/models/m/unload", "/v2/repository/r/models/m/load"] {
            assert!(matches!(route(&Method::POST, path), Err(Error::Unimplemented(_))), "{path}");
        }
    }

    #[test]
    fn names_are_percent_decoded_once() {
        check(Method::GET, "/v2/models/a%20b", Route::ModelMetadata(model("a b", None)));
        check(Method::GET, "/v2/models/a%252fb", Route::ModelMetadata(model("a%2fb", None)));
        for path in ["/v2/models/a%2", "/v2/models/%zz", "/v2/models/%ff"] {
            assert!(matches!(route(&Method::GET, path), Err(Error::InvalidRequest(_))), "{path}");
        }
    }

    #[test]
    fn a_version_is_a_whole_number() {
        for version in ["x", "-1", "+1", "", "1.0", "99999999999999999999"] {
            let path = format!("/v2/models/m/versions/{version}/ready");
            assert!(matches!(route(&Method::GET, &path), Err(Error::InvalidRequest(_))), "{path}");
        }
    }

    #[test]
    fn unknown_addresses_and_wrong_methods_are_told_apart() {
        for path in
            ["", "/", "/v2/x", "/v2/models", "/v2/models/m/infer/more", "/a/b/c/d/e/f/g/h/i/j/k"]
        {
            assert!(matches!(route(&Method::GET, path), Err(Error::NotFound(_))), "{path}");
        }
        let error = route(&Method::GET, "/v2/models/m/infer").unwrap_err();
        assert_eq!(error.to_string(), "GET is not allowed here; allowed: POST");
    }
}

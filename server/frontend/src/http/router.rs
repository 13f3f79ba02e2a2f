//! (method, path) → route: one table for every HTTP protocol, on every port.

mod extensions;
mod multi_model;
mod path;
mod pipelines;
mod route;
mod tensorflow;

use hyper::Method;

pub use path::{GET, percent_decode, unknown};
pub use route::{
    Family, MemoryAction, MemoryKind, MemoryPath, ModelPath, MultiModelPath, PipelineRoute,
    PlatformRoute, Route, TextOperation, VersionChoice, VersionPath,
};

use inference::error::Error;
use path::{ANY, POST, model_path};

/// The route of a request.
///
/// # Errors
/// [`Error::NotFound`] for an unknown address, [`Error::MethodNotAllowed`] for a known one,
/// [`Error::InvalidRequest`] where the address is malformed.
pub fn route<'a>(method: &Method, path: &'a str) -> Result<Route<'a>, Error> {
    // The longest address has seven parts; an eighth is enough to see that there are too many.
    let mut parts = [""; 8];
    let mut length = 0;
    let trimmed = path.strip_prefix('/').unwrap_or(path);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    for (slot, part) in parts.iter_mut().zip(trimmed.split('/')) {
        (*slot, length) = (part, length + 1);
    }
    let (allowed, route) = match parts.get(..length).unwrap_or(&[]) {
        // Where the address of a server or of a model is that of a pipeline, bodies are posted to it.
        [""] if method == Method::POST => {
            return pipelines::posted(TextOperation::Hub(None), method, None);
        }
        [""] => (GET, Route::Addresses),
        ["pipeline", task, name] => {
            let operation = pipelines::hub(&["pipeline", task])?.ok_or_else(|| unknown(path))?;
            return pipelines::posted(operation, method, Some(model_path(name, None)?));
        }
        ["v2"] => (GET, Route::ServerMetadata),
        ["v2", "health", "live"] => (GET, Route::Live),
        ["v2", "health", "ready"] => (GET, Route::Ready),
        // The name of the repository is ignored, as in Triton.
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
        // Before the routes of models, because a model could have such a name.
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
                [] if method == Method::POST => {
                    let model = model_path(name, version)?;
                    return pipelines::posted(TextOperation::Hub(None), method, Some(model));
                }
                ["pipeline", ..] => {
                    let operation = pipelines::hub(action)?.ok_or_else(|| unknown(path))?;
                    return pipelines::posted(operation, method, Some(model_path(name, version)?));
                }
                [] => (GET, Route::ModelMetadata),
                // The latter is what clients of other servers of texts ask below the address of a model.
                ["ready" | "health"] => (GET, Route::ModelReady),
                ["config"] => (GET, Route::ModelConfig),
                ["infer"] => (POST, Route::Infer),
                ["generate"] => (POST, Route::Generate),
                ["generate_stream"] => (POST, Route::GenerateStream),
                ["stats"] => (GET, |it| Route::Statistics(Some(it))),
                _ => {
                    let found = pipelines::find(action).ok_or_else(|| unknown(path))?;
                    return found.route(method, Some(model_path(name, version)?));
                }
            };
            (allowed, make(model_path(name, version)?))
        }
        ["ping"] => (ANY, PlatformRoute::Ping.into()),
        // MLflow's addresses of health and of the version.
        ["health"] => (GET, PlatformRoute::Ping.into()),
        ["version"] => (GET, PlatformRoute::Version.into()),
        ["invocations"] => (POST, PlatformRoute::Invocations.into()),
        ["invocations-bidirectional-stream"] => (GET, PlatformRoute::InvocationsStream.into()),
        ["execution-parameters"] => (GET, PlatformRoute::ExecutionParameters.into()),
        ["models", rest @ ..] => multi_model::route(method, rest)?.ok_or_else(|| unknown(path))?,
        ["metrics"] => (GET, Route::Metrics),
        // To TensorFlow Serving that address is malformed. Reading it is OpenAI's.
        ["v1", "models"] if !GET.contains(method) => tensorflow::route(path, &[])?,
        found @ ["pipeline", ..] => {
            let operation = pipelines::hub(found)?.ok_or_else(|| unknown(path))?;
            return pipelines::posted(operation, method, None);
        }
        found if let Some(found) = pipelines::find(found) => return found.route(method, None),
        _ if route::is_below(path) => tensorflow::route(path, parts.get(2..length).unwrap_or(&[]))?,
        _ => return Err(unknown(path)),
    };
    path::check_method(method, allowed)?;
    Ok(route)
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
        check(Method::HEAD, "/ping", PlatformRoute::Ping.into());
        check(Method::GET, "/health", PlatformRoute::Ping.into());
        check(Method::GET, "/version", PlatformRoute::Version.into());
        check(Method::POST, "/invocations", PlatformRoute::Invocations.into());
        check(
            Method::GET,
            "/invocations-bidirectional-stream",
            PlatformRoute::InvocationsStream.into(),
        );
        check(Method::GET, "/metrics", Route::Metrics);
        check(Method::GET, "/", Route::Addresses);
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
    fn unknown_addresses_are_404_and_wrong_methods_405() {
        for path in ["/v2/x", "/v2/models", "/v2/models/m/infer/more", "/a/b/c/d/e/f/g/h/i/j/k"] {
            assert!(matches!(route(&Method::GET, path), Err(Error::NotFound(_))), "{path}");
        }
        let error = route(&Method::GET, "/v2/models/m/infer").unwrap_err();
        assert_eq!(error.to_string(), "GET is not allowed here; allowed: POST");
    }
}

//! The addresses of KServe v2 and of Triton's extensions.

mod memory;

use hyper::Method;

use super::Operation;
use frontend::http::address::{ANY, GET, ModelPath, POST, RequestHead, check_method, model_path};
use inference::error::Error;

/// What a request asks for; `None` where its address is none of these.
///
/// # Errors
/// [`Error::MethodNotAllowed`] for a known address, [`Error::InvalidRequest`] where the address is malformed.
pub fn route<'a>(head: &RequestHead<'a>) -> Result<Option<Operation<'a>>, Error> {
    let (allowed, operation) = match head.words() {
        // Where the address of the server or of a model is that of a pipeline, bodies are posted to it.
        [""] if head.method != Method::POST => (GET, Operation::Addresses),
        ["v2"] => (GET, Operation::ServerMetadata),
        ["v2", "health", "live"] => (GET, Operation::Live),
        ["v2", "health", "ready"] => (GET, Operation::Ready),
        // The name of the repository is ignored, as in Triton.
        ["v2", "repository", "index"] | ["v2", "repository", _, "index"] => {
            (POST, Operation::RepositoryIndex)
        }
        ["v2", "repository", "models", name, "load"] => {
            (POST, Operation::LoadModel(model_path(name, None)?))
        }
        ["v2", "repository", "models", name, "unload"] => {
            (POST, Operation::UnloadModel(model_path(name, None)?))
        }
        ["v2", "repository", _, "models", _, "load" | "unload"] => {
            return Err(Error::Unimplemented(
                "a repository cannot be named here; leave its name out of the address".into(),
            ));
        }
        ["v2", "models"] => (GET, Operation::ListModels),
        // Before the addresses of models, because a model could have such a name.
        ["v2", "models", "stats"] => (GET, Operation::Statistics(None)),
        ["v2", "trace", "setting"] => (ANY, Operation::TraceSetting(None)),
        ["v2", "models", name, "trace", "setting"] => {
            (ANY, Operation::TraceSetting(Some(model_path(name, None)?)))
        }
        ["v2", "logging"] => (ANY, Operation::Logging),
        ["v2", kind @ ("systemsharedmemory" | "cudasharedmemory"), rest @ ..] => {
            match memory::memory(kind, rest)? {
                Some(found) => found,
                None => return Ok(None),
            }
        }
        ["v2", "models", name, rest @ ..] => {
            let (version, action) = match rest {
                ["versions", version, action @ ..] => (Some(*version), action),
                action => (None, action),
            };
            let (allowed, make): (_, fn(ModelPath<'a>) -> Operation<'a>) = match action {
                [] if head.method != Method::POST => (GET, Operation::ModelMetadata),
                // The latter is what clients of servers of texts ask below the address of a model.
                ["ready" | "health"] => (GET, Operation::ModelReady),
                ["config"] => (GET, Operation::ModelConfig),
                ["infer"] => (POST, Operation::Infer),
                ["generate"] => (POST, Operation::Generate),
                ["generate_stream"] => (POST, Operation::GenerateStream),
                ["stats"] => (GET, |it| Operation::Statistics(Some(it))),
                _ => return Ok(None),
            };
            (allowed, make(model_path(name, version)?))
        }
        _ => return Ok(None),
    };
    check_method(head.method, allowed)?;
    Ok(Some(operation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;

    pub(super) fn routed(method: Method, path: &str) -> Result<Option<Operation<'_>>, Error> {
        let (method, headers) =
            (Box::leak(Box::new(method)), Box::leak(Box::new(HeaderMap::new())));
        route(&RequestHead::new(method, path, headers))
    }

    fn model(name: &str, version: Option<u64>) -> ModelPath<'_> {
        ModelPath { name: name.into(), version }
    }

    #[track_caller]
    fn check(method: Method, path: &str, expect: Operation<'_>) {
        assert_eq!(routed(method, path), Ok(Some(expect)));
    }

    #[test]
    fn every_address_has_its_operation() {
        check(Method::GET, "/v2", Operation::ServerMetadata);
        check(Method::GET, "/v2/", Operation::ServerMetadata);
        check(Method::GET, "/v2/health/live", Operation::Live);
        check(Method::GET, "/v2/health/ready", Operation::Ready);
        check(Method::POST, "/v2/repository/index", Operation::RepositoryIndex);
        let load = "/v2/repository/models/a%20b/load";
        check(Method::POST, load, Operation::LoadModel(model("a b", None)));
        let unload = "/v2/repository/models/m/unload";
        check(Method::POST, unload, Operation::UnloadModel(model("m", None)));
        check(Method::GET, "/v2/models", Operation::ListModels);
        check(Method::GET, "/v2/models/m", Operation::ModelMetadata(model("m", None)));
        let ready = "/v2/models/m/versions/3/ready";
        check(Method::GET, ready, Operation::ModelReady(model("m", Some(3))));
        check(Method::GET, "/v2/models/m/config", Operation::ModelConfig(model("m", None)));
        check(Method::POST, "/v2/repository/r/index", Operation::RepositoryIndex);
        check(Method::POST, "/v2/models/m/generate", Operation::Generate(model("m", None)));
        let stream = "/v2/models/m/versions/2/generate_stream";
        check(Method::POST, stream, Operation::GenerateStream(model("m", Some(2))));
        check(Method::GET, "/v2/models/stats", Operation::Statistics(None));
        check(Method::GET, "/v2/models/m/stats", Operation::Statistics(Some(model("m", None))));
        check(Method::GET, "/v2/trace/setting/", Operation::TraceSetting(None));
        let setting = "/v2/models/m/trace/setting";
        check(Method::POST, setting, Operation::TraceSetting(Some(model("m", None))));
        check(Method::POST, "/v2/logging", Operation::Logging);
        check(Method::POST, "/v2/models/m/infer", Operation::Infer(model("m", None)));
        check(Method::POST, "/v2/models/m/versions/1/infer", Operation::Infer(model("m", Some(1))));
        check(Method::GET, "/v2/models/a%252fb", Operation::ModelMetadata(model("a%2fb", None)));
        check(Method::GET, "/", Operation::Addresses);
    }

    #[test]
    fn models_of_a_named_repository_are_not_loaded() {
        for path in ["/v2/repository/r/models/m/unload", "/v2/repository/r/models/m/load"] {
            let outcome = routed(Method::POST, path);
            assert!(matches!(outcome, Err(Error::Unimplemented(_))), "{path}");
        }
    }

    #[test]
    fn addresses_of_others_are_left_to_them_and_wrong_methods_are_405() {
        for path in ["/v2/x", "/v2/models/m/infer/more", "/a/b/c/d/e/f/g/h/i/j/k"] {
            assert_eq!(routed(Method::GET, path), Ok(None), "{path}");
        }
        // Pipelines are posted to these.
        assert_eq!(routed(Method::POST, "/"), Ok(None));
        assert_eq!(routed(Method::POST, "/v2/models/m"), Ok(None));
        let error = routed(Method::GET, "/v2/models/m/infer").unwrap_err();
        assert_eq!(error.to_string(), "GET is not allowed here; allowed: POST");
    }
}

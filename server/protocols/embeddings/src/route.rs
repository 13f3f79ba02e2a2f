//! The addresses at which clients of other servers of texts ask. Each is there by itself, where the body, a header or
//! the task decides which model answers, and below `/v2/models/<name>`, where the address does.

use hyper::Method;

use super::operation::{Asked, Operation};
use frontend::http::address::{
    GET, ModelPath, POST, RequestHead, check_method, model_path, unknown,
};
use inference::{error::Error, signature::nearest, task::Task};

/// What a request asks for; `None` where its address is none of these. With `tei_root` the addresses that do not say it
/// are those of Text Embeddings Inference.
///
/// # Errors
/// [`Error::NotFound`] where there is no such task, [`Error::MethodNotAllowed`] for a known address,
/// [`Error::InvalidRequest`] where the address is malformed.
pub fn route<'a>(head: &RequestHead<'a>, tei_root: bool) -> Result<Option<Asked<'a>>, Error> {
    let method = head.method;
    let (operation, model) = match head.words() {
        // An operation of AWS's, which has an address of its own nowhere.
        [""] if head.headers.contains_key("x-amz-target") => return Ok(None),
        [""] if tei_root && method == Method::POST => (Operation::ByTask, None),
        ["invocations"] if tei_root => (Operation::ByTask, None),
        [""] if method == Method::POST => (Operation::Hub(None), None),
        ["pipeline", task, name] => {
            (hub(head, &["pipeline", task])?, Some(model_path(name, None)?))
        }
        found @ ["pipeline", ..] => (hub(head, found)?, None),
        ["v2", "models", name, rest @ ..] => {
            let (version, action) = match rest {
                ["versions", version, action @ ..] => (Some(*version), action),
                action => (None, action),
            };
            match action {
                [] if method == Method::POST => {
                    (Operation::Hub(None), Some(model_path(name, version)?))
                }
                ["pipeline", ..] => (hub(head, action)?, Some(model_path(name, version)?)),
                action => {
                    let Some(found) = find(action) else { return Ok(None) };
                    return found.route(method, Some(model_path(name, version)?)).map(Some);
                }
            }
        }
        found => {
            return find(found).map(|it| it.route(method, None)).transpose();
        }
    };
    check_method(method, POST)?;
    Ok(Some(Asked { operation, model }))
}

/// One address.
pub struct Address {
    /// Its words.
    pub path: &'static [&'static str],
    allowed: &'static [Method],
    /// What is asked for there.
    pub operation: Operation,
}

/// All of them but those of pipelines.
pub const ADDRESSES: &[Address] = &[
    address(&["v1", "embeddings"], POST, Operation::Embeddings),
    address(&["embeddings"], POST, Operation::Embeddings),
    address(&["v1", "models"], GET, Operation::ListModels),
    address(&["v1", "chat", "completions"], POST, Operation::Generate),
    address(&["v1", "completions"], POST, Operation::Generate),
    address(&["v1", "responses"], POST, Operation::Generate),
    address(&["embed"], POST, Operation::Embed),
    address(&["embed_all"], POST, Operation::EmbedAll),
    address(&["embed_sparse"], POST, Operation::EmbedSparse),
    address(&["predict"], POST, Operation::Predict),
    address(&["similarity"], POST, Operation::Similarity),
    address(&["tokenize"], POST, Operation::Tokenize),
    address(&["decode"], POST, Operation::Decode),
    address(&["info"], GET, Operation::Info),
    address(&["vertex"], POST, Operation::Vertex),
    address(&["rerank"], POST, Operation::Rerank),
    address(&["v1", "rerank"], POST, Operation::RerankV1),
    address(&["v2", "rerank"], POST, Operation::RerankV2),
    address(&["classify"], POST, Operation::Classify),
    address(&["v1", "classify"], POST, Operation::Classify),
    address(&["score"], POST, Operation::Score),
    address(&["v1", "score"], POST, Operation::Score),
];

const fn address(
    path: &'static [&'static str],
    allowed: &'static [Method],
    operation: Operation,
) -> Address {
    Address { path, allowed, operation }
}

/// The address with these parts.
fn find(parts: &[&str]) -> Option<&'static Address> {
    ADDRESSES.iter().find(|it| it.path == parts)
}

impl Address {
    /// The route of a request there.
    ///
    /// # Errors
    /// [`Error::MethodNotAllowed`].
    fn route<'a>(&self, method: &Method, model: Option<ModelPath<'a>>) -> Result<Asked<'a>, Error> {
        check_method(method, self.allowed)?;
        Ok(Asked { operation: self.operation, model })
    }
}

/// What is asked for at an address of the hub with these parts.
///
/// # Errors
/// [`Error::NotFound`] where there is no such task, and where it is no address of the hub.
fn hub(head: &RequestHead<'_>, parts: &[&str]) -> Result<Operation, Error> {
    match parts {
        ["pipeline"] => Ok(Operation::Hub(None)),
        ["pipeline", name] => {
            let task = Task::from_name(name).ok_or_else(|| no_task(name))?;
            Ok(Operation::Hub(Some(task)))
        }
        _ => Err(unknown(head.path)),
    }
}

fn no_task(name: &str) -> Error {
    let names = || Task::ALL.into_iter().map(Task::name);
    let name: String = name.chars().take(LONGEST_SHOWN).collect();
    let hint = match nearest(&name, names()) {
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Error::NotFound(format!("there is no task '{name}'; {hint}"))
}

/// Characters of a client's own name for a task that are repeated to it.
const LONGEST_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::{
        HeaderMap,
        header::{HeaderName, HeaderValue},
    };

    fn routed(method: Method, path: &str) -> Result<Option<Asked<'_>>, Error> {
        let (method, headers) =
            (Box::leak(Box::new(method)), Box::leak(Box::new(HeaderMap::new())));
        route(&RequestHead::new(method, path, headers), false)
    }

    #[track_caller]
    fn check(method: Method, path: &str, operation: Operation, model: Option<(&str, Option<u64>)>) {
        let model = model.map(|(name, version)| ModelPath { name: name.into(), version });
        assert_eq!(routed(method, path), Ok(Some(Asked { operation, model })));
    }

    #[test]
    fn every_address_is_there_by_itself_and_below_a_model() {
        check(Method::POST, "/v1/embeddings", Operation::Embeddings, None);
        check(Method::POST, "/embeddings", Operation::Embeddings, None);
        check(Method::POST, "/embed/", Operation::Embed, None);
        check(Method::GET, "/v1/models", Operation::ListModels, None);
        for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses"] {
            check(Method::POST, path, Operation::Generate, None);
        }
        let below = "/v2/models/a%20b/v1/embeddings";
        check(Method::POST, below, Operation::Embeddings, Some(("a b", None)));
        let below = "/v2/models/m/versions/3/v1/embeddings";
        check(Method::POST, below, Operation::Embeddings, Some(("m", Some(3))));
        check(Method::GET, "/v2/models/m/v1/models", Operation::ListModels, Some(("m", None)));
        check(Method::GET, "/info", Operation::Info, None);
        for (path, operation) in [
            ("/embed_all", Operation::EmbedAll),
            ("/embed_sparse", Operation::EmbedSparse),
            ("/predict", Operation::Predict),
            ("/similarity", Operation::Similarity),
            ("/tokenize", Operation::Tokenize),
            ("/decode", Operation::Decode),
            ("/vertex", Operation::Vertex),
        ] {
            check(Method::POST, path, operation, None);
        }
        check(Method::POST, "/v2/rerank", Operation::RerankV2, None);
        check(Method::POST, "/v1/rerank", Operation::RerankV1, None);
        let below = "/v2/models/m/v2/rerank";
        check(Method::POST, below, Operation::RerankV2, Some(("m", None)));
        check(Method::POST, "/rerank", Operation::Rerank, None);
        check(Method::POST, "/v1/score", Operation::Score, None);
        check(Method::POST, "/v2/models/m/embed", Operation::Embed, Some(("m", None)));
    }

    #[test]
    fn an_operation_of_aws_is_none_of_these() {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("x-amz-target"),
            HeaderValue::from_static("SageMaker.ListModels"),
        )]);
        for tei_root in [false, true] {
            let head = RequestHead::new(&Method::POST, "/", &headers);
            assert!(route(&head, tei_root).unwrap().is_none());
        }
    }

    #[test]
    fn the_hubs_pipelines_have_the_task_in_the_address_or_the_models() {
        let ner = Operation::Hub(Some(Task::TokenClassification));
        check(Method::POST, "/", Operation::Hub(None), None);
        check(Method::POST, "/pipeline", Operation::Hub(None), None);
        check(Method::POST, "/pipeline/token-classification", ner, None);
        check(Method::POST, "/pipeline/ner/m", ner, Some(("m", None)));
        check(Method::POST, "/v2/models/m", Operation::Hub(None), Some(("m", None)));
        check(Method::POST, "/v2/models/m/pipeline/ner", ner, Some(("m", None)));
        check(
            Method::POST,
            "/v2/models/m/versions/3/pipeline",
            Operation::Hub(None),
            Some(("m", Some(3))),
        );
        let error = routed(Method::POST, "/pipeline/fill-maks/m").unwrap_err().to_string();
        assert_eq!(error, "there is no task 'fill-maks'; did you mean 'fill-mask'?");
        assert!(matches!(
            routed(Method::GET, "/pipeline/ner/m"),
            Err(Error::MethodNotAllowed { .. })
        ));
    }

    #[test]
    fn other_methods_and_longer_addresses_are_refused() {
        let method = routed(Method::GET, "/embed").unwrap_err();
        assert_eq!(method.to_string(), "GET is not allowed here; allowed: POST");
        for path in ["/v2/models/m/versions/3/v1/embeddings/x", "/embed/x", "/v2/embed"] {
            assert_eq!(routed(Method::POST, path), Ok(None), "{path}");
        }
    }
}

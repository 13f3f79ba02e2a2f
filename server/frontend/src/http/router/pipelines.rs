//! The addresses at which clients of other servers of texts ask. Each is there by itself, where the body, a header or
//! the task decides which model answers, and below `/v2/models/<name>`, where the address does.

use hyper::Method;

use super::{
    path::{GET, POST, check_method},
    route::{ModelPath, PipelineRoute, Route, TextOperation},
};
use inference::{error::Error, signature::nearest, task::Task};

/// One address.
pub(super) struct Address {
    path: &'static [&'static str],
    allowed: &'static [Method],
    operation: TextOperation,
}

/// All of them.
const ADDRESSES: &[Address] = &[
    address(&["v1", "embeddings"], POST, TextOperation::Embeddings),
    address(&["embeddings"], POST, TextOperation::Embeddings),
    address(&["v1", "models"], GET, TextOperation::ListModels),
    address(&["embed"], POST, TextOperation::Embed),
    address(&["embed_all"], POST, TextOperation::EmbedAll),
    address(&["embed_sparse"], POST, TextOperation::EmbedSparse),
    address(&["predict"], POST, TextOperation::Predict),
    address(&["similarity"], POST, TextOperation::Similarity),
    address(&["tokenize"], POST, TextOperation::Tokenize),
    address(&["decode"], POST, TextOperation::Decode),
    address(&["info"], GET, TextOperation::Info),
    address(&["vertex"], POST, TextOperation::Vertex),
    address(&["rerank"], POST, TextOperation::Rerank),
    address(&["v1", "rerank"], POST, TextOperation::RerankV1),
    address(&["v2", "rerank"], POST, TextOperation::RerankV2),
    address(&["classify"], POST, TextOperation::Classify),
    address(&["v1", "classify"], POST, TextOperation::Classify),
    address(&["score"], POST, TextOperation::Score),
    address(&["v1", "score"], POST, TextOperation::Score),
];

const fn address(
    path: &'static [&'static str],
    allowed: &'static [Method],
    operation: TextOperation,
) -> Address {
    Address { path, allowed, operation }
}

/// The address with these parts.
pub(super) fn find(parts: &[&str]) -> Option<&'static Address> {
    ADDRESSES.iter().find(|it| it.path == parts)
}

impl Address {
    /// The route of a request there.
    ///
    /// # Errors
    /// [`Error::MethodNotAllowed`].
    pub(super) fn route<'a>(
        &self,
        method: &Method,
        model: Option<ModelPath<'a>>,
    ) -> Result<Route<'a>, Error> {
        check_method(method, self.allowed)?;
        Ok(Route::Pipeline(PipelineRoute { operation: self.operation, model }))
    }
}

/// What is asked for at an address of the hub with these parts; `None` where it is none.
///
/// # Errors
/// [`Error::NotFound`] where there is no such task.
pub(super) fn hub(parts: &[&str]) -> Result<Option<TextOperation>, Error> {
    match parts {
        ["pipeline"] => Ok(Some(TextOperation::Hub(None))),
        ["pipeline", name] => {
            let task = Task::from_name(name).ok_or_else(|| no_task(name))?;
            Ok(Some(TextOperation::Hub(Some(task))))
        }
        _ => Ok(None),
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

/// The route of an operation that is posted.
///
/// # Errors
/// [`Error::MethodNotAllowed`].
pub(super) fn posted<'a>(
    operation: TextOperation,
    method: &Method,
    model: Option<ModelPath<'a>>,
) -> Result<Route<'a>, Error> {
    check_method(method, POST)?;
    Ok(Route::Pipeline(PipelineRoute { operation, model }))
}

#[cfg(test)]
mod tests {
    use super::{super::route, *};

    #[track_caller]
    fn check(
        method: Method,
        path: &str,
        operation: TextOperation,
        model: Option<(&str, Option<u64>)>,
    ) {
        let model = model.map(|(name, version)| ModelPath { name: name.into(), version });
        let expected = Route::Pipeline(PipelineRoute { operation, model });
        assert_eq!(route(&method, path), Ok(expected));
    }

    #[test]
    fn every_address_is_there_by_itself_and_below_a_model() {
        check(Method::POST, "/v1/embeddings", TextOperation::Embeddings, None);
        check(Method::POST, "/embeddings", TextOperation::Embeddings, None);
        check(Method::POST, "/embed/", TextOperation::Embed, None);
        check(Method::GET, "/v1/models", TextOperation::ListModels, None);
        let below = "/v2/models/a%20b/v1/embeddings";
        check(Method::POST, below, TextOperation::Embeddings, Some(("a b", None)));
        let below = "/v2/models/m/versions/3/v1/embeddings";
        check(Method::POST, below, TextOperation::Embeddings, Some(("m", Some(3))));
        check(Method::GET, "/v2/models/m/v1/models", TextOperation::ListModels, Some(("m", None)));
        check(Method::GET, "/info", TextOperation::Info, None);
        for (path, operation) in [
            ("/embed_all", TextOperation::EmbedAll),
            ("/embed_sparse", TextOperation::EmbedSparse),
            ("/predict", TextOperation::Predict),
            ("/similarity", TextOperation::Similarity),
            ("/tokenize", TextOperation::Tokenize),
            ("/decode", TextOperation::Decode),
            ("/vertex", TextOperation::Vertex),
        ] {
            check(Method::POST, path, operation, None);
        }
        check(Method::POST, "/v2/rerank", TextOperation::RerankV2, None);
        check(Method::POST, "/v1/rerank", TextOperation::RerankV1, None);
        let below = "/v2/models/m/v2/rerank";
        check(Method::POST, below, TextOperation::RerankV2, Some(("m", None)));
        check(Method::POST, "/rerank", TextOperation::Rerank, None);
        check(Method::POST, "/v1/score", TextOperation::Score, None);
        check(Method::POST, "/v2/models/m/embed", TextOperation::Embed, Some(("m", None)));
    }

    #[test]
    fn the_hubs_pipelines_have_the_task_in_the_address_or_the_models() {
        let ner = TextOperation::Hub(Some(Task::TokenClassification));
        check(Method::POST, "/", TextOperation::Hub(None), None);
        check(Method::POST, "/pipeline", TextOperation::Hub(None), None);
        check(Method::POST, "/pipeline/token-classification", ner, None);
        check(Method::POST, "/pipeline/ner/m", ner, Some(("m", None)));
        check(Method::POST, "/v2/models/m", TextOperation::Hub(None), Some(("m", None)));
        check(Method::POST, "/v2/models/m/pipeline/ner", ner, Some(("m", None)));
        check(
            Method::POST,
            "/v2/models/m/versions/3/pipeline",
            TextOperation::Hub(None),
            Some(("m", Some(3))),
        );
        let error = route(&Method::POST, "/pipeline/fill-maks/m").unwrap_err().to_string();
        assert_eq!(error, "there is no task 'fill-maks'; did you mean 'fill-mask'?");
        assert!(matches!(
            route(&Method::GET, "/pipeline/ner/m"),
            Err(Error::MethodNotAllowed { .. })
        ));
    }

    #[test]
    fn other_methods_and_longer_addresses_are_refused() {
        let method = route(&Method::GET, "/embed").unwrap_err();
        assert_eq!(method.to_string(), "GET is not allowed here; allowed: POST");
        for path in ["/v2/models/m/versions/3/v1/embeddings/x", "/embed/x", "/v2/embed"] {
            assert!(matches!(route(&Method::POST, path), Err(Error::NotFound(_))), "{path}");
        }
        // To TensorFlow Serving that address is malformed.
        assert!(matches!(route(&Method::POST, "/v1/models"), Err(Error::InvalidRequest(_))));
    }
}

//! SageMaker's addresses.

use hyper::Method;

use super::operation::{MultiModelPath, Operation};
use frontend::http::address::{
    ANY, GET, GET_OR_DELETE, POST, POST_OR_PUT, RequestHead, check_method, percent_decode,
};
use inference::error::Error;

/// What a request asks for of a container; `None` where its address is none of SageMaker's.
///
/// # Errors
/// [`Error::MethodNotAllowed`] for a known address, [`Error::InvalidRequest`] where the address is malformed.
pub fn route<'a>(head: &RequestHead<'a>) -> Result<Option<Operation<'a>>, Error> {
    let (allowed, operation) = match head.words() {
        ["invocations"] => (POST, Operation::Invocations),
        ["ping"] => (ANY, Operation::Ping),
        // MLflow's addresses of health and of the version.
        ["health"] => (GET, Operation::Ping),
        ["version"] => (GET, Operation::Version),
        ["invocations-bidirectional-stream"] => (GET, Operation::InvocationsStream),
        ["execution-parameters"] => (GET, Operation::ExecutionParameters),
        // Of TorchServe and of the Multi Model Server. An empty name is none.
        ["predictions", name, version @ ..] if !name.is_empty() && version.len() < 2 => {
            let version = version.first().map(|it| percent_decode(it)).transpose()?;
            (POST_OR_PUT, Operation::Predictions(percent_decode(name)?, version))
        }
        ["models", rest @ ..] => match multi_model(head.method, rest)? {
            Some(found) => found,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    check_method(head.method, allowed)?;
    Ok(Some(operation))
}

/// `/models[/<name>[/invoke]]`; `None` for anything else there.
fn multi_model<'a>(
    method: &Method,
    rest: &[&'a str],
) -> Result<Option<(&'static [Method], Operation<'a>)>, Error> {
    let (allowed, path) = match rest {
        [] if *method == Method::POST => (ANY, MultiModelPath::Load),
        [] => (ANY, MultiModelPath::List),
        [""] | ["", ..] => return Ok(None),
        [name] if *method == Method::DELETE => {
            (GET_OR_DELETE, MultiModelPath::Unload(percent_decode(name)?))
        }
        [name] => (GET_OR_DELETE, MultiModelPath::Describe(percent_decode(name)?)),
        [name, "invoke"] => (POST, MultiModelPath::Invoke(percent_decode(name)?)),
        _ => return Ok(None),
    };
    Ok(Some((allowed, Operation::MultiModel(path))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;
    use inference::access::{Category, Need};

    fn routed(method: Method, path: &str) -> Result<Option<Operation<'_>>, Error> {
        let (method, headers) =
            (Box::leak(Box::new(method)), Box::leak(Box::new(HeaderMap::new())));
        route(&RequestHead::new(method, path, headers))
    }

    #[track_caller]
    fn check(method: Method, path: &str, expected: MultiModelPath<'_>) {
        match routed(method, path) {
            Ok(Some(Operation::MultiModel(found))) => assert_eq!(found, expected, "{path}"),
            _ => panic!("{path}"),
        }
    }

    #[test]
    fn every_address_has_its_operation() {
        let asked = |method, path| match routed(method, path) {
            Ok(Some(Operation::Ping)) => "ping",
            Ok(Some(Operation::Version)) => "version",
            Ok(Some(Operation::Invocations)) => "invocations",
            Ok(Some(Operation::InvocationsStream)) => "stream",
            Ok(Some(Operation::ExecutionParameters)) => "parameters",
            Ok(Some(Operation::Predictions(name, version))) => {
                assert_eq!((&*name, version.as_deref()), ("a/b", Some("1.0")));
                "predictions"
            }
            _ => "other",
        };
        assert_eq!(asked(Method::HEAD, "/ping"), "ping");
        assert_eq!(asked(Method::GET, "/health"), "ping");
        assert_eq!(asked(Method::GET, "/version"), "version");
        assert_eq!(asked(Method::POST, "/invocations"), "invocations");
        assert_eq!(asked(Method::GET, "/invocations-bidirectional-stream"), "stream");
        assert_eq!(asked(Method::GET, "/execution-parameters"), "parameters");
        assert_eq!(asked(Method::PUT, "/predictions/a%2Fb/1.0"), "predictions");
        assert_eq!(asked(Method::POST, "/predictions/a/1/2"), "other");
        assert!(matches!(routed(Method::GET, "/invocations"), Err(Error::MethodNotAllowed { .. })));
    }

    #[test]
    fn models_are_loaded_listed_described_asked_and_unloaded() {
        check(Method::POST, "/models", MultiModelPath::Load);
        check(Method::GET, "/models", MultiModelPath::List);
        check(Method::HEAD, "/models/", MultiModelPath::List);
        check(Method::GET, "/models/a%2Fb", MultiModelPath::Describe("a/b".into()));
        check(Method::DELETE, "/models/m", MultiModelPath::Unload("m".into()));
        check(Method::POST, "/models/m/invoke", MultiModelPath::Invoke("m".into()));
    }

    #[test]
    fn other_methods_list_the_allowed_ones_and_other_addresses_are_unknown() {
        let allowed = |method, path| match routed(method, path) {
            Err(Error::MethodNotAllowed { allowed, .. }) => allowed,
            _ => panic!("{path}"),
        };
        assert_eq!(allowed(Method::DELETE, "/models"), "GET, POST");
        assert_eq!(allowed(Method::POST, "/models/m"), "GET, DELETE");
        assert_eq!(allowed(Method::GET, "/models/m/invoke"), "POST");
        for path in ["/models/m/x", "/models/m/invoke/x", "/models//invoke"] {
            assert!(matches!(routed(Method::POST, path), Ok(None)), "{path}");
        }
    }

    #[test]
    fn a_client_that_may_infer_need_not_be_allowed_to_load() {
        let need = |method: Method, path| routed(method, path).unwrap().unwrap().need();
        assert_eq!(need(Method::POST, "/models/m/invoke"), Need::reading(Category::Inference));
        let reading = Need::reading(Category::ModelRepository);
        assert_eq!(need(Method::GET, "/models"), reading);
        assert_eq!(need(Method::GET, "/models/m"), reading);
        let changing = Need::changing(Category::ModelRepository);
        assert_eq!(need(Method::POST, "/models"), changing);
        assert_eq!(need(Method::DELETE, "/models/m"), changing);
    }
}

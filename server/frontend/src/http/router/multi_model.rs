//! The addresses by which SageMaker loads, lists, asks and unloads the models of a multi-model endpoint.

use hyper::Method;

use super::{
    path::{ANY, GET_OR_DELETE, POST, percent_decode},
    route::{MultiModelPath, PlatformRoute, Route},
};
use inference::error::Error;

/// `/models[/<name>[/invoke]]`; `None` for anything else there.
pub(super) fn route<'a>(
    method: &Method,
    rest: &[&'a str],
) -> Result<Option<(&'static [Method], Route<'a>)>, Error> {
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
    Ok(Some((allowed, PlatformRoute::MultiModel(path).into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::router;
    use inference::access::{Category, Need};

    #[track_caller]
    fn check(method: Method, path: &str, expected: MultiModelPath<'_>) {
        assert_eq!(
            router::route(&method, path),
            Ok(PlatformRoute::MultiModel(expected).into()),
            "{path}"
        );
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
        let allowed = |method, path| match router::route(&method, path) {
            Err(Error::MethodNotAllowed { allowed, .. }) => allowed,
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(allowed(Method::DELETE, "/models"), "GET, POST");
        assert_eq!(allowed(Method::POST, "/models/m"), "GET, DELETE");
        assert_eq!(allowed(Method::GET, "/models/m/invoke"), "POST");
        for path in ["/models/m/x", "/models/m/invoke/x", "/models//invoke"] {
            assert!(
                matches!(router::route(&Method::POST, path), Err(Error::NotFound(_))),
                "{path}"
            );
        }
    }

    #[test]
    fn a_client_that_may_infer_need_not_be_allowed_to_load() {
        let need =
            |method: Method, path| router::route(&method, path).unwrap().family_and_need(&method).1;
        assert_eq!(need(Method::POST, "/models/m/invoke"), Need::reading(Category::Inference));
        let reading = Need::reading(Category::ModelRepository);
        assert_eq!(need(Method::GET, "/models"), reading);
        assert_eq!(need(Method::GET, "/models/m"), reading);
        let changing = Need::changing(Category::ModelRepository);
        assert_eq!(need(Method::POST, "/models"), changing);
        assert_eq!(need(Method::DELETE, "/models/m"), changing);
    }
}

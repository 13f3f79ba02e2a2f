//! The addresses of TensorFlow Serving, below `/v1/models`. Upper and lower case are equal in its fixed words.

use std::borrow::Cow;

use hyper::Method;

use formats::tfs;
use frontend::http::address::{GET, POST, RequestHead, check_method, model_path, percent_decode};
use inference::{
    access::{Category, Need},
    error::Error,
};

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Inference by that method.
    Apply(tfs::Method, VersionPath<'a>),
    /// The state of a version, or of all.
    Status(VersionPath<'a>),
    /// The signature of a model.
    Metadata(VersionPath<'a>),
    /// Metrics with TensorFlow Serving's names.
    Metrics,
}

impl Operation<'_> {
    /// The access that a request needs for it on every port.
    pub fn need(&self) -> Need {
        Need::reading(match self {
            Operation::Apply(..) => Category::Inference,
            Operation::Status(_) | Operation::Metadata(_) => Category::Metadata,
            Operation::Metrics => Category::Metrics,
        })
    }
}

/// A model and a choice of its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPath<'a> {
    /// Name of the model, percent-decoded.
    pub name: Cow<'a, str>,
    /// The choice of the version.
    pub version: VersionChoice<'a>,
}

/// A choice among the versions of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionChoice<'a> {
    /// No particular one: the highest, or all.
    Any,
    /// The version of that number.
    Number(u64),
    /// The version that has this label at present, percent-decoded.
    Label(Cow<'a, str>),
}

/// Does the path lie below `/v1/models`?
fn is_below(path: &str) -> bool {
    let mut parts = path.strip_prefix('/').unwrap_or(path).split('/');
    let mut is = |word: &str| parts.next().is_some_and(|it| it.eq_ignore_ascii_case(word));
    is("v1") && is("models")
}

/// What a request asks for below `/v1/models`; `None` where its address is not there.
///
/// # Errors
/// [`Error::InvalidRequest`] where the address is malformed, [`Error::MethodNotAllowed`].
pub fn route<'a>(head: &RequestHead<'a>) -> Result<Option<Operation<'a>>, Error> {
    if !is_below(head.path) {
        return Ok(None);
    }
    // To TensorFlow Serving that address is malformed. Reading it is OpenAI's.
    if head.words() == ["v1", "models"] && GET.contains(head.method) {
        return Ok(None);
    }
    let (allowed, operation) = below(head.path, head.words().get(2..).unwrap_or(&[]))?;
    check_method(head.method, allowed)?;
    Ok(Some(operation))
}

/// `name[/versions/n | /labels/label][:verb | /metadata]`
fn below<'a>(path: &str, rest: &[&'a str]) -> Result<(&'static [Method], Operation<'a>), Error> {
    let is = |part: &str, word: &str| part.eq_ignore_ascii_case(word);
    let (rest, metadata) = match rest {
        [model @ .., last] if is(last, "metadata") && !model.is_empty() => (model, true),
        rest => (rest, false),
    };
    let (name, which) = match rest {
        [name] => (*name, None),
        [name, kind, which] if is(kind, "versions") || is(kind, "labels") => {
            (*name, Some((*kind, *which)))
        }
        [_, kind, _, other, ..]
            if is(kind, "versions") && is(other, "labels")
                || is(kind, "labels") && is(other, "versions") =>
        {
            let problem = "expected a version or a label in the address, given both";
            return Err(Error::InvalidRequest(problem.to_owned()));
        }
        _ => return Err(malformed(path)),
    };
    // The verb follows the last part: the version where the address has one, else the name.
    let last = which.map_or(name, |(_, which)| which);
    let (last, verb) = last.rsplit_once(':').map_or((last, None), |(it, verb)| (it, Some(verb)));
    let name = if which.is_some() { name } else { last };
    if name.is_empty() || name.contains(':') || last.is_empty() {
        return Err(malformed(path));
    }
    let version = match which {
        None => VersionChoice::Any,
        Some((kind, _)) if is(kind, "labels") => VersionChoice::Label(percent_decode(last)?),
        Some(_) => {
            let version = model_path(name, Some(last))?.version;
            version.map_or(VersionChoice::Any, VersionChoice::Number)
        }
    };
    let model = VersionPath { name: percent_decode(name)?, version };
    let method = |verb: &str| match () {
        () if is(verb, "predict") => Some(tfs::Method::Predict),
        () if is(verb, "classify") => Some(tfs::Method::Classify),
        () if is(verb, "regress") => Some(tfs::Method::Regress),
        () => None,
    };
    match (verb, metadata) {
        (None, false) => Ok((GET, Operation::Status(model))),
        (None, true) => Ok((GET, Operation::Metadata(model))),
        (Some(verb), false) => match method(verb) {
            Some(method) => Ok((POST, Operation::Apply(method, model))),
            None => Err(malformed(path)),
        },
        (Some(_), true) => Err(malformed(path)),
    }
}

/// For an address that is nearly one of its own, TensorFlow Serving answers 400, not 404.
fn malformed(path: &str) -> Error {
    let shown: String = path.chars().take(100).collect();
    Error::InvalidRequest(format!(
        "malformed address '{shown}': expected /v1/models/<model>[/versions/<number> | /labels/<label>], and \
         behind it nothing, /metadata, or one of :predict, :classify, :regress"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;

    fn routed(method: Method, path: &str) -> Result<Option<Operation<'_>>, Error> {
        let (method, headers) =
            (Box::leak(Box::new(method)), Box::leak(Box::new(HeaderMap::new())));
        route(&RequestHead::new(method, path, headers))
    }

    fn model<'a>(name: &'a str, version: VersionChoice<'a>) -> VersionPath<'a> {
        VersionPath { name: name.into(), version }
    }

    #[track_caller]
    fn check(method: Method, path: &str, expect: Operation<'_>) {
        assert_eq!(routed(method, path), Ok(Some(expect)));
    }

    #[test]
    fn every_address_has_its_route() {
        use VersionChoice::{Any, Label, Number};
        use tfs::Method::{Classify, Predict, Regress};
        let (get, post) = (Method::GET, Method::POST);
        check(post.clone(), "/v1/models/m:predict", Operation::Apply(Predict, model("m", Any)));
        check(post.clone(), "/v1/models/m:classify", Operation::Apply(Classify, model("m", Any)));
        let path = "/v1/models/m/versions/2:regress";
        check(post.clone(), path, Operation::Apply(Regress, model("m", Number(2))));
        let path = "/v1/models/m/labels/stable:predict";
        check(post, path, Operation::Apply(Predict, model("m", Label("stable".into()))));
        check(get.clone(), "/v1/models/m", Operation::Status(model("m", Any)));
        check(get.clone(), "/v1/models/m/versions/2", Operation::Status(model("m", Number(2))));
        let path = "/v1/models/m/labels/a%20b";
        check(get.clone(), path, Operation::Status(model("m", Label("a b".into()))));
        check(get.clone(), "/v1/models/m/metadata", Operation::Metadata(model("m", Any)));
        let path = "/v1/models/m/versions/7/metadata";
        check(get.clone(), path, Operation::Metadata(model("m", Number(7))));
        let path = "/v1/models/m/labels/x/metadata";
        check(get, path, Operation::Metadata(model("m", Label("x".into()))));
    }

    #[test]
    fn words_may_be_in_any_case_and_names_are_decoded_and_keep_theirs() {
        use VersionChoice::{Any, Number};
        let path = "/V1/Models/A%3ab%2Fc:PREDICT";
        check(Method::POST, path, Operation::Apply(tfs::Method::Predict, model("A:b/c", Any)));
        let path = "/v1/MODELS/m/Versions/3/MetaData";
        check(Method::GET, path, Operation::Metadata(model("m", Number(3))));
        check(Method::GET, "/v1/models/metadata", Operation::Status(model("metadata", Any)));
    }

    #[test]
    fn a_malformed_address_is_the_callers_mistake() {
        for path in [
            "/v1/models/m/versions",
            "/v1/models/m/versions/x",
            "/v1/models/m/versions/",
            "/v1/models/m/versions/-1:predict",
            "/v1/models/m/labels/:predict",
            "/v1/models/m/versions/1/labels/x:predict",
            "/v1/models/m/labels/x/versions/1",
            "/v1/models/m/versions/1/labels/x/metadata",
            "/v1/models/m/more",
            "/v1/models/m/versions/1/more/and/more/and/more",
            "/v1/models/m:predict/metadata",
            "/v1/models/m:guess",
            "/v1/models/:predict",
            "/v1/models/a:b/versions/1:predict",
            "/v1/models/%zz",
        ] {
            for method in [Method::GET, Method::POST] {
                let error = routed(method.clone(), path).unwrap_err();
                assert!(matches!(error, Error::InvalidRequest(_)), "{path}: {error}");
            }
        }
        let both = routed(Method::GET, "/v1/models/m/versions/1/labels/x").unwrap_err();
        assert!(both.to_string().contains("given both"), "{both}");
    }

    #[test]
    fn other_addresses_are_not_taken_for_these() {
        for path in ["/v1/model/m", "/v1", "/v2/v1/models/m"] {
            assert_eq!(routed(Method::GET, path), Ok(None), "{path}");
        }
    }
}

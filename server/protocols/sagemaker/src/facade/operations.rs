//! SageMaker's operations on jobs of its Inference Recommender: `POST /` with the header `X-Amz-Target`. They are
//! handed on to whoever does them.

use std::time::Duration;

use hyper::{
    Method, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    asked::{Asked, Operations},
    exception::{Exception, respond_like},
};
use crate::{codec::aws, front::Hosting};
use frontend::{
    exchange::intake::{self, Limits},
    http::{address::RequestHead, body::Segments, parts::Parts, respond},
};
use inference::{
    access::{Category, Need},
    error::Error,
};

/// They start servers on this machine, and have them read any file as a model.
pub(super) const NEED: Need = Need::changing(Category::ModelRepository);

/// Most bytes of a request.
const MOST_BYTES: u64 = 128 << 10;
/// How long an operation may take, its wait included: none does what it asks for before it is answered.
const LONGEST: Duration = Duration::from_secs(60);

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.1");

/// Is the request for an operation?
pub(super) fn is_operation(head: &RequestHead<'_>) -> bool {
    head.method == Method::POST && head.path == "/" && head.headers.contains_key(TARGET)
}

/// Answers an operation; `None` of `operations` where nobody does them.
///
/// # Errors
/// Why nobody does it.
pub(super) async fn answer(
    hosting: &Hosting<'_>,
    operations: Option<&Operations>,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<Response<Segments>, Error> {
    let mut response = run(hosting, operations, parts, body).await?;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    Ok(response)
}

async fn run(
    hosting: &Hosting<'_>,
    operations: Option<&Operations>,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<Response<Segments>, Error> {
    let Some(operations) = operations else {
        return Err(Error::NotFound(
            "jobs of the Inference Recommender are off: start the server with --recommendation-jobs <directory>"
                .to_owned(),
        ));
    };
    if !hosting.http.serving.drain.is_serving() {
        return Err(Error::ShuttingDown);
    }
    let target = parts.headers.get(TARGET).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let limits = Limits {
        limit: MOST_BYTES,
        whole: MOST_BYTES,
        setting: "a request for an operation",
        ..hosting.http.settings.body.clone()
    };
    let received = intake::read(body, 0, &limits).await?;
    let (reply, replied) = oneshot::channel();
    let asked =
        Asked { parts: parts.clone(), target: target.to_owned(), body: received.bytes, reply };
    if !operations.push(asked) {
        return Err(Error::Unavailable("too many operations wait for the recommender".to_owned()));
    }
    let no_answer = || Error::Unavailable("the recommender does not answer".to_owned());
    let replied = timeout(LONGEST, replied).await.map_err(|_| no_answer())?;
    let replied = replied.map_err(|_| no_answer())?;
    let (status, body) = replied.map_err(|it| Error::Internal(it.to_string()))?;
    let mut response = respond::raw("application/json", body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response.body_mut().hold(received.permit);
    Ok(response)
}

/// The exception in the form of this service, whose clients read its name in the body.
pub(super) fn refusal(
    exception: Option<Exception>,
    plain: Response<Segments>,
    error: &Error,
) -> Response<Segments> {
    let mut response = named(exception, plain, error);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn named(
    exception: Option<Exception>,
    plain: Response<Segments>,
    error: &Error,
) -> Response<Segments> {
    let Some(exception) = exception else { return plain };
    let (name, status) = match exception {
        Exception::Validation => ("ValidationException", StatusCode::BAD_REQUEST),
        other => other.named(plain.status()),
    };
    respond_like(plain, (name, status), aws::named_message(name, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::errors::ErrorForm;
    use hyper::Request;

    #[test]
    fn an_operation_is_a_post_to_the_root_that_names_one() {
        let check = |method: &str, path: &str, header: &str| {
            let request = Request::builder().method(method).uri(path).header(header, "A.B");
            let (parts, ()) = request.body(()).unwrap().into_parts();
            is_operation(&RequestHead::new(&parts.method, parts.uri.path(), &parts.headers))
        };
        assert!(check("POST", "/", "x-amz-target"));
        assert!(!check("GET", "/", "x-amz-target"));
        assert!(!check("POST", "/invocations", "x-amz-target"));
        assert!(!check("POST", "/", "x-other"));
    }

    #[test]
    fn a_refusal_has_its_name_in_the_body() {
        let check = |error: Error, status: u16, name: &str| {
            let plain = respond::error(&error, "i", ErrorForm::Plain);
            let exception = Exception::of(error.kind());
            let response = refusal(Some(exception), plain, &error);
            assert_eq!(response.status().as_u16(), status, "{name}");
            let bytes: Vec<u8> = response.body().pieces().flatten().copied().collect();
            assert_eq!(bytes, aws::named_message(name, &error.to_string()));
        };
        let text = || "x".to_owned();
        check(Error::InvalidRequest(text()), 400, "ValidationException");
        check(Error::NotFound(text()), 404, "UnknownOperationException");
        check(Error::Forbidden(text()), 403, "AccessDeniedException");
        check(Error::Unavailable(text()), 503, "ServiceUnavailable");
        check(Error::Internal(text()), 500, "InternalFailure");
    }
}

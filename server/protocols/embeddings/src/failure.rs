//! How a failure looks to those who send texts: the statuses, the names and the bodies of each family.

use hyper::{
    Response, StatusCode,
    header::{HeaderName, HeaderValue},
};

use crate::{
    codec::{
        openai::{self, OpenAiError},
        rerank,
        tei::{self, ErrorType},
    },
    operation::Family,
};
use formats::errors::ErrorForm;
use frontend::{
    exchange::rendering::Rendering,
    http::{body::Segments, failed::Failed, respond},
};
use inference::{
    error::{Error, Kind},
    task,
};

/// The reply to a client of that family.
///
/// `batch_status` is the status of a request of too many texts at Text Embeddings Inference.
pub fn reply(family: Family, failed: &Failed<'_>, batch_status: u16) -> Response<Segments> {
    let Failed { error, id, .. } = *failed;
    match family {
        Family::OpenAi => openai_error(error),
        Family::TextEmbeddingsInference => tei_error(error, batch_status),
        Family::Rerank => rerank_error(error),
        Family::HuggingFace => hub_error(error, id),
    }
}

/// By this header a reply tells OpenAI's clients whether the request is worth another try.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The error reply of OpenAI.
fn openai_error(error: &Error) -> Response<Segments> {
    let (status, named) = openai_status(error.kind());
    // Texts are the parameter `input` there, whatever the model calls them.
    let parameter = error.parameter().map(|name| match name {
        task::TEXT | task::TOKEN_IDS => "input",
        other => other,
    });
    let body = openai::error_body(named, &respond::excerpt(error), parameter);
    let mut response = respond::nameless_failure(status, body, error);
    if status == StatusCode::NOT_IMPLEMENTED {
        // Its clients repeat whatever fails with 500 or more.
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response
}

/// The error reply of Text Embeddings Inference.
///
/// `batch_status` is the status of a request of too many texts.
fn tei_error(error: &Error, batch_status: u16) -> Response<Segments> {
    let (usual, kind) = tei_status(error.kind());
    let status = match error {
        Error::TooManyInputs { .. } => StatusCode::from_u16(batch_status).unwrap_or(usual),
        _ => usual,
    };
    let body = match status {
        StatusCode::UNAUTHORIZED => Vec::new(),
        _ => tei::error_body(kind, &respond::excerpt(error)),
    };
    respond::nameless_failure(status, body, error)
}

/// The error reply of Cohere and Jina, with the statuses of OpenAI.
fn rerank_error(error: &Error) -> Response<Segments> {
    let (status, _) = openai_status(error.kind());
    respond::nameless_failure(status, rerank::error_body(&respond::excerpt(error)), error)
}

/// The error reply of Hugging Face's hub, where a task that a model has not is a mistake in the request.
fn hub_error(failed: &Error, request_id: &str) -> Response<Segments> {
    match failed {
        Error::NoSuchTask(text) => {
            respond::error(&Error::InvalidRequest(text.clone()), request_id, ErrorForm::Plain)
        }
        failed => respond::error(failed, request_id, ErrorForm::Plain),
    }
}

/// The status of a failure on the addresses of OpenAI, and on those of Cohere and Jina.
pub fn status_of_openai(kind: Kind) -> StatusCode {
    openai_status(kind).0
}

/// The status of a failure on the addresses of Text Embeddings Inference.
pub fn status_of_tei(kind: Kind) -> StatusCode {
    tei_status(kind).0
}

/// The status of a failure on the addresses of the hub.
pub fn status_of_hub(kind: Kind) -> StatusCode {
    Rendering::status_of(match kind {
        Kind::NoSuchTask => Kind::InvalidArgument,
        kind => kind,
    })
}

/// The status and the name of a failure on the addresses of OpenAI.
fn openai_status(kind: Kind) -> (StatusCode, OpenAiError) {
    const INVALID: &str = "invalid_request_error";
    const SERVER: &str = "server_error";
    let is = |status, kind, code| (status, OpenAiError { kind, code });
    match kind {
        Kind::InvalidArgument
        | Kind::Empty
        | Kind::TooManyInputs
        | Kind::Tokenizer
        | Kind::NoSuchSignature
        | Kind::AlreadyExists
        | Kind::Unknown
        | Kind::Cancelled => is(StatusCode::BAD_REQUEST, INVALID, None),
        Kind::NoSuchTask | Kind::NotFound => {
            is(StatusCode::NOT_FOUND, INVALID, Some("model_not_found"))
        }
        Kind::Unauthenticated => is(StatusCode::UNAUTHORIZED, INVALID, Some("invalid_api_key")),
        Kind::Forbidden => is(StatusCode::FORBIDDEN, INVALID, Some("permission_denied")),
        Kind::MethodNotAllowed => is(StatusCode::METHOD_NOT_ALLOWED, INVALID, None),
        Kind::Conflict => is(StatusCode::CONFLICT, INVALID, None),
        Kind::NotAcceptable => is(StatusCode::NOT_ACCEPTABLE, INVALID, None),
        Kind::RequestTimeout => is(StatusCode::REQUEST_TIMEOUT, INVALID, Some("timeout")),
        Kind::TooLarge => is(StatusCode::PAYLOAD_TOO_LARGE, INVALID, Some("request_too_large")),
        Kind::UnsupportedMediaType => is(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID, None),
        Kind::Overloaded => {
            is(StatusCode::TOO_MANY_REQUESTS, "requests", Some("rate_limit_exceeded"))
        }
        Kind::Unavailable => is(StatusCode::SERVICE_UNAVAILABLE, SERVER, None),
        Kind::DeadlineExceeded => is(StatusCode::GATEWAY_TIMEOUT, SERVER, Some("timeout")),
        Kind::Unimplemented => is(StatusCode::NOT_IMPLEMENTED, SERVER, None),
        Kind::OutOfMemory | Kind::FailedDependency | Kind::Internal => {
            is(StatusCode::INTERNAL_SERVER_ERROR, SERVER, None)
        }
    }
}

/// The status and the type of a failure on the addresses of Text Embeddings Inference.
fn tei_status(kind: Kind) -> (StatusCode, ErrorType) {
    match kind {
        Kind::InvalidArgument
        | Kind::TooManyInputs
        | Kind::NoSuchSignature
        | Kind::AlreadyExists
        | Kind::Conflict
        | Kind::Unknown
        | Kind::Cancelled => (StatusCode::UNPROCESSABLE_ENTITY, ErrorType::Validation),
        Kind::Empty => (StatusCode::BAD_REQUEST, ErrorType::Empty),
        Kind::Tokenizer => (StatusCode::UNPROCESSABLE_ENTITY, ErrorType::Tokenizer),
        Kind::NoSuchTask | Kind::OutOfMemory | Kind::FailedDependency | Kind::Internal => {
            (StatusCode::FAILED_DEPENDENCY, ErrorType::Backend)
        }
        Kind::NotFound => (StatusCode::NOT_FOUND, ErrorType::Validation),
        Kind::Unauthenticated => (StatusCode::UNAUTHORIZED, ErrorType::Validation),
        Kind::Forbidden => (StatusCode::FORBIDDEN, ErrorType::Validation),
        Kind::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, ErrorType::Validation),
        Kind::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorType::Validation),
        Kind::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, ErrorType::Validation),
        Kind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, ErrorType::Validation),
        Kind::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, ErrorType::Validation),
        Kind::Unimplemented => (StatusCode::NOT_IMPLEMENTED, ErrorType::Validation),
        Kind::Overloaded => (StatusCode::TOO_MANY_REQUESTS, ErrorType::Overloaded),
        Kind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, ErrorType::Unhealthy),
        Kind::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, ErrorType::Backend),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_the_status_of_the_dialect() {
        use ErrorType::{Backend, Empty, Overloaded, Tokenizer, Unhealthy, Validation};
        let invalid = "invalid_request_error";
        let table = [
            (Kind::InvalidArgument, 422, Validation, 400, invalid, None),
            (Kind::Empty, 400, Empty, 400, invalid, None),
            (Kind::TooManyInputs, 422, Validation, 400, invalid, None),
            (Kind::Tokenizer, 422, Tokenizer, 400, invalid, None),
            (Kind::NoSuchTask, 424, Backend, 404, invalid, Some("model_not_found")),
            (Kind::NotFound, 404, Validation, 404, invalid, Some("model_not_found")),
            (Kind::Internal, 424, Backend, 500, "server_error", None),
            (Kind::OutOfMemory, 424, Backend, 500, "server_error", None),
            (Kind::Overloaded, 429, Overloaded, 429, "requests", Some("rate_limit_exceeded")),
            (Kind::Unauthenticated, 401, Validation, 401, invalid, Some("invalid_api_key")),
            (Kind::Unavailable, 503, Unhealthy, 503, "server_error", None),
            (Kind::TooLarge, 413, Validation, 413, invalid, Some("request_too_large")),
        ];
        for (kind, tei_status, error_type, openai_status, name, code) in table {
            let (status, found) = super::tei_status(kind);
            assert_eq!((status.as_u16(), found), (tei_status, error_type), "{kind:?}");
            let (status, found) = super::openai_status(kind);
            assert_eq!(status.as_u16(), openai_status, "{kind:?}");
            assert_eq!(found, OpenAiError { kind: name, code }, "{kind:?}");
        }
    }
}

//! How a failure looks to TensorFlow Serving's clients over HTTP.

use hyper::{Response, StatusCode};

use formats::errors::{ErrorForm, error_body};
use frontend::{
    exchange::rendering::Rendering,
    http::{body::Segments, failed::Failed, respond},
};
use inference::error::Kind;

/// The reply: only the sentence in the body.
pub fn reply(failed: &Failed<'_>) -> Response<Segments> {
    let Rendering { kind, text, .. } = Rendering::of(failed.error);
    let status = status(kind);
    let body = error_body(ErrorForm::Plain, status.as_u16(), kind, &text, None);
    respond::nameless_failure(status, body, failed.error)
}

/// The status of a kind of failure.
pub fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::AlreadyExists => StatusCode::CONFLICT,
        // Any exhausted resource.
        Kind::OutOfMemory => StatusCode::TOO_MANY_REQUESTS,
        kind => Rendering::status_of(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_the_status_of_tensorflow_serving() {
        let table = [
            (Kind::InvalidArgument, 400),
            (Kind::Empty, 400),
            (Kind::TooManyInputs, 400),
            (Kind::Tokenizer, 400),
            (Kind::NoSuchTask, 404),
            (Kind::NoSuchSignature, 400),
            (Kind::Unauthenticated, 401),
            (Kind::Forbidden, 403),
            (Kind::NotFound, 404),
            (Kind::MethodNotAllowed, 405),
            (Kind::NotAcceptable, 406),
            (Kind::RequestTimeout, 408),
            (Kind::AlreadyExists, 409),
            (Kind::Conflict, 409),
            (Kind::TooLarge, 413),
            (Kind::UnsupportedMediaType, 415),
            (Kind::FailedDependency, 424),
            (Kind::OutOfMemory, 429),
            (Kind::Internal, 500),
            (Kind::Unimplemented, 501),
            (Kind::Unavailable, 503),
            (Kind::Overloaded, 503),
            (Kind::DeadlineExceeded, 504),
        ];
        for (kind, expected) in table {
            assert_eq!(status(kind).as_u16(), expected, "{kind:?}");
        }
    }
}

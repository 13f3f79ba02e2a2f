//! How a failure looks over HTTP, on the addresses of TensorFlow Serving, and over gRPC: the only table from kinds of
//! failure to these statuses. Servers of texts have their tables in `dialects`, AWS's runtime has one in `hosting`.

use std::time::Duration;

use hyper::StatusCode;

use inference::error::{Error, Kind};

/// The statuses of gRPC that the server answers, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Code {
    Ok = 0,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// A failure as its client gets it. No failure closes its connection: what is left of a body is read and dropped.
#[derive(Debug)]
pub struct Rendering {
    /// The kind of the failure.
    pub kind: Kind,
    /// The status over HTTP.
    pub http: StatusCode,
    /// The status over HTTP on the addresses of TensorFlow Serving.
    pub tensorflow: StatusCode,
    /// The status over gRPC.
    pub grpc: Code,
    /// What was wrong, where, and what was expected.
    pub text: String,
    /// When a retry makes sense; `None` where it does not, or is not known.
    pub retry_after: Option<Duration>,
}

impl Rendering {
    /// The rendering of an error.
    pub fn of(error: &Error) -> Rendering {
        let kind = error.kind();
        let (http, tensorflow, grpc) = statuses(kind);
        Rendering {
            kind,
            http,
            tensorflow,
            grpc,
            text: error.to_string(),
            retry_after: error.retry_after(),
        }
    }
}

/// The statuses over HTTP, over HTTP on the addresses of TensorFlow Serving, and over gRPC.
fn statuses(kind: Kind) -> (StatusCode, StatusCode, Code) {
    let both = |http, grpc| (http, http, grpc);
    match kind {
        Kind::InvalidArgument | Kind::Empty | Kind::TooManyInputs | Kind::Tokenizer => {
            both(StatusCode::BAD_REQUEST, Code::InvalidArgument)
        }
        // As in TensorFlow Serving's Predict.
        Kind::NoSuchSignature => both(StatusCode::BAD_REQUEST, Code::FailedPrecondition),
        // As in Triton, a name that is taken is a mistake in the request.
        Kind::AlreadyExists => (StatusCode::BAD_REQUEST, StatusCode::CONFLICT, Code::AlreadyExists),
        Kind::Conflict => both(StatusCode::CONFLICT, Code::AlreadyExists),
        Kind::Unauthenticated => both(StatusCode::UNAUTHORIZED, Code::Unauthenticated),
        Kind::Forbidden => both(StatusCode::FORBIDDEN, Code::PermissionDenied),
        Kind::NotFound | Kind::NoSuchTask => both(StatusCode::NOT_FOUND, Code::NotFound),
        // gRPC has neither addresses nor media types: these become unknown methods and encodings.
        Kind::MethodNotAllowed => both(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented),
        Kind::UnsupportedMediaType => both(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::Unimplemented),
        Kind::NotAcceptable => both(StatusCode::NOT_ACCEPTABLE, Code::Unimplemented),
        Kind::TooLarge => both(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted),
        Kind::RequestTimeout => both(StatusCode::REQUEST_TIMEOUT, Code::DeadlineExceeded),
        // One status for both: clients of gRPC with a retry policy repeat such a call. A full queue is no exhausted
        // resource in TensorFlow Serving.
        Kind::Unavailable | Kind::Overloaded => {
            both(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable)
        }
        Kind::DeadlineExceeded => both(StatusCode::GATEWAY_TIMEOUT, Code::DeadlineExceeded),
        Kind::OutOfMemory => (
            StatusCode::INSUFFICIENT_STORAGE,
            // TensorFlow Serving answers 429 for any exhausted resource.
            StatusCode::TOO_MANY_REQUESTS,
            Code::ResourceExhausted,
        ),
        // SageMaker's clients of sessions expect this status over HTTP; gRPC has no sessions.
        Kind::FailedDependency => both(StatusCode::FAILED_DEPENDENCY, Code::Internal),
        Kind::Unimplemented => both(StatusCode::NOT_IMPLEMENTED, Code::Unimplemented),
        Kind::Internal => both(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
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
            assert_eq!(statuses(kind).1.as_u16(), expected, "{kind:?}");
        }
    }
}

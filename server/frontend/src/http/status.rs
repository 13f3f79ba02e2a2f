//! The tables from kind of failure to HTTP status: one for each family of protocols with its own statuses.

use hyper::StatusCode;

use inference::error::Kind;

/// The status of a failure.
pub fn status(kind: Kind) -> StatusCode {
    match kind {
        // As in Triton, a name that is taken is a mistake in the request.
        Kind::InvalidArgument | Kind::AlreadyExists => StatusCode::BAD_REQUEST,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Kind::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Kind::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
        Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Kind::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Kind::Unavailable | Kind::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        Kind::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Kind::OutOfMemory => StatusCode::INSUFFICIENT_STORAGE,
        // SageMaker's clients of sessions expect this status.
        Kind::FailedDependency => StatusCode::FAILED_DEPENDENCY,
        Kind::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The status of a failure in TensorFlow Serving's table.
pub fn tensorflow(kind: Kind) -> StatusCode {
    match kind {
        Kind::AlreadyExists => StatusCode::CONFLICT,
        // TensorFlow Serving answers 429 for any exhausted resource.
        Kind::OutOfMemory => StatusCode::TOO_MANY_REQUESTS,
        // A full queue is not an exhausted resource there: the server cannot answer at present.
        Kind::InvalidArgument
        | Kind::NotFound
        | Kind::Unauthenticated
        | Kind::Forbidden
        | Kind::MethodNotAllowed
        | Kind::UnsupportedMediaType
        | Kind::NotAcceptable
        | Kind::TooLarge
        | Kind::RequestTimeout
        | Kind::Unavailable
        | Kind::Overloaded
        | Kind::DeadlineExceeded
        | Kind::Unimplemented
        | Kind::Conflict
        | Kind::FailedDependency
        | Kind::Internal => status(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_the_status_of_tensorflow_serving() {
        let table = [
            (Kind::InvalidArgument, 400),
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
            assert_eq!(tensorflow(kind).as_u16(), expected, "{kind:?}");
        }
    }
}

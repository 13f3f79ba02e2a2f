//! The statuses of HTTP and gRPC that a kind of failure has, where a protocol's own `failure` says nothing else.

use std::time::Duration;

use hyper::StatusCode;

use inference::error::{Error, Kind};

/// The statuses of gRPC that the server answers, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
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
        let (http, grpc) = statuses(kind);
        Rendering { kind, http, grpc, text: error.to_string(), retry_after: error.retry_after() }
    }
}

impl Rendering {
    /// The status over HTTP of that kind of failure.
    pub fn status_of(kind: Kind) -> StatusCode {
        statuses(kind).0
    }
}

/// The statuses over HTTP and over gRPC.
fn statuses(kind: Kind) -> (StatusCode, Code) {
    match kind {
        Kind::InvalidArgument | Kind::Empty | Kind::TooManyInputs | Kind::Tokenizer => {
            (StatusCode::BAD_REQUEST, Code::InvalidArgument)
        }
        // As in TensorFlow Serving's Predict.
        Kind::NoSuchSignature => (StatusCode::BAD_REQUEST, Code::FailedPrecondition),
        // As in Triton, a name that is taken is a mistake in the request.
        Kind::AlreadyExists => (StatusCode::BAD_REQUEST, Code::AlreadyExists),
        // Those of a model's own code, which are the request's fault over HTTP, as in Triton.
        Kind::Unknown => (StatusCode::BAD_REQUEST, Code::Unknown),
        Kind::Cancelled => (StatusCode::BAD_REQUEST, Code::Cancelled),
        Kind::Conflict => (StatusCode::CONFLICT, Code::AlreadyExists),
        Kind::Unauthenticated => (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
        Kind::Forbidden => (StatusCode::FORBIDDEN, Code::PermissionDenied),
        Kind::NotFound | Kind::NoSuchTask => (StatusCode::NOT_FOUND, Code::NotFound),
        // gRPC has neither addresses nor media types: these become unknown methods and encodings.
        Kind::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented),
        Kind::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::Unimplemented),
        Kind::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, Code::Unimplemented),
        Kind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted),
        Kind::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, Code::DeadlineExceeded),
        // One status for both: clients of gRPC with a retry policy repeat such a call. A full queue is no exhausted
        // resource in TensorFlow Serving.
        Kind::Unavailable | Kind::Overloaded => {
            (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable)
        }
        Kind::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, Code::DeadlineExceeded),
        Kind::OutOfMemory => (StatusCode::INSUFFICIENT_STORAGE, Code::ResourceExhausted),
        // SageMaker's clients of sessions expect this status over HTTP; gRPC has no sessions.
        Kind::FailedDependency => (StatusCode::FAILED_DEPENDENCY, Code::Internal),
        Kind::Unimplemented => (StatusCode::NOT_IMPLEMENTED, Code::Unimplemented),
        Kind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
    }
}

//! The exceptions that clients of AWS get for failures. Their libraries choose an error type by the exception's name.
//! This is the only such table.

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};

use crate::codec::aws;
use frontend::{exchange::Failure, http::body::Segments};
use inference::error::{Error, Kind};

/// The header that names an exception.
const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

/// The status of an exception whose cause is in the model's container.
pub(super) const MODEL_ERROR: StatusCode = StatusCode::FAILED_DEPENDENCY;

/// An exception of the platform itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exception {
    /// No endpoint could take this request.
    Validation,
    /// The model is being loaded.
    ModelNotReady,
    /// The server has no room, or is stopping.
    ServiceUnavailable,
    /// A defect of the server, or a failure of a disk or store.
    InternalFailure,
    /// The client lacks permission.
    AccessDenied,
    /// The address is unknown.
    UnknownOperation,
}

/// Why an endpoint did not answer.
pub(super) enum Refusal {
    /// The platform refuses the request.
    Platform(Exception, Failure),
    /// The model's container fails.
    Model(Failure),
}

/// A failure before a model was chosen.
impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Platform(Exception::of(error.kind()), error.into())
    }
}

impl Refusal {
    /// The failure, and the platform's exception; `None` where the model failed.
    pub(super) fn into_parts(self) -> (Failure, Option<Exception>) {
        match self {
            Refusal::Platform(exception, failure) => (failure, Some(exception)),
            Refusal::Model(failure) => (failure, None),
        }
    }
}

impl Exception {
    /// The exception for a failure that involves no model.
    pub(super) fn of(kind: Kind) -> Exception {
        match kind {
            Kind::InvalidArgument
            | Kind::Empty
            | Kind::TooManyInputs
            | Kind::Tokenizer
            | Kind::NoSuchTask
            | Kind::NoSuchSignature
            | Kind::AlreadyExists
            | Kind::Conflict
            | Kind::Unknown
            | Kind::Cancelled
            | Kind::FailedDependency
            | Kind::UnsupportedMediaType
            | Kind::NotAcceptable
            | Kind::TooLarge
            | Kind::RequestTimeout => Exception::Validation,
            Kind::Unauthenticated | Kind::Forbidden => Exception::AccessDenied,
            Kind::NotFound | Kind::MethodNotAllowed | Kind::Unimplemented => {
                Exception::UnknownOperation
            }
            Kind::Unavailable | Kind::Overloaded | Kind::DeadlineExceeded | Kind::OutOfMemory => {
                Exception::ServiceUnavailable
            }
            Kind::Internal => Exception::InternalFailure,
        }
    }

    /// Its name and its status, where the answer without the facade has this one.
    pub(super) fn named(self, plain: StatusCode) -> (&'static str, StatusCode) {
        match self {
            Exception::Validation => ("ValidationError", StatusCode::BAD_REQUEST),
            Exception::ModelNotReady => ("ModelNotReadyException", StatusCode::TOO_MANY_REQUESTS),
            Exception::ServiceUnavailable => {
                ("ServiceUnavailable", StatusCode::SERVICE_UNAVAILABLE)
            }
            Exception::InternalFailure => ("InternalFailure", StatusCode::INTERNAL_SERVER_ERROR),
            Exception::AccessDenied => ("AccessDeniedException", plain),
            Exception::UnknownOperation => ("UnknownOperationException", plain),
        }
    }

    /// The reply in place of `plain`, which would be the answer without the facade.
    pub(super) fn respond(self, plain: Response<Segments>, error: &Error) -> Response<Segments> {
        let named = self.named(plain.status());
        respond_like(plain, named, aws::message(&error.to_string()))
    }
}

/// A reply with an exception of that name, and what clients are told of `plain` besides.
pub(super) fn respond_like(
    plain: Response<Segments>,
    (name, status): (&'static str, StatusCode),
    body: Vec<u8>,
) -> Response<Segments> {
    let mut response = respond(name, status, body);
    for name in [RETRY_AFTER, ALLOW, WWW_AUTHENTICATE] {
        if let Some(value) = plain.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// A JSON reply with this status.
pub fn json(status: hyper::StatusCode, body: Vec<u8>) -> Response<Segments> {
    let mut response = frontend::http::respond::raw("application/json", Bytes::from(body));
    *response.status_mut() = status;
    response
}

/// A reply with the exception of that name.
pub(super) fn respond(name: &'static str, status: StatusCode, body: Vec<u8>) -> Response<Segments> {
    let mut response = json(status, body);
    response.headers_mut().insert(ERROR_TYPE, HeaderValue::from_static(name));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::errors::ErrorForm;

    #[test]
    fn each_failure_before_a_model_has_its_exception() {
        let check = |error: Error, status: u16, name: &str| {
            let plain = frontend::http::respond::error(&error, "i", ErrorForm::Plain);
            let (failure, exception) = Refusal::from(error).into_parts();
            let response = exception.unwrap().respond(plain, &failure.error);
            assert_eq!(response.status().as_u16(), status, "{name}");
            assert_eq!(response.headers().get(ERROR_TYPE).unwrap(), name);
        };
        let text = || "x".to_owned();
        check(Error::InvalidRequest(text()), 400, "ValidationError");
        check(Error::ShuttingDown, 503, "ServiceUnavailable");
        check(Error::OutOfBudget(text()), 503, "ServiceUnavailable");
        check(Error::Internal(text()), 500, "InternalFailure");
        check(Error::Unauthenticated(text()), 401, "AccessDeniedException");
        check(Error::Forbidden(text()), 403, "AccessDeniedException");
        check(Error::NotFound(text()), 404, "UnknownOperationException");
    }
}

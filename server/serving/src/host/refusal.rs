//! What a model's own code is told of a failure: the text that a client would get, and one of the code's own codes.

use backend::{CallCode, CallError};

use inference::error::{Error, Kind};

/// The error, as the code sees it.
pub(super) fn of(error: &Error) -> CallError {
    CallError { code: code(error.kind()), text: error.to_string() }
}

/// The names of these codes are few: what a client can do is what they tell.
fn code(kind: Kind) -> CallCode {
    match kind {
        Kind::InvalidArgument
        | Kind::Empty
        | Kind::TooManyInputs
        | Kind::Tokenizer
        | Kind::NoSuchSignature
        | Kind::MethodNotAllowed
        | Kind::UnsupportedMediaType
        | Kind::NotAcceptable
        | Kind::TooLarge
        | Kind::Unauthenticated
        | Kind::Forbidden => CallCode::InvalidArg,
        Kind::NotFound | Kind::NoSuchTask => CallCode::NotFound,
        Kind::AlreadyExists | Kind::Conflict => CallCode::AlreadyExists,
        Kind::RequestTimeout | Kind::Unavailable | Kind::Overloaded | Kind::DeadlineExceeded => {
            CallCode::Unavailable
        }
        Kind::Unimplemented => CallCode::Unsupported,
        Kind::Unknown => CallCode::Unknown,
        Kind::Cancelled => CallCode::Cancelled,
        Kind::OutOfMemory | Kind::FailedDependency | Kind::Internal => CallCode::Internal,
    }
}

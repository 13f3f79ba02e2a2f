//! Everything that can go wrong with a request, as causes. What a cause means to a client is decided by tables over
//! [`Kind`], one for each dialect of statuses.

use std::{fmt::Display, time::Duration};

use backend::BackendError;

use crate::messages;

/// The settings that say how large a body over HTTP may be.
pub const HTTP_BODY_LIMIT: &str = "--http-max-input-size, or --max-inflight-bytes for raw tensors";

/// Why a request was not answered with a result. The text says what was wrong, where, and what was
/// expected; it is meant for the client.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The body or a parameter is malformed or has an invalid value. The text points at the place (`inputs[0].shape`).
    #[error("{0}")]
    InvalidRequest(String),
    /// One input does not fit the model.
    #[error("input '{name}': {problem}")]
    InvalidInput {
        /// Name of the input.
        name: String,
        /// What was expected and what was given.
        problem: String,
    },
    /// What a parameter says cannot be done. The text names it where that helps.
    #[error("{problem}")]
    InvalidParameter {
        /// Name of the parameter, or of the input that it is about.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A text, or the list of texts, is empty.
    #[error("{0}")]
    Empty(String),
    /// More texts than a request may have.
    #[error("{given} inputs in one request, at most {most} are taken (--max-client-batch-size)")]
    TooManyInputs {
        /// Texts of the request.
        given: usize,
        /// The bound.
        most: usize,
    },
    /// A text cannot be split into tokens.
    #[error("{0}")]
    Tokenizer(String),
    /// The model is there, and does something else.
    #[error("{0}")]
    NoSuchTask(String),
    /// The model is there, and has no signature of that name.
    #[error("{0}")]
    NoSuchSignature(String),
    /// There is no such model, version or address.
    #[error("{0}")]
    NotFound(String),
    /// What is to be made is there already.
    #[error("{0}")]
    AlreadyExists(String),
    /// The model that is to be loaded is loaded.
    #[error("{0}")]
    AlreadyLoaded(String),
    /// The request has no token, or a wrong one.
    #[error("{0}")]
    Unauthenticated(String),
    /// The client may not do that.
    #[error("{0}")]
    Forbidden(String),
    /// The address exists, the method does not.
    #[error("{method} is not allowed here; allowed: {allowed}")]
    MethodNotAllowed {
        /// What was asked.
        method: String,
        /// What could have been.
        allowed: &'static str,
    },
    /// The model or version exists but cannot serve now.
    #[error("{}: {reason}", messages::not_ready(.model, *.version))]
    ModelNotReady {
        /// Name of the model.
        model: String,
        /// The version that was asked for, if one was.
        version: Option<u64>,
        /// Its state, or why it failed.
        reason: String,
    },
    /// No decoder for this content type.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// No encoder for any type that the client accepts.
    #[error("{0}")]
    NotAcceptable(String),
    /// The body is larger than the server takes.
    #[error("{} ({setting})", messages::body_too_large(*.given, *.limit))]
    BodyTooLarge {
        /// Bytes declared or read so far.
        given: u64,
        /// The limit, in bytes.
        limit: u64,
        /// The settings that say so.
        setting: &'static str,
    },
    /// The body is compressed in a way that is not taken.
    #[error("header content-encoding: {problem}")]
    UnsupportedEncoding {
        /// What was expected and what was given.
        problem: String,
        /// The encodings that are taken, as a header lists them.
        accepted: &'static str,
    },
    /// The body becomes so much larger than it was sent that it is taken for an attack.
    #[error(
        "the {sent} bytes of compressed body hold more than {ratio} times as much, which is not taken; send it \
         without compression"
    )]
    BodyExpands {
        /// Bytes that were sent.
        sent: usize,
        /// How many times as much is taken.
        ratio: usize,
    },
    /// The request takes more memory than all requests may take together, so that it never fits.
    #[error(
        "the request takes up to {needed} bytes while it is read, more than the {limit} that all requests may take \
         together (--max-inflight-bytes); send less at once"
    )]
    NeverFits {
        /// Bytes that it takes at most.
        needed: usize,
        /// Bytes that there are.
        limit: usize,
    },
    /// The client did not send its body in time.
    #[error("the body did not arrive within {} seconds", .0.as_secs())]
    BodyTimeout(Duration),
    /// The request would have to wait longer than the server lets requests wait.
    #[error("model '{model}' is overloaded: {reason}")]
    Overloaded {
        /// Name of the model.
        model: String,
        /// Predicted wait and its bound, or the count and its limit.
        reason: String,
        /// When to come back.
        retry_after: Duration,
    },
    /// The server's budget for bodies in memory is spent.
    #[error("{0}")]
    OutOfBudget(String),
    /// The request waited in the queue for longer than its queue policy allows.
    #[error(
        "{}: the request to model '{model}' waited {} us in the queue, its limit is {} us",
        messages::QUEUE_TIMEOUT,
        .waited.as_micros(), .limit.as_micros()
    )]
    QueueTimeout {
        /// Name of the model.
        model: String,
        /// How long it waited.
        waited: Duration,
        /// How long it might have.
        limit: Duration,
    },
    /// The sequence waited for a place for longer than one of its requests allows.
    #[error(
        "{}: the sequence on model '{model}' waited {} us, its limit is {} us; begin it again with sequence_start",
        messages::SEQUENCE_TIMEOUT,
        .waited.as_micros(), .limit.as_micros()
    )]
    SequenceTimeout {
        /// Name of the model.
        model: String,
        /// How long the request waited.
        waited: Duration,
        /// How long it might have.
        limit: Duration,
    },
    /// The deadline that came with the request has passed.
    #[error(
        "{}: the deadline of the request to model '{model}' passed before it was answered",
        messages::DEADLINE_EXCEEDED
    )]
    DeadlineExceeded {
        /// Name of the model.
        model: String,
    },
    /// The model did not end its run in time.
    #[error(
        "the run of the request on model '{model}' took longer than {} s and was ended (--run-limit-secs, \
         EXECUTION_TIMEOUT_SECONDS)",
        .limit.as_secs_f64()
    )]
    RunTimeout {
        /// Name of the model.
        model: String,
        /// How long it might have taken.
        limit: Duration,
    },
    /// The server or the model's version is going away.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// What lies in the model repository is not there, or cannot be read.
    #[error("{0}")]
    Repository(String),
    /// Offered, but not in the server's present mode or state.
    #[error("{0}")]
    Unavailable(String),
    /// A session could not be opened.
    #[error("{0}")]
    SessionFailed(String),
    /// The request is valid, and the server does not offer the operation.
    #[error("{0}")]
    Unimplemented(String),
    /// A model's own code has refused the request, and does not say what is wrong.
    #[error("{0}")]
    Unknown(String),
    /// A model's own code has given the request up.
    #[error("{0}")]
    Cancelled(String),
    /// The engine failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A step of an ensemble failed.
    #[error("{} (step[{step}], model '{model}')", messages::in_ensemble(.ensemble, .error))]
    Step {
        /// Name of the ensemble.
        ensemble: String,
        /// Which one.
        step: usize,
        /// Name of its model.
        model: String,
        /// Why.
        error: Box<Error>,
    },
    /// A defect of the server itself.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What sort of failure it is: as much as the status tables need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    InvalidArgument,
    Empty,
    TooManyInputs,
    Tokenizer,
    NoSuchTask,
    NoSuchSignature,
    NotFound,
    AlreadyExists,
    Conflict,
    Unauthenticated,
    Forbidden,
    MethodNotAllowed,
    UnsupportedMediaType,
    NotAcceptable,
    TooLarge,
    RequestTimeout,
    Unavailable,
    Overloaded,
    DeadlineExceeded,
    OutOfMemory,
    FailedDependency,
    Unimplemented,
    Unknown,
    Cancelled,
    Internal,
}

impl Error {
    /// The sort of failure.
    pub fn kind(&self) -> Kind {
        match self {
            Error::InvalidRequest(_)
            | Error::InvalidInput { .. }
            | Error::InvalidParameter { .. } => Kind::InvalidArgument,
            Error::Empty(_) => Kind::Empty,
            Error::TooManyInputs { .. } => Kind::TooManyInputs,
            Error::Tokenizer(_) => Kind::Tokenizer,
            Error::NoSuchSignature(_) => Kind::NoSuchSignature,
            Error::NoSuchTask(_) => Kind::NoSuchTask,
            Error::NotFound(_) => Kind::NotFound,
            Error::AlreadyExists(_) => Kind::AlreadyExists,
            Error::AlreadyLoaded(_) => Kind::Conflict,
            Error::Unauthenticated(_) => Kind::Unauthenticated,
            Error::Forbidden(_) => Kind::Forbidden,
            Error::MethodNotAllowed { .. } => Kind::MethodNotAllowed,
            Error::UnsupportedMediaType(_) => Kind::UnsupportedMediaType,
            Error::NotAcceptable(_) => Kind::NotAcceptable,
            Error::BodyTooLarge { .. } | Error::BodyExpands { .. } | Error::NeverFits { .. } => {
                Kind::TooLarge
            }
            Error::UnsupportedEncoding { .. } => Kind::Unimplemented,
            Error::BodyTimeout(_) => Kind::RequestTimeout,
            Error::ModelNotReady { .. } | Error::ShuttingDown | Error::Unavailable(_) => {
                Kind::Unavailable
            }
            Error::Overloaded { .. }
            | Error::OutOfBudget(_)
            | Error::QueueTimeout { .. }
            | Error::SequenceTimeout { .. } => Kind::Overloaded,
            Error::DeadlineExceeded { .. } | Error::RunTimeout { .. } => Kind::DeadlineExceeded,
            Error::SessionFailed(_) => Kind::FailedDependency,
            Error::Unimplemented(_) => Kind::Unimplemented,
            Error::Unknown(_) => Kind::Unknown,
            Error::Cancelled(_) => Kind::Cancelled,
            Error::Step { error, .. } => error.kind(),
            Error::Backend(BackendError::InvalidInput(_)) => Kind::InvalidArgument,
            Error::Backend(BackendError::OutOfMemory(_)) => Kind::OutOfMemory,
            Error::Backend(BackendError::Unavailable(_)) => Kind::Unavailable,
            Error::Backend(BackendError::Busy(_)) => Kind::Overloaded,
            Error::Backend(
                BackendError::Load(_)
                | BackendError::Device(_)
                | BackendError::Execute(_)
                | BackendError::Crashed(_),
            )
            | Error::Repository(_)
            | Error::Internal(_) => Kind::Internal,
        }
    }

    /// The parameter or input that is wrong, where it is one.
    pub fn parameter(&self) -> Option<&str> {
        match self {
            Error::InvalidParameter { name, .. } | Error::InvalidInput { name, .. } => Some(name),
            _ => None,
        }
    }

    /// When it is worth trying again; `None` where it is not, or is not known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Overloaded { retry_after, .. } => Some(*retry_after),
            Error::Backend(BackendError::Unavailable(outage)) => {
                Some(outage.retry_after.max(Duration::from_secs(1)))
            }
            Error::OutOfBudget(_)
            | Error::Backend(BackendError::Busy(_))
            | Error::QueueTimeout { .. }
            | Error::SequenceTimeout { .. }
            | Error::ModelNotReady { .. }
            | Error::ShuttingDown => Some(Duration::from_secs(1)),
            Error::Step { error, .. } => error.retry_after(),
            _ => None,
        }
    }

    /// Is it one of many that say the same: there is no room for the request, or the server is on its way out?
    pub fn is_one_of_many(&self) -> bool {
        match self {
            Error::Overloaded { .. }
            | Error::OutOfBudget(_)
            | Error::Backend(BackendError::Busy(_))
            | Error::ShuttingDown => true,
            Error::Step { error, .. } => error.is_one_of_many(),
            _ => false,
        }
    }

    /// An [`Error::InvalidInput`].
    pub fn input(name: impl Into<String>, problem: impl Display) -> Error {
        Error::InvalidInput { name: name.into(), problem: problem.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_comes_in_crowds_and_what_is_wrong_with_one_model_does_not() {
        let (model, time) = (|| "m".to_owned(), Duration::from_secs(50));
        let overloaded =
            || Error::Overloaded { model: model(), reason: String::new(), retry_after: time };
        let step = |error| Error::Step {
            ensemble: "e".to_owned(),
            step: 0,
            model: model(),
            error: Box::new(error),
        };
        let busy = || Error::Backend(BackendError::Busy("no room".to_owned()));
        let budget = Error::OutOfBudget(String::new());
        for error in [overloaded(), step(overloaded()), budget, busy(), step(busy())] {
            assert!(error.is_one_of_many(), "{error}");
            assert_eq!(error.kind(), Kind::Overloaded, "{error}");
            assert!(error.retry_after().is_some(), "{error}");
        }
        let reason = "failed to load".to_owned();
        let not_ready = Error::ModelNotReady { model: model(), version: None, reason };
        let late = Error::QueueTimeout { model: model(), waited: time, limit: time };
        for error in [not_ready.clone(), step(not_ready), late, Error::Unavailable(String::new())] {
            assert!(!error.is_one_of_many(), "{error}");
        }
    }

    #[test]
    fn errors_that_triton_has_too_begin_with_its_words() {
        let time = Duration::from_secs(1);
        let late = Error::QueueTimeout { model: "m".to_owned(), waited: time, limit: time };
        assert!(late.to_string().starts_with("Request timeout expired: "), "{late}");
        let limit = time;
        let backlog = Error::SequenceTimeout { model: "m".to_owned(), waited: time, limit };
        let opening = "timeout of the corresponding sequence has been expired: ";
        assert!(backlog.to_string().starts_with(opening), "{backlog}");
        let error = Box::new(Error::InvalidRequest("too long".to_owned()));
        let step = |ensemble: &str, model: &str, error| Error::Step {
            ensemble: ensemble.to_owned(),
            step: 1,
            model: model.to_owned(),
            error,
        };
        let nested = step("outer", "inner", Box::new(step("inner", "m", error)));
        assert_eq!(
            nested.to_string(),
            "in ensemble 'outer', in ensemble 'inner', too long (step[1], model 'm') (step[1], model 'inner')"
        );
        let large = Error::BodyTooLarge { given: 9, limit: 8, setting: "--http-max-input-size" };
        assert!(
            large.to_string().contains("exceeds the maximum allowed value of 8 bytes"),
            "{large}"
        );
    }
}

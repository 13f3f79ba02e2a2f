//! A request that failed: what went wrong, which request it was, and its one line in the log.

use std::sync::Arc;

use super::failure_lines::FailureLines;
use inference::{
    error::{Error, Kind},
    trace::Trace,
};

/// What went wrong, and what is known of the request that failed.
#[derive(Debug)]
pub struct Failure {
    /// The client's name for its request.
    pub id: Option<Arc<str>>,
    /// The model that it was for.
    pub model: Option<Arc<str>>,
    /// What went wrong.
    pub error: Error,
    /// The trace of the request, where it is traced.
    trace: Option<Arc<Trace>>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::of(None, error)
    }
}

impl Failure {
    /// The failure of a request with this name, before it has a trace.
    pub fn of(id: Option<Arc<str>>, error: Error) -> Failure {
        Failure { id, model: None, error, trace: None }
    }

    /// The same, of a request for that model with that trace, which learns what went wrong.
    pub(super) fn traced(self, model: &Arc<str>, trace: Option<&Arc<Trace>>) -> Failure {
        if let Some(trace) = trace {
            trace.failed(self.id.as_ref(), &self.error);
        }
        Failure { model: Some(model.clone()), trace: trace.cloned(), ..self }
    }

    /// The same failure of the request, for another reason.
    pub fn with_error(self, error: Error) -> Failure {
        Failure { error, ..self }
    }

    /// Notes the status of HTTP or gRPC that the client is answered with. Called where that status is known: the kind
    /// of a failure has another one in each dialect.
    pub fn answered(&self, status: u16) {
        if let Some(trace) = &self.trace {
            trace.answered(status);
        }
    }
}

/// What the log says of a failed request beside its error.
#[derive(Debug, Default, Clone, Copy)]
pub struct Context<'a> {
    /// The HTTP method, or the name of the gRPC call.
    pub method: &'a str,
    /// The address; `None` where `method` names the call already.
    pub path: Option<&'a str>,
    /// The model that SageMaker's header names.
    pub target_model: Option<&'a str>,
    /// The variant that SageMaker's header names.
    pub target_variant: Option<&'a str>,
    /// The container that SageMaker's header names.
    pub target_container: Option<&'a str>,
    /// The inference component that SageMaker's header names.
    pub inference_component: Option<&'a str>,
    /// The custom attributes in SageMaker's header.
    pub custom_attributes: Option<&'a str>,
    /// The name of the request in the head of its reply, where another one is said beside its error.
    pub x_request_id: Option<&'a str>,
}

/// Writes the line of a request that failed, unless there were many of its kind. Refusals under load are many and say
/// nothing new: they are counted, and logged only where the log is verbose.
pub fn log(lines: &FailureLines, context: Context<'_>, error: &Error, request_id: &str) {
    if !error.is_one_of_many() && !lines.has_line(error.kind()) {
        return;
    }
    let Context {
        method,
        path,
        target_model,
        target_variant,
        target_container,
        inference_component,
        custom_attributes,
        x_request_id,
    } = context;
    match error.kind() {
        Kind::Internal | Kind::OutOfMemory => tracing::error!(
            method, path, request_id, target_model, target_variant, target_container, inference_component,
            custom_attributes, x_request_id, %error, "request failed"
        ),
        _ if error.is_one_of_many() => tracing::debug!(
            method, path, request_id, target_model, target_variant, target_container, inference_component,
            custom_attributes, x_request_id, %error, "request refused"
        ),
        _ => tracing::info!(
            method, path, request_id, target_model, target_variant, target_container, inference_component,
            custom_attributes, x_request_id, %error, "request rejected"
        ),
    }
}

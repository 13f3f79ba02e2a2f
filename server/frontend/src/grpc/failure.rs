//! The end of a failed call as the client gets it, and its line in the log.

use super::status::Status;
use crate::{
    exchange::{
        Failure, failure,
        request_id::{self, RequestId},
    },
    serving::Serving,
};
use inference::error::Error;

/// The status of a failed call, which its trace gets, too. The text has the names of model and request where the error
/// lacks them.
pub fn status(failure: &Failure) -> Status {
    let mut status = Status::of(&failure.error);
    failure.answered(status.code as u16);
    if let (Some(model), Error::InvalidInput { .. }) = (&failure.model, &failure.error)
        && !status.text.contains(&format!("model '{model}'"))
    {
        status.text = format!("model '{model}', {}", status.text);
    }
    if let Some(id) = failure.id.as_ref().filter(|it| !it.is_empty()) {
        let shown: String = id.chars().take(128).collect();
        status.text.push_str(&format!(" (request id: {shown})"));
    }
    status
}

/// Logs the line of a failure that is answered, with the name of its request: the client's in
/// its message, or that in the metadata of its reply.
pub fn log(serving: &Serving, named: &RequestId, method: &dyn std::fmt::Debug, failure: &Failure) {
    let named = named.text();
    let id = failure.id.as_deref().and_then(request_id::named);
    let id = id.as_deref().unwrap_or(&named);
    let method = format!("{method:?}");
    let x_request_id = Some(&*named).filter(|it| *it != id);
    let context = failure::Context { method: &method, x_request_id, ..Default::default() };
    failure::log(&serving.failure_lines, context, &failure.error, id);
}

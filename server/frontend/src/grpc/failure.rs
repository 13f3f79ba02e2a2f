//! The end of a failed call as the client gets it, and its line in the log.

use super::status::Status;
use crate::{
    exchange::{Failure, failure},
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

/// Logs the line of a failure that is answered, with the name of its request: the client's, or a new one.
pub fn log(serving: &Serving, method: &dyn std::fmt::Debug, failure: &Failure) {
    let id = serving.request_ids.name(failure.id.as_deref());
    let method = format!("{method:?}");
    let context = failure::Context { method: &method, ..Default::default() };
    failure::log(&serving.failure_lines, context, &failure.error, &id);
}

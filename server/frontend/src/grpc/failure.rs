//! What a client is told of a call that failed, and what the log hears of it.

use super::{method::Method, status::Status};
use crate::exchange::{
    Failure,
    failure::{self, RequestIds},
};
use inference::error::Error;

/// The end of the call: with the names of model and request where the error does not have them.
pub fn status(failure: &Failure) -> Status {
    let mut status = Status::of(&failure.error);
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

/// One line for every failure that is answered, with the name of its request: the client's, or a new one.
pub fn log(ids: &RequestIds, method: Method, failure: &Failure) {
    let id = ids.name(failure.id.as_deref());
    let method = format!("{method:?}");
    failure::log(failure::Context { method: &method, ..Default::default() }, &failure.error, &id);
}

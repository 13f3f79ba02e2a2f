//! TensorFlow Serving's inference calls: a message is taken apart, becomes a request once its model is known, and the
//! response becomes a message. Pure.

mod examples;
mod form;
mod predict;
mod reply;
mod results;
mod spec;
mod tensor;

use std::collections::VecDeque;

use bytes::Bytes;

pub use form::Form;
pub use spec::{Spec, Version};

use super::method::Method;
use inference::{
    error::Error,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// The message of one of these calls, taken apart without a copy.
pub enum Asked<'a> {
    /// Of `Predict`.
    Predict(predict::Request<'a>),
    /// Of `Classify`, `Regress` or `MultiInference`.
    Examples(examples::Request<'a>),
}

impl<'a> Asked<'a> {
    /// Takes the message of this call apart.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where it is no such message, or asks for what there is not.
    pub fn of(method: Method, message: &'a Bytes) -> Result<Asked<'a>, Error> {
        match method {
            Method::Predict => predict::Request::of(message).map(Asked::Predict),
            other => examples::Request::of(other, message).map(Asked::Examples),
        }
    }

    /// The model that it is for.
    pub fn spec(&self) -> &Spec<'a> {
        match self {
            Asked::Predict(request) => &request.spec,
            Asked::Examples(request) => &request.spec,
        }
    }

    /// Bytes of memory that decoding takes at most, beside the message.
    pub fn expanded(&self, signature: &Signature) -> usize {
        match self {
            Asked::Predict(request) => request.expanded(),
            Asked::Examples(request) => request.expanded(signature),
        }
    }

    /// The request, and the form of its response.
    ///
    /// # Errors
    /// What is wrong, with the name of the input or output, what was expected and what was given.
    pub fn decode(self, signature: &Signature) -> Result<(InferenceRequest, Form), Error> {
        match self {
            Asked::Predict(request) => {
                request.decode(signature).map(|request| (request, Form::Predict))
            }
            Asked::Examples(request) => request.decode(signature),
        }
    }
}

/// Bytes of the response's outputs that do not go into its message as they are: encoding takes work for them.
pub fn work(form: &Form, response: &InferenceResponse) -> usize {
    let length: usize = response.outputs.iter().map(|it| it.tensor.byte_len()).sum();
    match form {
        Form::Predict => length.saturating_sub(reply::raw_bytes(response)),
        Form::One(_) | Form::Many(_) => length,
    }
}

/// Encodes the response, the prefix of its message included.
///
/// # Errors
/// [`Error::InvalidRequest`] when the outputs are not what the call takes, or the message is too large.
pub fn encode(
    form: &Form,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<VecDeque<Bytes>, Error> {
    match form {
        Form::Predict => reply::encode(response),
        Form::One(results) => results::encode_one(results, signature, response),
        Form::Many(several) => results::encode_many(several, signature, response),
    }
}

#[cfg(test)]
mod tests;

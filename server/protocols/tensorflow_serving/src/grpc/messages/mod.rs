//! TensorFlow Serving's inference calls. A message is parsed, becomes a request once its model is known, and the
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
use smallvec::SmallVec;

pub use form::Form;
pub use spec::{Spec, Version};

use crate::grpc::Method;
use formats::{
    reply_size::{self, TextForm},
    tfs::with_scalars,
};
use frontend::grpc::wire;
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// The message of one of these calls, parsed without a copy.
pub enum Request<'a> {
    /// A request of `Predict`.
    Predict(predict::Request<'a>),
    /// A request of `Classify`, `Regress` or `MultiInference`.
    Examples(examples::Request<'a>),
}

impl<'a> Request<'a> {
    /// Parses the message of this call.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the message is malformed, or asks for something that the server does not have.
    pub fn of(method: Method, message: &'a Bytes) -> Result<Request<'a>, Error> {
        match method {
            Method::Predict => predict::Request::of(message).map(Request::Predict),
            other => examples::Request::of(other, message).map(Request::Examples),
        }
    }

    /// The encoded [`Spec`] at the start of a message of this call, of which all or only the first bytes are there.
    pub fn start(method: Method, start: &[u8]) -> Option<&[u8]> {
        let mut rest = start;
        match (method, wire::field(&mut rest)) {
            (Method::MultiInference, _) => None,
            (_, Ok(Some((1, kind)))) => wire::delimited(kind, &mut rest).ok(),
            _ => None,
        }
    }

    /// The model that the request is for.
    pub fn spec(&self) -> &Spec<'a> {
        match self {
            Request::Predict(request) => &request.spec,
            Request::Examples(request) => &request.spec,
        }
    }

    /// The name of the signature that it is for; empty for the default.
    pub fn signature_name(&self) -> &'a str {
        self.spec().signature_name
    }

    /// The names of the signatures of its tasks, in their order; one, where it has no tasks.
    pub fn signature_names(&self) -> SmallVec<[&'a str; 2]> {
        match self {
            Request::Predict(request) => [request.spec.signature_name].into_iter().collect(),
            Request::Examples(request) => request.signature_names(),
        }
    }

    /// The request with its tasks for that signature only.
    pub fn only(self, signature_name: &str) -> Request<'a> {
        match self {
            Request::Predict(_) => self,
            Request::Examples(request) => Request::Examples(request.only(signature_name)),
        }
    }

    /// A measure of the time that decoding takes, in bytes.
    pub fn work(&self, signature: &Signature) -> usize {
        match self {
            Request::Predict(request) => request.bound(),
            Request::Examples(request) => request.work(signature),
        }
    }

    /// The request, and the form of its response.
    ///
    /// # Errors
    /// The name of the input or output, what is wrong, what was expected and what was given.
    pub fn decode(
        self,
        signature: &Signature,
        grant: &Grant,
    ) -> Result<(InferenceRequest, Form), Error> {
        match self {
            Request::Predict(request) => {
                // Lists of elements are decoded by a library that does not ask.
                grant.take(|_| request.bound())?;
                request.decode(signature).map(|request| (request, Form::Predict))
            }
            Request::Examples(request) => request.decode(signature, grant),
        }
    }
}

/// The results of several responses to parts of one `MultiInference`, one for each of these signatures, in the order
/// of `tasks`, which are names of signatures.
///
/// # Errors
/// Where they are too large together.
pub fn join(
    tasks: &[String],
    responses: Vec<(String, VecDeque<Bytes>)>,
) -> Result<VecDeque<Bytes>, Error> {
    results::join(tasks, responses)
}

/// Bytes of the response's outputs that have to be encoded: the message cannot hold them as they are in memory.
pub fn work(form: &Form, response: &InferenceResponse) -> usize {
    let length: usize = response.outputs.iter().map(|it| it.tensor.byte_len()).sum();
    match form {
        Form::Predict => length.saturating_sub(reply::raw_bytes(response)),
        Form::One(_) | Form::Many(_) => length,
    }
}

/// Encodes the response with the prefix of its message.
///
/// # Errors
/// [`Error::InvalidRequest`] when the outputs do not fit the call, or the message is too large.
pub fn encode(
    form: &Form,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<VecDeque<Bytes>, Error> {
    let labelled = || reply_size::of_response(response, TextForm::LABELLED, usize::MAX);
    match form {
        Form::Predict => {
            grant.take(|_| reply::bound(response))?;
            reply::encode(signature, &with_scalars(signature, response))
        }
        Form::One(results) => {
            grant.take(|_| labelled())?;
            results::encode_one(results, signature, response)
        }
        Form::Many(several) => {
            // Each result is encoded by itself, and then put into the message.
            grant.take(|_| labelled().saturating_mul(2 * several.len()))?;
            results::encode_many(several, signature, response)
        }
    }
}

#[cfg(test)]
mod tests;

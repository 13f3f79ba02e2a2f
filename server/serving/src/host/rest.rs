//! Requests of models' own code whose inputs are a body of TensorFlow Serving's REST. What such bodies mean only that
//! protocol knows.

use std::{iter, sync::Arc};

use backend::{Ask, CallAnswer, NamedTensor, Parameter, Shape, Tensor};
use bytes::Bytes;

use crate::served::ServedModel;
use inference::{
    error::Error,
    grant::Grant,
    limits::Permit,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// The only input and the only output.
const BODY: &str = "body";

/// The parameter of the answer with its status over HTTP.
const STATUS: &str = "status";

/// Longer bodies, and answers of more tensors' bytes, are read and written in the pool.
const LARGE: usize = 256 << 10;

/// TensorFlow Serving's REST without a wire.
pub trait Rest: Send + Sync {
    /// Reads a body for that method of a model with this default signature. Asks `grant` for what that takes.
    ///
    /// # Errors
    /// What is wrong with it; what is not granted.
    fn read(
        &self,
        method: &str,
        signature: &Signature,
        body: &Bytes,
        grant: &Grant,
    ) -> Result<RestRequest, Error>;

    /// The status of a failure, and its body.
    fn failure(&self, error: &Error) -> (u16, Vec<u8>);
}

/// A body that was read.
pub struct RestRequest {
    /// What it asks for.
    pub request: InferenceRequest,
    /// Writes the answer.
    pub write: Write,
}

/// Writes the body of an answer, for that signature. Asks a grant for what that takes.
type Write =
    Box<dyn FnOnce(&Signature, &InferenceResponse, &Grant) -> Result<Vec<Bytes>, Error> + Send>;

/// What was asked, once it was read, and what covers it.
pub(super) struct Read {
    pub(super) request: InferenceRequest,
    pub(super) write: Write,
    pub(super) permit: Permit,
}

/// Reads the body of an ask.
///
/// # Errors
/// Where it is none that the method of that model takes, or room for it is missing.
pub(super) async fn read(
    rest: &Arc<dyn Rest>,
    method: Arc<str>,
    ask: &Ask,
    model: &Arc<ServedModel>,
    mut permit: Permit,
) -> Result<Read, Error> {
    let (rest, model) = (rest.clone(), model.clone());
    let tensor = ask.inputs.first().map(|it| it.tensor.clone());
    let length = tensor.as_ref().map_or(0, Tensor::byte_len);
    aside(length, move || {
        let text = tensor.as_ref().and_then(|it| it.strings().next());
        let body = Bytes::copy_from_slice(text.unwrap_or_default());
        let read = Grant::lend(&mut permit, 0, |grant| {
            grant.hold(body.len())?;
            grant.outcome(rest.read(&method, &model.signature, &body, grant))
        });
        read.map(|RestRequest { request, write }| Read { request, write, permit })
    })
    .await
}

/// The answer to an ask, and what covers it.
///
/// # Errors
/// Where the outputs cannot be written, or room for that is missing.
pub(super) async fn written(
    write: Write,
    model: &Arc<ServedModel>,
    named: usize,
    response: InferenceResponse,
    mut permit: Permit,
) -> Result<(CallAnswer, Permit), Error> {
    let model = model.clone();
    let length = response.outputs.iter().map(|it| it.tensor.byte_len()).sum();
    aside(length, move || {
        let left = permit.budget().left();
        let segments = Grant::lend(&mut permit, left, |grant| {
            grant.outcome(write(model.signature.at(named), &response, grant))
        })?;
        Ok((answer(200, &segments.concat())?, permit))
    })
    .await
}

/// The answer of a failure.
///
/// # Errors
/// Never: its body is short.
pub(super) fn failed(rest: &dyn Rest, error: &Error) -> Result<CallAnswer, Error> {
    let (status, body) = rest.failure(error);
    answer(status, &body)
}

fn answer(status: u16, body: &[u8]) -> Result<CallAnswer, Error> {
    let tensor = Tensor::from_strings(Shape::new(&[1]), iter::once(body));
    let tensor = tensor.map_err(|it| Error::Internal(it.to_string()))?;
    Ok(CallAnswer {
        outputs: vec![NamedTensor { name: BODY.into(), tensor }],
        parameters: vec![(STATUS.into(), Parameter::Int(status.into()))],
        again: false,
    })
}

/// Does that work: right here, or in the pool where it takes long, as the thread is that of all asks.
async fn aside<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    if length <= LARGE {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|it| Error::Internal(it.to_string()))?
}

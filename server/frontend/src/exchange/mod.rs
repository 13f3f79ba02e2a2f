//! The way of a request from its head to the end of its reply, once for every wire: admit, receive, inflate, take room,
//! decode, attach shared memory, run, store, encode, compress.
//!
//! HTTP, gRPC, TensorFlow Serving's gRPC, messages of a WebSocket and asynchronous invocations differ in three things.
//! These are the source of their bytes ([`intake::Source`]), their encoding ([`Codec`]), and the code that writes the
//! [`Answer`].
//!
//! A request goes to the pool of its I/O thread at most once before the run and at most once after it.
//!
//! A body is in memory before [`infer`] is called if its model is not known before: messages of gRPC, bodies that name
//! their model (`http/pipelines`), messages of a WebSocket, files. Such a request is admitted after its body has come.
//! The limits and the clock are the same: [`intake`] and [`Inflation`] are used there, too.

pub mod admin;
pub mod body_buffer;
mod call;
mod codec;
pub mod compression;
pub mod failure;
pub mod failure_lines;
mod foreseen;
mod held_body;
pub mod in_parts;
mod inflation;
pub mod intake;
pub mod offload;
pub mod payload;
pub mod rendering;
pub mod request_id;
pub mod retry;
mod shared_memory;

use std::sync::Arc;

pub use call::{Call, Wire, has_any};
pub use codec::{Codec, Decoded, Reply};
pub use failure::Failure;
pub use inflation::{Arrived, Inflation};

use crate::{memory::SharedMemory, serving::Serving};
use formats::signature_name::SIGNATURE_NAME;
use held_body::HeldBody;
use inference::{
    error::Error,
    grant::Grant,
    limits::{Permit, out_of_bytes},
    messages,
    request::{InferenceRequest, InferenceResponse, Sequence},
    signature::Signature,
    timings::Spent,
    trace::{self, Moment, Trace},
};
use intake::{Limits, Received, Source};
use offload::{LARGE, LARGE_COMPRESSED, offload};
use payload::Payload;
use serving::ServedModel;
use shared_memory::{Windows, attach};

/// A reply, and what must live until it is written.
pub struct Answer<R> {
    /// The reply as the codec encoded it.
    pub reply: R,
    /// Covers the reply.
    pub permit: Permit,
    /// The trace of the request, where it is traced.
    pub trace: Option<Arc<Trace>>,
    /// Where its time went; `None` where that is not known.
    pub spent: Option<Spent>,
}

/// Runs a request on `model`.
///
/// # Errors
/// What went wrong, with the client's name for the request.
pub async fn infer<S: Source, C: Codec>(
    serving: &Serving,
    limits: &Limits,
    model: Arc<ServedModel>,
    call: &Call<'_>,
    body: Payload<'_, S>,
    codec: C,
) -> Result<Answer<C::Reply>, Failure> {
    let prepared = prepare(serving, limits, model, call, body, codec).await?;
    prepared.run(serving, call).await
}

/// Admits, receives and decodes a request for `model`.
///
/// # Errors
/// Why it cannot be run, with the client's name for it.
pub async fn prepare<S: Source, C: Codec>(
    serving: &Serving,
    limits: &Limits,
    model: Arc<ServedModel>,
    call: &Call<'_>,
    body: Payload<'_, S>,
    codec: C,
) -> Result<Prepared<C>, Failure> {
    let trace = call.begin_trace(serving, &model);
    let received =
        receive_and_decode(serving, limits, &model, call, trace.as_ref(), body, codec).await;
    match received {
        Ok(Complete { mut request, format, windows, permit }) => {
            request.deadline = call.deadline;
            request.trace = trace.clone();
            Ok(Prepared { model, request, format, windows, permit, trace })
        }
        Err(failure) => Err(call.failed(trace.as_ref(), failure, &model)),
    }
}

async fn receive_and_decode<S: Source, C: Codec>(
    serving: &Serving,
    limits: &Limits,
    model: &Arc<ServedModel>,
    call: &Call<'_>,
    trace: Option<&Arc<Trace>>,
    body: Payload<'_, S>,
    codec: C,
) -> Result<Complete<C>, Failure> {
    if let (true, Some(address)) = (model.is_decoupled, call.takes_one) {
        return Err(Error::Unimplemented(messages::takes_one_answer(address)).into());
    }
    // Before the body is read, because a refusal must be cheap.
    body.admit(|| model.admit())?;
    let header_length = codec.header_length();
    let arrived = body.receive(header_length, limits).await?;
    trace::stamp(trace, Moment::ReceiveEnd);
    let decoding = Decoding { codec, signature: model.signature.clone() };
    // Boxed: the future of a plain request stays small.
    let mut complete = match (arrived, call.encoding) {
        (Arrived::Whole(received), None) => decoding.run(serving, limits, received).await?,
        (Arrived::Start(inflation), _) => {
            Box::pin(decoding.run_compressed(serving, limits, *inflation)).await?
        }
        (Arrived::Whole(received), Some(encoding)) => {
            let header = call.wire.encoding_header;
            let aligned_at = header_length.unwrap_or(0);
            let inflation = Inflation::new(encoding, header, received, aligned_at, limits)?;
            Box::pin(decoding.run_compressed(serving, limits, inflation)).await?
        }
    };
    let request = &mut complete.request;
    if let Some(forwarding) = call.forwarding {
        let headers = call.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let selected = forwarding.select(headers);
        let selected = selected.map_err(|error| of(request, error))?;
        selected.into_iter().for_each(|(name, text)| request.override_parameter(name, text));
    }
    if let Some(place) = call.sequence {
        put_into_sequence(request, place);
    }
    Ok(complete)
}

/// Puts a request into the sequence of its session, whatever sequence its body names. The request starts or ends the
/// sequence if the body or the session says so.
fn put_into_sequence(request: &mut InferenceRequest, place: &Sequence) {
    let named = request.sequence.as_ref();
    let start = place.start || named.is_some_and(|it| it.start);
    let end = place.end || named.is_some_and(|it| it.end);
    request.sequence = Some(Sequence { id: place.id.clone(), start, end });
}

/// A failure of a request that has been decoded.
fn of(request: &InferenceRequest, error: Error) -> Failure {
    Failure::of(request.id.clone(), error)
}

/// A body that is to be decoded.
struct Decoding<C> {
    codec: C,
    signature: Arc<Signature>,
}

impl<C: Codec> Decoding<C> {
    /// Decodes a plain body: on this thread, or on the pool where it is large.
    async fn run(
        self,
        serving: &Serving,
        limits: &Limits,
        received: Received,
    ) -> Result<Complete<C>, Failure> {
        let Received { bytes, permit } = received;
        let parsed = self.codec.parse(&bytes)?;
        if LARGE < self.codec.decode_work(&self.signature, &parsed) {
            drop(parsed);
            let received = Received { bytes, permit };
            return self.run_offloaded(serving, limits, move |_| Ok(received)).await;
        }
        let Decoding { codec, signature } = self;
        let (decoded, permit) = decode(codec, &signature, parsed, permit)?;
        let body = HeldBody::of(&bytes, &decoded.request);
        drop(bytes);
        if decoded.shared.as_ref().is_none_or(|it| it.input_bytes() <= LARGE as u64) {
            return complete(&serving.memory, limits, decoded, body, permit);
        }
        let (memory, limits) = (serving.memory.clone(), limits.clone());
        // Boxed: the future of a request without shared memory stays small.
        Box::pin(offload(move || complete(&memory, &limits, decoded, body, permit))).await?
    }

    /// Inflates and decodes a body. Where the inflation takes long, the rest of both runs on the pool.
    async fn run_compressed(
        self,
        serving: &Serving,
        limits: &Limits,
        mut inflation: Inflation,
    ) -> Result<Complete<C>, Failure> {
        match inflation.run(LARGE_COMPRESSED)? {
            true => self.run(serving, limits, inflation.finish()).await,
            false => self.run_offloaded(serving, limits, move |_| inflation.rest()).await,
        }
    }

    /// Decodes on the pool the body that `received` returns, and fetches its inputs from shared memory.
    async fn run_offloaded(
        self,
        serving: &Serving,
        limits: &Limits,
        received: impl FnOnce(&Limits) -> Result<Received, Error> + Send + 'static,
    ) -> Result<Complete<C>, Failure> {
        let Decoding { codec, signature } = self;
        let (memory, limits) = (serving.memory.clone(), limits.clone());
        // The permit moves with the memory: a client that leaves does not stop work that has begun on the pool.
        let work = move || {
            let Received { bytes, permit } = received(&limits)?;
            let parsed = codec.parse(&bytes)?;
            let (decoded, permit) = decode(codec, &signature, parsed, permit)?;
            let body = HeldBody::of(&bytes, &decoded.request);
            drop(bytes);
            complete(&memory, &limits, decoded, body, permit)
        };
        offload(work).await?
    }
}

/// Decodes a body with what its permit grows by. The permit that comes back covers both.
fn decode<C: Codec>(
    codec: C,
    signature: &Signature,
    parsed: C::Parsed<'_>,
    mut permit: Permit,
) -> Result<(Decoded<C::Format>, Permit), Failure> {
    let signature = codec.signature(signature, &parsed)?;
    let mut decoded = Grant::lend(&mut permit, 0, |grant| {
        let decoded = codec.decode(signature, parsed, grant);
        let Some(refusal) = grant.refusal() else { return decoded };
        let error = match grant.excess() {
            Some(bytes) => Error::InvalidRequest(format!(
                "model '{}': the contents take {bytes} bytes or more while they are read, more than all requests may \
                 take together (--max-inflight-bytes); {}",
                signature.model,
                C::SMALLER
            )),
            None => refusal.clone(),
        };
        // Whatever the decoder says of it, and where.
        Err(decoded.err().map_or_else(|| error.clone().into(), |it| it.with_error(error.clone())))
    })?;
    decoded.request.signature = signature.index();
    if signature.named.is_some() {
        decoded.request.parameters.retain(|(name, _)| &**name != SIGNATURE_NAME);
    }
    Ok((decoded, permit))
}

/// Fetches the inputs of a decoded request from shared memory, and resizes its permit to what stays in memory of the
/// body and the inputs.
fn complete<C: Codec>(
    memory: &SharedMemory,
    limits: &Limits,
    decoded: Decoded<C::Format>,
    body: HeldBody,
    mut permit: Permit,
) -> Result<Complete<C>, Failure> {
    let Decoded { mut request, format, shared } = decoded;
    let windows = match shared {
        None => None,
        Some(parts) => {
            let windows = attach(memory, limits, *parts, &mut request, body, &mut permit);
            Some(windows.map_err(|error| of(&request, error))?)
        }
    };
    let inputs = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
    let held = body.with_inputs(inputs);
    // Failing to grow is an error only where other requests hold a part of the budget.
    if !permit.grow_to(held) && !permit.is_alone() {
        return Err(of(&request, out_of_bytes(&limits.budget)));
    }
    permit.resize(held.max(body.length));
    Ok(Complete { request: Box::new(request), format, windows, permit })
}

/// Bytes of outputs that may be encoded without room in the budget.
const UNCOUNTED_OUTPUTS: usize = 1 << 10;

/// May the response of so much work be encoded without room in the budget? Not where an output has no elements: it may
/// have any number of rows, and each of them takes text.
fn is_uncounted(work: usize, response: &InferenceResponse) -> bool {
    work <= UNCOUNTED_OUTPUTS && response.outputs.iter().all(|it| it.tensor.elements() != 0)
}

/// Encodes a reply with what the permit grows by. The permit then covers the reply.
fn encode<C: Codec>(
    format: &C::Format,
    signature: &Signature,
    response: &InferenceResponse,
    permit: &mut Permit,
) -> Result<C::Reply, Error> {
    let before = permit.units();
    let left = permit.budget().left();
    let reply = Grant::lend(permit, left, |grant| {
        let reply = C::encode(format, signature, response, grant);
        match grant.excess() {
            Some(bytes) => Err(Error::InvalidRequest(format!(
                "model '{}': the reply takes up to {bytes} bytes while it is written, more than all requests may \
                 take together (--max-inflight-bytes); {}",
                signature.model,
                C::SMALLER_REPLY
            ))),
            None => reply,
        }
    })?;
    permit.resize(before.max(reply.byte_len()));
    Ok(reply)
}

/// A request with all its inputs.
struct Complete<C: Codec> {
    /// Boxed: it goes from step to step.
    request: Box<InferenceRequest>,
    format: C::Format,
    /// Where to write the outputs that are wanted in shared memory.
    windows: Option<Windows>,
    /// Covers all inputs.
    permit: Permit,
}

/// A request that can be run: by [`Prepared::run`], or by [`Prepared::stream`] where its model answers in parts.
pub struct Prepared<C: Codec> {
    model: Arc<ServedModel>,
    request: Box<InferenceRequest>,
    format: C::Format,
    windows: Option<Windows>,
    permit: Permit,
    trace: Option<Arc<Trace>>,
}

impl<C: Codec> Prepared<C> {
    /// Runs it, and encodes its response.
    ///
    /// # Errors
    /// What went wrong, with the client's name for the request.
    ///
    /// # Cancel safety
    /// A request whose future is dropped leaves the queue. Its run is stopped where no other request is part of the
    /// run.
    pub async fn run(
        self,
        serving: &Serving,
        call: &Call<'_>,
    ) -> Result<Answer<C::Reply>, Failure> {
        let Prepared { model, request, format, windows, mut permit, trace } = self;
        let (id, named) = (request.id.clone(), request.signature);
        let failed = |error| call.failed(trace.as_ref(), Failure::of(id.clone(), error), &model);
        if windows.is_none() {
            let signature = model.signature.at(named);
            foreseen::check::<C>(&format, signature, &request, &permit).map_err(failed)?;
        }
        let response = serving.inference.run(&model, request).await.map_err(failed)?;
        let spent = response.timings.as_ref().map(Spent::of);
        permit.cover(response.outputs.iter().map(|it| it.tensor.byte_len()).sum());
        let stored = windows.as_ref().map_or(0, |it| it.byte_len(&response));
        let work = C::encode_work(&format, &response);
        let (reply, permit) = if LARGE < work.max(stored) {
            let compression = call.reply_compression(work);
            let signature = model.signature.clone();
            let encode = move || {
                windows.map_or(Ok(()), |it| it.store(&response))?;
                let signature = signature.at(named);
                let reply = encode::<C>(&format, signature, &response, &mut permit)?;
                let reply = match compression {
                    // Without room for both forms, the reply is sent as it is.
                    Some((encoding, level)) if permit.grow_by(reply.byte_len()) => {
                        reply.compress(encoding, level)
                    }
                    Some(_) | None => reply,
                };
                Ok((reply, permit))
            };
            offload(encode).await.flatten().map_err(failed)?
        } else {
            windows.map_or(Ok(()), |it| it.store(&response)).map_err(failed)?;
            let signature = model.signature.at(named);
            let reply = match is_uncounted(work, &response) {
                true => C::encode(&format, signature, &response, &Grant::uncounted()),
                false => encode::<C>(&format, signature, &response, &mut permit),
            };
            let reply = reply.map_err(failed)?;
            let length = reply.byte_len();
            match call.reply_compression(length) {
                None => (reply, permit),
                Some((encoding, level)) if length <= LARGE_COMPRESSED => {
                    (reply.compress(encoding, level), permit)
                }
                Some((encoding, level)) => {
                    let compress = move || (reply.compress(encoding, level), permit);
                    Box::pin(offload(compress)).await.map_err(failed)?
                }
            }
        };
        if let Some(trace) = &trace {
            trace.answered(call.wire.ok);
        }
        Ok(Answer { reply, permit, trace, spent })
    }
}

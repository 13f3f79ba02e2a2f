//! One inference: understand the message, run, encode. The streaming call is made of the same steps.

use std::{sync::Arc, time::Instant};

use bytes::{Buf, BufMut, Bytes};
use h2::RecvStream;

use super::{
    super::{
        Grpc,
        body::Encoded,
        call::{Answered, Context, Failure},
        compress::{self, Encoding},
        message::{MessageLimits, Received},
        metadata,
        reply::{self, Frame, PREFIX},
        request::{self, Forms, Wanted},
        status::Code,
        wire,
    },
    aside, version,
};
use crate::{
    error::Error,
    limits::{Permit, out_of_bytes},
    models::ServedModel,
    request::InferenceRequest,
    shared::{Bounds, Windows, attach},
    signature::Signature,
    trace::{self, Moment, Trace, Transport},
};

/// A message with typed contents above this many bytes is read, and a response compressed, on a thread of its own, so
/// that other clients of the same I/O thread need not wait for it.
const LARGE: usize = 256 << 10;

/// A request that is understood, and the model that it is for.
pub(super) struct Asked {
    model: Arc<ServedModel>,
    request: InferenceRequest,
    forms: Forms,
    /// Where outputs go that are wanted in shared memory.
    windows: Option<Windows>,
    permit: Permit,
    trace: Option<Arc<Trace>>,
}

/// When a request was waited for, and when its answer stops being of use.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// `None` where nothing is traced.
    pub(super) waited: Option<Instant>,
    /// `None` for never.
    pub(super) deadline: Option<Instant>,
}

/// Answers `ModelInfer`.
pub(super) async fn unary(context: &Context, body: RecvStream) -> Result<Answered, Failure> {
    let front = &context.front;
    let waited = front.serving.tracing.now();
    let deadline = front.serving.deadline(context.timeout);
    let received = context.messages(body).only().await?;
    let asked = understand(context, received, Times { waited, deadline }).await?;
    let packs = context.packs();
    let encoded = run(front, asked, Frame::Unary, packs).await?;
    Ok(Answered::One(encoded, packs))
}

/// Reads a request.
pub(super) async fn understand(
    context: &Context,
    received: Received,
    times: Times,
) -> Result<Asked, Failure> {
    let serving = &context.front.serving;
    let Received { bytes, permit } = received;
    let message = wire::Request::of(&bytes)?;
    let id = message.id;
    let id = || Some(id).filter(|it| !it.is_empty()).map(Arc::from);
    let found = match version(message.version) {
        Ok(version) => serving.model(message.model, version, || Ok(times.deadline)).await,
        Err(error) => Err(error),
    };
    // Before anything is made of it: a refusal must be cheap.
    let model = found.and_then(|model| model.admit().map(|()| model));
    let model = model.map_err(|error| Failure { id: id(), model: None, error })?;
    let Signature { model: name, version, .. } = &*model.signature;
    let trace = times.waited.and_then(|then| {
        let parent = || metadata::traceparent(&context.metadata);
        serving.tracing.begin_at(then, Transport::Grpc, name, *version, parent)
    });
    trace::stamp(trace.as_ref(), Moment::ReceiveEnd);
    match (Decoding { context, model: &model }).decode(message, &bytes, permit).await {
        Ok(Decoded { mut request, forms, windows, permit }) => {
            request.deadline = times.deadline;
            request.trace = trace.clone();
            Ok(Asked { model, request, forms, windows, permit, trace })
        }
        Err(error) => {
            let model = Some(model.signature.model.clone());
            Err(noted(trace.as_deref(), Failure { id: id(), model, error }))
        }
    }
}

/// What was made of a message.
struct Decoded {
    request: InferenceRequest,
    forms: Forms,
    windows: Option<Windows>,
    /// Covers all inputs.
    permit: Permit,
}

/// A message that is being read.
struct Decoding<'a> {
    context: &'a Context,
    model: &'a Arc<ServedModel>,
}

impl Decoding<'_> {
    /// Makes a request of `message`, which is in `bytes`.
    async fn decode(
        &self,
        message: wire::Request<'_>,
        bytes: &Bytes,
        permit: Permit,
    ) -> Result<Decoded, Error> {
        let Grpc { serving, settings } = &*self.context.front;
        let MessageLimits { limit, budget, .. } = &settings.messages;
        let expanded = message.expanded();
        let room = self.room(expanded, &permit)?;
        let (decoded, mut permit) = match bytes.len() <= LARGE || expanded == 0 {
            true => (request::decode(&self.model.signature, message), permit),
            false => {
                let (model, bytes) = (self.model.clone(), bytes.clone());
                let read = move || {
                    let message = wire::Request::of(&bytes)?;
                    request::decode(&model.signature, message)
                };
                // The permits go where the memory goes: a client that leaves does not stop what is put aside.
                let (decoded, permit, _) = aside(move || (read(), permit, room)).await?;
                (decoded, permit)
            }
        };
        let (mut request, Wanted { forms, shared }) = decoded?;
        // Boxed, so that requests that share no memory carry no room for it.
        let windows = match shared {
            Some(parts) => {
                let bounds = Bounds { limit: *limit, budget };
                let attached = attach(&serving.memory, bounds, *parts, &mut request, permit);
                let (windows, grown) = Box::pin(attached).await?;
                permit = grown;
                Some(windows)
            }
            None => None,
        };
        // A short message can be a large tensor: too large for the budget only where others have a part of it.
        let length = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
        if permit.grow_to(length) || permit.is_alone() {
            permit.cover(length);
        } else {
            return Err(out_of_bytes(budget));
        }
        if let Some(forwarding) = &settings.forwarding {
            let metadata = self.context.metadata.iter();
            let metadata = metadata.map(|(name, text)| (name.as_str(), text.as_bytes()));
            let selected = forwarding.select(metadata)?;
            selected.into_iter().for_each(|(name, text)| request.override_parameter(name, text));
        }
        Ok(Decoded { request, forms, windows, permit })
    }

    /// Room in the budget for what typed contents take while they are decoded, beside the message, which `permit` is
    /// for.
    fn room(&self, bytes: usize, permit: &Permit) -> Result<Option<Permit>, Error> {
        let budget = &self.context.front.settings.messages.budget;
        if bytes == 0 {
            return Ok(None);
        }
        match budget.take(bytes) {
            Some(room) => Ok(Some(room)),
            // It will not fit later, either.
            None if permit.is_alone() => Err(Error::InvalidRequest(format!(
                "model '{}': the contents take up to {bytes} bytes while they are read, more than all requests may \
                 take together (--max-inflight-bytes); expected raw_input_contents",
                self.model.signature.model
            ))),
            None => Err(out_of_bytes(budget)),
        }
    }
}

/// The failure, noted in the request's trace.
fn noted(trace: Option<&Trace>, failure: Failure) -> Failure {
    if let Some(trace) = trace {
        let code = failure.status().code as u16;
        trace.answered(code, failure.id.as_ref(), Some(&failure.error));
    }
    failure
}

/// Runs a request, and encodes its response.
pub(super) async fn run(
    front: &Grpc,
    asked: Asked,
    frame: Frame,
    packs: Option<Encoding>,
) -> Result<Encoded, Failure> {
    let Asked { model, request, forms, windows, mut permit, trace } = asked;
    let id = request.id.clone();
    let failure = |error| {
        let model = Some(model.signature.model.clone());
        noted(trace.as_deref(), Failure { id: id.clone(), model, error })
    };
    let response = front.serving.inference.run(&model, request).await.map_err(failure)?;
    if let Some(windows) = windows {
        Box::pin(windows.store(&response)).await.map_err(failure)?;
    }
    let length = response.outputs.iter().map(|it| it.tensor.byte_len()).sum();
    permit.cover(length);
    let work = match forms.is_empty() {
        // Nothing but headers is made then.
        true => 0,
        false => length,
    };
    let (encoded, permit) = match LARGE < work {
        true => {
            let model = model.clone();
            let work = move || reply::encode(&response, &forms, &model.signature, frame);
            (aside(work).await.map_err(failure)?, permit)
        }
        false => (reply::encode(&response, &forms, &model.signature, frame), permit),
    };
    let mut pieces = encoded.map_err(failure)?;
    if let Some(encoding) = packs {
        let level = front.settings.grpc.compression;
        let mut work = move || {
            if let Some(first) = pieces.front_mut() {
                first.advance(PREFIX);
            }
            compress::pack(encoding, level, pieces.make_contiguous())
        };
        let packed = match LARGE < length {
            true => aside(work).await.map_err(failure)?,
            false => work(),
        };
        let problem = |error| failure(Error::Internal(format!("cannot compress: {error}")));
        let packed = packed.map_err(problem)?;
        let mut prefix = Vec::with_capacity(PREFIX);
        prefix.put_u8(1);
        prefix.put_u32(u32::try_from(packed.len()).unwrap_or(u32::MAX));
        pieces = [Bytes::from(prefix), Bytes::from(packed)].into();
    }
    if let Some(trace) = &trace {
        trace.answered(Code::Ok as u16, None, None);
    }
    let sending = trace.map(Trace::sending);
    Ok(Encoded { pieces, permit: Some(permit), sending })
}

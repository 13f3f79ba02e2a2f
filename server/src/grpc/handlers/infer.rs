//! One inference: understand the message, run, encode. The streaming call is made of the same steps.

use std::{sync::Arc, time::Instant};

use bytes::{Buf, BufMut, Bytes};
use hyper::body::Incoming;

use super::{
    super::{
        Grpc,
        body::Encoded,
        call::{Answered, Context, Failure},
        compress::{self, Encoding},
        layout,
        message::Received,
        metadata,
        proto::ModelInferRequest,
        reply::{self, Frame, PREFIX},
        request::{self, Forms},
        status::Code,
    },
    aside, decode, version,
};
use crate::{
    error::Error,
    limits::{Permit, out_of_bytes},
    models::ServedModel,
    request::InferenceRequest,
    serving::Serving,
    signature::Signature,
    trace::{self, Moment, Trace, Transport},
};

/// A message above this many bytes is read, and a response compressed, on a thread of its own, unless it is mostly raw
/// tensors, so that other clients of the same I/O thread need not wait for it.
const LARGE: usize = 256 << 10;

/// Where the first raw tensor of a large message has to begin, if it is to be mostly raw tensors.
const HEAD: usize = 64 << 10;

/// A request that is understood, and the model that it is for.
pub(super) struct Asked {
    model: Arc<ServedModel>,
    request: InferenceRequest,
    forms: Forms,
    permit: Permit,
    trace: Option<Arc<Trace>>,
}

/// Answers `ModelInfer`.
pub(super) async fn unary(context: &Context, body: Incoming) -> Result<Answered, Failure> {
    let front = &context.front;
    let deadline = front.serving.deadline(context.timeout);
    let received = context.messages(body).only().await?;
    let asked = understand(context, received, deadline).await?;
    let packs = context.packs();
    let encoded = run(front, asked, Frame::Unary, packs).await?;
    Ok(Answered::One(encoded, packs))
}

/// Reads a request that has until `deadline`.
pub(super) async fn understand(
    context: &Context,
    received: Received,
    deadline: Option<Instant>,
) -> Result<Asked, Failure> {
    let front = &context.front;
    let Received { bytes, permit } = received;
    let head = bytes.get(..HEAD).unwrap_or(&bytes);
    let here = bytes.len() <= LARGE || layout::first_tensor(head).is_some();
    let (read, mut permit) = match here {
        true => {
            let parent = || metadata::traceparent(&context.metadata);
            (read(&front.serving, bytes, parent), permit)
        }
        false => {
            let serving = front.serving.clone();
            // The permit goes where the memory goes: a client that leaves does not stop what is put aside.
            let parent = metadata::traceparent(&context.metadata).map(str::to_owned);
            aside(move || (read(&serving, bytes, || parent.as_deref()), permit)).await?
        }
    };
    let Read { model, mut request, forms, trace } = read?;
    // A short message can be a large tensor: too large for the budget only where others have a part of it.
    let length = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
    if permit.grow_to(length) || permit.is_alone() {
        permit.cover(length);
    } else {
        let error = out_of_bytes(&front.settings.messages.budget);
        let model = Some(model.signature.model.clone());
        return Err(noted(trace.as_deref(), Failure { id: request.id, model, error }));
    }
    if let Some(forwarding) = &front.settings.forwarding {
        let metadata = context.metadata.iter().map(|(name, text)| (name.as_str(), text.as_bytes()));
        let selected = forwarding.select(metadata).map_err(|error| Failure {
            id: request.id.clone(),
            model: Some(model.signature.model.clone()),
            error,
        })?;
        selected.into_iter().for_each(|(name, text)| request.override_parameter(name, text));
    }
    request.deadline = deadline;
    request.trace = trace.clone();
    Ok(Asked { model, request, forms, permit, trace })
}

/// What was made of a message.
struct Read {
    model: Arc<ServedModel>,
    request: InferenceRequest,
    forms: Forms,
    trace: Option<Arc<Trace>>,
}

fn read<'a>(
    serving: &Serving,
    bytes: Bytes,
    traceparent: impl FnOnce() -> Option<&'a str>,
) -> Result<Read, Failure> {
    layout::check_parts(&bytes)?;
    let message: ModelInferRequest = decode(bytes)?;
    let version = version(&message.model_version);
    let found = version.and_then(|it| serving.models.get(&message.model_name, it));
    // Before anything is made of it: a refusal must be cheap.
    let model = match found.and_then(|model| model.admit().map(|()| model)) {
        Ok(model) => model,
        Err(error) => return Err(Failure { id: Some(message.id.into()), model: None, error }),
    };
    let Signature { model: name, version, .. } = &*model.signature;
    let trace = serving.tracing.begin(Transport::Grpc, name, *version, traceparent);
    let id = message.id.clone();
    match request::decode(&model.signature, message, &serving.memory) {
        Ok((request, forms)) => {
            trace::stamp(trace.as_ref(), Moment::ReceiveEnd);
            Ok(Read { model, request, forms, trace })
        }
        Err(error) => {
            let model = Some(model.signature.model.clone());
            Err(noted(trace.as_deref(), Failure { id: Some(id.into()), model, error }))
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
    let Asked { model, request, forms, mut permit, trace } = asked;
    let id = request.id.clone();
    let failure = |error| {
        let model = Some(model.signature.model.clone());
        noted(trace.as_deref(), Failure { id: id.clone(), model, error })
    };
    let response = front.serving.inference.run(&model, request).await.map_err(failure)?;
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

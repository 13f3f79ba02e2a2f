//! One inference: understand the message, run, encode. The streaming call is made of the same steps.

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;

use super::{
    super::{
        Grpc,
        body::Encoded,
        call::{Answered, Context, Failure},
        compress::Encoding,
        message::{MessageLimits, Received},
        reply::{self, Frame},
        request::{self, Forms, Wanted},
        wire,
    },
    steps::{self, LARGE, Made, Times, noted},
    version,
};
use crate::{
    net::aside,
    shared::{Bounds, Windows, attach},
};
use inference::{error::Error, limits::Permit, request::InferenceRequest, trace::Trace};
use models::ServedModel;

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
    let trace = steps::begin(context, &model, times);
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
        let hint = "expected raw_input_contents";
        let name = &self.model.signature.model;
        let room = steps::room(budget, expanded, &permit, name, hint)?;
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
        steps::cover(budget, &request, &mut permit)?;
        steps::forward(self.context, &mut request)?;
        Ok(Decoded { request, forms, windows, permit })
    }
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
    let made = Made { pieces: encoded.map_err(failure)?, length, permit, trace: trace.clone() };
    steps::finish(front, made, packs).await.map_err(failure)
}

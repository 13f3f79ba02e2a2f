//! TensorFlow Serving's `Predict`, `Classify`, `Regress` and `MultiInference`: understand the message, run, encode.

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;

use super::{
    super::{
        call::{Answered, Context, Failure},
        message::Received,
        tfs::{self, Asked, Form, Spec, Version},
    },
    steps::{self, LARGE, Made, Times, noted},
};
use crate::{net::aside, serving::Serving};
use inference::{error::Error, limits::Permit, request::InferenceRequest};
use models::ServedModel;

/// Answers one of these calls.
pub(super) async fn unary(context: &Context, body: RecvStream) -> Result<Answered, Failure> {
    let front = &context.front;
    let serving = &front.serving;
    let waited = serving.tracing.now();
    let times = Times { waited, deadline: serving.deadline(context.timeout) };
    let Received { bytes, permit } = context.messages(body).only().await?;
    let asked = Asked::of(context.method, &bytes)?;
    let model = find(serving, asked.spec(), times).await?;
    // Before anything is made of it: a refusal must be cheap.
    model.admit()?;
    let trace = steps::begin(context, &model, times);
    let failure = |error| {
        let model = Some(model.signature.model.clone());
        noted(trace.as_deref(), Failure { id: None, model, error })
    };
    let decoded = decode(context, &model, asked, &bytes, permit).await;
    let (mut request, form, mut permit) = decoded.map_err(failure)?;
    request.deadline = times.deadline;
    request.trace = trace.clone();
    let response = serving.inference.run(&model, request).await.map_err(failure)?;

    let length = response.outputs.iter().map(|it| it.tensor.byte_len()).sum();
    permit.cover(length);
    let (encoded, permit) = match LARGE < tfs::work(&form, &response) {
        true => {
            let model = model.clone();
            let work = move || (tfs::encode(&form, &model.signature, &response), permit);
            aside(work).await.map_err(failure)?
        }
        false => (tfs::encode(&form, &model.signature, &response), permit),
    };
    let pieces = encoded.map_err(failure)?;
    let packs = context.packs();
    let made = Made { pieces, length, permit, trace: trace.clone() };
    let encoded = steps::finish(front, made, packs).await.map_err(failure)?;
    Ok(Answered::One(encoded, packs))
}

/// The request, the form of its response, and a permit for all inputs.
async fn decode(
    context: &Context,
    model: &Arc<ServedModel>,
    asked: Asked<'_>,
    bytes: &Bytes,
    permit: Permit,
) -> Result<(InferenceRequest, Form, Permit), Error> {
    let budget = &context.front.settings.messages.budget;
    let signature = &model.signature;
    let expanded = asked.expanded(signature);
    let hint = "expected tensor_content, or fewer elements";
    let room = steps::room(budget, expanded, &permit, &signature.model, hint)?;
    let (decoded, mut permit) = match expanded <= LARGE {
        true => (asked.decode(signature), permit),
        false => {
            let (model, bytes, method) = (model.clone(), bytes.clone(), context.method);
            let read = move || Asked::of(method, &bytes)?.decode(&model.signature);
            // The permits go where the memory goes: a client that leaves does not stop what is put aside.
            let (decoded, permit, _) = aside(move || (read(), permit, room)).await?;
            (decoded, permit)
        }
    };
    let (mut request, form) = decoded?;
    steps::cover(budget, &request, &mut permit)?;
    steps::forward(context, &mut request)?;
    Ok((request, form, permit))
}

/// The model of that name and version, loaded for the purpose where models are loaded on demand.
pub(super) async fn find(
    serving: &Serving,
    spec: &Spec<'_>,
    times: Times,
) -> Result<Arc<ServedModel>, Error> {
    serving.model(spec.name, version(serving, spec)?, || Ok(times.deadline)).await
}

/// The number of the version, if one is named.
pub(super) fn version(serving: &Serving, spec: &Spec<'_>) -> Result<Option<u64>, Error> {
    match spec.version {
        Version::Any => Ok(None),
        Version::Number(number) => u64::try_from(number).map(Some).map_err(|_| {
            Error::InvalidRequest(format!(
                "model_spec.version: expected a number >= 0, given {number}"
            ))
        }),
        Version::Label(label) => serving.models.labelled(spec.name, label).map(Some),
    }
}

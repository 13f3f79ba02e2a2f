//! Steps that inferences of every protocol have in common.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use bytes::{Buf, BufMut, Bytes};

use super::super::{
    Grpc,
    body::Encoded,
    call::{Context, Failure},
    compress::{self, Encoding},
    metadata,
    reply::PREFIX,
    status::Code,
};
use crate::net::aside;
use inference::{
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
    request::InferenceRequest,
    signature::Signature,
    trace::{self, Moment, Trace, Transport},
};
use models::ServedModel;

/// What takes work for this many bytes is done on a thread of its own, so that other clients of the same I/O thread need
/// not wait for it.
pub const LARGE: usize = 256 << 10;

/// When a request was waited for, and when its answer stops being of use.
#[derive(Clone, Copy)]
pub struct Times {
    /// `None` where nothing is traced.
    pub waited: Option<Instant>,
    /// `None` for never.
    pub deadline: Option<Instant>,
}

/// Begins the trace of a request that has been received, where it is traced.
pub fn begin(context: &Context, model: &ServedModel, times: Times) -> Option<Arc<Trace>> {
    let Signature { model: name, version, .. } = &*model.signature;
    let trace = times.waited.and_then(|then| {
        let parent = || metadata::traceparent(&context.metadata);
        let tracing = &context.front.serving.tracing;
        tracing.begin_at(then, Transport::Grpc, name, *version, parent)
    });
    trace::stamp(trace.as_ref(), Moment::ReceiveEnd);
    trace
}

/// The failure, noted in the request's trace.
pub fn noted(trace: Option<&Trace>, failure: Failure) -> Failure {
    if let Some(trace) = trace {
        let code = failure.status().code as u16;
        trace.answered(code, failure.id.as_ref(), Some(&failure.error));
    }
    failure
}

/// Room in the budget for what decoding takes, beside the message, which `permit` is for. `hint` is what the client
/// could send in place of what will never fit.
///
/// # Errors
/// [`Error::OutOfBudget`] where others have the room; [`Error::InvalidRequest`] where there is not as much at all.
pub fn room(
    budget: &Arc<Budget>,
    bytes: usize,
    permit: &Permit,
    model: &str,
    hint: &str,
) -> Result<Option<Permit>, Error> {
    if bytes == 0 {
        return Ok(None);
    }
    match budget.take(bytes) {
        Some(room) => Ok(Some(room)),
        // It will not fit later, either.
        None if permit.is_alone() => Err(Error::InvalidRequest(format!(
            "model '{model}': the contents take up to {bytes} bytes while they are read, more than all requests may \
             take together (--max-inflight-bytes); {hint}"
        ))),
        None => Err(out_of_bytes(budget)),
    }
}

/// Makes the permit cover the inputs: a short message can be a large tensor.
///
/// # Errors
/// [`Error::OutOfBudget`] where it is too large for the budget only because others have a part of it.
pub fn cover(
    budget: &Budget,
    request: &InferenceRequest,
    permit: &mut Permit,
) -> Result<(), Error> {
    let length = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
    if permit.grow_to(length) || permit.is_alone() {
        permit.cover(length);
        Ok(())
    } else {
        Err(out_of_bytes(budget))
    }
}

/// Makes parameters of those metadata that the operator has selected.
///
/// # Errors
/// For a selected name that is reserved.
pub fn forward(context: &Context, request: &mut InferenceRequest) -> Result<(), Error> {
    if let Some(forwarding) = &context.front.settings.forwarding {
        let metadata = context.metadata.iter();
        let metadata = metadata.map(|(name, text)| (name.as_str(), text.as_bytes()));
        let selected = forwarding.select(metadata)?;
        selected.into_iter().for_each(|(name, text)| request.override_parameter(name, text));
    }
    Ok(())
}

/// A response in pieces, with what it holds.
pub struct Made {
    /// The message, its prefix included.
    pub pieces: VecDeque<Bytes>,
    /// Bytes of its outputs.
    pub length: usize,
    /// Covers them.
    pub permit: Permit,
    /// Where it is traced.
    pub trace: Option<Arc<Trace>>,
}

/// The answer: compressed, where the client takes that and the operator wants it.
///
/// # Errors
/// [`Error::Internal`] when it cannot be compressed.
pub async fn finish(front: &Grpc, made: Made, packs: Option<Encoding>) -> Result<Encoded, Error> {
    let Made { mut pieces, length, permit, trace } = made;
    if let Some(encoding) = packs {
        let level = front.settings.grpc.compression;
        let mut work = move || {
            if let Some(first) = pieces.front_mut() {
                first.advance(PREFIX);
            }
            compress::pack(encoding, level, pieces.make_contiguous())
        };
        let packed = match LARGE < length {
            true => aside(work).await?,
            false => work(),
        };
        let packed = packed.map_err(|it| Error::Internal(format!("cannot compress: {it}")))?;
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

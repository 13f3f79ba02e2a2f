//! `/invocations` whose answer leaves part by part: responses of decoupled models, as events, as lines, or as messages;
//! and lines of a long batch as its runs end, where the client asks for that.

use bytes::Bytes;
use hyper::body::Incoming;

use crate::codec::invocations::{Joint, ReplyFormat};
use formats::EncodedReply;
use frontend::{
    exchange::{Decoded, Failure, payload::Payload},
    http::{
        answer::Answer,
        in_parts::{Form, InMessages, error_event, inference_in_parts},
        inference::{HttpCodec, Work},
        parts::Parts,
        service::Service,
    },
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceResponse, Sequence},
    signature::Signature,
};
use serving::ServedModel;
use std::sync::Arc;

/// The type of a body of events.
const EVENTS: &str = "text/event-stream";

/// Runs a body on a decoupled model, or for a client that takes the lines of any model early.
pub async fn infer(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
    codec: impl HttpCodec<Format = ReplyFormat>,
    sequence: Option<&Sequence>,
) -> Answer {
    let in_messages = parts.extensions.get::<InMessages>().is_some();
    let form = |format: Option<&PartFormat>| match format.map(|it| it.joint) {
        Some(Joint::Events) => Form::Events(error_event),
        Some(Joint::AsTheyAre) if format.is_some_and(PartFormat::is_events) => {
            Form::Events(error_event)
        }
        Some(Joint::AsTheyAre) | None => Form::Body,
    };
    let codec = PartCodec { codec, in_messages };
    inference_in_parts(service, model, parts, body, codec, sequence, form).await
}

/// What a client accepts, but for events, which are not a type of what is in them; `None` where that is all.
pub fn accepted(accept: &str) -> Option<String> {
    let is_other = |it: &&str| {
        let name = it.split(';').next().unwrap_or_default().trim();
        !name.eq_ignore_ascii_case(EVENTS)
    };
    let others: Vec<&str> = accept.split(',').filter(is_other).collect();
    (!others.is_empty()).then(|| others.join(","))
}

/// The codec of a body, where its reply is one of several parts.
struct PartCodec<C> {
    codec: C,
    /// Is each part a message?
    in_messages: bool,
}

/// What the parts of an answer look like.
struct PartFormat {
    reply: ReplyFormat,
    joint: Joint,
    in_messages: bool,
}

impl PartFormat {
    /// Is each part an event by itself?
    fn is_events(&self) -> bool {
        matches!(self.reply, ReplyFormat::Generate(_))
    }
}

impl<C: HttpCodec<Format = ReplyFormat>> HttpCodec for PartCodec<C> {
    type Format = PartFormat;

    fn header_length(&self) -> Option<usize> {
        self.codec.header_length()
    }

    fn work(&self) -> Work {
        self.codec.work()
    }

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<PartFormat>, Failure> {
        let Decoded { request, format, shared } = self.codec.decode(signature, body, grant)?;
        let Some(joint) = format.joint() else {
            let id = request.id;
            return Err(Failure::of(id, Error::Unimplemented(one_alone(signature))));
        };
        let format = PartFormat { reply: format, joint, in_messages: self.in_messages };
        Ok(Decoded { request, format, shared })
    }

    fn encode(
        format: &PartFormat,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        let mut reply = C::encode(&format.reply, signature, response, grant)?;
        if format.joint == Joint::Events && !format.in_messages {
            reply.content_type = "text/event-stream; charset=utf-8".into();
            reply.body.insert(0, Bytes::from_static(b"data: "));
            reply.body.push(Bytes::from_static(b"\n\n"));
        }
        Ok(reply)
    }
}

/// Of a reply that holds one response.
fn one_alone(signature: &Signature) -> String {
    format!(
        "model '{}': expected a type of reply that may come in any number of parts (JSON, application/jsonlines or \
         text/csv; with SAGEMAKER_TRITON_INFERENCE_TYPE, generate_stream), and what is asked for is one",
        signature.model
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_out_of_what_is_accepted() {
        assert_eq!(accepted("text/event-stream"), None);
        assert_eq!(accepted("Text/Event-Stream;q=0.9"), None);
        assert_eq!(accepted("text/event-stream, text/csv"), Some(" text/csv".to_owned()));
        assert_eq!(accepted("*/*"), Some("*/*".to_owned()));
    }
}

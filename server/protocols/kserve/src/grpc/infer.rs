//! `ModelInfer`, and the requests of `ModelStreamInfer`: the exchange, with the codec of these messages.

use std::collections::VecDeque;

use bytes::Bytes;
use h2::RecvStream;

use super::{
    infer_message::{self, Target},
    parameters::{self, Place},
    reply::{self, Frame},
    request::{self, Forms, Wanted},
};
use formats::signature_name::SIGNATURE_NAME;
use frontend::{
    exchange::{
        self, Arrived, Codec, Decoded, Failure, Prepared,
        payload::{Nowhere, Payload},
    },
    grpc::{
        body::Encoded,
        context::{Answered, Context},
        exchanged::{Times, call, named_twice},
        messages::version,
    },
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};

/// Answers `ModelInfer`.
pub(super) async fn unary(context: &Context, body: RecvStream) -> Result<Answered, Failure> {
    let times = Times::now(context);
    let message = context.messages(body).only_arrived().await?;
    let prepared = prepare(context, message, times, Frame::Unary).await?;
    let encoded = run(context, prepared, times).await?;
    Ok(Answered::One(encoded, context.reply_encoding()))
}

/// Decodes a request. A long compressed one is inflated and decoded on the pool at once, where its start names the
/// model.
pub(super) async fn prepare(
    context: &Context,
    mut message: Arrived,
    times: Times,
    frame: Frame,
) -> Result<Prepared<ModelInfer>, Failure> {
    let mut start = match &message {
        Arrived::Whole(_) => Bytes::new(),
        Arrived::Start(inflation) => {
            let plain = inflation.plain();
            Bytes::copy_from_slice(plain.get(..Target::length(plain)).unwrap_or_default())
        }
    };
    if start.is_empty() {
        let received = message.whole().await?;
        start = received.bytes.clone();
        message = received.into();
    }
    let named = matches!(message, Arrived::Start(_)).then(|| start.clone());
    let front = &context.front;
    let Target { model, version, id } = Target::of(&start)?;
    let id = Some(id).filter(|it| !it.is_empty());
    let found = match self::version(version) {
        Ok(version) => front.serving.model(model, version, || Ok(times.deadline)).await,
        Err(error) => Err(error),
    };
    let failed = |error| Failure::of(id.map(Into::into), error);
    let model = found.map_err(failed)?;
    let (call, body) = (call(context, times, id), Payload::<Nowhere>::from(message));
    let (limits, codec) = (&front.settings.messages, ModelInfer { frame, named });
    exchange::prepare(&front.serving, limits, model, &call, body, codec).await
}

/// Runs a request, and encodes its response.
pub(super) async fn run(
    context: &Context,
    prepared: Prepared<ModelInfer>,
    times: Times,
) -> Result<Encoded, Failure> {
    let call = call(context, times, None);
    Ok(prepared.run(&context.front.serving, &call).await?.into())
}

/// The codec of `ModelInferRequest` and of its response.
pub(super) struct ModelInfer {
    frame: Frame,
    /// The start of the message, where its model was looked up by that alone.
    named: Option<Bytes>,
}

/// The form of the response.
pub(super) struct Format {
    forms: Forms,
    frame: Frame,
}

impl Codec for ModelInfer {
    type Parsed<'b> = infer_message::Request<'b>;
    type Format = Format;
    type Reply = VecDeque<Bytes>;

    const SMALLER: &'static str = "expected raw_input_contents";
    const SMALLER_REPLY: &'static str = "ask for no classification";

    fn parse<'b>(&self, body: &'b Bytes) -> Result<infer_message::Request<'b>, Error> {
        let request = infer_message::Request::of(body)?;
        match &self.named {
            Some(start) if Target::of(start)? != request.target() => Err(named_twice()),
            Some(_) | None => Ok(request),
        }
    }

    fn signature<'s>(
        &self,
        default: &'s Signature,
        message: &infer_message::Request<'_>,
    ) -> Result<&'s Signature, Error> {
        let named = default.named.as_ref().and_then(|_| message.parameters.get(SIGNATURE_NAME));
        let Some(value) = named else { return Ok(default) };
        let name = parameters::text(Place { of: "", key: SIGNATURE_NAME }, *value)?;
        default.of_name(name).map_err(|it| Error::InvalidRequest(it.to_string()))
    }

    fn decode_work(&self, _: &Signature, message: &infer_message::Request<'_>) -> usize {
        message.bound().saturating_add(message.checked())
    }

    fn decode(
        self,
        signature: &Signature,
        message: infer_message::Request<'_>,
        grant: &Grant,
    ) -> Result<Decoded<Format>, Failure> {
        let (request, Wanted { forms, shared }) = request::decode(signature, message, grant)?;
        Ok(Decoded { request, format: Format { forms, frame: self.frame }, shared })
    }

    fn encode_work(format: &Format, response: &InferenceResponse) -> usize {
        match format.forms.is_empty() {
            // All outputs are raw: only a header is written.
            true => 0,
            false => response.outputs.iter().map(|it| it.tensor.byte_len()).sum(),
        }
    }

    fn encode(
        format: &Format,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<VecDeque<Bytes>, Error> {
        reply::encode(response, &format.forms, signature, format.frame, grant)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use frontend::grpc::proto::ModelInferRequest;

    #[test]
    fn a_message_whose_end_names_another_model_than_its_start_is_refused() {
        let named = |model: &str| {
            let model_name = model.to_owned();
            ModelInferRequest { model_name, ..ModelInferRequest::default() }.encode_to_vec()
        };
        let check = |start: &str, end: &str| {
            let body = Bytes::from([named(start), named(end)].concat());
            let codec = ModelInfer { frame: Frame::Unary, named: Some(named(start).into()) };
            codec.parse(&body).map(|it| it.model.to_owned())
        };
        assert_eq!(check("m", "m").as_deref(), Ok("m"));
        assert!(check("m", "other").unwrap_err().to_string().contains("named twice"));
    }
}

//! `ModelInfer`, and the requests of `ModelStreamInfer`: the exchange, with the codec of these messages.

use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;
use h2::RecvStream;

use super::{
    super::{
        body::Encoded,
        compress::level,
        context::{Answered, Context},
        infer_message, metadata,
        reply::{self, Frame},
        request::{self, Forms, Wanted},
    },
    message::version,
};
use crate::exchange::{
    self, Answer, Call, Codec, Decoded, Failure, Prepared, Wire,
    intake::{Nowhere, Payload, Received},
    rendering::{Code, Rendering},
};
use inference::{
    error::Error,
    request::InferenceResponse,
    signature::Signature,
    trace::{Trace, Transport},
};
use protocol::reply_size::{self, TextForm};

/// The wire of gRPC.
pub(super) const WIRE: &Wire = &Wire {
    transport: Transport::Grpc,
    ok: Code::Ok as u16,
    status: |error| Rendering::of(error).grpc as u16,
    encoding_header: super::super::message::ENCODING,
    accepted: metadata::accepted,
    smallest_compressed: 0,
};

/// When the wait for a request began, and when its answer becomes useless.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// `None` where nothing is traced.
    pub(super) began: Option<Instant>,
    /// `None` for never.
    pub(super) deadline: Option<Instant>,
}

impl Times {
    /// The times of a call that begins now.
    pub(super) fn now(context: &Context) -> Times {
        let serving = &context.front.serving;
        Times { began: serving.tracing.now(), deadline: serving.deadline(context.timeout) }
    }
}

/// What the exchange needs to know of a call.
pub(super) fn call<'a>(context: &'a Context, times: Times, id: Option<&'a str>) -> Call<'a> {
    let settings = &context.front.settings;
    Call {
        wire: WIRE,
        headers: &context.metadata,
        id,
        began: times.began,
        deadline: times.deadline,
        // `None`: messages are inflated one by one, before their model is known.
        encoding: None,
        compression: level(settings.grpc.compression),
        forwarding: settings.forwarding.as_deref(),
        sequence: None,
    }
}

/// The pieces of the message that is written.
impl From<Answer<VecDeque<Bytes>>> for Encoded {
    fn from(answer: Answer<VecDeque<Bytes>>) -> Encoded {
        let Answer { reply, permit, trace } = answer;
        Encoded { pieces: reply, permit: Some(permit), sending: trace.map(Trace::sending) }
    }
}

/// Answers `ModelInfer`.
pub(super) async fn unary(context: &Context, body: RecvStream) -> Result<Answered, Failure> {
    let times = Times::now(context);
    let received = context.messages(body).only().await?;
    let prepared = prepare(context, received, times, Frame::Unary).await?;
    let encoded = run(context, prepared, times).await?;
    Ok(Answered::One(encoded, context.reply_encoding()))
}

/// Receives and decodes a request.
pub(super) async fn prepare(
    context: &Context,
    received: Received,
    times: Times,
    frame: Frame,
) -> Result<Prepared<ModelInfer>, Failure> {
    let front = &context.front;
    let bytes = received.bytes.clone();
    let infer_message::Target { model, version, id } = infer_message::Target::of(&bytes)?;
    let id = Some(id).filter(|it| !it.is_empty());
    let found = match self::version(version) {
        Ok(version) => front.serving.model(model, version, || Ok(times.deadline)).await,
        Err(error) => Err(error),
    };
    let failed = |error| Failure { id: id.map(Into::into), model: None, error };
    let model = found.map_err(failed)?;
    let (call, body) = (call(context, times, id), Payload::<Nowhere>::Here(received));
    let limits = &front.settings.messages;
    exchange::prepare(&front.serving, limits, model, &call, body, ModelInfer { frame }).await
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
        infer_message::Request::of(body)
    }

    fn expanded(&self, _: &Signature, message: &infer_message::Request<'_>, _: usize) -> usize {
        message.expanded()
    }

    fn decode_work(&self, _: &Signature, message: &infer_message::Request<'_>) -> usize {
        message.expanded()
    }

    fn decode(
        self,
        signature: &Signature,
        message: infer_message::Request<'_>,
    ) -> Result<Decoded<Format>, Failure> {
        let (request, Wanted { forms, shared }) = request::decode(signature, message)?;
        Ok(Decoded { request, format: Format { forms, frame: self.frame }, shared })
    }

    fn encode_work(format: &Format, response: &InferenceResponse) -> usize {
        match format.forms.is_empty() {
            // All outputs are raw: only a header is written.
            true => 0,
            false => response.outputs.iter().map(|it| it.tensor.byte_len()).sum(),
        }
    }

    fn reply_expanded(format: &Format, response: &InferenceResponse, rough: usize) -> usize {
        let labelled = response.outputs.iter().filter(|it| {
            format.forms.iter().any(|(name, form)| *name == it.name && form.is_text())
        });
        reply_size::of_outputs(labelled, TextForm::LABELLED, rough)
    }

    fn encode(
        format: &Format,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<VecDeque<Bytes>, Error> {
        reply::encode(response, &format.forms, signature, format.frame)
    }
}

//! `ModelInfer`, and the requests of `ModelStreamInfer`: the exchange, with the codec of these messages.

use std::{collections::VecDeque, ptr, sync::Arc};

use bytes::Bytes;
use h2::RecvStream;

use super::{
    infer_message::{self, Target},
    parameters::{self, ParameterPlace},
    reply::{self, Frame},
    request::{self, Forms, ReplyWishes},
};
use formats::{body_memo::BodyMemo, signature_name::SIGNATURE_NAME};
use frontend::{
    exchange::{
        self, Arrived, Call, Codec, Decoded, Failure, Prepared,
        in_parts::Replies,
        payload::{Nowhere, Payload},
    },
    grpc::{
        body::Encoded,
        context::{Answered, Context, Names},
        exchanged::{Times, call, named_twice},
        messages::version,
    },
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

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
    let known = if named.is_none() { context.memo.format(&start) } else { None };
    let target =
        known.and_then(|it| Target::at(&it, &start)).map_or_else(|| Target::of(&start), Ok);
    let Target { model, version, id } = target?;
    let id = Some(id).filter(|it| !it.is_empty());
    let found = match self::version(version) {
        Ok(version) => front.serving.model(model, version, || Ok(times.deadline)).await,
        Err(error) => Err(error),
    };
    let failed = |error| Failure::of(id.map(Into::into), error);
    let model = found.map_err(failed)?;
    let takes_one = (frame == Frame::Unary).then_some("ModelInfer RPC");
    let call = Call { takes_one, ..call(context, times, id) };
    let body = Payload::<Nowhere>::from(message);
    let (memo, signature) = (context.memo.clone(), model.signature.clone());
    let codec = ModelInfer { frame, named, memo, signature };
    let limits = &front.settings.messages;
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

/// Runs a request on a model that answers in parts, each of which becomes a response.
pub(super) fn stream(
    context: &Context,
    prepared: Prepared<ModelInfer>,
    times: Times,
) -> Result<Replies<ModelInfer>, Failure> {
    prepared.stream(&context.front.serving, &call(context, times, None))
}

/// The codec of `ModelInferRequest` and of its response.
pub(super) struct ModelInfer {
    frame: Frame,
    /// The start of the message, where its model was looked up by that alone.
    named: Option<Bytes>,
    /// What the connection remembers of messages for this signature, among others.
    memo: Arc<BodyMemo<Names>>,
    signature: Arc<Signature>,
}

/// Most bytes of a message that is looked for in memory. The tensors of such a one are checked there, at once.
const MOST_RECALLED: usize = 64 << 10;

/// A message.
// A large variant costs nothing: what was parsed is decoded at once.
#[allow(clippy::large_enum_variant)]
pub(super) enum Parsed<'b> {
    /// One that is remembered, as the request that it is.
    Known(InferenceRequest),
    /// One that is to be decoded, and its bytes.
    New(&'b Bytes, infer_message::Request<'b>),
}

/// The form of the response.
pub(super) struct Format {
    forms: Forms,
    frame: Frame,
    /// Is a response without outputs wanted behind the last part?
    pub(super) ends_empty: bool,
}

impl Format {
    fn plain(frame: Frame) -> Format {
        Format { forms: Forms::new(), frame, ends_empty: false }
    }
}

impl Codec for ModelInfer {
    type Parsed<'b> = Parsed<'b>;
    type Format = Format;
    type Reply = VecDeque<Bytes>;

    const SMALLER: &'static str = "expected raw_input_contents";
    const SMALLER_REPLY: &'static str = "ask for no classification";

    fn parse<'b>(&self, body: &'b Bytes) -> Result<Parsed<'b>, Error> {
        let known = (body.len() <= MOST_RECALLED && self.named.is_none())
            .then(|| self.memo.recall(&self.signature, None, body, |_, _, _| None));
        if let Some((request, _)) = known.flatten() {
            return Ok(Parsed::Known(request));
        }
        let request = infer_message::Request::of(body)?;
        match &self.named {
            Some(start) if Target::of(start)? != request.target() => Err(named_twice()),
            Some(_) | None => Ok(Parsed::New(body, request)),
        }
    }

    fn signature<'s>(
        &self,
        default: &'s Signature,
        message: &Parsed<'_>,
    ) -> Result<&'s Signature, Error> {
        // What is remembered names none.
        let Parsed::New(_, message) = message else { return Ok(default) };
        let named = default.named.as_ref().and_then(|_| message.parameters.get(SIGNATURE_NAME));
        let Some(value) = named else { return Ok(default) };
        let name = parameters::text(ParameterPlace { of: "", key: SIGNATURE_NAME }, *value)?;
        default.of_name(name).map_err(|it| Error::InvalidRequest(it.to_string()))
    }

    fn decode_work(&self, _: &Signature, message: &Parsed<'_>) -> usize {
        match message {
            Parsed::Known(_) => 0,
            Parsed::New(_, message) => message.bound().saturating_add(message.checked()),
        }
    }

    fn decode(
        self,
        signature: &Signature,
        message: Parsed<'_>,
        grant: &Grant,
    ) -> Result<Decoded<Format>, Failure> {
        let (body, message) = match message {
            Parsed::Known(request) => {
                let format = Format::plain(self.frame);
                return Ok(Decoded { request, format, shared: None });
            }
            Parsed::New(body, message) => (body, message),
        };
        let names = message.target().names(body);
        let (request, wishes) = request::decode(signature, message, grant)?;
        let ReplyWishes { forms, shared, ends_empty } = wishes;
        let is_plain = forms.is_empty() && shared.is_none() && !ends_empty;
        if is_plain && ptr::eq(signature, &*self.signature) {
            self.memo.remember(&self.signature, None, body, (&request, &names), &[]);
        }
        Ok(Decoded { request, format: Format { forms, frame: self.frame, ends_empty }, shared })
    }

    fn mark_part(format: &mut Format, is_last: bool) {
        format.frame = if is_last { Frame::Stream } else { Frame::Part };
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
    use formats::samples;
    use frontend::grpc::proto::{ModelInferRequest, model_infer_request::InferInputTensor};

    #[test]
    fn a_message_whose_end_names_another_model_than_its_start_is_refused() {
        let named = |model: &str| {
            let model_name = model.to_owned();
            ModelInferRequest { model_name, ..ModelInferRequest::default() }.encode_to_vec()
        };
        let check = |start: &str, end: &str| {
            let body = Bytes::from([named(start), named(end)].concat());
            let codec = ModelInfer { named: Some(named(start).into()), ..codec(model()) };
            codec.parse(&body).map(|it| match it {
                Parsed::New(_, message) => message.model.to_owned(),
                Parsed::Known(_) => unreachable!("nothing is remembered"),
            })
        };
        assert_eq!(check("m", "m").as_deref(), Ok("m"));
        assert!(check("m", "other").unwrap_err().to_string().contains("named twice"));
    }

    fn model() -> Arc<Signature> {
        Arc::new(samples::model(8, &["x FP32 [-1]"], &["y FP32 [-1]"]))
    }

    fn codec(signature: Arc<Signature>) -> ModelInfer {
        ModelInfer { frame: Frame::Unary, named: None, memo: Arc::default(), signature }
    }

    /// A message with two floats for `x`.
    fn message(id: &str, raw: &[u8]) -> Bytes {
        let input = InferInputTensor {
            name: "x".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1, 2],
            ..InferInputTensor::default()
        };
        let message = ModelInferRequest {
            model_name: "m".to_owned(),
            id: id.to_owned(),
            inputs: vec![input],
            raw_input_contents: vec![Bytes::copy_from_slice(raw)],
            ..ModelInferRequest::default()
        };
        message.encode_to_vec().into()
    }

    #[test]
    fn a_message_that_is_remembered_is_the_request_that_would_be_decoded() {
        let (first, second) = (model(), model());
        let shared = Arc::new(BodyMemo::default());
        let of = |signature: &Arc<Signature>, memo: &Arc<BodyMemo<Names>>, body: &Bytes| {
            let codec = ModelInfer { memo: memo.clone(), ..codec(signature.clone()) };
            let parsed = codec.parse(body).unwrap();
            let is_known = matches!(parsed, Parsed::Known(_));
            let decoded = codec.decode(signature, parsed, &Grant::all(0));
            let shown = match decoded {
                Ok(decoded) => format!("{:?}", decoded.request),
                Err(failure) => format!("{:?}", failure.error),
            };
            (is_known, shown)
        };
        let check = |signature: &Arc<Signature>, body: Bytes, expect: bool| {
            let (is_known, shown) = of(signature, &shared, &body);
            assert_eq!(is_known, expect);
            assert_eq!(shown, of(signature, &Arc::default(), &body).1);
        };
        check(&first, message("", &[1; 8]), false);
        check(&first, message("", &[2; 8]), true);
        check(&first, message("", &[2; 12]), false);
        check(&first, message("", &[2; 4]), false);
        check(&first, message("a", &[2; 8]), false);
        check(&first, message("", &[3; 8]), true);
        // The same model, loaded anew.
        check(&second, message("", &[3; 8]), false);
        check(&second, message("", &[4; 8]), true);
        check(&first, message("", &[4; 8]), false);
    }

    #[test]
    fn the_target_of_a_message_that_is_remembered_is_the_one_that_it_names() {
        let (signature, memo) = (model(), Arc::new(BodyMemo::default()));
        let named = |model: &str, version: &str, raw: &[u8]| {
            let other = ModelInferRequest::decode(message("", raw)).unwrap();
            let (model_name, model_version) = (model.to_owned(), version.to_owned());
            Bytes::from(ModelInferRequest { model_name, model_version, ..other }.encode_to_vec())
        };
        let mut last = None;
        // Each differs from the one before in one place.
        for (model, version, raw) in [
            ("m", "", 1),
            ("m", "", 2),
            ("m", "1", 2),
            ("m", "2", 2),
            ("n", "2", 2),
            ("n", "2", 3),
            ("n", "", 3),
            ("mm", "", 3),
        ] {
            let body = named(model, version, &[raw; 8]);
            let known = memo.format(&body).and_then(|it| Target::at(&it, &body));
            assert_eq!(known.is_some(), last == Some((model, version)));
            let parsed = Target::of(&body).unwrap();
            assert_eq!(parsed, Target { model, version, id: "" });
            assert!(known.is_none_or(|it| it == parsed));
            let codec = ModelInfer { memo: memo.clone(), ..codec(signature.clone()) };
            let message = codec.parse(&body).unwrap();
            codec.decode(&signature, message, &Grant::all(0)).unwrap();
            last = Some((model, version));
        }
    }
}

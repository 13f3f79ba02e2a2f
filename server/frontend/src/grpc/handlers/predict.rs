//! TensorFlow Serving's `Predict`, `Classify`, `Regress` and `MultiInference`: the exchange, with the codec of these
//! messages.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use h2::RecvStream;

use super::{
    super::{
        context::{Answered, Context},
        method::Method,
        tfs::{self, Form, Request, Spec, Version},
    },
    infer::{Times, call, named_twice},
};
use crate::{
    exchange::{
        self, Arrived, Codec, Decoded, Failure,
        payload::{Nowhere, Payload},
    },
    serving::Serving,
};
use inference::{error::Error, request::InferenceResponse, signature::Signature};
use models::ServedModel;

/// Answers one of these calls.
pub(super) async fn unary(context: &Context, body: RecvStream) -> Result<Answered, Failure> {
    let front = &context.front;
    let times = Times::now(context);
    let mut message = context.messages(body).only_arrived().await?;
    let named = match &message {
        Arrived::Whole(_) => None,
        Arrived::Start(inflation) => {
            Request::start(context.method, inflation.plain()).map(Bytes::copy_from_slice)
        }
    };
    let model = match &named {
        // A long compressed message is inflated and decoded on the pool at once.
        Some(spec) => find(&front.serving, &Spec::checked(spec)?, times).await?,
        None => {
            let received = message.whole().await?;
            let bytes = received.bytes.clone();
            message = received.into();
            find(&front.serving, Request::of(context.method, &bytes)?.spec(), times).await?
        }
    };
    let (call, body) = (call(context, times, None), Payload::<Nowhere>::from(message));
    let (limits, codec) = (&front.settings.messages, Predict { method: context.method, named });
    let answer = exchange::infer(&front.serving, limits, model, &call, body, codec).await?;
    Ok(Answered::One(answer.into(), context.reply_encoding()))
}

/// The codec of these messages.
struct Predict {
    method: Method,
    /// The model at the start of the message, where it was looked up by that alone.
    named: Option<Bytes>,
}

impl Codec for Predict {
    type Parsed<'b> = Request<'b>;
    type Format = Form;
    type Reply = VecDeque<Bytes>;

    const SMALLER: &'static str = "expected tensor_content, or fewer elements";
    const SMALLER_REPLY: &'static str = "ask for fewer elements";

    fn parse<'b>(&self, body: &'b Bytes) -> Result<Request<'b>, Error> {
        let request = Request::of(self.method, body)?;
        match &self.named {
            Some(spec) if Spec::checked(spec)? != *request.spec() => Err(named_twice()),
            Some(_) | None => Ok(request),
        }
    }

    fn expanded(&self, signature: &Signature, request: &Request<'_>, _: usize) -> usize {
        request.expanded(signature)
    }

    fn decode_work(&self, signature: &Signature, request: &Request<'_>) -> usize {
        request.expanded(signature)
    }

    fn decode(self, signature: &Signature, request: Request<'_>) -> Result<Decoded<Form>, Failure> {
        let (request, format) = request.decode(signature)?;
        Ok(Decoded { request, format, shared: None })
    }

    fn encode_work(form: &Form, response: &InferenceResponse) -> usize {
        tfs::work(form, response)
    }

    fn reply_expanded(form: &Form, response: &InferenceResponse, _: usize) -> usize {
        tfs::reply_expanded(form, response)
    }

    fn encode(
        form: &Form,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<VecDeque<Bytes>, Error> {
        tfs::encode(form, signature, response)
    }
}

/// The model of that name and version. Where models are loaded on demand, it is loaded for this.
pub(super) async fn find(
    serving: &Serving,
    spec: &Spec<'_>,
    times: Times,
) -> Result<Arc<ServedModel>, Error> {
    serving.model(spec.name, version(serving, spec)?, || Ok(times.deadline)).await
}

/// The number of the version, where one is named.
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
